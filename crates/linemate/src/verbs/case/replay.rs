//! `linemate case run --cold`, `--mechanisms`, `--llc-share` and `--cpus`: a case replayed
//! otherwise than its own results are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use linemate_cases::{Case, CaseReplay};
use linemate_machine::Mechanism;

use super::files::Files;
use crate::lists::MechanismWords;
use crate::number::{CPUS_MAX, between};
use crate::output::to_stderr;
use crate::verbs::machines;

/// Of the options in `--help`.
const HEADING: &str = "Replay (results go to --output FOLDER)";

/// How to replay, where that is not as the case says.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ReplayArgs {
    /// Start with cold caches and count cold misses
    #[arg(long, help_heading = HEADING)]
    cold: bool,
    /// Mechanisms to model (docs/model/replay.md) [default: adjacent_line_pairs]; `none`
    /// disables all. Machines described without one of them are skipped
    #[arg(long, help_heading = HEADING, value_name = "LIST")]
    mechanisms: Option<MechanismWords>,
    /// Predict with or without scaling each cache to the replayed CPUs' share; overrides case.toml
    #[arg(long, help_heading = HEADING, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    llc_share: Option<bool>,
    /// Number of CPUs to replay, 1 to 8192: a multiple of the recorded number
    /// (docs/guide/many-cpus.md)
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = between(1, CPUS_MAX))]
    cpus: Option<usize>,
}

impl ReplayArgs {
    /// What of it is not as the case says anyway.
    pub(super) fn of(&self, case: &Case) -> CaseReplay {
        let wanted = |list: &MechanismWords| {
            let all = Mechanism::ALL.into_iter();
            let all = all.filter(|one| list.contains(*one));
            all.map(|one| one.key().to_owned()).collect::<Vec<_>>()
        };
        let default = [Mechanism::AdjacentLinePairs.key().to_owned()];
        let mechanisms = self.mechanisms.as_ref().map(wanted);
        CaseReplay {
            cold: self.cold,
            mechanisms: mechanisms.filter(|names| *names != default),
            llc_share: self.llc_share.filter(|share| *share != case.llc_share),
            cpus: self
                .cpus
                .filter(|cpus| *cpus != usize::from(case.guest.cpus)),
        }
    }
}

/// Where results go. Those of another replay do not take the place of the case's own.
///
/// # Errors
/// They would.
pub(super) fn folder(
    own: &Path,
    output: Option<&Path>,
    replay: &CaseReplay,
) -> anyhow::Result<PathBuf> {
    let folder = output.unwrap_or(own);
    let same = match (fs::canonicalize(own), fs::canonicalize(folder)) {
        (Ok(own), Ok(folder)) => own == folder,
        _ => false,
    };
    if same && *replay != CaseReplay::default() {
        bail!(
            "{} has the results of the unmodified case: with --cold, --mechanisms, --llc-share or --cpus name another folder with --output FOLDER",
            own.display()
        );
    }
    Ok(folder.to_owned())
}

/// Takes from the case the machines whose description lacks a requested mechanism. All are read, so
/// that an unknown one is reported before the first step.
///
/// # Errors
/// A machine that is not known; no machine is left.
pub(super) fn keep_machines(
    case: &mut Case,
    replay: &CaseReplay,
    files: &Files,
) -> anyhow::Result<()> {
    let names = replay.mechanisms.as_deref().unwrap_or_default();
    let mut kept = Vec::new();
    for name in &case.machines {
        let place = files.machine_anywhere(name);
        let machine = machines::resolve(&place.to_string_lossy().into_owned().into())?;
        let lacks =
            |one: &Mechanism| machine.lacks(*one) && names.iter().any(|name| name == one.key());
        match Mechanism::ALL.into_iter().find(lacks) {
            Some(lacking) => to_stderr(&format!(
                "{name} is skipped: its description has no {}",
                lacking.key()
            )),
            None => kept.push(name.clone()),
        }
    }
    if kept.is_empty() {
        bail!(
            "{}: --mechanisms {}: none of its machines has them",
            case.name,
            names.join(",")
        );
    }
    case.machines = kept;
    Ok(())
}
