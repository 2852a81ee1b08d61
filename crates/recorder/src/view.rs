//! What callbacks may see of the guest. QEMU's side is in [`crate::ffi`]; nothing else knows QEMU.

use linemate_insn::x86_64::MAX_BYTES;
use linemate_recording::PAGE;

use crate::hook::Hooked;
use crate::lane::Instruction;

/// A block that is being translated.
pub(crate) trait CodeBlock {
    /// One of its instructions.
    type Instruction: Instrument;

    /// Instructions in the block.
    fn len(&self) -> usize;

    /// The instructions, in order.
    fn instructions(&self) -> impl Iterator<Item = Self::Instruction>;

    /// Counts the block's instructions whenever it is entered.
    fn count(&self, parallel: bool);
}

/// An instruction that is being translated.
pub(crate) trait Instrument {
    fn address(&self) -> u64;

    /// The page of guest memory in which it starts, and the offset; `None` if it is not in the
    /// guest's memory.
    fn page(&self) -> Option<(&[u8; PAGE as usize], u64)>;

    fn bytes<'b>(&self, buffer: &'b mut [u8; MAX_BYTES]) -> &'b [u8];

    /// Calls the recorder on each load and store of the instruction.
    fn watch_memory(&self, instruction: Instruction, parallel: bool);

    /// Calls the recorder before the instruction runs.
    fn watch_execution(&self, hooked: &'static Hooked);
}

/// A load or store in progress.
pub(crate) trait GuestAccess {
    /// Bytes, as QEMU emulated it.
    fn size(&self) -> u8;

    /// The bytes loaded or stored, little endian.
    fn value(&self) -> u128;

    /// The guest-physical address behind `vaddr`, a byte of the access; `None` for device memory.
    fn physical(&self, vaddr: u64) -> Option<u64>;
}
