//! From QEMU's memory callbacks to accesses as a programmer counts them: halves of an atomic
//! instruction become one RMW, adjoining pieces of a wide operand one access.
//!
//! A pure state machine over the callbacks of one lane, in their order. It knows neither QEMU nor
//! the meaning of addresses.

use linemate_recording::{AccessKind, VirtualTime};

use crate::decode::AccessShape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryCallback {
    /// When its instruction ran.
    pub(crate) time: VirtualTime,
    pub(crate) cpu: u16,
    pub(crate) instruction: u32,
    /// Load or store half.
    pub(crate) store: bool,
    /// First byte, as it will be recorded.
    pub(crate) addr: u64,
    pub(crate) size: u8,
    /// The bytes loaded or stored, little endian. Read only for atomic instructions.
    pub(crate) value: u128,
    /// A store known to leave memory unchanged.
    pub(crate) silent: bool,
    /// Through a user-space address.
    pub(crate) user_mapping: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// When its instruction ran.
    pub(crate) time: VirtualTime,
    pub(crate) cpu: u16,
    pub(crate) instruction: u32,
    pub(crate) addr: u64,
    pub(crate) size: u8,
    pub(crate) kind: AccessKind,
    /// Known to leave memory unchanged.
    pub(crate) silent: bool,
    /// Through a user-space address.
    pub(crate) user_mapping: bool,
}

impl Whole {
    /// The access that a callback is by itself.
    fn of(piece: &MemoryCallback) -> Self {
        Self {
            time: piece.time,
            cpu: piece.cpu,
            instruction: piece.instruction,
            addr: piece.addr,
            size: piece.size,
            kind: if piece.store {
                AccessKind::Store
            } else {
                AccessKind::Load
            },
            silent: piece.silent,
            user_mapping: piece.user_mapping,
        }
    }
}

/// An access with callbacks still to come.
#[derive(Debug)]
struct Open {
    whole: Whole,
    /// Operand size: more bytes cannot belong to it.
    bytes: u8,
    /// RMW only: what was loaded.
    loaded: u128,
    /// RMW only: bytes stored so far.
    stored: u8,
    /// Halves of an atomic instruction, rather than pieces of a wide operand.
    atomic: bool,
}

/// The state of one lane.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    open: Option<Open>,
    /// Atomic instructions whose store never came: they faulted between the halves and will run
    /// again.
    abandoned: u64,
}

impl Pairing {
    /// Whether an access is waiting for its rest.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Load halves dropped because their atomic instruction faulted before it stored.
    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Handles one callback; `emit` gets each access that it completes, in order.
    pub(crate) fn push(
        &mut self,
        shape: AccessShape,
        piece: &MemoryCallback,
        emit: &mut impl FnMut(Whole),
    ) {
        if self.extend(piece) {
            self.close_if_complete(emit);
            return;
        }
        self.flush(emit);
        match shape {
            AccessShape::Atomic { bytes } if !piece.store => self.begin(piece, bytes, true),
            AccessShape::Wide { bytes } => self.begin(piece, bytes, false),
            AccessShape::Single | AccessShape::Atomic { .. } => emit(Whole::of(piece)),
        }
        self.close_if_complete(emit);
    }

    /// Ends whatever is open: nothing more belongs to it.
    pub(crate) fn flush(&mut self, emit: &mut impl FnMut(Whole)) {
        match self.open.take() {
            None => {}
            // A load half alone is not an access of an atomic instruction: it will be executed
            // again.
            Some(open) if open.atomic => self.abandoned += 1,
            Some(open) => emit(open.whole),
        }
    }

    fn begin(&mut self, piece: &MemoryCallback, bytes: u8, atomic: bool) {
        let mut whole = Whole::of(piece);
        if atomic {
            whole.kind = AccessKind::Rmw;
            // Until a half contradicts it: the stored value is compared with the loaded one.
            whole.silent = true;
        }
        self.open = Some(Open {
            whole,
            bytes,
            loaded: piece.value,
            stored: 0,
            atomic,
        });
    }

    /// Adds `piece` to the open access if it belongs to it.
    fn extend(&mut self, piece: &MemoryCallback) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        let whole = &mut open.whole;
        // Another instruction's callback, as after a fault: the open access will not be completed.
        if piece.instruction != whole.instruction || piece.cpu != whole.cpu {
            return false;
        }
        let is_store_half = open.atomic && piece.store;
        if is_store_half {
            let fits = piece.addr == whole.addr.wrapping_add(u64::from(open.stored))
                && piece.size <= whole.size - open.stored;
            if fits {
                let before = open.loaded >> (8 * u32::from(open.stored));
                whole.silent &= (before ^ piece.value) & mask(piece.size) == 0;
                open.stored += piece.size;
            }
            return fits;
        }
        let fits = piece.store == (whole.kind == AccessKind::Store)
            // Loads after the first store belong to the instruction's next execution.
            && open.stored == 0
            && piece.addr == whole.addr.wrapping_add(u64::from(whole.size))
            && piece.size <= open.bytes.saturating_sub(whole.size);
        if fits {
            // Only operands of up to 16 bytes can be atomic: wider values are not looked at.
            if whole.size < 16 {
                open.loaded |= piece.value << (8 * u32::from(whole.size));
            }
            whole.size += piece.size;
            whole.silent &= piece.silent || open.atomic;
        }
        fits
    }

    fn close_if_complete(&mut self, emit: &mut impl FnMut(Whole)) {
        let complete = self.open.as_ref().is_some_and(|open| {
            if open.atomic {
                open.stored == open.whole.size
            } else {
                // A masked vector access may never reach it: then the next callback of another
                // instruction ends it.
                open.whole.size >= open.bytes
            }
        });
        if complete {
            if let Some(open) = self.open.take() {
                emit(open.whole);
            }
        }
    }
}

/// The bits of a value of `size` bytes.
fn mask(size: u8) -> u128 {
    1u128
        .checked_shl(8 * u32::from(size))
        .map_or(u128::MAX, |bit| bit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(instruction: u32, store: bool, addr: u64, size: u8, value: u128) -> MemoryCallback {
        MemoryCallback {
            time: VirtualTime(u64::from(instruction)),
            cpu: 0,
            instruction,
            store,
            addr,
            size,
            value,
            silent: false,
            user_mapping: false,
        }
    }

    /// Instruction, address, size, kind, silent.
    type Seen = (u32, u64, u8, AccessKind, bool);

    /// All resulting accesses, and the number of abandoned ones.
    fn run(callbacks: &[(AccessShape, MemoryCallback)]) -> (Vec<Seen>, u64) {
        let mut pairing = Pairing::default();
        let mut out = Vec::new();
        let mut emit = |w: Whole| out.push((w.instruction, w.addr, w.size, w.kind, w.silent));
        for (shape, piece) in callbacks {
            pairing.push(*shape, piece, &mut emit);
        }
        pairing.flush(&mut emit);
        (out, pairing.abandoned())
    }

    const ATOMIC8: AccessShape = AccessShape::Atomic { bytes: 8 };
    const ATOMIC16: AccessShape = AccessShape::Atomic { bytes: 16 };
    const WIDE32: AccessShape = AccessShape::Wide { bytes: 32 };
    use AccessKind::{Load, Rmw, Store};

    #[test]
    fn halves_of_an_atomic_instruction_are_one_access() {
        let (out, abandoned) = run(&[
            (ATOMIC8, piece(1, false, 0x10, 8, 5)),
            (ATOMIC8, piece(1, true, 0x10, 8, 6)),
            (ATOMIC8, piece(1, false, 0x10, 8, 6)),
            (ATOMIC8, piece(1, true, 0x10, 8, 6)),
        ]);
        assert_eq!(out, [(1, 0x10, 8, Rmw, false), (1, 0x10, 8, Rmw, true)]);
        assert_eq!(abandoned, 0);
    }

    #[test]
    fn the_halves_of_a_plain_instruction_are_two_accesses() {
        let (out, _) = run(&[
            (AccessShape::Single, piece(1, false, 0x10, 4, 0)),
            (AccessShape::Single, piece(1, true, 0x10, 4, 0)),
        ]);
        assert_eq!(out, [(1, 0x10, 4, Load, false), (1, 0x10, 4, Store, false)]);
    }

    #[test]
    fn a_sixteen_byte_rmw_is_whole_in_one_piece_or_in_two() {
        let one = [
            (ATOMIC16, piece(1, false, 0x20, 16, 7 << 64)),
            (ATOMIC16, piece(1, true, 0x20, 16, 7 << 64)),
        ];
        assert_eq!(run(&one).0, [(1, 0x20, 16, Rmw, true)]);
        let mut two = vec![
            (ATOMIC16, piece(1, false, 0x20, 8, 1)),
            (ATOMIC16, piece(1, false, 0x28, 8, 2)),
            (ATOMIC16, piece(1, true, 0x20, 8, 1)),
            (ATOMIC16, piece(1, true, 0x28, 8, 2)),
        ];
        assert_eq!(run(&two).0, [(1, 0x20, 16, Rmw, true)]);
        two[3].1.value = 3;
        assert_eq!(run(&two).0, [(1, 0x20, 16, Rmw, false)]);
    }

    #[test]
    fn a_load_half_without_its_store_is_dropped_and_counted() {
        let (out, abandoned) = run(&[
            (ATOMIC8, piece(1, false, 0x10, 8, 5)),
            (AccessShape::Single, piece(2, false, 0x80, 8, 0)),
            (ATOMIC8, piece(1, false, 0x10, 8, 5)),
            (ATOMIC8, piece(1, true, 0x10, 8, 9)),
            (ATOMIC8, piece(1, false, 0x10, 8, 5)),
        ]);
        assert_eq!(out, [(2, 0x80, 8, Load, false), (1, 0x10, 8, Rmw, false)]);
        assert_eq!(abandoned, 2);
    }

    #[test]
    fn pieces_of_a_wide_operand_are_one_access() {
        let mut silent = piece(1, true, 0x30, 16, 0);
        silent.silent = true;
        let (out, _) = run(&[
            (WIDE32, piece(1, false, 0x10, 16, 0)),
            (WIDE32, piece(1, false, 0x20, 16, 0)),
            (WIDE32, piece(1, true, 0x20, 16, 0)),
            (WIDE32, silent),
        ]);
        assert_eq!(
            out,
            [(1, 0x10, 32, Load, false), (1, 0x20, 32, Store, false)]
        );
    }

    #[test]
    fn a_wide_operand_ends_at_its_size_and_at_a_gap() {
        let (out, abandoned) = run(&[
            (WIDE32, piece(1, false, 0x10, 16, 0)),
            (WIDE32, piece(1, false, 0x20, 16, 0)),
            (WIDE32, piece(1, false, 0x30, 16, 0)),
            (WIDE32, piece(1, false, 0x50, 16, 0)),
            (WIDE32, piece(2, false, 0x60, 16, 0)),
        ]);
        assert_eq!(
            out,
            [
                (1, 0x10, 32, Load, false),
                (1, 0x30, 16, Load, false),
                (1, 0x50, 16, Load, false),
                (2, 0x60, 16, Load, false),
            ]
        );
        assert_eq!(abandoned, 0);
    }

    #[test]
    fn an_atomic_store_without_a_load_is_a_store() {
        let (out, _) = run(&[(ATOMIC8, piece(1, true, 0x10, 8, 5))]);
        assert_eq!(out, [(1, 0x10, 8, Store, false)]);
    }

    #[test]
    fn another_cpu_does_not_complete_an_access() {
        let mut other = piece(1, true, 0x10, 8, 5);
        other.cpu = 1;
        let (out, abandoned) = run(&[(ATOMIC8, piece(1, false, 0x10, 8, 5)), (ATOMIC8, other)]);
        assert_eq!(out, [(1, 0x10, 8, Store, false)]);
        assert_eq!(abandoned, 1);
    }
}
