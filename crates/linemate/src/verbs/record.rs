//! `linemate record`: boots a kernel, runs a command in it, records every memory access of the
//! kernel.

mod not_found;
mod refused;
pub(crate) mod series;

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::builder::TypedValueParser;
use clap::{Arg, Command};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use linemate_growth::{RECORDINGS_MAX, RECORDINGS_MIN};
use linemate_guest::{
    BIG_CPUS, BootProgress, Conditions, ExtraFile, GuestShape, MAX_CPUS, MIN_MEMORY, Observer,
    OutputStream, OwnAllocator, ProgramNaming, Progress, Qemu, Recorded, Session, Stage, Timing,
    Workload, cache_folder,
};

use crate::files::{GuestFile, InFile, OutRecording};
use crate::input;
use crate::named_kernel;
use crate::next;
use crate::number::{self, Bytes, between};
use crate::outcome::Outcome;
use crate::output::{self, to_stderr};
use not_found::NotFound;

/// The recorder's file, next to the command's own.
const RECORDER: &str = "liblinemate_recorder.so";

/// How often a line shows how far a boot is, if standard error is not a terminal.
const BOOT_LINES: Duration = Duration::from_secs(60);

/// Seconds of a year.
const YEAR: u64 = 365 * 24 * 3600;

/// What 52 bits address: no x86 processor has more physical memory.
const MEMORY_MAX: Bytes = Bytes(1 << 52);

/// Boot a kernel, run a command in it, record every memory access of the kernel
///
/// The same command gives the same recording, byte for byte. Exit code: 0 if the command succeeded,
/// 1 if it was recorded but failed (its status is shown), 2 if the run itself failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel to boot: an image, or a name such as debian:6.12, which is fetched from this
    /// computer's apt sources [default: the running kernel if its image is readable, else the
    /// newest in the cache, else debian:6.12]
    #[arg(long, value_name = "IMAGE")]
    kernel: Option<InFile>,
    /// CPUs, 1 to 512
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = between(1, MAX_CPUS))]
    smp: u16,
    /// Record one workload on each of these numbers of CPUs, 1 to 512, for `linemate growth`: -o
    /// NAME writes NAME-4.data and so on. In the command, {cpus} becomes the number, {cpus*K} and
    /// {cpus/K} the number times K and over K
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', conflicts_with_all = ["smp", "bare"], value_parser = between(1, MAX_CPUS))]
    series: Vec<u16>,
    /// Sockets, 1 to 512 [default: the NUMA nodes]
    #[arg(long, value_name = "N", value_parser = between(1, MAX_CPUS))]
    sockets: Option<u16>,
    /// Cores in a socket, 1 to 512 [default: as many as --smp needs]
    #[arg(long, value_name = "N", value_parser = between(1, MAX_CPUS))]
    cores: Option<u16>,
    /// Hardware threads in a core, 1 to 512 [default: 1]
    #[arg(long, value_name = "N", value_parser = between(1, MAX_CPUS))]
    threads: Option<u16>,
    /// NUMA nodes, 1 to 512, with even shares of CPUs and memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between(1, MAX_CPUS))]
    numa: u16,
    /// Memory, 256M to 4096T: bytes, or a number with K, M, G or T after it, such as 1.5G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = between(Bytes(MIN_MEMORY), MEMORY_MAX))]
    memory: Bytes,
    /// Seed of the guest's randomness, 0 to 4294967295: each seed gives another interleaving
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = between(0, u32::MAX))]
    seed: u32,
    /// Append to the kernel command line
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true
    )]
    append: String,
    /// Run this shell script in the guest before recording starts (cgroups, limits)
    #[arg(long, value_name = "SCRIPT")]
    setup: Option<InFile>,
    /// Copy a file or folder into the guest; may be repeated
    #[arg(long = "file", value_name = "HOST[:GUEST]")]
    files: Vec<GuestFile>,
    /// Give up after this many seconds of host time, 1 to 31536000 (a year), for boot and run
    /// each [default: 3600 for the run]
    #[arg(long, value_name = "SECONDS", value_parser = between(1, YEAR))]
    timeout: Option<u64>,
    /// Run the CPUs in parallel: faster, but not repeatable
    #[arg(long)]
    parallel: bool,
    /// Record user-mode accesses as well
    #[arg(long)]
    user: bool,
    /// Also record what is needed to name the fields of programs (implies --user)
    #[arg(long, conflicts_with_all = ["parallel", "bare"])]
    program: bool,
    /// Whether to name kernel memory. With `no`, kernel accesses are one row of the ledger, runs
    /// are faster, and the kernel needs no BTF
    #[arg(
        long,
        value_enum,
        value_name = "yes|no",
        default_value = "yes",
        hide_possible_values = true
    )]
    kernel_types: KernelTypes,
    /// A function of the program that allocates memory, and which argument is the size:
    /// `pool_get:2`; may be repeated
    #[arg(
        long = "allocator",
        value_name = "FUNCTION:ARGUMENT",
        requires = "program"
    )]
    allocators: Vec<String>,
    /// Record from power-on instead of from the start of the command
    #[arg(long)]
    whole_boot: bool,
    /// End a CPU's turn after about this many instructions, 100 to 1000000, so that threads of the
    /// same work advance side by side; qemu: when QEMU does [default: 1000 with --program, else
    /// qemu]
    #[arg(long, value_name = "N|qemu", conflicts_with_all = ["parallel", "bare"], value_parser = TurnParser)]
    turn: Option<TurnsBy>,
    /// Count the calls of a kernel function, for figures per call (`--event` of `report`, `whatif`,
    /// `advise`, `diff`); may be repeated
    #[arg(long = "event", value_name = "FUNCTION", conflicts_with = "bare", value_parser = input::function_name)]
    events: Vec<String>,
    /// Run the guest without recording it, to compare run times
    #[arg(long, conflicts_with_all = ["user", "whole_boot"])]
    bare: bool,
    /// Print the recording's cache key instead of recording: equal keys, equal bytes. With =WORD,
    /// the word replaces the kernel in the key, such as the key of its build
    #[arg(long, value_name = "WORD", num_args = 0..=1, require_equals = true, conflicts_with = "series")]
    key: Option<Option<String>>,
    /// Where to write the recording
    #[arg(short, long, value_name = "FILE", default_value = "linemate.data")]
    output: OutRecording,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `--kernel-types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KernelTypes {
    Yes,
    No,
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<Outcome> {
    if let Some(word) = args.key.take() {
        output::text(&format!("{}\n", key(args, word)?))?;
        return Ok(Outcome::Fine);
    }
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot catch Ctrl-C")?;
    let series = args.series.clone();
    let session = session(args)?;
    if session.conditions.shape.timing == Timing::Parallel {
        to_stderr("note: --parallel: this recording is not reproducible; omit it for one that is");
    }
    if series.is_empty() {
        let (outcome, recorded) = record(&session, &cancel)?;
        if recorded {
            let input = next::input(&session.output);
            to_stderr(&next::step("what is shared", &format!("report{input}")));
        }
        return Ok(outcome);
    }
    if !series::is_scaled(&session.conditions.workload.command) {
        to_stderr(
            "note: --series: the command has no {cpus} in it, so more CPUs share the same work; `growth` needs equal work per CPU",
        );
    }
    let sessions = series::sessions(&session, &series)?;
    for session in &sessions {
        let (outcome, _) = record(session, &cancel)?;
        if outcome != Outcome::Fine {
            return Ok(outcome);
        }
    }
    let outputs: Vec<&Path> = sessions
        .iter()
        .map(|session| session.output.as_path())
        .collect();
    if let Some(step) = after_series(&outputs) {
        to_stderr(&step);
    }
    Ok(Outcome::Fine)
}

/// What follows a series: growth, or for one that is too short or too long, its last recording.
fn after_series(outputs: &[&Path]) -> Option<String> {
    if !(RECORDINGS_MIN..=RECORDINGS_MAX).contains(&outputs.len()) {
        let input = next::input(outputs.last()?);
        return Some(next::step("what is shared", &format!("report{input}")));
    }
    let file = |output: &&Path| format!(" {}", next::quoted(&output.to_string_lossy()));
    let files: String = outputs.iter().map(file).collect();
    Some(next::step("what grows", &format!("growth{files}")))
}

/// Of a big guest: by how much the command's times have to grow.
fn one_clock(cpus: u16, timing: Timing) -> Option<String> {
    let shared = cpus >= BIG_CPUS && timing == Timing::Deterministic;
    let note = || {
        format!(
            "note: {cpus} CPUs share one clock: for a real machine's load per CPU, multiply the command's sleeps by {cpus} (docs/guide/big-guests.md)"
        )
    };
    shared.then(note)
}

/// Does one run and reports on it; also returns whether anything was recorded.
fn record(session: &Session, cancel: &AtomicBool) -> anyhow::Result<(Outcome, bool)> {
    let mut display = Display::new();
    let result = session.record(cancel, &mut display);
    display.bar.finish_and_clear();
    let recorded = result?;
    summarise(session, &recorded);
    let GuestShape { cpus, timing, .. } = session.conditions.shape;
    if let Some(note) = one_clock(cpus, timing) {
        to_stderr(&note);
    }
    if let Some(note) = display.not_found.note(recorded.status) {
        to_stderr(&format!("note: {note}"));
    }
    if !recorded.status.is_success() {
        refused::lines(&recorded.refusals)
            .iter()
            .for_each(|line| to_stderr(&format!("note: {line}")));
    }
    let anything = recorded.totals.is_some();
    if recorded.status.is_success() {
        return Ok((Outcome::Fine, anything));
    }
    to_stderr(&format!(
        "{}: {}",
        session.conditions.workload.command.join(" "),
        recorded.status
    ));
    Ok((Outcome::Findings, anything))
}

/// Who ends the CPUs' turns.
#[derive(Clone, Copy, Debug)]
enum TurnsBy {
    Qemu,
    /// The recorder, after about that many.
    Instructions(u32),
}

/// With longer turns threads of a program look serial; shorter ones cost more than they show
/// (evidence/programs.md).
const TURN_OF_PROGRAMS: u32 = 1000;

/// Reads `--turn`.
#[derive(Clone, Copy, Debug)]
struct TurnParser;

impl TypedValueParser for TurnParser {
    type Value = TurnsBy;

    fn parse_ref(
        &self,
        _: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let word = value.to_string_lossy();
        let length = between(100, 1_000_000);
        match length.read(&word) {
            Some(length) => Ok(TurnsBy::Instructions(length)),
            None if word == "qemu" => Ok(TurnsBy::Qemu),
            None => {
                let bounds = format!("{}, or qemu", length.bounds());
                Err(number::refused(arg, &word, &bounds))
            }
        }
    }
}

/// The key of the recording that a command line would make.
fn key(args: Args, kernel: Option<String>) -> anyhow::Result<String> {
    let kernel = match kernel {
        Some(word) => word,
        None => named_kernel::to_boot(args.kernel.as_deref(), &cache_folder()?)?.sha256(),
    };
    Ok(conditions(args)?.key(&kernel)?)
}

fn session(args: Args) -> anyhow::Result<Session> {
    let cache = cache_folder()?;
    Ok(Session {
        kernel: named_kernel::to_boot(args.kernel.as_deref(), &cache)?,
        cache,
        output: args.output.to_path_buf(),
        timeout: args.timeout.map(Duration::from_secs),
        conditions: conditions(args)?,
    })
}

fn conditions(args: Args) -> anyhow::Result<Conditions> {
    let files = args
        .files
        .iter()
        .map(|f| ExtraFile::parse(f))
        .collect::<Result<_, _>>()?;
    let allocators = args.allocators.iter().map(|a| OwnAllocator::parse(a));
    let allocators = allocators.collect::<Result<Vec<_>, _>>()?;
    let kernel_types = args.kernel_types == KernelTypes::Yes;
    if !kernel_types && !args.program {
        bail!("--kernel-types no needs --program: without it no memory is named");
    }
    Ok(Conditions {
        turn: match args.turn {
            Some(TurnsBy::Instructions(length)) => Some(length),
            None if args.program && !args.bare => Some(TURN_OF_PROGRAMS),
            None | Some(TurnsBy::Qemu) => None,
        },
        program: args.program.then_some(ProgramNaming {
            allocators,
            kernel_types,
        }),
        qemu: Qemu::find()?,
        shape: GuestShape {
            cpus: args.smp,
            sockets: args.sockets,
            cores: args.cores,
            threads: args.threads,
            numa_nodes: args.numa,
            memory_bytes: args.memory.0,
            seed: args.seed,
            append: args.append,
            timing: if args.parallel {
                Timing::Parallel
            } else {
                Timing::Deterministic
            },
            ..GuestShape::default()
        },
        workload: Workload {
            command: args.command,
            files,
            setup: args.setup.map(|script| script.to_path_buf()),
        },
        recorder: recorder()?,
        bare: args.bare,
        user: args.user,
        whole_boot: args.whole_boot,
        events: args.events,
    })
}

/// `LINEMATE_RECORDER`, else the file next to this program (as built), else `../lib/linemate` from
/// there (as installed).
pub(crate) fn recorder() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os("LINEMATE_RECORDER") {
        return Ok(path.into());
    }
    let program = env::current_exe().context("cannot find the folder of this program")?;
    let built = program.with_file_name(RECORDER);
    let installed = program
        .parent()
        .and_then(Path::parent)
        .map(|prefix| prefix.join("lib/linemate").join(RECORDER));
    std::iter::once(built.clone())
        .chain(installed)
        .find(|path| path.is_file())
        .ok_or_else(|| {
            anyhow!(
                "the recorder {} is missing: run `make build` or `make install`, or set LINEMATE_RECORDER to it",
                built.display()
            )
        })
}

fn summarise(session: &Session, recorded: &Recorded) {
    let seconds = recorded.duration.as_secs_f64();
    let Some(totals) = recorded.totals else {
        to_stderr(&format!("ran for {seconds:.1} s, nothing recorded"));
        return;
    };
    let bytes = std::fs::metadata(&session.output).map_or(0, |m| m.len());
    to_stderr(&format!(
        "{}: {} accesses, {} calls in {seconds:.1} s, {}",
        session.output.display(),
        HumanCount(totals.accesses()),
        HumanCount(totals.calls),
        HumanBytes(bytes)
    ));
}

/// Passes on the guest's output and shows progress, on a terminal.
struct Display {
    bar: ProgressBar,
    stage: &'static str,
    /// When a line about the boot is due, where nobody watches the bar.
    boot_line: Instant,
    not_found: NotFound,
}

impl Display {
    fn new() -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Display {
            bar,
            stage: "",
            boot_line: Instant::now() + BOOT_LINES,
            not_found: NotFound::default(),
        }
    }
}

impl Observer for Display {
    fn left_over(&mut self, recording: &Path) {
        to_stderr(&format!(
            "note: {} is left from a killed run: remove it, or read it as a truncated recording",
            recording.display()
        ));
    }

    fn stage(&mut self, stage: Stage) {
        self.stage = match stage {
            Stage::Booting => "booting (once for each kernel and machine)",
            Stage::Restoring => "loading the booted guest, setting up",
            Stage::Recording => "recording",
            _ => "writing",
        };
        self.bar.set_message(self.stage);
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| to_stderr(&format!("note: {note}")));
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        if stream == OutputStream::Stderr {
            self.not_found.read(bytes);
        }
        self.bar.suspend(|| match stream {
            OutputStream::Stdout => io::stdout()
                .write_all(bytes)
                .and_then(|()| io::stdout().flush()),
            OutputStream::Stderr => io::stderr().write_all(bytes),
        })
    }

    fn booting(&mut self, boot: &BootProgress) {
        let words = format!(
            "{}: {} of {} CPUs started: {}",
            self.stage, boot.started, boot.cpus, boot.last
        );
        if self.bar.is_hidden() && Instant::now() >= self.boot_line {
            self.boot_line = Instant::now() + BOOT_LINES;
            to_stderr(&words);
        }
        self.bar.set_message(words);
    }

    fn progress(&mut self, progress: &Progress) {
        if progress.accesses > 0 {
            self.bar.set_message(format!(
                "{}: {:.3} s of guest time, {} accesses, {}",
                self.stage,
                progress.instructions as f64 / 1e9,
                HumanCount(progress.accesses),
                HumanBytes(progress.bytes)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpus_share_one_clock() {
        let note = one_clock(480, Timing::Deterministic).unwrap_or_default();
        assert!(note.contains("sleeps by 480"), "{note}");
        assert_eq!(one_clock(63, Timing::Deterministic), None);
        assert_eq!(one_clock(480, Timing::Parallel), None);
    }

    #[test]
    fn growth_follows_a_series_that_it_reads() {
        let files: Vec<String> = (1..=RECORDINGS_MAX + 1)
            .map(|n| format!("s {n}.data"))
            .collect();
        let files: Vec<&Path> = files.iter().map(Path::new).collect();
        let next = |number: usize| after_series(&files[..number]).unwrap_or_default();
        assert_eq!(next(0), "");
        assert_eq!(
            next(2),
            "Next, what is shared: linemate report -i 's 2.data'"
        );
        assert_eq!(
            next(3),
            "Next, what grows: linemate growth 's 1.data' 's 2.data' 's 3.data'"
        );
        assert!(next(RECORDINGS_MAX).contains("linemate growth "));
        assert!(next(RECORDINGS_MAX + 1).contains("linemate report -i "));
    }
}
