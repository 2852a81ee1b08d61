//! The functions that QEMU calls: installation and callbacks. Each finds its lane and calls safe
//! code.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use super::guest::{
    Halted, Machine, MemoryAccess, Registers, TranslatedBlock, find_size_bits, knows_size_bits,
    size_log2,
};
use super::turn::TurnEnd;
use super::{hold, raw};
use crate::address::is_kernel;
use crate::hook::{Action, Hooked};
use crate::kind;
use crate::lane::{Instruction, Touch};
use crate::options::Task;
use crate::recorder::{Recorder, SetUpError, fail};
use crate::running::Running;
use crate::tap::Tap;
use crate::turns::Turns;
use crate::view::GuestAccess as _;
use crate::watch::Calls;

/// The plugin interface version that this plugin was written for; a QEMU with an older one refuses
/// to load it.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_upper_case_globals, reason = "QEMU resolves this name")]
#[allow(unreachable_pub, reason = "QEMU is the one who reaches it")]
pub static qemu_plugin_version: c_int = raw::VERSION;

/// The single recorder of this process.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();
/// In deterministic mode: the lane of all CPUs.
static SHARED: Tap = Tap::new();

/// In deterministic mode: the state of the running CPU, as generated code addresses it, and the
/// CPU's number.
static STATE: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicU16 = AtomicU16::new(0);

struct Plugin {
    recorder: Recorder,
    running: Confined<Running>,
    /// If the recorder ends turns.
    turns: Option<OwnTurns>,
    registers: Box<[OnceLock<Registers>]>,
    /// One lane for all CPUs, or one each.
    lanes: Box<[Lane]>,
    /// Recording has ended, or is ending.
    stopped: AtomicBool,
    /// The thread that runs the CPUs, in deterministic mode.
    thread: OnceLock<ThreadId>,
}

/// How the recorder ends turns.
struct OwnTurns {
    end: TurnEnd,
    lengths: Confined<Turns>,
}

/// What only the callbacks of one lane's CPUs use.
struct Confined<T>(UnsafeCell<T>);

// SAFETY: callbacks of the CPUs of one lane come one after another on one thread (`on_vcpu_init`
// checks it), and do not nest; nobody else looks inside.
unsafe impl<T> Sync for Confined<T> {}

/// A lane's side of the guest.
struct Lane {
    tap: &'static Tap,
    calls: Confined<Calls>,
}

/// The lane of `cpu`'s callbacks.
#[inline(always)]
fn tap<const PARALLEL: bool>(cpu: c_uint) -> Option<&'static Tap> {
    if PARALLEL {
        Some(PLUGIN.get()?.lanes.get(cpu as usize)?.tap)
    } else {
        Some(&SHARED)
    }
}

impl Plugin {
    /// Sets time to zero in all lanes; then they record.
    fn start(&self) {
        if !self.recorder.begin() {
            return;
        }
        let known = self.recorder.translated();
        if self.recorder.options().parallel {
            for (lane, cpu) in self.lanes.iter().zip(0..) {
                lane.tap.start(cpu, known);
            }
        } else {
            SHARED.start(RUNNING.load(Ordering::Relaxed), known);
            self.next_turn(true);
        }
    }

    /// The running CPU's turn is over, or `changed`: another's begins. Deterministic mode only.
    fn next_turn(&self, changed: bool) {
        let Some(turns) = &self.turns else { return };
        // Before the start the guest runs as it does without a recorder.
        if !SHARED.is_open() {
            return SHARED.alert(None);
        }
        // SAFETY: see `Confined`.
        let lengths = unsafe { &mut *turns.lengths.0.get() };
        SHARED.alert(Some(if changed {
            lengths.changed(RUNNING.load(Ordering::Relaxed))
        } else {
            turns.end.end();
            lengths.over()
        }));
    }

    /// Ends recording and completes the file. May be called on any thread.
    fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        for lane in &self.lanes {
            lane.tap.stop();
        }
        self.recorder.finish();
    }
}

/// Loads the recorder: checks its options and the recording, then asks QEMU for its callbacks.
///
/// # Safety
/// Called by QEMU with a valid `info` and `argc` NUL-terminated arguments.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(unreachable_pub, reason = "QEMU is the one who reaches it")]
pub unsafe extern "C" fn qemu_plugin_install(
    id: raw::PluginId,
    info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    take_file_limits_as_errors();
    // SAFETY: passed on from the caller.
    match unsafe { install(id, &*info.cast::<raw::Info>(), argc, argv) } {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "linemate-recorder: {error}");
            1
        }
    }
}

/// If a file exceeds the process's limit (`ulimit -f`), its write fails and is reported; the signal
/// would end QEMU silently. QEMU's other threads are started later and inherit this.
fn take_file_limits_as_errors() {
    // SAFETY: both calls only write to `signals`, which is valid for them.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
    }
}

/// # Safety
/// As for [`qemu_plugin_install`].
unsafe fn install(
    id: raw::PluginId,
    info: &raw::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> Result<(), SetUpError> {
    // SAFETY: `target_name` is a NUL-terminated string during the call.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if !info.system_emulation || target != c"x86_64" {
        return Err(SetUpError::Target(target.to_string_lossy().into_owned()));
    }
    if info.version_cur < raw::VERSION {
        return Err(SetUpError::Version(info.version_cur));
    }
    let mut arguments = Vec::new();
    for index in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: QEMU passes `argc` NUL-terminated strings.
        let argument = unsafe { CStr::from_ptr(*argv.add(index)) };
        arguments.push(argument.to_str().map_err(|_| SetUpError::NotUtf8(index))?);
    }
    let options = match Task::parse(&arguments)? {
        Task::Record(options) => options,
        Task::Hold(pipe) => return hold::install(id, pipe),
    };
    let cpus = usize::try_from(info.max_vcpus)
        .unwrap_or(1)
        // A recording numbers CPUs with 16 bits.
        .clamp(1, usize::from(u16::MAX) - 1);
    let taps: Vec<&'static Tap> = if options.parallel {
        (0..cpus)
            .map(|_| &*Box::leak(Box::new(Tap::new())))
            .collect()
    } else {
        vec![&SHARED]
    };
    // Before anything is translated, because translation decides which callbacks get the fast path.
    find_size_bits();
    let recording = open_file(options.descriptor)?;
    let recorder = Recorder::new(options, recording, cpus, taps.iter().copied())?;
    let whole_boot = recorder.options().whole_boot;
    let seed = recorder.options().seed;
    let turns = recorder.options().turn.map(|length| {
        Ok::<_, SetUpError>(OwnTurns {
            end: TurnEnd::find()?,
            lengths: Confined(UnsafeCell::new(Turns::new(length, seed))),
        })
    });
    let lanes = taps.into_iter().map(|tap| Lane {
        tap,
        calls: Confined(UnsafeCell::default()),
    });
    let plugin = Plugin {
        recorder,
        running: Confined(UnsafeCell::default()),
        turns: turns.transpose()?,
        registers: (0..cpus).map(|_| OnceLock::new()).collect(),
        lanes: lanes.collect(),
        stopped: AtomicBool::new(false),
        thread: OnceLock::new(),
    };
    // Before the callbacks are registered, which use it.
    let Ok(()) = PLUGIN.set(plugin) else {
        return Err(SetUpError::Twice);
    };
    // SAFETY: `id` is ours, the callbacks have the declared types and live as long as the process.
    unsafe {
        raw::qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
        raw::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        raw::qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
    if let (true, Some(plugin)) = (whole_boot, PLUGIN.get()) {
        plugin.start();
    }
    Ok(())
}

/// The file that the host opened and QEMU inherited.
fn open_file(descriptor: RawFd) -> Result<File, SetUpError> {
    // SAFETY: fcntl with F_GETFD takes no pointers.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(SetUpError::NotOpen(descriptor));
    }
    // SAFETY: it is open, and the host passes its number for the recorder to own.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

extern "C" fn on_vcpu_init(_id: raw::PluginId, cpu: c_uint) {
    let Some(plugin) = PLUGIN.get() else { return };
    if let (Some(slot), Some(registers)) =
        (plugin.registers.get(cpu as usize), Registers::look_up())
    {
        let _ = slot.set(registers);
    }
    let thread = thread::current().id();
    if !plugin.recorder.options().parallel && *plugin.thread.get_or_init(|| thread) != thread {
        fail("QEMU runs the CPUs in threads of their own: say parallel=on");
        plugin.stop();
    }
}

extern "C" fn on_translate(_id: raw::PluginId, tb: *mut raw::Tb) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: `tb` is valid during this callback.
    let block = unsafe { TranslatedBlock::new(tb) };
    let known = plugin.recorder.translated();
    plugin.recorder.translate(&block);
    let now = plugin.recorder.translated();
    if now != known {
        // After the block's instructions have numbers and before any of them can run: they run on
        // this thread.
        SHARED.translated(now);
    }
}

/// A block for which [`crate::view::CodeBlock::count`] was called is entered in parallel mode;
/// `data` is its number of instructions.
pub(super) extern "C" fn on_block_of(cpu: c_uint, data: *mut c_void) {
    let Some(tap) = tap::<true>(cpu) else { return };
    if tap.add(data.addr() as u32) {
        tap.turn();
    }
}

// SAFETY: defined below; they change only the register of the third argument and continue in safe
// functions.
unsafe extern "C" {
    /// [`on_block_of`] in deterministic mode, where `cpu` is not the running CPU (see
    /// [`crate::running`]). Generated code has the address of the running CPU's state in a register
    /// of the host, `TCG_AREG0` in QEMU's `tcg/HOST/tcg-target.h`, which a called function must
    /// preserve: it is passed on as a third argument.
    #[link_name = "linemate_on_any_block"]
    pub(super) safe fn on_any_block(cpu: c_uint, data: *mut c_void);
    /// An instruction for which [`crate::view::Instrument::watch_execution`] was called is about to
    /// run. The CPU's state is found as in [`on_any_block`].
    #[link_name = "linemate_on_hook"]
    pub(super) safe fn on_hook(cpu: c_uint, data: *mut c_void);
}

/// Defines the function `$name`: the address of the CPU's state becomes the third argument of
/// `$then`. Not a naked function: those need Rust 1.88.
macro_rules! pass_state_on {
    ($name:literal, $move_and_jump:literal, $then:path) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",%progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            $move_and_jump,
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            sym $then
        );
    };
}
#[cfg(target_arch = "x86_64")]
pass_state_on!(
    "linemate_on_any_block",
    "mov rdx, rbp\njmp {}",
    on_block_with_state
);
#[cfg(target_arch = "x86_64")]
pass_state_on!(
    "linemate_on_hook",
    "mov rdx, rbp\njmp {}",
    on_hook_with_state
);
#[cfg(target_arch = "aarch64")]
pass_state_on!(
    "linemate_on_any_block",
    "mov x2, x19\nb {}",
    on_block_with_state
);
#[cfg(target_arch = "aarch64")]
pass_state_on!("linemate_on_hook", "mov x2, x19\nb {}", on_hook_with_state);

extern "C" fn on_block_with_state(_cpu: c_uint, data: *mut c_void, state: usize) {
    let instructions = data.addr() as u32;
    let turned = SHARED.add(instructions);
    // One comparison per block in the common case: blocks are entered far more often than CPUs
    // change.
    if turned || STATE.load(Ordering::Relaxed) != state {
        change_cpu(state, instructions);
    }
}

#[cold]
#[inline(never)]
fn change_cpu(state: usize, instructions: u32) {
    SHARED.turn();
    let Some(plugin) = PLUGIN.get() else { return };
    if STATE.load(Ordering::Relaxed) == state {
        return plugin.next_turn(false);
    }
    let Some(registers) = plugin.registers.first().and_then(OnceLock::get) else {
        return;
    };
    let machine = Machine::new(
        registers,
        plugin.recorder.percpu_offsets(),
        plugin.registers.len(),
    );
    // SAFETY: see `Confined`.
    let running = unsafe { &mut *plugin.running.0.get() };
    let number = running.number(state, &machine);
    // Relaxed: all of this is on the one thread that runs the CPUs.
    RUNNING.store(number, Ordering::Relaxed);
    STATE.store(state, Ordering::Relaxed);
    // The block that starts the turn is already counted.
    SHARED.cpu(instructions, number);
    plugin.next_turn(true);
}

/// A load or store by an instruction for which [`crate::view::Instrument::watch_memory`] was
/// called.
pub(super) extern "C" fn on_memory<const STORE: bool, const PARALLEL: bool>(
    cpu: c_uint,
    info: raw::MemInfo,
    vaddr: u64,
    data: *mut c_void,
) {
    let instruction = Instruction::from_bits(data.addr() as u64);
    let Some(tap) = tap::<PARALLEL>(cpu) else {
        return;
    };
    if !is_kernel(vaddr) {
        return on_other_memory::<STORE>(tap, instruction, info, vaddr);
    }
    // Most accesses are plain and do not store to tracked memory: they cost two comparisons and the
    // record.
    if !instruction.is_plain() || (STORE && tap.tracks(vaddr) && !instruction.bulk_store()) {
        return on_value::<STORE>(tap, instruction, info, vaddr);
    }
    if !tap.access::<STORE>(instruction, size_log2(info), vaddr) {
        on_other_memory::<STORE>(tap, instruction, info, vaddr);
    }
}

/// The part of [`on_memory`] that looks at the value: for atomic instructions, and for stores to
/// tracked memory.
#[inline(never)]
extern "C" fn on_value<const STORE: bool>(
    tap: &Tap,
    instruction: Instruction,
    info: raw::MemInfo,
    vaddr: u64,
) {
    let size_log2 = size_log2(info);
    let store = if STORE { kind::STORE } else { 0 };
    let flags = if instruction.is_plain() {
        kind::VALUE
    } else {
        kind::ATOMIC
    };
    let fits = size_log2 <= 3 && (instruction.is_plain() || instruction.is_atomic_of(size_log2));
    if !fits || !knows_size_bits() || !tap.is_open() {
        return on_other_memory::<STORE>(tap, instruction, info, vaddr);
    }
    // SAFETY: `info` belongs to the callback that calls this one.
    let value = unsafe { MemoryAccess::new(info) }.low_value();
    tap.valued(instruction, flags | store, size_log2, vaddr, value);
}

/// The rare part of [`on_memory`], kept apart so that it does not slow down the common one.
#[inline(never)]
extern "C" fn on_other_memory<const STORE: bool>(
    tap: &Tap,
    instruction: Instruction,
    info: raw::MemInfo,
    vaddr: u64,
) {
    if !tap.is_open() {
        return;
    }
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: `info` belongs to the callback that calls this one.
    let access = unsafe { MemoryAccess::new(info) };
    if is_kernel(vaddr) {
        let touch = Touch {
            store: STORE,
            addr: vaddr,
            size: access.size(),
            user_mapping: false,
        };
        tap.touch(instruction, touch, || access.value());
    } else {
        plugin
            .recorder
            .touch_user(tap, instruction, STORE, vaddr, &access);
    }
}

extern "C" fn on_hook_with_state(cpu: c_uint, data: *mut c_void, state: *const u64) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: `watch_execution` passed a `&'static Hooked`.
    let hooked = unsafe { &*data.cast_const().cast::<Hooked>() };
    // Before the check whether the lane records, because the mark itself is the first event.
    if hooked.action == Action::Start {
        plugin.start();
    }
    let index = if plugin.recorder.options().parallel {
        cpu as usize
    } else {
        0
    };
    let Some(lane) = plugin.lanes.get(index) else {
        return;
    };
    let registers = plugin.registers.get(cpu as usize).and_then(OnceLock::get);
    if let (true, Some(registers)) = (lane.tap.is_open(), registers) {
        // SAFETY: `state` is that of the CPU whose instruction is about to run; registers may be
        // read (see `watch_execution`).
        let halted = unsafe { Halted::new(registers, state) };
        // SAFETY: see `Confined`.
        let calls = unsafe { &mut *lane.calls.0.get() };
        let number = RUNNING.load(Ordering::Relaxed);
        plugin
            .recorder
            .hook(lane.tap, calls, hooked, number, &halted);
    }
    // After the mark was recorded.
    if hooked.action == Action::Stop {
        plugin.stop();
    }
}

extern "C" fn on_exit(_id: raw::PluginId, _data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.stop();
    }
}
