//! How a question is replayed: CPUs, caches, mechanisms, seed; and their effect on a machine.

use std::path::Path;

use anyhow::{Context, bail};
use linemate_experiment::{Conditions, Groups};
use linemate_guest::{cache_folder, recorded_kernel};
use linemate_machine::{Machine, Mechanism, shipped};
use linemate_recording::Recording;
use linemate_session::Session;
use linemate_text::shown;
use linemate_types::kernel_image::CodeSection;
use linemate_types::{KernelImage, LineSize};

use crate::files::{InFile, MachineName};
use crate::input;
use crate::kept::Keeping;
use crate::lists::{GroupWords, MechanismWords};
use crate::number::{CPUS_MAX, INTERLEAVINGS_MAX, INTERLEAVINGS_MIN, between};
use crate::series;
use crate::verbs::machines;

/// Of the options in `--help`; not of those that follow them there.
const HEADING: &str = "Replay";

/// The options that say how to replay.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Replaying {
    /// Number of CPUs to replay, 1 to 8192: a multiple of the recorded number
    /// (docs/guide/many-cpus.md)
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = between(1, CPUS_MAX))]
    pub(crate) cpus: Option<usize>,
    /// Scale each cache to the replayed CPUs' share: models a machine whose other CPUs run the same
    /// work
    #[arg(long, help_heading = HEADING)]
    pub(crate) llc_share: bool,
    /// What to model with `--cpus`: `phases`, `locks`, and `domains` or `flat`; `none` disables all
    /// (docs/guide/many-cpus.md)
    #[arg(long, help_heading = HEADING, value_name = "LIST", default_value = "phases,locks,domains")]
    pub(crate) groups: GroupWords,
    /// With `--cpus`, model what grows with the number of CPUs, from these recordings on different
    /// numbers of CPUs (see `linemate growth`)
    #[arg(long, help_heading = HEADING, value_name = "FILES", value_delimiter = ',')]
    pub(crate) series: Vec<InFile>,
    /// Mechanisms to model (docs/model/replay.md); `none` disables all
    #[arg(long, help_heading = HEADING, value_name = "LIST", default_value = "adjacent_line_pairs")]
    pub(crate) mechanisms: MechanismWords,
    /// For `--mechanisms overlap` and `--under`: the image of the recorded kernel; may be repeated
    /// [default: found by its checksum in /boot and the cache]
    #[arg(long = "kernel", help_heading = HEADING, value_name = "IMAGE")]
    pub(crate) kernels: Vec<InFile>,
    /// Replay every access, even those that always hit L1. Slower; same results for unedited
    /// layouts
    #[arg(long, help_heading = HEADING)]
    pub(crate) exact: bool,
    /// Start with cold caches and count cold misses (docs/model/replay.md)
    #[arg(long, help_heading = HEADING)]
    pub(crate) cold: bool,
    /// Seed of the first interleaving, 0 to 18446744073709551615
    #[arg(long, help_heading = HEADING, value_name = "N", default_value_t = 1, value_parser = between(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Maximum interleavings, 8 to 1024; stops after 4 if the confidence intervals are already
    /// narrow
    #[arg(long, help_heading = HEADING, value_name = "N", default_value_t = 8, value_parser = between(INTERLEAVINGS_MIN, INTERLEAVINGS_MAX))]
    pub(crate) interleavings: usize,
    /// Replay all interleavings, so that several answers average over the same ones
    #[arg(long, help_heading = HEADING)]
    pub(crate) all_interleavings: bool,
}

impl Replaying {
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            cpus: self.cpus,
            llc_share: self.llc_share,
            exact: self.exact,
            cold: self.cold,
            groups: self.groups.groups(),
        }
    }

    /// The first option that differs from its default: without a machine it has no effect.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--cpus", self.cpus.is_some()),
            ("--llc-share", self.llc_share),
            (
                "--mechanisms",
                !self.mechanisms.iter().eq([Mechanism::AdjacentLinePairs]),
            ),
            ("--kernel", !self.kernels.is_empty()),
            ("--exact", self.exact),
            ("--cold", self.cold),
            ("--series", !self.series.is_empty()),
            ("--groups", self.groups.groups() != Groups::default()),
            ("--seed", self.seed != 1),
        ];
        let mut given = given.into_iter().filter(|(_, given)| *given);
        given.next().map(|(option, _)| option)
    }

    /// Prepares an opened recording for questions; with its kernel's machine code if
    /// `--mechanisms overlap` or a function `under` needs it.
    pub(crate) fn ask<'r>(
        &self,
        path: &Path,
        recording: &'r Recording,
        keeping: Keeping,
        under: bool,
    ) -> anyhow::Result<Session<'r>> {
        let overlap = self.wants(Mechanism::Overlap);
        let reason = match under {
            true => Some("--under"),
            false => overlap.then_some("--mechanisms overlap"),
        };
        if !self.kernels.is_empty() && reason.is_none() {
            bail!("--kernel needs --mechanisms overlap or --under");
        }
        // Before the session, for which the whole recording may be read: what is missing is
        // reported at once.
        let code = reason.map(|reason| self.code(recording, reason));
        let code = code
            .transpose()
            .with_context(|| path.display().to_string())?;
        let growth = match self.series.is_empty() {
            true => None,
            false => Some(series::load(&self.series, keeping)?),
        };
        let session = input::ask(path, recording, keeping)?;
        let session = match code {
            Some(code) => session.with_code(code),
            None => session,
        };
        Ok(match growth {
            Some(growth) => session.with_growth(growth),
            None => session,
        })
    }

    /// The machine code of the recorded kernel, which an option needs.
    fn code(&self, recording: &Recording, reason: &str) -> anyhow::Result<Vec<CodeSection>> {
        let about = recording.description();
        let release = about.kernel.as_deref().unwrap_or("unknown");
        let given: Vec<_> = self.kernels.iter().map(|path| path.to_path_buf()).collect();
        let image = match &about.kernel_sha256 {
            Some(sum) => recorded_kernel(sum, release, &given, &cache_folder()?)?,
            None => None,
        };
        let Some(image) = image else {
            bail!(
                "{reason} needs the image of the recorded kernel ({}), which {}",
                shown(release),
                match self.kernels.is_empty() {
                    true => "is not in /boot or the cache: give --kernel IMAGE",
                    false => "is not the image that --kernel names",
                }
            );
        };
        KernelImage::code(&image).context("the recorded kernel's image")
    }

    fn wants(&self, mechanism: Mechanism) -> bool {
        self.mechanisms.contains(mechanism)
    }

    /// Removes unrequested mechanisms from the machine.
    fn keep_mechanisms(&self, machine: &mut Machine) -> anyhow::Result<()> {
        if let Some(lacking) = self.mechanisms.iter().find(|one| machine.lacks(*one)) {
            bail!(
                "--mechanisms {}: the description of {} lacks it",
                lacking.key(),
                machine.name
            );
        }
        *machine = machine.clone().with_only(|mechanism| self.wants(mechanism));
        Ok(())
    }

    /// The machine with that name, with lines of `line` bytes if that is given.
    pub(crate) fn machine(
        &self,
        name: &MachineName,
        line: Option<LineSize>,
    ) -> anyhow::Result<Machine> {
        let mut machine = machines::resolve(name)?;
        match line {
            Some(line) if line != machine.line => set_line(&mut machine),
            _ => {}
        }
        self.keep_mechanisms(&mut machine)?;
        let cpus = machine.topology.cpus();
        if let Some(wanted) = self.cpus.filter(|wanted| *wanted > cpus) {
            let names: Vec<&str> = shipped().iter().map(|s| s.name).collect();
            bail!(
                "{wanted} CPUs on {}, which has {cpus}: use --cpus {cpus} or another machine ({})",
                &**name,
                names.join(", ")
            );
        }
        Ok(machine)
    }
}

/// The same capacities in lines of the other size; a pair of lines then is one line.
fn set_line(machine: &mut Machine) {
    let double = machine.line == LineSize::B64;
    for shape in [&mut machine.l1, &mut machine.l2, &mut machine.llc.slice] {
        shape.sets = if double {
            (shape.sets / 2).max(1)
        } else {
            shape.sets.saturating_mul(2)
        };
    }
    machine.line = match double {
        true => LineSize::B128,
        false => LineSize::B64,
    };
    machine.adjacent_line_pairs &= !double;
}
