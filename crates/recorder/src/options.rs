//! The plugin's options, as in `-plugin FILE,key=value,…`. All are checked before anything runs.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use thiserror::Error;

/// Where x86-64 Linux maps all physical memory, with 4-level page tables and no address
/// randomisation.
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
/// Where it has the `struct page` array.
const VMEMMAP: u64 = 0xffff_ea00_0000_0000;
/// More guest memory than any x86-64 machine addresses: a mistaken unit.
const MAX_MEMORY: u64 = 1 << 46;

/// Shorter turns are mostly overhead; QEMU's own are no longer than the longest.
const TURN_LENGTHS: RangeInclusive<u32> = 100..=1_000_000;

/// The purpose of loading the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Record(RecorderOptions),
    /// Hold the guest at the hold mark until the host has written to this named pipe. Nothing is
    /// recorded.
    Hold(PathBuf),
}

impl Task {
    /// Parses `key=value` arguments.
    ///
    /// # Errors
    /// As [`RecorderOptions::parse`], and `hold=` combined with anything else.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, OptionError> {
        let hold = |argument: &&str| argument.strip_prefix("hold=").map(str::to_owned);
        match (arguments.iter().find_map(hold), arguments) {
            (None, _) => RecorderOptions::parse(arguments.iter().copied()).map(Task::Record),
            (Some(pipe), [_]) => path("hold", &pipe).map(Task::Hold),
            (Some(_), _) => Err(OptionError::HoldAlone),
        }
    }
}

/// What to record, and where to write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecorderOptions {
    /// The descriptor of the recording, open for reading and writing: its head is already written;
    /// events are appended.
    pub(crate) descriptor: i32,
    /// Bytes of guest memory.
    pub(crate) memory: u64,
    /// Record user-mode code too.
    pub(crate) user: bool,
    /// Identify user-mode code by its contents, and record address spaces and page mappings.
    pub(crate) program: bool,
    /// Do not find silent stores, nor track the contents of memory.
    pub(crate) contents_unknown: bool,
    /// Record from the first instruction on, not from the start mark.
    pub(crate) whole_boot: bool,
    /// The CPUs run in threads of their own.
    pub(crate) parallel: bool,
    /// End a CPU's turn after this many instructions; QEMU alone does it if absent.
    pub(crate) turn: Option<u32>,
    /// What the differences between turns are drawn from.
    pub(crate) seed: u64,
    /// Callbacks encode their records themselves, without a separate thread.
    pub(crate) encode_here: bool,
    /// Address of physical address 0 in the kernel's direct map.
    pub(crate) direct_map: u64,
    /// Address of the `struct page` of physical address 0.
    pub(crate) vmemmap: u64,
}

/// An option that cannot be obeyed.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum OptionError {
    /// Not of the form `key=value`.
    #[error("option {0:?} is not key=value")]
    Form(String),
    #[error(
        "unknown option {0:?} (known: hold, descriptor, memory, user, program, contents_unknown, whole_boot, parallel, turn, seed, encode_here, direct_map, vmemmap)"
    )]
    Unknown(String),
    #[error("option {0} is given twice")]
    Twice(String),
    /// A required key is missing.
    #[error("option {0}= is missing")]
    Missing(&'static str),
    /// Holding and recording exclude each other.
    #[error("option hold allows no other option: a run that is held records nothing")]
    HoldAlone,
    /// Recording programs needs user-mode accesses, and a global order of events.
    #[error("option program=on needs user=on, and no parallel=on")]
    ProgramNeeds,
    /// CPUs that run in parallel take no turns.
    #[error("option turn allows no parallel=on: CPUs that run in parallel take no turns")]
    TurnInParallel,
    /// A value that its key does not accept.
    #[error("option {key}={value:?} is not {expected}")]
    Value {
        key: String,
        value: String,
        /// What it accepts.
        expected: &'static str,
    },
}

impl RecorderOptions {
    /// Parses `key=value` arguments.
    ///
    /// # Errors
    /// The first argument that is malformed, unknown, repeated or out of range; then the first
    /// missing one.
    pub(crate) fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, OptionError> {
        let (mut descriptor, mut memory) = (None, None);
        let (mut user, mut program, mut whole_boot, mut parallel) = (None, None, None, None);
        let (mut encode_here, mut direct_map, mut vmemmap) = (None, None, None);
        let (mut contents_unknown, mut turn, mut seed) = (None, None, None);
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| OptionError::Form(argument.to_owned()))?;
            match key {
                "descriptor" => set(&mut descriptor, key, open_file(key, value)?)?,
                "memory" => set(&mut memory, key, bytes(key, value)?)?,
                "user" => set(&mut user, key, switch(key, value)?)?,
                "program" => set(&mut program, key, switch(key, value)?)?,
                "contents_unknown" => set(&mut contents_unknown, key, switch(key, value)?)?,
                "whole_boot" => set(&mut whole_boot, key, switch(key, value)?)?,
                "parallel" => set(&mut parallel, key, switch(key, value)?)?,
                "turn" => set(&mut turn, key, instructions(key, value)?)?,
                "seed" => set(&mut seed, key, number(key, value)?)?,
                "encode_here" => set(&mut encode_here, key, switch(key, value)?)?,
                "direct_map" => set(&mut direct_map, key, kernel_address(key, value)?)?,
                "vmemmap" => set(&mut vmemmap, key, kernel_address(key, value)?)?,
                _ => return Err(OptionError::Unknown(key.to_owned())),
            }
        }
        let (user, program) = (user.unwrap_or(false), program.unwrap_or(false));
        let parallel = parallel.unwrap_or(false);
        // Programs' pages and spaces are state that all CPUs share, in the order of their events.
        if program && (!user || parallel) {
            return Err(OptionError::ProgramNeeds);
        }
        if turn.is_some() && parallel {
            return Err(OptionError::TurnInParallel);
        }
        Ok(Self {
            descriptor: descriptor.ok_or(OptionError::Missing("descriptor"))?,
            memory: memory.ok_or(OptionError::Missing("memory"))?,
            user,
            program,
            contents_unknown: contents_unknown.unwrap_or(false),
            whole_boot: whole_boot.unwrap_or(false),
            parallel,
            turn,
            seed: seed.unwrap_or(0),
            encode_here: encode_here.unwrap_or(false),
            direct_map: direct_map.unwrap_or(DIRECT_MAP),
            vmemmap: vmemmap.unwrap_or(VMEMMAP),
        })
    }
}

fn set<T>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), OptionError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(OptionError::Twice(key.to_owned())),
    }
}

fn bad(key: &str, value: &str, expected: &'static str) -> OptionError {
    OptionError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    }
}

fn path(key: &str, value: &str) -> Result<PathBuf, OptionError> {
    if value.is_empty() {
        return Err(bad(key, value, "a file name"));
    }
    Ok(PathBuf::from(value))
}

/// Standard input, output and error have other uses.
fn open_file(key: &str, value: &str) -> Result<i32, OptionError> {
    match value.parse::<i32>() {
        Ok(n) if n > 2 => Ok(n),
        _ => Err(bad(key, value, "the number of an open file")),
    }
}

fn bytes(key: &str, value: &str) -> Result<u64, OptionError> {
    match value.parse::<u64>() {
        Ok(n) if (1 << 20..=MAX_MEMORY).contains(&n) => Ok(n),
        _ => Err(bad(key, value, "a number of bytes from 1048576 to 2^46")),
    }
}

fn number(key: &str, value: &str) -> Result<u64, OptionError> {
    value
        .parse()
        .map_err(|_| bad(key, value, "a number below 2^64"))
}

fn instructions(key: &str, value: &str) -> Result<u32, OptionError> {
    match value.parse::<u32>() {
        Ok(n) if TURN_LENGTHS.contains(&n) => Ok(n),
        _ => Err(bad(
            key,
            value,
            "a number of instructions from 100 to 1000000",
        )),
    }
}

fn switch(key: &str, value: &str) -> Result<bool, OptionError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(bad(key, value, "on or off")),
    }
}

fn kernel_address(key: &str, value: &str) -> Result<u64, OptionError> {
    let digits = value.strip_prefix("0x").unwrap_or("");
    match u64::from_str_radix(digits, 16) {
        Ok(address) if address >> 47 == 0x1_ffff && address & 0xfff == 0 => Ok(address),
        _ => Err(bad(
            key,
            value,
            "a page-aligned kernel address such as 0xffff888000000000",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<RecorderOptions, OptionError> {
        RecorderOptions::parse(arguments.iter().copied())
    }

    #[test]
    fn defaults_are_the_deterministic_kernel_only_recorder() {
        let options = parse(&["descriptor=7", "memory=1073741824"]).unwrap();
        assert_eq!(
            options,
            RecorderOptions {
                descriptor: 7,
                memory: 1 << 30,
                user: false,
                program: false,
                contents_unknown: false,
                whole_boot: false,
                parallel: false,
                turn: None,
                seed: 0,
                encode_here: false,
                direct_map: 0xffff_8880_0000_0000,
                vmemmap: 0xffff_ea00_0000_0000,
            }
        );
    }

    #[test]
    fn every_option_is_obeyed() {
        let options = parse(&[
            "descriptor=7",
            "memory=1048576",
            "user=on",
            "whole_boot=on",
            "parallel=on",
            "direct_map=0xff11000000000000",
            "vmemmap=0xffd4000000000000",
        ]);
        // Five-level addresses are refused: the recorder's kernel test and the guest's `la57=off`
        // agree on four.
        assert_eq!(
            options,
            Err(bad(
                "direct_map",
                "0xff11000000000000",
                "a page-aligned kernel address such as 0xffff888000000000"
            ))
        );
        let options = parse(&[
            "descriptor=7",
            "memory=1048576",
            "user=on",
            "contents_unknown=on",
            "whole_boot=on",
            "parallel=on",
            "encode_here=on",
        ])
        .unwrap();
        assert!(options.user && options.whole_boot && options.parallel && options.encode_here);
        assert!(options.contents_unknown);
        let options = ["descriptor=7", "memory=1048576", "turn=1000", "seed=42"];
        let options = parse(&options).unwrap();
        assert_eq!((options.turn, options.seed), (Some(1000), 42));
    }

    #[test]
    fn programs_need_their_accesses_in_order() {
        let with = |extra: &[&'static str]| {
            parse(&[&["descriptor=7", "memory=1048576", "program=on"], extra].concat())
        };
        assert!(with(&["user=on"]).unwrap().program);
        assert_eq!(with(&[]), Err(OptionError::ProgramNeeds));
        let parallel = with(&["user=on", "parallel=on"]);
        assert_eq!(parallel, Err(OptionError::ProgramNeeds));
    }

    #[test]
    fn holding_stands_alone() {
        let pipe = Ok(Task::Hold(PathBuf::from("/a=b")));
        assert_eq!(Task::parse(&["hold=/a=b"]), pipe);
        assert_eq!(Task::parse(&["hold="]), Err(bad("hold", "", "a file name")));
        let both = Task::parse(&["memory=1048576", "hold=/a", "descriptor=7"]);
        assert_eq!(both, Err(OptionError::HoldAlone));
        let record = Task::parse(&["descriptor=7", "memory=1048576"]);
        assert!(matches!(record, Ok(Task::Record(_))));
    }

    #[test]
    fn bad_options_are_named() {
        let both = ["descriptor=7", "memory=1048576"];
        let with = |extra| parse(&[both[0], both[1], extra]);
        assert_eq!(with("user"), Err(OptionError::Form("user".into())));
        assert_eq!(with("usr=on"), Err(OptionError::Unknown("usr".into())));
        assert_eq!(with("user=yes"), Err(bad("user", "yes", "on or off")));
        assert_eq!(
            with("memory=1048576"),
            Err(OptionError::Twice("memory".into()))
        );
        assert_eq!(parse(&both[..1]), Err(OptionError::Missing("memory")));
        assert_eq!(parse(&both[1..]), Err(OptionError::Missing("descriptor")));
        for number in ["-1", "0", "2", "x", ""] {
            let text = format!("descriptor={number}");
            let expected = bad("descriptor", number, "the number of an open file");
            assert_eq!(parse(&[&text, both[1]]), Err(expected));
        }
        for seed in ["-1", "x", "18446744073709551616"] {
            let text = format!("seed={seed}");
            let expected = bad("seed", seed, "a number below 2^64");
            assert_eq!(parse(&[both[0], both[1], &text]), Err(expected));
        }
        for turn in ["0", "99", "1000001", "-1", "x", ""] {
            let text = format!("turn={turn}");
            let expected = bad("turn", turn, "a number of instructions from 100 to 1000000");
            assert_eq!(parse(&[both[0], both[1], &text]), Err(expected));
        }
        let parallel = parse(&[both[0], both[1], "parallel=on", "turn=1000"]);
        assert_eq!(parallel, Err(OptionError::TurnInParallel));
        for size in ["1G", "-1", "0", "1048575", "70368744177665"] {
            assert!(
                parse(&[both[0], &format!("memory={size}")]).is_err(),
                "{size}"
            );
        }
    }
}
