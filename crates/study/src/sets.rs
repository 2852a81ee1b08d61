//! How the lines that one CPU accesses of a type fall into the sets of its caches. Lines beyond a set's ways throw each other out,
//! however much room other sets have.

use std::convert::Infallible;

use linemate_recording::GuestAddr;
use linemate_replay::{Fate, Placed, Reach, SetsReached, sets_reached};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, ExperimentError};
use crate::variant::{Memory, Variant};

/// How lines fall into a cache's sets: counts, or means of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread<N> {
    /// Different lines.
    pub lines: N,
    /// Sets that at least one of them falls into.
    pub reached: N,
    /// Lines in the set with the most of them.
    pub fullest: N,
    /// Lines for which their set has no way.
    pub beyond: N,
}

/// A cache, and how lines of a type fall into its sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheSets {
    /// The cache's sets; of a last-level cache those of all its slices.
    pub sets: u64,
    /// Its ways.
    pub ways: u64,
    /// The lines of the CPU that accesses the most.
    pub most: Spread<u64>,
    /// The mean of all CPUs that access any.
    pub mean: Spread<f64>,
}

/// How a type's lines fall into the sets of the caches of a CPU that accesses them. Each cache is taken whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeSets {
    /// The recorded CPU that accesses the most lines; of several the first.
    pub cpu: usize,
    /// Recorded CPUs that access any.
    pub cpus: usize,
    /// In the core's L1.
    pub l1: CacheSets,
    /// In the core's L2.
    pub l2: CacheSets,
    /// In the last-level cache of the core's domain.
    pub llc: CacheSets,
}

/// The sets of a type before and after edits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetsChange {
    /// The type.
    pub name: String,
    /// Without edits; `None` if nothing of it is accessed.
    pub without: Option<TypeSets>,
    /// With them.
    pub with: Option<TypeSets>,
}

/// Different lines that each CPU accesses, by their first bytes.
#[derive(Clone, Debug, Default)]
struct Lines {
    by_cpu: Vec<FxHashSet<u64>>,
}

impl Lines {
    fn add(&mut self, cpu: usize, placed: Placed, size: u8, line_bytes: u64) {
        if placed.fate != Fate::Cached {
            return;
        }
        if cpu >= self.by_cpu.len() {
            self.by_cpu.resize_with(cpu + 1, FxHashSet::default);
        }
        let last = placed.addr.0.wrapping_add(u64::from(size.max(1)) - 1);
        for byte in [placed.addr.0, last] {
            self.by_cpu[cpu].insert(byte - byte % line_bytes);
        }
    }

    fn sets(&self, experiment: &Experiment<'_>) -> Option<TypeSets> {
        let reach = |lines: &FxHashSet<u64>| {
            sets_reached(experiment.machine, lines.iter().copied().map(GuestAddr))
        };
        let cpus = self.by_cpu.iter().enumerate();
        let used: Vec<(usize, Reach)> = cpus
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(cpu, lines)| (cpu, reach(lines)))
            .collect();
        let (cpu, most) = *used
            .iter()
            .max_by_key(|(cpu, reach)| (reach.l2.lines, std::cmp::Reverse(*cpu)))?;
        let cache = |of: fn(&Reach) -> SetsReached| {
            let all: Vec<SetsReached> = used.iter().map(|(_, reach)| of(reach)).collect();
            cache_sets(of(&most), &all)
        };
        Some(TypeSets {
            cpu,
            cpus: used.len(),
            l1: cache(|reach| reach.l1),
            l2: cache(|reach| reach.l2),
            llc: cache(|reach| reach.llc),
        })
    }
}

fn cache_sets(most: SetsReached, all: &[SetsReached]) -> CacheSets {
    let mean = |figure: fn(&SetsReached) -> u64| {
        let sum: u64 = all.iter().map(figure).sum();
        sum as f64 / all.len().max(1) as f64
    };
    CacheSets {
        sets: most.sets,
        ways: most.ways,
        most: Spread {
            lines: most.lines,
            reached: most.reached,
            fullest: most.fullest,
            beyond: most.beyond,
        },
        mean: Spread {
            lines: mean(|s| s.lines),
            reached: mean(|s| s.reached),
            fullest: mean(|s| s.fullest),
            beyond: mean(|s| s.beyond),
        },
    }
}

impl Experiment<'_> {
    /// How the lines of `types` types fall into sets, by type, then by variant. `type_of` tells by key which of the types its accesses belong
    /// to, if to any; what has no type is left out. `None`: nothing of the type is accessed.
    ///
    /// # Errors
    /// A recording that does not tell its CPUs, or is damaged.
    pub fn sets(
        &self,
        variants: &[&Variant],
        types: usize,
        type_of: &[Option<usize>],
    ) -> Result<Vec<Vec<Option<TypeSets>>>, ExperimentError> {
        let scene = self.scene;
        let of = |key: u32| type_of.get(key as usize).copied().flatten();
        let mut only = vec![false; scene.types.len()];
        for (field, _) in scene.counts() {
            let at = field.subject.0 as usize;
            only[at] |= scene.types[at].is_some() && of(scene.key(field).0).is_some();
        }
        let mut lines = vec![vec![Lines::default(); variants.len()]; types];
        let mut memories = vec![Memory::default(); variants.len()];
        let bytes = self.machine.line.bytes();
        if only.contains(&true) {
            scene.rounds(self.machine.line, &only, |rounds| {
                let slices = rounds.iter().flatten();
                let steps =
                    slices.flat_map(|(head, steps)| steps.iter().map(move |step| (head.cpu, step)));
                for (cpu, step) in steps {
                    let Some(lines) = of(step.key.0).and_then(|ty| lines.get_mut(ty)) else {
                        continue;
                    };
                    let cpu = usize::from(cpu.0);
                    let sides = variants.iter().zip(&mut memories).zip(lines);
                    for ((variant, memory), lines) in sides {
                        let Ok(()) = variant.apply(step, memory, |item, placed| {
                            lines.add(cpu, placed, item.size, bytes);
                            Ok::<(), Infallible>(())
                        });
                    }
                }
            })?;
        }
        let sets = |variants: Vec<Lines>| -> Vec<Option<TypeSets>> {
            variants.iter().map(|lines| lines.sets(self)).collect()
        };
        Ok(lines.into_iter().map(sets).collect())
    }
}
