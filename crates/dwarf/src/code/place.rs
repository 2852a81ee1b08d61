//! A variable's location: an expression, as far as it is one register, one address or one offset.

use gimli::{Encoding, Expression, Operation};

use linemate_types::ElfAddr;

use super::facts::Register;
use crate::sections::DwarfBytes;

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Register(Register),
    /// It is a value: the register's contents plus an offset.
    Sum(Register, i64),
    /// In memory, at an offset from where the register points.
    Based(Register, i64),
    /// In memory, at an offset from the function's frame base.
    Frame(i64),
    /// In memory, at an offset from the canonical frame address.
    Cfa(i64),
    Static(ElfAddr),
    /// At this offset in the thread's block of this program.
    ThreadLocal(u64),
}

/// The maximum number of pieces of a variable that are examined.
const PIECES_MAX: usize = 64;

/// The registers that hold a variable in pieces, by offset in the variable: only whole registers.
pub(crate) fn pieces(
    expression: Expression<DwarfBytes<'_>>,
    encoding: Encoding,
) -> Vec<(u64, Where)> {
    let mut operations = expression.operations(encoding);
    let (mut found, mut bits, mut held) = (Vec::new(), 0u64, Vec::new());
    for _ in 0..PIECES_MAX * 2 {
        match operations.next() {
            Ok(Some(Operation::Piece {
                size_in_bits,
                bit_offset: None,
            })) => {
                // Only whole registers: a part of one is not a pointer.
                if let ([Operation::Register { register }], 64) = (&held[..], size_in_bits) {
                    found.push((bits / 8, Where::Register((*register).into())));
                }
                bits = bits.saturating_add(size_in_bits);
                held.clear();
            }
            Ok(Some(operation)) => held.push(operation),
            // Anything before something broken or unusual is not trusted.
            Err(_) => return Vec::new(),
            Ok(None) => break,
        }
    }
    found
}

/// What an expression means; `None` for a variable that is in pieces ([`pieces`]), computed,
/// optimised away, or was valid only at the function's entry. `address` looks an index up in the
/// table of addresses.
pub(crate) fn place(
    expression: Expression<DwarfBytes<'_>>,
    encoding: Encoding,
    address: impl Fn(gimli::DebugAddrIndex) -> Option<u64>,
) -> Option<Where> {
    let mut operations = expression.operations(encoding);
    // A single location has at most three operations, whatever follows them.
    let mut next = || operations.next().ok();
    let first = next()??;
    let second = next()?;
    let third = match second {
        Some(_) => next()?,
        None => None,
    };
    let constant = |operation: &Operation<DwarfBytes<'_>>| match operation {
        Operation::UnsignedConstant { value } => Some(*value),
        Operation::SignedConstant { value } => Some(*value as u64),
        Operation::AddressIndex { index } | Operation::ConstantIndex { index } => address(*index),
        _ => None,
    };
    match (first, second, third) {
        (Operation::Register { register }, None, _) => Some(Where::Register(register.into())),
        (
            Operation::RegisterOffset {
                register, offset, ..
            },
            rest,
            None,
        ) => match rest {
            None => Some(Where::Based(register.into(), offset)),
            Some(Operation::StackValue) => Some(Where::Sum(register.into(), offset)),
            Some(_) => None,
        },
        (Operation::FrameOffset { offset }, None, _) => Some(Where::Frame(offset)),
        (Operation::CallFrameCFA, None, _) => Some(Where::Cfa(0)),
        (Operation::CallFrameCFA, Some(Operation::PlusConstant { value }), None) => {
            i64::try_from(value).ok().map(Where::Cfa)
        }
        (Operation::CallFrameCFA, Some(offset), Some(Operation::Plus)) => {
            constant(&offset).map(|offset| Where::Cfa(offset as i64))
        }
        (Operation::Address { address }, None, _) => Some(Where::Static(ElfAddr(address))),
        (Operation::AddressIndex { index }, None, _) => {
            address(index).map(ElfAddr).map(Where::Static)
        }
        // Compilers push the offset as a constant of some size, or as an index into a table.
        (offset, Some(Operation::TLS), None) => constant(&offset).map(Where::ThreadLocal),
        (Operation::Address { address }, Some(Operation::PlusConstant { value }), None) => {
            Some(Where::Static(ElfAddr(address.wrapping_add(value))))
        }
        _ => None,
    }
}
