//! Kinds of records, and the other contents of a head's low byte.

pub(crate) const ACCESS: u64 = 1;
/// Of an access: it stores.
pub(crate) const STORE: u64 = 1 << 1;
/// Of an access: log2 of its size.
pub(crate) const SIZE_SHIFT: u32 = 2;
/// Of an access: the value follows.
pub(crate) const VALUE: u64 = 1 << 5;
/// Of an access: through a user mapping.
pub(crate) const USER: u64 = 1 << 6;
/// Of an access: a repeated string instruction makes it.
pub(crate) const BULK: u64 = 1 << 7;
/// Of an access: it is half of an atomic one of the same size. (Stores of repeated string
/// instructions are not looked at.)
pub(crate) const ATOMIC: u64 = BULK | VALUE;

/// A call; above it a mask of its values.
pub(crate) const CALL: u64 = 1 << 1;
pub(crate) const CALL_SHIFT: u32 = 2;

/// Any other record: bits 0 and 1 clear.
pub(crate) const PART: u64 = 1 << 2;
pub(crate) const RETURN: u64 = 2 << 2;
pub(crate) const PAGES: u64 = 3 << 2;
pub(crate) const STEP: u64 = 4 << 2;
pub(crate) const MARK: u64 = 5 << 2;
pub(crate) const CPU: u64 = 6 << 2;
pub(crate) const TURN: u64 = 7 << 2;
pub(crate) const TRANSLATED: u64 = 8 << 2;
pub(crate) const START: u64 = 9 << 2;
