//! Questions about recordings: the options of every verb that replays or reports, parsed once.
//!
//! A verb flattens [`Question`] and declares differences with `mut_arg`: how many recordings it
//! takes, whether it has a default machine, and which options it lacks ([`absent`]). [`options`]
//! has the reasons.

pub(crate) mod conditions;
pub(crate) mod edits;
pub(crate) mod options;
pub(crate) mod recordings;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Arg;
use linemate_answers::EventCount;
use linemate_experiment::{Conditions, Under};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_session::Session;
use linemate_text::shown;
use linemate_types::LineSize;

use crate::files::{InFile, MachineName};
use crate::input::{self, DEFAULT_MACHINE};
use crate::kept::Keeping;
use crate::next;
use conditions::Replaying;
use recordings::Recordings;

/// A question about recordings.
#[derive(clap::Args, Debug)]
pub(crate) struct Question {
    #[command(flatten)]
    recordings: Recordings,
    /// The type [default: all types]
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    pub(crate) type_name: Option<String>,
    /// The machine to replay on: a name (see `linemate machines`), a TOML file, or `this`; may be
    /// repeated
    #[arg(long = "machine", value_name = "M")]
    pub(crate) machines: Vec<MachineName>,
    /// Cache line size in bytes, 64 or 128 [default: the machine's, else 64]
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes)]
    pub(crate) line: Option<LineSize>,
    /// Inclusive cost of kernel function F and its callees, as `perf report --children`
    /// (docs/guide/under.md)
    #[arg(long, value_name = "F", value_parser = input::function_name)]
    pub(crate) under: Option<String>,
    /// Also show figures per call of this function; the recording must count its calls
    /// (`record --event`)
    #[arg(long, value_name = "FUNCTION", value_parser = input::function_name)]
    pub(crate) event: Option<String>,
    #[command(flatten)]
    pub(crate) replaying: Replaying,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
}

/// `--machine` of a verb that always replays.
pub(crate) fn always_on_a_machine(arg: Arg) -> Arg {
    arg.default_value(DEFAULT_MACHINE)
}

/// Of a verb without choice of interleavings: [`options`] has the reason.
pub(crate) fn without_interleavings(arg: Arg) -> Arg {
    absent(arg, &["interleavings", "all_interleavings"])
}

/// Of a verb without figures under a function or per call: [`options`] has the reason.
pub(crate) fn without_calls(arg: Arg) -> Arg {
    absent(arg, &["under", "event"])
}

fn absent(arg: Arg, ids: &[&str]) -> Arg {
    let absent = ids.iter().any(|id| arg.get_id() == id);
    match absent {
        true => arg.hide(true),
        false => arg,
    }
}

impl Question {
    /// The recordings, one or more.
    pub(crate) fn paths(&self) -> &[InFile] {
        self.recordings.paths()
    }

    /// The recording of a verb that takes one.
    pub(crate) fn path(&self) -> &Path {
        self.paths().first().map_or(Path::new(""), |path| path)
    }

    /// The recordings of a verb that compares two.
    pub(crate) fn two(&self) -> anyhow::Result<[&InFile; 2]> {
        self.recordings.two()
    }

    /// The prefix of errors about that recording.
    pub(crate) fn place(&self) -> String {
        self.path().display().to_string()
    }

    /// Refuses options that only apply to replays if nothing is replayed.
    pub(crate) fn need_machine(&self) -> anyhow::Result<()> {
        if !self.machines.is_empty() {
            return Ok(());
        }
        if self.under.is_some() {
            bail!("--under needs --machine: it shows what a function costs there");
        }
        match self.replaying.given() {
            Some(option) => bail!("{option} needs --machine: without one nothing is replayed"),
            None => Ok(()),
        }
    }

    /// The machines, as they are replayed.
    pub(crate) fn machines(&self) -> anyhow::Result<Vec<Machine>> {
        let names = self.machines.iter();
        names
            .map(|name| self.replaying.machine(name, self.line))
            .collect()
    }

    /// The line size if no machine gives one.
    pub(crate) fn line(&self) -> LineSize {
        self.line.unwrap_or(LineSize::B64)
    }

    /// CPUs and caches of the replays.
    pub(crate) fn conditions(&self) -> Conditions {
        self.replaying.conditions()
    }

    /// The seed of the first interleaving.
    pub(crate) fn seed(&self) -> u64 {
        self.replaying.seed
    }

    /// Prepares an opened recording for questions; with its kernel's machine code, if that is
    /// needed.
    pub(crate) fn ask<'r>(
        &self,
        path: &Path,
        recording: &'r Recording,
    ) -> anyhow::Result<Session<'r>> {
        let under = self.under.is_some();
        self.replaying.ask(path, recording, self.keeping, under)
    }

    /// The recording's name for the requested type.
    pub(crate) fn subject(&self, session: &Session<'_>) -> Option<String> {
        let asked = self.type_name.as_ref();
        asked.map(|asked| input::meant(session, asked))
    }

    /// When the function of `--under` is on a stack; `None` without it.
    pub(crate) fn function(&self, session: &Session<'_>) -> anyhow::Result<Option<Under>> {
        let under = self.under.as_ref();
        let under = under.map(|function| Under::new(session, function));
        under.transpose().context("--under")
    }

    /// How often the function of `--event` was called.
    pub(crate) fn event(
        &self,
        path: &Path,
        session: &Session<'_>,
    ) -> anyhow::Result<Option<EventCount>> {
        let counted = self.event.as_ref().map(|function| session.event(function));
        counted
            .transpose()
            .with_context(|| path.display().to_string())
    }

    /// Every setting in effect on `machines`, by the name of its option.
    pub(crate) fn settings(&self, machines: &[Machine]) -> BTreeMap<String, String> {
        let list = |of: &dyn Fn(&Machine) -> String| {
            let each: Vec<String> = machines.iter().map(of).collect();
            each.join(", ")
        };
        let mut settings = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            settings.insert(name.to_owned(), shown(&value).to_string());
        };
        if machines.is_empty() {
            set("line", self.line().bytes().to_string());
            return settings;
        }
        let replaying = &self.replaying;
        let cpus = replaying.cpus.map(|cpus| cpus.to_string());
        set("machine", list(&|machine| machine.name.clone()));
        set("line", list(&|machine| machine.line.bytes().to_string()));
        set("cpus", cpus.unwrap_or_else(|| "as recorded".to_owned()));
        set("llc-share", replaying.llc_share.to_string());
        set("mechanisms", replaying.mechanisms.names());
        set("exact", replaying.exact.to_string());
        set("seed", replaying.seed.to_string());
        settings
    }

    /// The options with which another verb asks about the same recordings and `type_name`, with a
    /// space before each.
    pub(crate) fn words(&self, type_name: Option<&str>) -> String {
        let about = type_name.map(|name| format!(" --type {}", next::quoted(name)));
        next::inputs(self.paths()) + &about.unwrap_or_default()
    }
}
