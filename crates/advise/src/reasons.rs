//! Why members are on one line: who reads and writes them, in which functions, and what they are
//! kept from.

use std::collections::BTreeMap;

use linemate_answers::{GroupReasons, KeptApart, MemberUse};
use linemate_attribution::FunctionName;
use linemate_attribution::tally::CpuSet;
use linemate_recording::{Accesses, Cycles, GuestAddr};
use linemate_types::Symbols;

use crate::candidate::Candidate;
use crate::cost::CostModel;
use crate::shape::StructShape;
use crate::trace::{Kind, Trace};

/// The maximum number of functions listed for a group, and of members that it is kept from.
const NAMED: usize = 4;
/// From that many loads per write on, members are mostly read.
pub const READ_MOSTLY: f64 = 4.0;

/// What is known about the use of a type.
#[derive(Debug)]
pub struct Knowledge<'k, 't> {
    /// The members of the type.
    pub shape: &'k StructShape,
    /// By recording: its accesses and its kernel's symbols.
    pub traces: Vec<(&'k Trace, &'k Symbols)>,
    /// The fast models, one per recording and machine.
    pub models: &'k [CostModel<'t>],
    /// The recorded layout's cost on each.
    pub originals: &'k [Cycles],
    /// Units that are moved for their own sake, not to fill holes.
    pub hot: &'k [usize],
}

impl Knowledge<'_, '_> {
    /// Names for the groups of a candidate, after the functions that use them most; they are not
    /// names of members.
    pub fn group_names(&self, candidate: &Candidate) -> Vec<String> {
        let everywhere = self.counts(0..self.shape.units().len());
        let mut names: Vec<String> = Vec::new();
        for segment in &candidate.segments {
            let here = self.counts(segment.iter().copied());
            names.push(self.group_name(&here, &everywhere, &names));
        }
        names
    }

    /// The most prominent function: it makes a large part of the group's accesses, and they are a
    /// large part of its accesses to the type.
    fn group_name(
        &self,
        here: &BTreeMap<&str, Accesses>,
        everywhere: &BTreeMap<&str, Accesses>,
        given: &[String],
    ) -> String {
        let weight = |(name, count): &(&str, Accesses)| {
            let all = everywhere
                .get(name)
                .copied()
                .unwrap_or(*count)
                .max(Accesses::ONE);
            // The accesses here times their share of the function's: `memset` makes many, but not
            // these in particular.
            u128::from(count.0) * u128::from(count.0) / u128::from(all.0)
        };
        let mut functions: Vec<(&str, Accesses)> = here.iter().map(|(n, c)| (*n, *c)).collect();
        functions.sort_by_key(|function| (std::cmp::Reverse(weight(function)), function.0));
        let free = |name: &str| {
            let member = self.shape.names.iter().flatten().any(|n| n == name);
            !member && !given.iter().any(|n| n == name)
        };
        let names = functions
            .iter()
            // Names that begin with underscores are reserved in C.
            .map(|(name, _)| name.trim_start_matches('_'));
        let numbered = (1..).map(|number| format!("group_{number}"));
        names
            .filter(|name| is_identifier(name))
            .map(str::to_owned)
            .chain(numbered)
            .find(|name| free(name))
            .unwrap_or_default()
    }

    /// The reasons of each group of a candidate.
    pub fn reasons(&self, candidate: &Candidate, names: &[String]) -> Vec<GroupReasons> {
        let last = candidate.segments.len().saturating_sub(1);
        let of = |(number, segment): (usize, &Vec<usize>)| {
            let sealed = !(candidate.open && number == last);
            let name = if sealed {
                names[number].clone()
            } else {
                self.shape.unit_name(segment[0]).to_owned()
            };
            self.group(name, sealed, segment)
        };
        candidate.segments.iter().enumerate().map(of).collect()
    }

    fn group(&self, name: String, sealed: bool, segment: &[usize]) -> GroupReasons {
        let (hot, cold): (Vec<usize>, Vec<usize>) =
            segment.iter().partition(|u| self.hot.contains(u));
        let members: Vec<MemberUse> = hot.iter().map(|u| self.member(*u)).collect();
        let alone: Vec<Vec<usize>> = hot.iter().map(|u| vec![*u]).collect();
        let apart: f64 = self.together(&alone).iter().sum();
        let here = self.together(std::slice::from_ref(&hot))[0];
        let others = self.hot.iter().filter(|u| !segment.contains(u));
        let others: Vec<usize> = others.copied().collect();
        let alone: Vec<Vec<usize>> = others.iter().map(|u| vec![*u]).collect();
        let both = others.iter().map(|u| [&hot[..], &[*u]].concat());
        let shared = self.together(&both.collect::<Vec<_>>());
        let mut kept: Vec<KeptApart> = others
            .iter()
            .zip(shared.iter().zip(self.together(&alone)))
            // The cost of sharing the group's line beyond that of both apart: the reason is the
            // model's own, so it cannot contradict the layout.
            .map(|(unit, (both, alone))| KeptApart {
                name: self.shape.unit_name(*unit).to_owned(),
                share: both - here - alone,
            })
            // As much as a move has to be worth: less is not a reason that a patch could give.
            .filter(|kept| kept.share > 0.001)
            .collect();
        kept.sort_by(|a, b| {
            b.share
                .total_cmp(&a.share)
                .then_with(|| a.name.cmp(&b.name))
        });
        kept.truncate(NAMED);
        GroupReasons {
            name,
            sealed,
            loads_per_write: ratio(&members),
            members,
            fills: cold
                .iter()
                .map(|u| self.shape.unit_name(*u).to_owned())
                .collect(),
            read_in: self.functions(&hot, false),
            written_in: self.functions(&hot, true),
            saves: apart - here,
            kept_from: kept,
        }
    }

    /// The mean cost, relative to the recorded layout's, of units that share a line with nothing
    /// else, for each of several sets of units.
    fn together(&self, sets: &[Vec<usize>]) -> Vec<f64> {
        let mut sums = vec![0.0; sets.len()];
        for (model, original) in self.models.iter().zip(self.originals) {
            for (sum, cost) in sums.iter_mut().zip(model.together(self.shape, sets)) {
                *sum += cost.share_of(*original);
            }
        }
        let models = self.models.len().max(1) as f64;
        sums.iter().map(|sum| sum / models).collect()
    }

    fn member(&self, unit: usize) -> MemberUse {
        let mut member = MemberUse {
            name: self.shape.unit_name(unit).to_owned(),
            ..MemberUse::default()
        };
        for (trace, _) in &self.traces {
            let (mut readers, mut writers) = (CpuSet::default(), CpuSet::default());
            for ((_, _, kind), used) in of_unit(trace, unit) {
                match kind {
                    Kind::Load => member.loads += used.count.0,
                    Kind::Store => member.stores += used.count.0,
                    Kind::Rmw => member.rmws += used.count.0,
                }
                if *kind != Kind::Store {
                    readers.merge(&used.cpus);
                }
                if kind.writes() {
                    writers.merge(&used.cpus);
                }
            }
            // The maximum over recordings: CPUs of different recordings are not the same CPUs, so
            // their sets are not joined.
            member.readers = member.readers.max(readers.len());
            member.writers = member.writers.max(writers.len());
        }
        member
    }

    /// The functions that read, or write, the units most.
    fn functions(&self, units: &[usize], writes: bool) -> Vec<String> {
        let counts = self.counts_of(units.iter().copied(), |kind| kind.writes() == writes);
        let mut counts: Vec<(&str, Accesses)> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let names = counts.into_iter().take(NAMED);
        names.map(|(name, _)| name.to_owned()).collect()
    }

    /// All accesses to units, by function.
    fn counts(&self, units: impl Iterator<Item = usize>) -> BTreeMap<&str, Accesses> {
        self.counts_of(units, |_| true)
    }

    fn counts_of(
        &self,
        units: impl Iterator<Item = usize>,
        counts: impl Fn(Kind) -> bool,
    ) -> BTreeMap<&str, Accesses> {
        let units: Vec<usize> = units.collect();
        let mut sums: BTreeMap<&str, Accesses> = BTreeMap::new();
        for (trace, symbols) in &self.traces {
            for unit in &units {
                for ((_, pc, kind), used) in of_unit(trace, *unit) {
                    if counts(*kind) {
                        let function = FunctionName::at(symbols, *pc);
                        *sums.entry(function.as_str()).or_default() += used.count;
                    }
                }
            }
        }
        sums
    }
}

/// Whether it is a valid C name.
fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn of_unit(
    trace: &Trace,
    unit: usize,
) -> impl Iterator<Item = (&(u16, GuestAddr, Kind), &crate::trace::Use)> {
    let unit = unit as u16;
    trace
        .uses
        .range((unit, GuestAddr(0), Kind::Load)..=(unit, GuestAddr::MAX, Kind::Rmw))
}

fn ratio(members: &[MemberUse]) -> Option<f64> {
    let loads: Accesses = members.iter().map(|m| Accesses(m.loads)).sum();
    let writes = members.iter().map(|m| Accesses(m.stores + m.rmws));
    let writes: Accesses = writes.sum();
    (writes > Accesses::ZERO).then(|| loads.share_of(writes))
}
