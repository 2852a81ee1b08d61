//! The recorder: what all lanes share, and what callbacks do. Safe code; QEMU's side is in
//! [`crate::ffi`].

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linemate_recording::{BackgroundWriter, LaneId, Mark, PAGE, Recording, Writer};
use thiserror::Error;

use crate::consumer::{self, Encoding};
use crate::hook::{Action, Hooked};
use crate::lane::{Instruction, Lane, Touch};
use crate::options::{OptionError, RecorderOptions};
use crate::output::{CHUNK_EVENTS, Output, Unannounced};
use crate::programs::ProgramPages;
use crate::refusals::Refusals;
use crate::shadow::{Compared, Shadow, Tracked};
use crate::tap::{RECORDS, Tap};
use crate::translate::{Numbers, translate};
use crate::view::{CodeBlock, GuestAccess};
use crate::watch::{Calls, Cpu, WatchTable};

/// Chunks that may wait to be written, in addition to the one that each lane fills.
const CHUNKS_IN_FLIGHT: usize = 3;

/// Why the recorder cannot be loaded.
#[derive(Debug, Error)]
pub(crate) enum SetUpError {
    /// The guest is not a full x86-64 machine.
    #[error("the guest is {0:?}: only qemu-system-x86_64 can be recorded")]
    Target(String),
    /// QEMU is too old.
    #[error("QEMU's plugin interface is version {0}, version 4 is needed: use QEMU 9.2 or later")]
    Version(i32),
    /// An option that is not text.
    #[error("option {0} is not UTF-8")]
    NotUtf8(usize),
    /// An option that cannot be obeyed.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The recording's head cannot be read or appended to.
    #[error("the recording: {0}")]
    Recording(linemate_recording::Error),
    /// The recording's descriptor is not open.
    #[error("descriptor {0} is not open")]
    NotOpen(i32),
    /// The recording's descriptor cannot be used.
    #[error("the recording's descriptor: {0}")]
    Descriptor(io::Error),
    /// No address space for the known contents of memory.
    #[error("cannot reserve address space for {0} bytes of guest memory: {1}")]
    Shadow(u64, io::Error),
    /// No thread for an encoder.
    #[error("cannot start the encoding thread: {0}")]
    Thread(io::Error),
    /// QEMU was linked without exporting its symbols.
    #[error(
        "this QEMU does not let a plugin end a CPU's turn (it does not export cpu_exit): record with --turn qemu"
    )]
    Turns,
    /// The plugin is loaded twice.
    #[error("the plugin is loaded twice")]
    Twice,
}

/// What all lanes share.
pub(crate) struct Recorder {
    options: RecorderOptions,
    watch: WatchTable,
    numbers: Numbers,
    programs: Option<ProgramPages>,
    refusals: Refusals,
    percpu_offsets: Option<u64>,
    begun: AtomicBool,
    overflowed: AtomicBool,
    ending: Mutex<Option<Ending>>,
}

/// What remains to be done at the end.
struct Ending {
    encoders: Vec<Encoding<Output, RECORDS>>,
    writer: BackgroundWriter,
}

/// What the head of a recording says.
struct Head {
    watch: WatchTable,
    programs: Option<ProgramPages>,
    /// How many functions are watched.
    functions: u32,
    percpu_offsets: Option<u64>,
}

impl Head {
    fn read(file: File, options: &RecorderOptions, cpus: usize) -> Result<Self, SetUpError> {
        let head = Recording::from_source(file).map_err(SetUpError::Recording)?;
        let table = head.functions().clone();
        let functions = table.functions.len() as u32;
        let programs = options
            .program
            .then(|| ProgramPages::new(head.programs(), cpus, options.memory));
        let symbols = match head.symbols() {
            Ok(text) => text,
            Err(linemate_recording::Error::Missing { .. }) => Vec::new(),
            Err(error) => return Err(SetUpError::Recording(error)),
        };
        Ok(Self {
            watch: WatchTable::new(table, return_thunks(&symbols)),
            programs,
            functions,
            percpu_offsets: percpu_offsets(&symbols),
        })
    }
}

/// A lane's knowledge of memory contents. Lanes that run in parallel cannot share it and have none.
fn shadow(options: &RecorderOptions, tap: &Tap) -> Result<Option<Shadow>, SetUpError> {
    let compared = Compared {
        kernel: !options.contents_unknown,
        programs: options.user,
    };
    if options.parallel || !(compared.kernel || compared.programs) {
        return Ok(None);
    }
    tap.track(Tracked::new(options.memory, options.direct_map, compared));
    let shadow = Shadow::new(options.memory, options.direct_map, compared);
    let shadow = shadow.map_err(|source| SetUpError::Shadow(options.memory, source))?;
    Ok(Some(shadow))
}

impl Recorder {
    /// Reads the head of `recording` and starts an encoder for each of `taps`; the guest has `cpus`
    /// CPUs.
    ///
    /// # Errors
    /// See [`SetUpError`].
    pub(crate) fn new(
        options: RecorderOptions,
        recording: File,
        cpus: usize,
        taps: impl Iterator<Item = &'static Tap>,
    ) -> Result<Self, SetUpError> {
        let in_file = SetUpError::Recording;
        // The head is read and events are appended through one open file: the recorder does not
        // know its path.
        let copy = recording.try_clone().map_err(SetUpError::Descriptor)?;
        let head = Head::read(copy, &options, cpus)?;
        let writer = Writer::append_to(recording).map_err(in_file)?;
        let writer =
            BackgroundWriter::start_with_progress(writer, CHUNKS_IN_FLIGHT, |error, bytes| {
                let remedy = error.remedy();
                fail(&format!("{error}, after {bytes} bytes{remedy}"));
            });
        let writer = writer.map_err(in_file)?;
        let unannounced = Arc::new(Unannounced::default());
        let mut encoders = Vec::new();
        for (lane, tap) in (0..).zip(taps) {
            let output = Output::new(
                LaneId(lane),
                CHUNK_EVENTS,
                cpus as u16,
                head.functions,
                writer.lane(),
                Arc::clone(&unannounced),
            );
            let lane = Lane::new(cpus, shadow(&options, tap)?, output);
            let (records, vmemmap) = (tap.records(), options.vmemmap);
            encoders.push(match options.encode_here {
                true => consumer::start_here(records, lane, vmemmap),
                false => consumer::start(records, lane, vmemmap).map_err(SetUpError::Thread)?,
            });
        }
        Ok(Self {
            options,
            watch: head.watch,
            numbers: Numbers::new(unannounced),
            programs: head.programs,
            refusals: Refusals::default(),
            percpu_offsets: head.percpu_offsets,
            begun: AtomicBool::new(false),
            overflowed: AtomicBool::new(false),
            ending: Mutex::new(Some(Ending { encoders, writer })),
        })
    }

    /// The options that the recorder was given.
    pub(crate) fn options(&self) -> &RecorderOptions {
        &self.options
    }

    /// Where the guest's kernel has `__per_cpu_offset[]`, if the recording's head says so.
    pub(crate) fn percpu_offsets(&self) -> Option<u64> {
        self.percpu_offsets
    }

    /// Whether recording may begin, which it does once.
    pub(crate) fn begin(&self) -> bool {
        let begins = !self.begun.swap(true, Ordering::SeqCst);
        if let (true, Some(programs)) = (begins, &self.programs) {
            programs.begin();
        }
        begins
    }

    /// Instructions translated until now.
    pub(crate) fn translated(&self) -> u32 {
        // An event of one lane can belong to an instruction that another lane's thread has
        // translated.
        if self.options.parallel {
            u32::MAX
        } else {
            self.numbers.count()
        }
    }

    pub(crate) fn translate(&self, block: &impl CodeBlock) {
        let programs = self.programs.as_ref();
        let complete = translate(block, &self.watch, &self.numbers, programs, &self.options);
        if !complete && !self.overflowed.swap(true, Ordering::Relaxed) {
            fail(
                "the guest runs more instructions than a recording can number; some are not recorded",
            );
        }
    }

    /// An access through a user-space address: recorded at the page's address in the kernel's
    /// direct map. One that crosses a page is split in two.
    pub(crate) fn touch_user(
        &self,
        tap: &Tap,
        instruction: Instruction,
        store: bool,
        vaddr: u64,
        access: &impl GuestAccess,
    ) {
        let size = access.size();
        // Pages that are adjacent in a program need not be adjacent in memory.
        let first = u64::from(size).min(PAGE - vaddr % PAGE) as u8;
        for (offset, size) in [(0, first), (first, size - first)] {
            if size == 0 {
                continue;
            }
            let vaddr = vaddr.wrapping_add(u64::from(offset));
            let physical = access.physical(vaddr);
            if let (Some(programs), Some(physical)) = (&self.programs, physical) {
                programs.note_mapping(tap, instruction.back(), vaddr, physical);
            }
            // Device memory has no alias in the direct map: the program's address is recorded.
            let addr = physical.map_or(vaddr, |physical| {
                self.options.direct_map.wrapping_add(physical)
            });
            let touch = Touch {
                store,
                addr,
                size,
                user_mapping: true,
            };
            tap.touch(instruction, touch, || {
                access.value() >> (8 * u32::from(offset))
            });
        }
    }

    /// A watched instruction is about to run on the CPU with this `number`.
    pub(crate) fn hook(
        &self,
        tap: &Tap,
        calls: &mut Calls,
        hooked: &Hooked,
        number: u16,
        cpu: &impl Cpu,
    ) {
        let back = hooked.back;
        let guest_ns = || cpu.argument(linemate_recording::Register::Rdi);
        match hooked.action {
            // They leave no record, not even that of a step: the recording does not depend on them.
            Action::Ask => return self.refusals.on_syscall(cpu),
            Action::Answer => return self.refusals.answered(cpu),
            Action::Start => {
                self.refusals.begin(cpu);
                tap.mark(back, Mark::Start, guest_ns());
            }
            _ => {}
        }
        // Only at the kernel's instructions: with page-table isolation a program has others.
        if let (Some(programs), true) = (&self.programs, hooked.kernel) {
            programs.runs(tap, back, number, cpu.page_tables());
        }
        let mut silent = true;
        let mut report = |report| {
            silent = false;
            tap.watched(back, Some(report));
        };
        let (function, returns) = match &hooked.action {
            Action::Enter(function) => (function, false),
            Action::Leave(function) => (function, true),
            Action::Idle => return tap.mark(back, Mark::Idle, 0),
            Action::Start | Action::Ask | Action::Answer => return,
            Action::Back => return calls.back(cpu, &mut report),
            Action::Stop => return tap.mark(back, Mark::Stop, guest_ns()),
        };
        if returns {
            calls.leave(function, cpu, &mut report);
        } else {
            calls.enter(function, cpu, &mut report);
        }
        if silent {
            // A step: an open access of several parts ends before the function, whether or not it
            // has something to report.
            tap.watched(back, None);
        }
    }

    /// Completes the file up to its END chunk, which the host appends. All taps are stopped.
    pub(crate) fn finish(&self) {
        let ending = self
            .ending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(Ending { encoders, writer }) = ending else {
            return;
        };
        let (mut accesses, mut time, mut abandoned) = (0, 0, 0);
        for encoder in encoders {
            // One that has failed has already reported it.
            let Some(mut lane) = encoder.join() else {
                continue;
            };
            lane.sink().flush();
            accesses += lane.sink().accesses();
            time = time.max(lane.now().0);
            abandoned += lane.abandoned();
        }
        for line in self.refusals.lines() {
            let _ = writeln!(io::stderr(), "linemate-recorder: refused {line}");
        }
        match writer.stop() {
            Ok(writer) => {
                let bytes = writer.bytes();
                let _ = writeln!(
                    io::stderr(),
                    "linemate-recorder: done accesses={accesses} bytes={bytes} time={time} abandoned={abandoned}"
                );
            }
            Err(error) => fail(&error.to_string()),
        }
    }
}

/// Reports an error to the host in one line, which ends the run.
pub(crate) fn fail(what: &str) {
    let _ = writeln!(io::stderr(), "linemate-recorder: error: {what}");
}

/// The addresses of the functions that kernel code jumps to instead of a return instruction, from
/// kallsyms text.
fn return_thunks(symbols: &[u8]) -> Vec<u64> {
    named(symbols, |name| name.ends_with("return_thunk"))
}

/// The address of the kernel's `__per_cpu_offset[]`, from kallsyms text.
fn percpu_offsets(symbols: &[u8]) -> Option<u64> {
    named(symbols, |name| name == "__per_cpu_offset")
        .first()
        .copied()
}

/// The addresses of the symbols whose names `wanted` accepts.
fn named(symbols: &[u8], wanted: impl Fn(&str) -> bool) -> Vec<u64> {
    String::from_utf8_lossy(symbols)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            wanted(words.nth(1)?).then_some(address)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_thunks_are_found_by_name() {
        let text =
            b"ffffffff82000000 T __x86_return_thunk\nffffffff82000040 t srso_alias_return_thunk\n\
                     ffffffff82000080 T return_thunk_init\nnonsense\n";
        assert_eq!(
            return_thunks(text),
            [0xffff_ffff_8200_0000, 0xffff_ffff_8200_0040]
        );
    }
}
