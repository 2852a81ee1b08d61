//! What a recording counts, whatever the question: one pass, on all threads, of sums only.

use std::collections::BTreeMap;

use linemate_recording::{Access, Call, GuestAddr, Marker, Return, TimeGrid, Visitor};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmaps;
use crate::couse::{CoUseCollector, CoUses, FieldTables};
use crate::handover::Handovers;
use crate::in_turn::{InTurn, InTurnCollector};
use crate::ledger::{Bucket, Group};
use crate::names::{Located, Names};
use crate::subjects::Subject;
use crate::tally::Tally;
use crate::times::{TimeCounter, Times};
use crate::users::UserCounter;
pub use crate::users::Users;

/// The objects of types, and programs' variables and blocks without one: by [`crate::SubjectId`],
/// then the first byte of the type in the object, with their users. Addresses identify objects: one
/// that is freed and whose place is reused counts as the same, and one that crosses a page has one
/// in each.
pub type Objects = Vec<BTreeMap<GuestAddr, Users>>;

/// What the second pass counts.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Accesses by instruction, subject and offset.
    pub tally: Tally,
    /// Which fields are used together.
    pub co_uses: CoUses,
    /// Which types are used in turn, and which counters are written with a bitmap.
    pub in_turn: InTurn,
    /// Who uses which object.
    pub objects: Objects,
    /// When types are accessed, and by which CPUs.
    pub times: Times,
    /// Recorded calls, by [`linemate_recording::FunctionId`].
    pub calls: Vec<u64>,
}

impl Counted {
    pub(crate) fn merge(&mut self, other: Counted) {
        self.tally.merge(&other.tally);
        self.co_uses.merge(other.co_uses);
        self.in_turn.merge(other.in_turn);
        self.times.merge(other.times);
        if self.calls.len() < other.calls.len() {
            self.calls.resize(other.calls.len(), 0);
        }
        for (mine, theirs) in self.calls.iter_mut().zip(other.calls) {
            *mine = mine.saturating_add(theirs);
        }
        let subjects = self.objects.len().max(other.objects.len());
        self.objects.resize(subjects, BTreeMap::new());
        for (mine, theirs) in self.objects.iter_mut().zip(other.objects) {
            for (base, users) in theirs {
                mine.entry(base).or_default().merge(&users);
            }
        }
    }
}

/// A thread's part of the pass.
pub(crate) struct Counter<'n> {
    names: &'n Names,
    tally: Tally,
    co_uses: CoUseCollector<'n>,
    in_turn: InTurnCollector<'n>,
    objects: Vec<FxHashMap<GuestAddr, UserCounter>>,
    times: TimeCounter,
    calls: Vec<u64>,
    handovers: Handovers,
    /// By subject: whether hand-overs of it are counted.
    followed: Vec<bool>,
    /// By subject: whether its objects are counted.
    placed: Vec<bool>,
    /// Named accesses that are not counted yet, in order.
    waiting: Vec<(Access, Located)>,
}

/// How many accesses are counted together. Each needs entries of tables of some MB: read in a loop
/// of their own those reads overlap, one access after the other each waits for the one before.
const TOGETHER: usize = 32;

/// No layout changes the hand-overs of unnamed stacks and page contents, which would be most of the
/// work; no cache holds devices.
fn is_followed(subject: &Subject) -> bool {
    let is_named = subject.ty.is_some() || !subject.label.is_empty();
    match subject.bucket.group() {
        Group::Device => false,
        Group::Stack | Group::Contents => is_named,
        _ => true,
    }
}

/// Whether edits can give a subject's objects other places: those with a type, and programs'
/// variables and blocks.
fn is_placed(subject: &Subject) -> bool {
    let of_program = matches!(
        subject.bucket,
        Bucket::HeapScalar
            | Bucket::HeapSite
            | Bucket::GlobalScalar
            | Bucket::GlobalNamed
            | Bucket::StackShared
    );
    subject.ty.is_some() || (of_program && subject.program && !subject.of_threads)
}

impl<'n> Counter<'n> {
    pub(crate) fn new(
        names: &'n Names,
        fields: &'n FieldTables,
        bitmaps: &'n Bitmaps,
        grid: TimeGrid,
        functions: usize,
    ) -> Counter<'n> {
        Counter {
            names,
            tally: Tally::new(),
            co_uses: CoUseCollector::new(fields),
            in_turn: InTurnCollector::new(names.subjects(), bitmaps),
            objects: vec![FxHashMap::default(); names.subjects().len()],
            times: TimeCounter::new(grid),
            calls: vec![0; functions],
            handovers: Handovers::default(),
            followed: names.subjects().iter().map(is_followed).collect(),
            placed: names.subjects().iter().map(is_placed).collect(),
            waiting: Vec::with_capacity(TOGETHER),
        }
    }

    pub(crate) fn start_chunk(&mut self) {
        self.count_waiting();
        self.co_uses.start_chunk();
        self.in_turn.start_chunk();
        self.handovers.start_chunk();
    }

    pub(crate) fn finish(mut self) -> Counted {
        self.count_waiting();
        Counted {
            tally: self.tally,
            co_uses: self.co_uses.finish(),
            in_turn: self.in_turn.finish(),
            times: self.times.finish(),
            objects: self.objects.into_iter().map(finished).collect(),
            calls: self.calls,
        }
    }

    fn count_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut read = 0;
        for (access, at) in &waiting {
            read ^= self.tally.read_ahead(access, at);
            if self.followed[at.subject.index()] {
                read ^= self.handovers.read_ahead(access);
            }
        }
        // Nobody needs the values, so the compiler would leave the reads out.
        std::hint::black_box(read);
        for (access, at) in waiting.drain(..) {
            self.count(&access, &at);
        }
        self.waiting = waiting;
    }

    #[inline]
    fn count(&mut self, access: &Access, at: &Located) {
        let subject = at.subject.index();
        let handed = self.followed[subject] && self.handovers.access(access, at.subject);
        let (key, row) = self.tally.count(self.names, access, at, handed);
        self.in_turn.access(access, at);
        if !self.placed[subject] {
            return;
        }
        if self.names.subjects()[subject].ty.is_some() {
            self.co_uses.access(access, at);
            self.times.access(access, &key, row);
        }
        let base = access.addr.wrapping_sub(at.offset);
        let users = self.objects[subject].entry(base).or_default();
        users.add(access.cpu);
    }
}

fn finished(objects: FxHashMap<GuestAddr, UserCounter>) -> BTreeMap<GuestAddr, Users> {
    let objects = objects.into_iter();
    objects
        .map(|(base, users)| (base, users.finish()))
        .collect()
}

impl Visitor for Counter<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let at = self.names.locate(access);
        self.waiting.push((*access, at));
        if self.waiting.len() == TOGETHER {
            self.count_waiting();
        }
    }
    fn call(&mut self, call: &Call) {
        if let Some(calls) = self.calls.get_mut(call.function.0 as usize) {
            *calls = calls.saturating_add(1);
        }
    }
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}
