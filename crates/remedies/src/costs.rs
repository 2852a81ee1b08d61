//! The cost of each field on the machine, by what the access does and by function, without edits.
//! The recording is read in order, so pointers are followed on the way ([`super::links`]).
//!
//! Costs only rank candidates; [`super::trials`] decides what a remedy would gain. *Cost* is cycles
//! of accesses that left their core, as everywhere.

use std::collections::BTreeMap;

use linemate_experiment::scene::Step;
use linemate_experiment::{CauseTallies, Experiment, ExperimentError, Seed};
use linemate_recording::AccessKind;
use linemate_replay::{Cause, SiteId};
use linemate_session::shelf::{self, Part};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::apart::neighbours::Neighbours;
use super::fields::{FieldId, Fields};
use super::links::{ByCode, Follower, Question};
use super::owners::{Owners, RoleUse};

/// How long after its own atomic a CPU's load of the same field still counts as *shortly after*, in
/// instructions of the whole guest: as far as a value can be passed on as a result or an argument.
/// The scheduler's tick and wake-up paths take 1000 to 4000 instructions; anything further apart
/// belongs to another path.
pub(crate) const REUSE_WINDOW: u64 = 1024;

/// A compare-and-exchange loop loads its comparand this shortly before, in instructions.
const EXCHANGE_WINDOW: u64 = 16;

/// The kinds of access that remedies distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Act {
    /// It only reads the field.
    Load,
    /// The first load after the CPU's own atomic on the same bytes, without a store of its own in
    /// between.
    LoadBehindRmw,
    /// It writes the field without reading it.
    Store,
    /// A store that left memory unchanged.
    SilentStore,
    /// It reads and writes the field in one atomic access.
    Rmw,
}

impl Act {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Act::Store | Act::SilentStore | Act::Rmw)
    }
}

/// A number of accesses, and their cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Accesses, whether they left their core or not.
    pub(crate) accesses: u64,
    /// Accesses that left their core.
    pub(crate) misses: u64,
    pub(crate) cycles: u64,
    /// Of `misses`: because words really are exchanged between cores.
    pub(crate) true_sharing_misses: u64,
    pub(crate) true_cycles: u64,
    /// Of `misses`: because another core took the line for other words.
    pub(crate) false_sharing_misses: u64,
    pub(crate) false_cycles: u64,
    /// Of `misses`: because the core's caches had no room for the line.
    pub(crate) capacity_misses: u64,
    pub(crate) capacity_cycles: u64,
}

impl Cost {
    fn add_causes(&mut self, tallies: &CauseTallies) {
        for cause in Cause::ALL {
            let tally = tallies[cause as usize];
            self.misses += tally.count.0;
            self.cycles += tally.cycles.0;
            match cause {
                Cause::TrueSharing => {
                    self.true_sharing_misses += tally.count.0;
                    self.true_cycles += tally.cycles.0;
                }
                Cause::FalseSharing => {
                    self.false_sharing_misses += tally.count.0;
                    self.false_cycles += tally.cycles.0;
                }
                Cause::Capacity => {
                    self.capacity_misses += tally.count.0;
                    self.capacity_cycles += tally.cycles.0;
                }
                // Only in the sums of all misses; no remedy is about them.
                Cause::Cold | Cause::Unshared => {}
            }
        }
    }

    /// Adds the figures of another cost.
    pub(crate) fn add(&mut self, other: &Cost) {
        self.accesses += other.accesses;
        self.misses += other.misses;
        self.cycles += other.cycles;
        self.true_sharing_misses += other.true_sharing_misses;
        self.true_cycles += other.true_cycles;
        self.false_sharing_misses += other.false_sharing_misses;
        self.false_cycles += other.false_cycles;
        self.capacity_misses += other.capacity_misses;
        self.capacity_cycles += other.capacity_cycles;
    }

    /// Fetches because another core had taken the line.
    pub(crate) fn sharing_misses(&self) -> u64 {
        self.true_sharing_misses + self.false_sharing_misses
    }

    /// Cycles of misses of true or false sharing.
    pub(crate) fn shared_cycles(&self) -> u64 {
        self.true_cycles + self.false_cycles
    }
}

/// The costs of a recording.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct MeasuredCosts {
    /// Of a field on lines where objects of different CPUs meet ([`Neighbours::meet_at`]).
    met: BTreeMap<FieldId, Cost>,
    /// Accesses to a field of objects that have an owner ([`Owners`]).
    pub(crate) roles: BTreeMap<FieldId, RoleUse>,
    /// By field, act and function.
    pub(crate) rows: BTreeMap<(FieldId, Act, u32), Cost>,
    /// How many loads after an atomic were directly followed by another atomic of the same CPU on
    /// the same bytes: by field and function.
    pub(crate) exchanges: BTreeMap<(FieldId, u32), u64>,
    /// The targets of pointers, by pointer field.
    pub(crate) meetings: BTreeMap<FieldId, ByCode>,
    /// What all accesses cost together.
    pub(crate) whole: Cost,
}

impl MeasuredCosts {
    /// What an earlier question kept, or what the recording shows. `questions` are
    /// those that the classes follow pointers for.
    ///
    /// # Errors
    /// CPUs that do not fit on the machine, a damaged recording.
    pub(crate) fn found(
        experiment: &Experiment<'_>,
        classes: Classes<'_>,
        questions: &[Question],
        seed: Seed,
    ) -> Result<MeasuredCosts, ExperimentError> {
        let shelf = experiment.scene.session.shelf();
        let part = experiment.kept_as(&(questions, seed)).map(Part::Costs);
        let kept = part.and_then(|part| shelf::unpack::<MeasuredCosts>(&shelf.load(part)?));
        let (fields, functions) = (classes.fields, experiment.scene.sites.len());
        if let Some(costs) = kept.filter(|costs| costs.are_of(fields, functions)) {
            return Ok(costs);
        }
        let costs = MeasuredCosts::measure(experiment, classes, seed)?;
        if let Some((part, packed)) = part.zip(shelf::pack(&costs)) {
            shelf.store(part, &packed);
        }
        Ok(costs)
    }

    /// Whether all fields and functions exist: a digest of 64 bits can collide.
    fn are_of(&self, fields: &Fields, functions: usize) -> bool {
        let rows = self
            .rows
            .keys()
            .map(|(field, _, function)| (field, function));
        let mut codes = rows.chain(
            self.exchanges
                .keys()
                .map(|(field, function)| (field, function)),
        );
        let known = |field: &FieldId| fields.has(*field);
        codes.all(|(field, function)| known(field) && (*function as usize) < functions)
            && self.met.keys().all(known)
            && self.roles.keys().all(known)
            && self.meetings.keys().all(known)
    }

    /// Reads the recording once.
    fn measure(
        experiment: &Experiment<'_>,
        mut classes: Classes<'_>,
        seed: Seed,
    ) -> Result<MeasuredCosts, ExperimentError> {
        // Every access in the recording's order, not what a filter leaves: what follows an atomic,
        // and what a pointer leads to, are often hits.
        let counts = experiment.placed(seed, |step| classes.site_of(step))?;
        let mut costs = MeasuredCosts {
            roles: classes.owners.finish(classes.fields),
            exchanges: classes.exchanges.into_iter().collect(),
            meetings: classes.follower.finish(),
            ..MeasuredCosts::default()
        };
        costs.whole.accesses = counts.accesses.0;
        costs.whole.add_causes(&counts.totals);
        for ((row, site), accesses) in classes.sites.into_iter().zip(classes.accesses) {
            let mut cost = Cost {
                accesses,
                ..Cost::default()
            };
            if let Some(tallies) = counts.sites.get(site as usize) {
                cost.add_causes(tallies);
            }
            let SiteKey {
                field,
                act,
                function,
                meets,
            } = row;
            if meets {
                costs.met.entry(field).or_default().add(&cost);
            }
            let row = costs.rows.entry((field, act, function)).or_default();
            row.add(&cost);
        }
        Ok(costs)
    }

    /// The cost of a field on lines where objects of different CPUs meet.
    pub(crate) fn met(&self, field: FieldId) -> Cost {
        self.met.get(&field).copied().unwrap_or_default()
    }

    /// What a field costs, by act and function.
    pub(crate) fn of(&self, field: FieldId) -> impl Iterator<Item = (Act, u32, &Cost)> {
        let range = (field, Act::Load, 0)..=(field, Act::Rmw, u32::MAX);
        self.rows
            .range(range)
            .map(|((_, act, function), cost)| (*act, *function, cost))
    }

    /// A field's total cost, of the acts that `wanted` accepts.
    pub(crate) fn sum(&self, field: FieldId, wanted: impl Fn(Act) -> bool) -> Cost {
        let mut sum = Cost::default();
        for (act, _, cost) in self.of(field) {
            if wanted(act) {
                sum.add(cost);
            }
        }
        sum
    }
}

/// An atomic that no load has followed yet.
#[derive(Clone, Copy, Debug)]
struct PendingAtomic {
    addr: u64,
    time: u64,
    /// The load that followed: its field, function and time.
    load: Option<(FieldId, u32, u64)>,
}

/// How many of a CPU's latest atomics are remembered.
const PENDING: usize = 32;

/// What accesses are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SiteKey {
    field: FieldId,
    act: Act,
    function: u32,
    /// Whether its line is one where objects of different CPUs meet.
    meets: bool,
}

/// Classifies accesses by what they do, in the order of the recording.
pub(crate) struct Classes<'f> {
    fields: &'f Fields,
    follower: Follower<'f>,
    neighbours: &'f Neighbours,
    owners: Owners<'f>,
    numbers: FxHashMap<SiteKey, u32>,
    /// By site number minus 1.
    accesses: Vec<u64>,
    sites: Vec<(SiteKey, u32)>,
    exchanges: FxHashMap<(FieldId, u32), u64>,
    pending: Vec<Vec<PendingAtomic>>,
}

impl<'f> Classes<'f> {
    pub(crate) fn new(
        fields: &'f Fields,
        follower: Follower<'f>,
        neighbours: &'f Neighbours,
        owners: Owners<'f>,
    ) -> Classes<'f> {
        Classes {
            fields,
            follower,
            neighbours,
            owners,
            numbers: FxHashMap::default(),
            accesses: Vec::new(),
            sites: Vec::new(),
            exchanges: FxHashMap::default(),
            pending: Vec::new(),
        }
    }

    /// What the step counts for: site 0 is everything that is not a field.
    fn site_of(&mut self, step: &Step) -> SiteId {
        let Some(field) = self.fields.at(step.field()) else {
            return SiteId(0);
        };
        self.follower.step(step, field);
        self.owners.count(step, field);
        let act = self.act(step, field);
        SiteId(self.site(SiteKey {
            field,
            act,
            function: step.site.0,
            meets: self.neighbours.meet_at(step.access.addr),
        }))
    }

    fn site(&mut self, row: SiteKey) -> u32 {
        let next = self.sites.len() as u32 + 1;
        let site = *self.numbers.entry(row).or_insert(next);
        if site == next {
            self.sites.push((row, site));
            self.accesses.push(0);
        }
        self.accesses[site as usize - 1] += 1;
        site
    }

    fn act(&mut self, step: &Step, field: FieldId) -> Act {
        let access = &step.access;
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.pending.len() {
            self.pending.resize_with(cpu + 1, Vec::new);
        }
        // Time is that of the whole guest, and who spins leaves a turn to each other CPU.
        let turns = REUSE_WINDOW.saturating_mul(self.pending.len() as u64);
        let pending = &mut self.pending[cpu];
        let known = pending.iter().position(|p| p.addr == access.addr.0);
        match access.kind {
            AccessKind::Rmw => {
                if let Some(known) = known {
                    let before = pending.remove(known);
                    if let Some((field, function, time)) = before.load {
                        // Load, compare, exchange: the value has to be the latest, so it cannot be
                        // reused.
                        if access.time.0.saturating_sub(time) <= EXCHANGE_WINDOW {
                            *self.exchanges.entry((field, function)).or_default() += 1;
                        }
                    }
                } else if pending.len() == PENDING {
                    pending.remove(0);
                }
                pending.push(PendingAtomic {
                    addr: access.addr.0,
                    time: access.time.0,
                    load: None,
                });
                Act::Rmw
            }
            AccessKind::Store => {
                if let Some(known) = known {
                    // Its own store: the atomic's result is no longer the contents of memory.
                    pending.remove(known);
                }
                if access.silent {
                    Act::SilentStore
                } else {
                    Act::Store
                }
            }
            AccessKind::Load => match known.map(|known| &mut pending[known]) {
                Some(p)
                    if p.load.is_none() && access.time.0.saturating_sub(p.time) <= REUSE_WINDOW =>
                {
                    p.load = Some((field, step.site.0, access.time.0));
                    Act::LoadBehindRmw
                }
                Some(PendingAtomic {
                    load: Some((_, function, time)),
                    ..
                }) if *function == step.site.0 && access.time.0.saturating_sub(*time) <= turns => {
                    // It spins: the last of its loads decides what they are for.
                    *time = access.time.0;
                    Act::Load
                }
                _ => Act::Load,
            },
        }
    }
}
