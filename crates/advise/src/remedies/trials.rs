//! What remedies would gain: replays with each of them, beside the same replays without.
//!
//! All candidates share the replays without edits, and each interleaving is one reading of the recording. Differences are paired by
//! interleaving, as in a what-if.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_layout::arm::{Arm, Memory};
use linemate_layout::plan::ObjectRule;
use linemate_layout::scene::Scene;
use linemate_layout::stats::paired;
use linemate_layout::{Plan, parse, plan::resolve};
use linemate_machine::LineSize as MachineLine;
use linemate_replay::{AsRecorded, Clones, KeyId, Outcome, Replay};
use linemate_types::{LineSize, Type, TypeId, TypeModel};
use rayon::prelude::*;

use super::costs::{CostsError, decode, replay};
use super::{Effect, Gain, Options};

/// How many replays are held in memory at a time: each takes 200 to 400 MiB, for it remembers every line that was touched.
const REPLAYS_MAX: usize = 3;

/// How many simulated CPUs are held in memory at a time: each has its caches, some 10 to 100 KiB when used.
const SIMULATED_CPUS_MAX: usize = 4096;

/// A type pair whose objects a scene has matched.
pub(crate) type Pair = (Vec<TypeId>, Vec<TypeId>);

/// One candidate's side, and what it is measured by.
struct Side {
    arm: Arm,
    /// By subject: whether its accesses belong to the edited types.
    concerned: Vec<bool>,
}

/// Tries edits on a recording.
pub(crate) struct Trials<'a> {
    pub(crate) analysis: &'a Analysis<'a>,
    pub(crate) scene: &'a Scene<'a>,
    /// What the scene has matched, in its order.
    pub(crate) pairs: &'a [Pair],
    pub(crate) options: &'a Options,
    pub(crate) recorded: usize,
    pub(crate) copies: u16,
}

impl Trials<'_> {
    /// The effect of each text of edits; what cannot be applied says why.
    ///
    /// # Errors
    /// A damaged recording.
    pub(crate) fn run(&self, texts: &[String]) -> Result<Vec<Effect>, CostsError> {
        let none = match self.side("") {
            Ok(none) => none,
            Err(why) => return Ok(vec![Effect::Refused { why }; texts.len()]),
        };
        let built: Vec<Result<Side, String>> = texts.iter().map(|text| self.side(text)).collect();
        let mut sides: Vec<&Side> = vec![&none];
        sides.extend(built.iter().filter_map(|side| side.as_ref().ok()));
        let outcomes = self.replay(&sides)?;
        let mut tried = (1..sides.len()).map(|number| gain(&outcomes, number));
        let effect = |side: &Result<Side, String>| match side {
            Ok(_) => tried.next().map_or(Effect::NotTried, Effect::Tried),
            Err(why) => Effect::Refused { why: why.clone() },
        };
        Ok(built.iter().map(effect).collect())
    }

    fn side(&self, text: &str) -> Result<Side, String> {
        let model = self.analysis.model();
        let line = match self.options.machine.line {
            MachineLine::B64 => LineSize::B64,
            MachineLine::B128 => LineSize::B128,
        };
        let edits = parse(text).map_err(|e| e.to_string())?;
        let images = BTreeMap::new();
        let mut plan = Plan::new(model, line, &edits, &images).map_err(|e| e.to_string())?;
        let questions: Vec<usize> = plan
            .objects
            .iter()
            .filter_map(|rule| match rule {
                ObjectRule::Colocate(a, b) => self.pairs.iter().position(|(x, y)| x == a && y == b),
                _ => None,
            })
            .collect();
        let arm = Arm::new(
            &mut plan,
            self.scene,
            self.analysis,
            self.recorded,
            &questions,
        )
        .map_err(|e| e.to_string())?;
        // Whole objects move or are copied; fields change wherever their type lies inside of another one.
        let mut moved: Vec<TypeId> = Vec::new();
        for rule in &plan.objects {
            match rule {
                ObjectRule::Colocate(a, b) => moved.extend(a.iter().chain(b)),
                ObjectRule::Percpu(ids) | ObjectRule::BaseAlign(ids, _) => moved.extend(ids),
            }
        }
        let named = plan.types.iter().flat_map(|(_, ids)| ids).copied();
        let edited: Vec<TypeId> = named.filter(|id| !moved.contains(id)).collect();
        let concerned = |id: &Option<TypeId>| {
            id.is_some_and(|id| moved.contains(&id) || holds(model, id, &edited))
        };
        Ok(Side {
            arm,
            concerned: self.scene.types.iter().map(concerned).collect(),
        })
    }

    /// Figures by side, then by interleaving.
    fn replay(&self, sides: &[&Side]) -> Result<Vec<Vec<Figures>>, CostsError> {
        let seeds: Vec<u64> = (0..self.options.interleavings as u64)
            .map(|i| self.options.seed.wrapping_add(i))
            .collect();
        let mut wanted = Vec::new();
        for seed in &seeds {
            wanted.extend((0..sides.len()).map(|side| (*seed, side)));
        }
        let mut outcomes: Vec<Vec<Figures>> = sides.iter().map(|_| Vec::new()).collect();
        let cpus = self.recorded * usize::from(self.copies);
        let at_once = (SIMULATED_CPUS_MAX / cpus.max(1)).clamp(1, REPLAYS_MAX);
        for wave in wanted.chunks(at_once) {
            let mut runners = Vec::new();
            for (seed, side) in wave {
                runners.push(Runner {
                    arm: &sides[*side].arm,
                    memory: Memory::default(),
                    replay: replay(&self.options.machine, self.recorded, self.copies, *seed)?,
                });
            }
            let chunks = self.analysis.recording().chunks();
            for batch in chunks.chunks(rayon::current_num_threads().max(1)) {
                let steps = decode(self.analysis, self.scene, batch)?;
                runners.par_iter_mut().try_for_each(|r| r.take(&steps))?;
            }
            for (runner, (_, side)) in runners.into_iter().zip(wave) {
                let outcome = runner.replay.finish().0;
                outcomes[*side].push(Figures::new(&outcome, sides));
            }
        }
        Ok(outcomes)
    }
}

/// A replay of one side under one interleaving.
struct Runner<'s> {
    arm: &'s Arm,
    memory: Memory,
    replay: Replay<AsRecorded, Clones>,
}

impl Runner<'_> {
    /// Keys are subjects: fine enough to tell the edited types from all others.
    fn take(&mut self, chunks: &[Vec<linemate_layout::scene::Step>]) -> Result<(), CostsError> {
        let Runner {
            arm,
            memory,
            replay,
        } = self;
        for step in chunks.iter().flatten() {
            arm.apply(step, memory, |access, mut placed| {
                placed.key = KeyId(step.subject.0);
                replay.push_placed(access, placed)
            })?;
        }
        Ok(())
    }
}

/// What is kept of a replay: its counts by subject are thousands of times larger.
struct Figures {
    /// By side: cycles and number of the fetches of the types that the side's edits concern.
    concerned: Vec<(u64, u64)>,
    /// Cycles of all fetches.
    whole: u64,
    skipped: u64,
}

impl Figures {
    fn new(outcome: &Outcome, sides: &[&Side]) -> Figures {
        let concerned = |side: &&Side| {
            let mut sum = (0, 0);
            for (counts, concerned) in outcome.keys.iter().zip(&side.concerned) {
                if *concerned {
                    let left = counts.left_core();
                    sum.0 += left.cycles;
                    sum.1 += left.count;
                }
            }
            sum
        };
        Figures {
            concerned: sides.iter().map(concerned).collect(),
            whole: outcome.totals.left_core().cycles,
            skipped: outcome.skipped,
        }
    }
}

/// What side `number` gains over side 0.
fn gain(outcomes: &[Vec<Figures>], number: usize) -> Gain {
    let measure = |figure: &dyn Fn(&Figures) -> u64| {
        let series = |side: usize| -> Vec<f64> {
            let list = outcomes.get(side).map_or(&[][..], Vec::as_slice);
            list.iter().map(|f| figure(f) as f64).collect()
        };
        paired(&series(0), &series(number))
    };
    let concerned = |f: &Figures| f.concerned.get(number).copied().unwrap_or_default();
    Gain {
        types: measure(&|f| concerned(f).0),
        fetches: measure(&|f| concerned(f).1),
        whole: measure(&|f| f.whole),
        skipped: outcomes
            .get(number)
            .and_then(|list| list.first())
            .map_or(0, |f| f.skipped),
    }
}

/// Whether a value of type `id` is one of `set` or holds one by value. Recursion: at most as deep as types nest.
fn holds(model: &TypeModel, id: TypeId, set: &[TypeId]) -> bool {
    let id = model.strip(id);
    match model.get(id) {
        _ if set.contains(&id) => true,
        Some(Type::Array { element, .. }) => holds(model, *element, set),
        Some(Type::Composite(c)) => c.members.iter().any(|m| holds(model, m.type_id, set)),
        _ => false,
    }
}

/// The ids that the edit language's name of a type means.
pub(crate) fn ids_of(model: &TypeModel, name: &str) -> Vec<TypeId> {
    resolve(model, &linemate_layout::Subject::Named(name.to_owned())).unwrap_or_default()
}
