//! What QEMU calls: installation and callbacks. Each finds its lane and hands on to safe code.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicUsize, Ordering, compiler_fence};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::guest::{Block, Machine, MemoryAccess, Registers};
use super::{hold, raw};
use crate::clock::Count;
use crate::lane::{Instruction, Lane, Touch};
use crate::options::Task;
use crate::output::Output;
use crate::recorder::{Recorder, SetUpError, fail};
use crate::running::Running;
use crate::translate::{Action, Hooked, is_kernel};

/// The plugin interface that this plugin was made for; QEMU refuses to load it if it has an older one.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
#[allow(unreachable_pub, reason = "QEMU is the one who reaches it")]
pub static qemu_plugin_version: c_int = raw::VERSION;

/// The one recorder of this process.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();
/// The first lane while events are recorded, else null: one load tells both.
static ACTIVE: AtomicPtr<LaneCell> = AtomicPtr::new(ptr::null_mut());
/// The instructions of all CPUs, in deterministic mode.
static SHARED_COUNT: Count = Count::new();

/// In deterministic mode: the state of the CPU that runs, as generated code has it, and the CPU's number.
static STATE: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicU16 = AtomicU16::new(0);

struct Plugin {
    recorder: Recorder,
    running: RunningCell,
    registers: Box<[OnceLock<Registers>]>,
    /// One lane for all CPUs, or one each.
    lanes: Box<[LaneCell]>,
    /// The thread that runs the CPUs, in deterministic mode.
    thread: OnceLock<ThreadId>,
}

/// The CPUs of deterministic mode.
struct RunningCell(UnsafeCell<Running>);

// SAFETY: used by `change_cpu` alone, on the one thread that runs all CPUs (`on_vcpu_init` checks that it is one).
unsafe impl Sync for RunningCell {}

/// A lane, and whether its thread is inside a callback.
struct LaneCell {
    busy: AtomicBool,
    count: &'static Count,
    lane: UnsafeCell<Lane<Output>>,
}

// SAFETY: a lane is used by `with_lane`, on the thread that runs its CPUs and nowhere else, or by `Plugin::stop`, which
// waits until that thread has left.
unsafe impl Sync for LaneCell {}

/// The lane of `cpu`, if events are being recorded.
#[inline]
fn active_lane<const PARALLEL: bool>(cpu: c_uint) -> Option<&'static LaneCell> {
    // SAFETY: null, or the first of the lanes in `PLUGIN`, which is never dropped.
    let first = unsafe { ACTIVE.load(Ordering::Relaxed).as_ref() }?;
    if PARALLEL {
        PLUGIN.get()?.lanes.get(cpu as usize)
    } else {
        Some(first)
    }
}

/// Runs `work` on the lane of `cpu`, if events are being recorded. Called from that CPU's callbacks only.
#[inline]
fn with_lane<const PARALLEL: bool>(cpu: c_uint, work: impl FnOnce(&mut Lane<Output>)) {
    let Some(cell) = active_lane::<PARALLEL>(cpu) else {
        return;
    };
    cell.busy.store(true, Ordering::Relaxed);
    // `stop` pairs this with a barrier on all threads: either it sees `busy`, or this thread sees that recording has
    // ended. The processor needs no barrier here; the compiler must keep the order.
    compiler_fence(Ordering::SeqCst);
    if !ACTIVE.load(Ordering::Relaxed).is_null() {
        // SAFETY: callbacks of the CPUs of one lane come one after another on one thread (`on_vcpu_init` checks it),
        // callbacks do not nest, and `stop` keeps away while `busy`.
        work(unsafe { &mut *cell.lane.get() });
    }
    compiler_fence(Ordering::SeqCst);
    cell.busy.store(false, Ordering::Release);
}

impl Plugin {
    /// Sets time to zero in all lanes; then they record.
    fn start(&self) {
        let Some(first) = self.lanes.first() else {
            return;
        };
        if !self.recorder.begin() {
            return;
        }
        for cell in &self.lanes {
            // SAFETY: no lane is in use: nothing is recorded yet, and `begin` lets one thread through, once.
            unsafe { (*cell.lane.get()).start() };
        }
        ACTIVE.store(ptr::from_ref(first).cast_mut(), Ordering::SeqCst);
    }

    /// Ends recording and completes the file. Not called from within `with_lane`.
    fn stop(&self) {
        if ACTIVE.swap(ptr::null_mut(), Ordering::SeqCst).is_null() {
            return;
        }
        barrier_on_all_threads();
        for cell in &self.lanes {
            while cell.busy.load(Ordering::Acquire) {
                thread::sleep(Duration::from_micros(50));
            }
        }
        // SAFETY: recording has ended and no thread is inside a lane: none will be used again.
        let lanes = self
            .lanes
            .iter()
            .map(|cell| unsafe { &mut *cell.lane.get() });
        self.recorder.finish(lanes);
    }
}

/// Makes every thread of the process pass a memory barrier.
fn barrier_on_all_threads() {
    // SAFETY: membarrier takes no pointers. Where it is not supported it changes nothing, and `stop` still waits
    // for every callback that it can see.
    unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0);
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
    // SAFETY: passed on from the caller.
    match unsafe { install(id, &*info.cast::<raw::Info>(), argc, argv) } {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "linemate-recorder: {error}");
            1
        }
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
        .clamp(1, usize::from(u16::MAX) - 1);
    let parallel = options.parallel;
    let counts: Vec<&'static Count> = if parallel {
        (0..cpus)
            .map(|_| &*Box::leak(Box::new(Count::new())))
            .collect()
    } else {
        vec![&SHARED_COUNT]
    };
    let recording = open_file(options.descriptor)?;
    let (recorder, lanes) = Recorder::new(options, recording, cpus, &counts)?;
    let whole_boot = recorder.options().whole_boot;
    let lanes = lanes.into_iter().zip(counts).map(|(lane, count)| LaneCell {
        busy: AtomicBool::new(false),
        count,
        lane: UnsafeCell::new(lane),
    });
    let plugin = Plugin {
        recorder,
        running: RunningCell(UnsafeCell::default()),
        registers: (0..cpus).map(|_| OnceLock::new()).collect(),
        lanes: lanes.collect(),
        thread: OnceLock::new(),
    };
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
    // SAFETY: it is open, and the host that passes its number here leaves it to the recorder.
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
    let block = unsafe { Block::new(tb) };
    plugin.recorder.translate(&block);
}

/// A block that [`Block::count`] was called for is entered in parallel mode; `data` is its number of instructions.
pub(super) extern "C" fn on_block_of(cpu: c_uint, data: *mut c_void) {
    let lane = PLUGIN
        .get()
        .and_then(|plugin| plugin.lanes.get(cpu as usize));
    if let Some(cell) = lane {
        cell.count.add(data.addr() as u64);
    }
}

// SAFETY: defined below; it changes nothing but the register of the third argument and goes on in a safe function.
unsafe extern "C" {
    /// The same in deterministic mode, where `cpu` is not the CPU that runs (see [`crate::running`]). Generated code keeps
    /// the address of the running CPU's state in a register of the host, `TCG_AREG0` in QEMU's `tcg/HOST/tcg-target.h`, which
    /// a called function must preserve: it is passed on as a third argument.
    #[link_name = "linemate_on_any_block"]
    pub(super) safe fn on_any_block(cpu: c_uint, data: *mut c_void);
}

// Not a naked function: those need Rust 1.88.
#[cfg(target_arch = "x86_64")]
macro_rules! pass_state_on {
    () => {
        "mov rdx, rbp\njmp {}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! pass_state_on {
    () => {
        "mov x2, x19\nb {}"
    };
}
core::arch::global_asm!(
    ".pushsection .text.linemate_on_any_block,\"ax\",%progbits",
    ".globl linemate_on_any_block",
    ".hidden linemate_on_any_block",
    ".type linemate_on_any_block, %function",
    "linemate_on_any_block:",
    pass_state_on!(),
    ".size linemate_on_any_block, . - linemate_on_any_block",
    ".popsection",
    sym on_block_with_state
);

extern "C" fn on_block_with_state(_cpu: c_uint, data: *mut c_void, state: usize) {
    SHARED_COUNT.add(data.addr() as u64);
    if STATE.load(Ordering::Relaxed) != state {
        change_cpu(state);
    }
}

#[cold]
fn change_cpu(state: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(registers) = plugin.registers.first().and_then(OnceLock::get) else {
        return;
    };
    let machine = Machine::new(
        registers,
        plugin.recorder.percpu_offsets(),
        plugin.registers.len(),
    );
    // SAFETY: see `RunningCell`.
    let running = unsafe { &mut *plugin.running.0.get() };
    RUNNING.store(running.number(state, &machine), Ordering::Relaxed);
    STATE.store(state, Ordering::Relaxed);
}

/// The CPU that runs, given the index that QEMU hands to a callback.
#[inline]
fn running<const PARALLEL: bool>(index: c_uint) -> u16 {
    if PARALLEL {
        index as u16
    } else {
        RUNNING.load(Ordering::Relaxed)
    }
}

/// A load or store by an instruction that [`super::guest::BlockInstruction::watch_memory`] was called for.
pub(super) extern "C" fn on_memory<const STORE: bool, const PARALLEL: bool>(
    cpu: c_uint,
    info: raw::MemInfo,
    vaddr: u64,
    data: *mut c_void,
) {
    with_lane::<PARALLEL>(cpu, |lane| {
        let at = (
            running::<PARALLEL>(cpu),
            Instruction::from_bits(data.addr() as u64),
        );
        // SAFETY: `info` belongs to this callback.
        let access = unsafe { MemoryAccess::new(info) };
        if is_kernel(vaddr) {
            let touch = Touch {
                store: STORE,
                addr: vaddr,
                size: access.size(),
                user_mapping: false,
            };
            lane.touch(at, touch, || access.value());
        } else if let Some(plugin) = PLUGIN.get() {
            plugin
                .recorder
                .touch_user(lane, at, (STORE, vaddr), &access);
        }
    });
}

/// An instruction that [`super::guest::BlockInstruction::watch_execution`] was called for is about to run.
pub(super) extern "C" fn on_hook(cpu: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: `watch_execution` passed a `&'static Hooked`.
    let hooked = unsafe { &*data.cast_const().cast::<Hooked>() };
    let Some(registers) = plugin.registers.get(cpu as usize).and_then(OnceLock::get) else {
        return;
    };
    if hooked.action == Action::Start {
        plugin.start();
    }
    let hook =
        |cpu| move |lane: &mut Lane<Output>| plugin.recorder.hook(lane, (cpu, hooked), registers);
    if plugin.recorder.options().parallel {
        with_lane::<true>(cpu, hook(running::<true>(cpu)));
    } else {
        with_lane::<false>(cpu, hook(running::<false>(cpu)));
    }
    if hooked.action == Action::Stop {
        plugin.stop();
    }
}

extern "C" fn on_exit(_id: raw::PluginId, _data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.stop();
    }
}
