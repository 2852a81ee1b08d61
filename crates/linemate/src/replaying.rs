//! The options of every verb that replays, and what they make of a machine.

use anyhow::bail;
use linemate_machine::{Machine, Mechanism, shipped};
use linemate_study::Conditions;
use linemate_study::experiment::line_of;
use linemate_types::LineSize;

use crate::verbs::machines;

/// Of the options in `--help`; not of those that follow them there.
const HEADING: &str = "Replay";

/// How to replay.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Replaying {
    /// Replay this many CPUs, a multiple of the recorded ones (docs/scaling.md)
    #[arg(long, help_heading = HEADING, value_name = "N")]
    pub(crate) cpus: Option<usize>,
    /// Give the replayed CPUs only their share of each cache: for a machine whose other CPUs run the same work
    #[arg(long, help_heading = HEADING)]
    pub(crate) llc_share: bool,
    /// Which of the machine's mechanisms to replay (docs/replay.md); `none`: none of them
    #[arg(long, help_heading = HEADING, value_name = "LIST", value_delimiter = ',', default_value = "adjacent_line_pairs",
          value_parser = mechanism)]
    pub(crate) mechanisms: Vec<MechanismWord>,
    /// Replay every access, also those that hit in L1 under any interleaving: slower; layouts as recorded give the same figures
    #[arg(long, help_heading = HEADING)]
    pub(crate) exact: bool,
    /// Begin with empty caches: what first fills them counts, too (docs/replay.md)
    #[arg(long, help_heading = HEADING)]
    pub(crate) cold: bool,
    /// The first interleaving's seed
    #[arg(long, help_heading = HEADING, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Replaying {
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            cpus: self.cpus,
            llc_share: self.llc_share,
            exact: self.exact,
            cold: self.cold,
        }
    }

    /// Refuses options that nothing is replayed for.
    pub(crate) fn need_machine(&self, machine: Option<&str>) -> anyhow::Result<()> {
        let given = [
            ("--cpus", self.cpus.is_some()),
            ("--llc-share", self.llc_share),
            (
                "--mechanisms",
                self.mechanisms != [MechanismWord::One(Mechanism::AdjacentLinePairs)],
            ),
            ("--exact", self.exact),
            ("--cold", self.cold),
            ("--seed", self.seed != 1),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) if machine.is_none() => {
                bail!("{flag} needs --machine: without one nothing is replayed")
            }
            _ => Ok(()),
        }
    }

    /// Takes from the machine what is not asked for. Pairs of lines are asked for by default, also where a machine has none.
    fn keep_mechanisms(&self, machine: &mut Machine) -> anyhow::Result<()> {
        for wanted in &self.mechanisms {
            match wanted {
                MechanismWord::One(mechanism)
                    if !machine.has(*mechanism) && *mechanism != Mechanism::AdjacentLinePairs =>
                {
                    bail!(
                        "--mechanisms {}: {} is described without one",
                        mechanism.key(),
                        machine.name
                    )
                }
                _ => {}
            }
        }
        let keep = |mechanism| self.mechanisms.contains(&MechanismWord::One(mechanism));
        *machine = machine.clone().with_only(keep);
        Ok(())
    }

    /// The machine of that name, with lines of `line` bytes if that is given.
    pub(crate) fn machine(&self, name: &str, line: Option<LineSize>) -> anyhow::Result<Machine> {
        let mut machine = machines::resolve(name)?;
        match line {
            Some(line) if line != line_of(&machine) => set_line(&mut machine),
            _ => {}
        }
        self.keep_mechanisms(&mut machine)?;
        let cpus = machine.topology.cpus();
        if let Some(wanted) = self.cpus.filter(|wanted| *wanted > cpus) {
            let names: Vec<&str> = shipped().iter().map(|s| s.name).collect();
            bail!(
                "{wanted} CPUs on {name}, which has {cpus}: use --cpus {cpus} or another machine ({})",
                names.join(", ")
            );
        }
        Ok(machine)
    }
}

/// A word of `--mechanisms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MechanismWord {
    None,
    One(Mechanism),
}

/// What can be chosen. That misses overlap cannot: a replay is not told yet which loads their addresses come from.
const CHOICES: [Mechanism; 3] = [
    Mechanism::AdjacentLinePairs,
    Mechanism::L2Streamer,
    Mechanism::L1Stride,
];

fn mechanism(word: &str) -> Result<MechanismWord, String> {
    let known = CHOICES.into_iter().find(|choice| choice.key() == word);
    match (known, word) {
        (Some(mechanism), _) => Ok(MechanismWord::One(mechanism)),
        (None, "none") => Ok(MechanismWord::None),
        (None, _) => Err(format!(
            "it is not one of {}, none",
            CHOICES.map(Mechanism::key).join(", ")
        )),
    }
}

/// The same capacities in lines of the other size; a pair of lines is one line then.
fn set_line(machine: &mut Machine) {
    let double = machine.line == linemate_machine::LineSize::B64;
    for shape in [&mut machine.l1, &mut machine.l2, &mut machine.llc.slice] {
        shape.sets = if double {
            (shape.sets / 2).max(1)
        } else {
            shape.sets.saturating_mul(2)
        };
    }
    machine.line = match double {
        true => linemate_machine::LineSize::B128,
        false => linemate_machine::LineSize::B64,
    };
    machine.adjacent_line_pairs &= !double;
}
