//! How the lines that one CPU accesses of a type fall into the sets of its caches. Lines beyond a
//! set's ways throw each other out, however much room other sets have.

use std::convert::Infallible;

use linemate_answers::{CacheSets, SetCounts, SetMeans, TypeSets};
use linemate_machine::LineSize;
use linemate_recording::GuestAddr;
use linemate_replay::{Fate, Placed, Reach, SetsReached, sets_reached};
use linemate_session::shelf::{self, Part};
use rustc_hash::FxHashSet;

use crate::error::ExperimentError;
use crate::setup::Experiment;
use crate::variant::{Memory, Unedited, Variant};

/// By variant; `None` where nothing of the type is accessed.
type SetsOfType = Vec<Option<TypeSets>>;

/// Different lines that each CPU accesses, by their first bytes.
#[derive(Clone, Debug, Default)]
struct UsedLines {
    by_cpu: Vec<FxHashSet<GuestAddr>>,
}

impl UsedLines {
    fn add(&mut self, cpu: usize, placed: Placed, size: u8, line: LineSize) {
        if placed.fate != Fate::Cached {
            return;
        }
        if cpu >= self.by_cpu.len() {
            self.by_cpu.resize_with(cpu + 1, FxHashSet::default);
        }
        let last = placed.addr.wrapping_add(u32::from(size.max(1)) - 1);
        // An access has 64 bytes at most, so it is in one line or in two.
        for byte in [placed.addr, last] {
            self.by_cpu[cpu].insert(byte.line(line));
        }
    }

    fn sets(&self, experiment: &Experiment<'_>) -> Option<TypeSets> {
        let reach =
            |lines: &FxHashSet<GuestAddr>| sets_reached(experiment.machine, lines.iter().copied());
        let cpus = self.by_cpu.iter().enumerate();
        let used: Vec<(usize, Reach)> = cpus
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(cpu, lines)| (cpu, reach(lines)))
            .collect();
        let (cpu, most) = *used
            .iter()
            // Of equals the CPU with the lowest number.
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
        most: SetCounts {
            lines: most.lines,
            reached: most.reached,
            fullest: most.fullest,
            beyond: most.beyond,
        },
        mean: SetMeans {
            lines: mean(|s| s.lines),
            reached: mean(|s| s.reached),
            fullest: mean(|s| s.fullest),
            beyond: mean(|s| s.beyond),
        },
    }
}

impl Experiment<'_> {
    /// How the lines of `types` types fall into sets, by type, then by variant. `type_of` returns
    /// by key which of the types its accesses belong to, if to any; what has no type is left out.
    ///
    /// # Errors
    /// A recording without its number of CPUs, or damaged.
    pub fn sets(
        &self,
        variants: &[&Variant],
        types: usize,
        type_of: &[Option<usize>],
    ) -> Result<Vec<SetsOfType>, ExperimentError> {
        // Without edits a question that is asked again needs no pass over the stream.
        let recorded = variants
            .iter()
            .all(|variant| variant.unedited() == Some(Unedited::AsRecorded));
        let question = (variants.len(), types, type_of);
        let part = self.kept_as(&question).filter(|_| recorded).map(Part::Sets);
        let shelf = self.scene.session.shelf();
        let kept = part.and_then(|part| shelf::unpack::<Vec<SetsOfType>>(&shelf.load(part)?));
        // A digest of 64 bits can collide.
        let fits = |all: &Vec<SetsOfType>| {
            all.len() == types && all.iter().all(|of| of.len() == variants.len())
        };
        if let Some(kept) = kept.filter(fits) {
            return Ok(kept);
        }
        let found = self.find_sets(variants, types, type_of)?;
        if let Some((part, packed)) = part.zip(shelf::pack(&found)) {
            shelf.store(part, &packed);
        }
        Ok(found)
    }

    /// Passes over the accesses of the types once.
    fn find_sets(
        &self,
        variants: &[&Variant],
        types: usize,
        type_of: &[Option<usize>],
    ) -> Result<Vec<SetsOfType>, ExperimentError> {
        let scene = self.scene;
        let of = |key: u32| type_of.get(key as usize).copied().flatten();
        let mut only = vec![false; scene.types.len()];
        for (field, _) in scene.counts() {
            let at = field.subject.0 as usize;
            only[at] |= scene.types[at].is_some() && of(scene.key(field).0).is_some();
        }
        let mut lines = vec![vec![UsedLines::default(); variants.len()]; types];
        let mut memories = vec![Memory::default(); variants.len()];
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
                            lines.add(cpu, placed, item.size, self.machine.line);
                            Ok::<(), Infallible>(())
                        });
                    }
                }
            })?;
        }
        let sets = |variants: Vec<UsedLines>| -> SetsOfType {
            variants.iter().map(|lines| lines.sets(self)).collect()
        };
        Ok(lines.into_iter().map(sets).collect())
    }
}
