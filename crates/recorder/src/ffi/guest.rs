//! Safe views of what QEMU exposes during a callback: a block being translated, a memory access, a
//! CPU's registers.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use linemate_insn::x86_64::MAX_BYTES;
use linemate_recording::{PAGE, Register};

use super::entry::{on_any_block, on_block_of, on_hook, on_memory};
use super::raw;
use crate::hook::Hooked;
use crate::lane::Instruction;
use crate::running::Identify;
use crate::view::{CodeBlock, GuestAccess, Instrument};
use crate::watch::Cpu;

/// A block that QEMU is translating.
pub(crate) struct TranslatedBlock<'a> {
    tb: *mut raw::Tb,
    callback: PhantomData<&'a ()>,
}

/// An instruction of such a block.
pub(crate) struct BlockInstruction<'a> {
    insn: *mut raw::Insn,
    callback: PhantomData<&'a ()>,
}

impl<'a> TranslatedBlock<'a> {
    /// # Safety
    /// `tb` is the block of a translation callback that lasts for `'a`.
    pub(super) unsafe fn new(tb: *mut raw::Tb) -> Self {
        Self {
            tb,
            callback: PhantomData,
        }
    }
}

impl<'a> CodeBlock for TranslatedBlock<'a> {
    type Instruction = BlockInstruction<'a>;

    fn len(&self) -> usize {
        // SAFETY: `tb` is valid for 'a (see `new`).
        unsafe { raw::qemu_plugin_tb_n_insns(self.tb) }
    }

    fn instructions(&self) -> impl Iterator<Item = BlockInstruction<'a>> {
        let tb = self.tb;
        (0..self.len()).filter_map(move |index| {
            // SAFETY: `tb` is valid for 'a and `index` below its length.
            let insn = unsafe { raw::qemu_plugin_tb_get_insn(tb, index) };
            (!insn.is_null()).then_some(BlockInstruction {
                insn,
                callback: PhantomData,
            })
        })
    }

    // By a callback, not by the interface's inline addition: with that, QEMU 10.0.2 executes guest
    // code wrongly under `-icount` (fork fails in a guest that runs well without it).
    fn count(&self, parallel: bool) {
        let callback: raw::ExecCallback = if parallel { on_block_of } else { on_any_block };
        // In deterministic mode a block can be the first of its CPU, whose registers are then read.
        let flags = if parallel { raw::NO_REGS } else { raw::R_REGS };
        let data = ptr::without_provenance_mut(self.len());
        // SAFETY: `tb` is valid for 'a; the callback treats its data as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_tb_exec_cb(self.tb, callback, flags, data);
        }
    }
}

impl Instrument for BlockInstruction<'_> {
    fn address(&self) -> u64 {
        // SAFETY: `insn` is valid during the translation callback, which outlives 'a.
        unsafe { raw::qemu_plugin_insn_vaddr(self.insn) }
    }

    fn page(&self) -> Option<(&[u8; PAGE as usize], u64)> {
        // SAFETY: `insn` as above.
        let host = unsafe { raw::qemu_plugin_insn_haddr(self.insn) };
        if host.is_null() {
            return None;
        }
        let within = host.addr() % PAGE as usize;
        // SAFETY: `host` points into the guest's memory, which QEMU maps in whole pages as in the
        // guest; the page stays mapped and, because the CPUs take turns on this thread, unchanged
        // during the callback, which outlives `self`.
        let page = unsafe { &*host.byte_sub(within).cast::<[u8; PAGE as usize]>() };
        Some((page, within as u64))
    }

    fn bytes<'b>(&self, buffer: &'b mut [u8; MAX_BYTES]) -> &'b [u8] {
        let room = buffer.len();
        // SAFETY: `insn` as above; at most `room` bytes are written.
        let got = unsafe {
            raw::qemu_plugin_insn_data(self.insn, buffer.as_mut_ptr().cast::<c_void>(), room)
        };
        &buffer[..got.min(room)]
    }

    fn watch_memory(&self, instruction: Instruction, parallel: bool) {
        let (load, store): (raw::MemCallback, raw::MemCallback) = if parallel {
            (on_memory::<false, true>, on_memory::<true, true>)
        } else {
            (on_memory::<false, false>, on_memory::<true, false>)
        };
        let instruction = if knows_size_bits() {
            instruction
        } else {
            instruction.slowed()
        };
        let data = ptr::without_provenance_mut(instruction.to_bits() as usize);
        // SAFETY: `insn` as above; the callbacks treat `data` as an instruction's bits, which it
        // is.
        unsafe {
            let register = raw::qemu_plugin_register_vcpu_mem_cb;
            register(self.insn, load, raw::NO_REGS, raw::MEM_R, data);
            register(self.insn, store, raw::NO_REGS, raw::MEM_W, data);
        }
    }

    fn watch_execution(&self, hooked: &'static Hooked) {
        let data = ptr::from_ref(hooked).cast_mut().cast::<c_void>();
        // SAFETY: `insn` as above; the callback treats `data` as a `&'static Hooked`, which it is.
        unsafe {
            raw::qemu_plugin_register_vcpu_insn_exec_cb(self.insn, on_hook, raw::R_REGS, data);
        }
    }
}

impl BlockInstruction<'_> {
    /// Calls `callback`, with no data, before the instruction runs.
    pub(super) fn call(&self, callback: raw::ExecCallback) {
        // SAFETY: `insn` as above; a callback without data reads none.
        unsafe {
            raw::qemu_plugin_register_vcpu_insn_exec_cb(
                self.insn,
                callback,
                raw::NO_REGS,
                ptr::null_mut(),
            );
        }
    }
}

/// Where a memory callback's descriptor has the three bits of log2 of the size.
static SIZE_SHIFT: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = u32::MAX;

/// Finds out where QEMU stores a callback's size, by asking for the sizes of synthetic descriptors:
/// a call per access is expensive. If no place fits, [`size_log2`] is never called.
pub(super) fn find_size_bits() {
    // SAFETY: decodes a number, without state.
    let said = |info| unsafe { raw::qemu_plugin_mem_size_shift(info) };
    let fits =
        // Each size at that place, and nothing else of the word: a place that fits by chance would
        // not pass.
        |shift: &u32| (0..8).all(|size| said(size << shift) == size) && said(!(7 << shift)) == 0;
    if let Some(shift) = (0..16).find(fits) {
        SIZE_SHIFT.store(shift, Ordering::Relaxed);
    }
}

/// Log2 of the bytes of a memory callback, for plain instructions, or if the place was found (see
/// [`find_size_bits`]).
#[inline(always)]
pub(super) fn size_log2(info: raw::MemInfo) -> u32 {
    info.wrapping_shr(SIZE_SHIFT.load(Ordering::Relaxed)) & 7
}

/// Whether [`size_log2`] may be called.
pub(super) fn knows_size_bits() -> bool {
    SIZE_SHIFT.load(Ordering::Relaxed) != UNKNOWN
}

/// The access of a memory callback.
pub(crate) struct MemoryAccess<'a> {
    info: raw::MemInfo,
    callback: PhantomData<&'a ()>,
}

impl MemoryAccess<'_> {
    /// # Safety
    /// `info` belongs to a memory callback that lasts for `'a`.
    pub(super) unsafe fn new(info: raw::MemInfo) -> Self {
        Self {
            info,
            callback: PhantomData,
        }
    }

    /// The first eight bytes loaded or stored, little endian; anything above the access's size is
    /// meaningless.
    #[inline(always)]
    pub(super) fn low_value(&self) -> u64 {
        // SAFETY: called during the memory callback, for which QEMU stores the value.
        unsafe { raw::qemu_plugin_mem_get_value(self.info) }.low
    }
}

impl GuestAccess for MemoryAccess<'_> {
    fn size(&self) -> u8 {
        // SAFETY: decodes a number, without state.
        let shift = unsafe { raw::qemu_plugin_mem_size_shift(self.info) };
        1 << shift.min(6)
    }

    #[inline]
    fn value(&self) -> u128 {
        // SAFETY: called during the memory callback, for which QEMU stores the value.
        let value = unsafe { raw::qemu_plugin_mem_get_value(self.info) };
        // The union's words beyond the value's type are not set.
        match value.kind {
            0 => u128::from(value.low as u8),
            1 => u128::from(value.low as u16),
            2 => u128::from(value.low as u32),
            3 => u128::from(value.low),
            _ => u128::from(value.high) << 64 | u128::from(value.low),
        }
    }

    fn physical(&self, vaddr: u64) -> Option<u64> {
        // SAFETY: called during the memory callback; the handle is used before it ends.
        unsafe {
            let handle = raw::qemu_plugin_get_hwaddr(self.info, vaddr);
            if handle.is_null() || raw::qemu_plugin_hwaddr_is_io(handle) {
                return None;
            }
            Some(raw::qemu_plugin_hwaddr_phys_addr(handle))
        }
    }
}

/// The registers that the recorder reads, in the order of [`Registers::handles`]: arguments, then
/// these.
const NAMES: [&[u8]; 11] = [
    b"rdi",
    b"rsi",
    b"rdx",
    b"rcx",
    b"r8",
    b"r9",
    b"rsp",
    b"rax",
    b"gs_base",
    b"k_gs_base",
    b"cr3",
];
const RSP: usize = 6;
const RAX: usize = 7;
const GS_BASE: usize = 8;
const OTHER_GS_BASE: usize = 9;
const CR3: usize = 10;

/// One CPU's register handles, and a buffer for their values.
pub(crate) struct Registers {
    handles: [*mut raw::RegisterHandle; NAMES.len()],
    buffer: *mut raw::GByteArray,
}

// SAFETY: made in the CPU's init callback and used only in that CPU's callbacks, which do not
// overlap; the handles are QEMU's numbers and valid for its lifetime.
unsafe impl Send for Registers {}
// SAFETY: as for Send.
unsafe impl Sync for Registers {}

impl Registers {
    /// Looks up the registers. Works only in a CPU's init callback; `None` if one is missing.
    pub(super) fn look_up() -> Option<Self> {
        let mut handles = [ptr::null_mut(); NAMES.len()];
        // SAFETY: called in the init callback; the array is ours, with `len` descriptors whose
        // names are NUL-terminated strings that QEMU owns. QEMU's handles can look like null
        // pointers, so `found` counts.
        unsafe {
            let array = raw::qemu_plugin_get_registers();
            if array.is_null() {
                return None;
            }
            let mut found = 0;
            let descriptors = (*array).data.cast::<raw::RegisterDescriptor>();
            for index in 0..(*array).len as usize {
                let descriptor = &*descriptors.add(index);
                if descriptor.name.is_null() {
                    continue;
                }
                let name = CStr::from_ptr(descriptor.name).to_bytes();
                if let Some(at) = NAMES.iter().position(|n| *n == name) {
                    handles[at] = descriptor.handle;
                    found += 1;
                }
            }
            raw::g_array_free(array, 1);
            if found < NAMES.len() {
                return None;
            }
            Some(Self {
                handles,
                buffer: raw::g_byte_array_new(),
            })
        }
    }

    fn read(&self, index: usize) -> u64 {
        let Some(handle) = self.handles.get(index) else {
            return 0;
        };
        // SAFETY: called in a callback of this CPU that may read registers (hooks are registered
        // so); the buffer is this CPU's own and holds `len` bytes after the call.
        unsafe {
            raw::g_byte_array_set_size(self.buffer, 0);
            raw::qemu_plugin_read_register(*handle, self.buffer);
            self.first_word()
        }
    }

    /// # Safety
    /// No other reference to the buffer's bytes is alive.
    unsafe fn first_word(&self) -> u64 {
        // SAFETY: glib keeps `len` bytes at `data`.
        let bytes = unsafe {
            let buffer = &*self.buffer;
            if buffer.data.is_null() {
                return 0;
            }
            slice::from_raw_parts(buffer.data, buffer.len as usize)
        };
        bytes
            .first_chunk::<8>()
            .map_or(0, |word| u64::from_le_bytes(*word))
    }
}

/// A CPU whose next instruction is a watched one.
///
/// QEMU's interface takes some 20 ns per register, and a watched function's entry needs up to
/// eight. QEMU has the sixteen general registers at the very start of the CPU's state. That is not
/// guaranteed, so the first [`Halted::TRIALS`] watched instructions compare them with the
/// interface's answers, and they are not used if they ever differed.
pub(super) struct Halted<'a> {
    registers: &'a Registers,
    /// The general registers of [`NAMES`], if they were read directly.
    values: Option<[u64; GENERAL]>,
}

/// Watched instructions at which both ways of reading registers agreed; or [`DISAGREED`].
static AGREED: AtomicU32 = AtomicU32::new(0);
const DISAGREED: u32 = u32::MAX;
/// How many of [`NAMES`] are general registers.
const GENERAL: usize = 8;
/// Where they are in the CPU's state, in words: in the processor's numbering.
const PLACES: [usize; GENERAL] = [7, 6, 2, 1, 8, 9, 4, 0];

impl<'a> Halted<'a> {
    const TRIALS: u32 = 1000;

    /// # Safety
    /// Called in an instruction's callback of the CPU whose state is at `state`, which may read
    /// `registers`.
    pub(super) unsafe fn new(registers: &'a Registers, state: *const u64) -> Self {
        let agreed = AGREED.load(Ordering::Relaxed);
        if agreed == DISAGREED {
            return Self {
                registers,
                values: None,
            };
        }
        // SAFETY: a CPU's state is much longer than sixteen words; nobody writes to it during the
        // callback.
        let values = PLACES.map(|place| unsafe { state.add(place).read() });
        if agreed < Self::TRIALS {
            // All eight, each time: a register that the state has elsewhere would agree only by
            // chance.
            let right = (0..GENERAL).all(|index| registers.read(index) == values[index]);
            let agreed = if right { agreed + 1 } else { DISAGREED };
            // The largest is stored: a disagreement on any thread is never forgotten.
            AGREED.fetch_max(agreed, Ordering::Relaxed);
            return Self {
                registers,
                values: right.then_some(values),
            };
        }
        Self {
            registers,
            values: Some(values),
        }
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        match &self.values {
            Some(values) => values.get(index).copied().unwrap_or(0),
            None => self.registers.read(index),
        }
    }
}

impl Cpu for Halted<'_> {
    #[inline]
    fn argument(&self, register: Register) -> u64 {
        self.read(register as usize)
    }

    #[inline]
    fn stack(&self) -> u64 {
        self.read(RSP)
    }

    #[inline]
    fn result(&self) -> u64 {
        self.read(RAX)
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.registers.word(address)
    }

    fn page_tables(&self) -> u64 {
        self.registers.read(CR3)
    }
}

impl Registers {
    /// The 64-bit word at a guest-virtual address, if it is mapped.
    fn word(&self, address: u64) -> Option<u64> {
        // SAFETY: called in a callback of this CPU; QEMU sizes the buffer and reports whether it
        // filled it.
        unsafe {
            raw::qemu_plugin_read_memory_vaddr(address, self.buffer, 8).then(|| self.first_word())
        }
    }
}

/// The running CPU, for [`crate::running`] to identify.
pub(super) struct Machine<'a> {
    registers: &'a Registers,
    percpu_offsets: Option<u64>,
    cpus: usize,
}

impl<'a> Machine<'a> {
    /// `percpu_offsets` is the guest-virtual address of the kernel's array.
    pub(super) fn new(registers: &'a Registers, percpu_offsets: Option<u64>, cpus: usize) -> Self {
        Self {
            registers,
            percpu_offsets,
            cpus,
        }
    }
}

impl Identify for Machine<'_> {
    fn gs_bases(&self) -> [u64; 2] {
        [
            self.registers.read(GS_BASE),
            self.registers.read(OTHER_GS_BASE),
        ]
    }

    fn percpu_offsets(&self) -> Vec<u64> {
        let entry = |index: usize| self.registers.word(self.percpu_offsets? + 8 * index as u64);
        (0..self.cpus)
            .map(|index| entry(index).unwrap_or(0))
            .collect()
    }
}
