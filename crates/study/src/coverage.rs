//! Who uses the fields that edits move, and which of their new neighbours a recording exercises:
//! one is used after another CPU has written the other one alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{FieldFunction, PairFunction, PairUses};
use linemate_experiment::scene::{Scene, Slice, Step};
use linemate_experiment::{ExperimentError, RoundOrder, Seed};
use linemate_layout::Plan;
use linemate_layout::neighbours::{FieldPair, NeighboursError, NewNeighbours};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use linemate_replay::SiteId;
use linemate_types::{ByteOffset, LeafId, LineIndex, LineSize, TypeId, TypeModel};
use rustc_hash::FxHashMap;

/// The maximum number of (object, field, line, CPU) whose last access is stored: bounds memory.
const TOUCHES_MAX: usize = 8 << 20;

/// A type that the edit changes.
#[derive(Debug)]
pub struct CoveredType {
    /// The type's name, as the edit has it.
    pub name: String,
    /// The ids of the declarations that have this name.
    pub ids: Vec<TypeId>,
    /// What the edits do to its fields' neighbourhoods.
    pub neighbours: NewNeighbours,
}

impl CoveredType {
    /// The types that a plan edits.
    ///
    /// # Errors
    /// A type that cannot be laid out.
    pub fn all(plan: &mut Plan<'_>) -> Result<Vec<CoveredType>, NeighboursError> {
        let mut types = Vec::new();
        for (name, ids) in plan.types.clone() {
            if let Some(id) = ids.first() {
                let neighbours = NewNeighbours::new(plan, *id)?;
                types.push(CoveredType {
                    name,
                    ids,
                    neighbours,
                });
            }
        }
        Ok(types)
    }
}

/// What a recording does with an edited type.
#[derive(Debug)]
pub struct FieldUses {
    /// By field that the edits concern: the functions that access it, most accesses first.
    pub fields: BTreeMap<LeafId, Vec<FieldFunction>>,
    /// Who uses the new neighbours, in the order of [`NewNeighbours::gained`].
    pub pairs: Vec<PairUses>,
    /// Whether the recording has more objects, fields and CPUs than are distinguished: pairs are
    /// counted up to there.
    pub cut: bool,
}

/// Who uses the fields of each type that edits concern, and after which other CPU's writes of a new
/// neighbour.
///
/// The order of accesses is that of [`RoundOrder`] with `seed`; objects that had one address after
/// the other are one.
///
/// # Errors
/// A recording without its number of CPUs, or damaged.
pub fn field_uses(
    scene: &Scene<'_>,
    line: LineSize,
    seed: Seed,
    types: &[CoveredType],
) -> Result<Vec<FieldUses>, ExperimentError> {
    let mut counting: Vec<Counting<'_>> = types
        .iter()
        .map(|of| Counting::new(scene, seed, of))
        .collect();
    let is_wanted = |subject: usize| counting.iter().any(|of| of.outer[subject].is_some());
    let only: Vec<bool> = (0..scene.types.len()).map(is_wanted).collect();
    scene.rounds(line, &only, |rounds| {
        for slices in rounds {
            counting.iter_mut().for_each(|of| of.round(slices));
        }
    })?;
    let named = |of: Counting<'_>| of.pairs.named(scene);
    Ok(counting.into_iter().map(named).collect())
}

/// Finds the accesses to a type's fields that edits concern, and has them counted.
struct Counting<'t> {
    of: &'t CoveredType,
    model: &'t TypeModel,
    /// By subject: the type of its objects, if the type is or is in that.
    outer: Vec<Option<TypeId>>,
    /// By the outer type, the offset and the size of an access: where it is in the type.
    known: FxHashMap<(TypeId, u32, u8), Option<Hit>>,
    /// The fields that the edits concern.
    concerned: BTreeSet<LeafId>,
    order: RoundOrder<FieldTouch>,
    pairs: Pairs,
}

/// A byte of a type, the field there, and its line with the edits.
#[derive(Clone, Copy)]
struct Hit {
    at: ByteOffset,
    leaf: LeafId,
    line: Option<LineIndex>,
}

impl Hit {
    /// Its field in the object, if that byte is at `addr`.
    fn place(self, addr: GuestAddr) -> FieldPlace {
        FieldPlace {
            object: GuestAddr(addr.0.wrapping_sub(self.at.0)),
            leaf: self.leaf,
            line: self.line,
        }
    }
}

/// An access to a field.
struct FieldTouch {
    place: FieldPlace,
    kind: AccessKind,
    site: SiteId,
}

/// A field of an object, given by the type's address. An array has one for each of its lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FieldPlace {
    object: GuestAddr,
    leaf: LeafId,
    line: Option<LineIndex>,
}

impl<'t> Counting<'t> {
    fn new(scene: &Scene<'t>, seed: Seed, of: &'t CoveredType) -> Counting<'t> {
        let model = scene.session.analysis().model();
        let outer = scene.movable.iter();
        let outer = outer.map(|id| id.filter(|id| embeds(model, *id, &of.ids)));
        Counting {
            of,
            model,
            outer: outer.collect(),
            known: FxHashMap::default(),
            concerned: of.neighbours.concerned(),
            order: RoundOrder::new(seed),
            pairs: Pairs::new(&of.neighbours, TOUCHES_MAX),
        }
    }

    fn round(&mut self, slices: &[Slice<'_>]) {
        let mut finder = std::mem::take(&mut self.known);
        self.order.take(slices, |step| {
            let outer = self.outer.get(step.subject.index()).copied().flatten()?;
            let key = (outer, step.offset, step.access.size);
            let find = || find(self.model, self.of, &self.concerned, outer, step);
            let hit = (*finder.entry(key).or_insert_with(find))?;
            Some(FieldTouch {
                place: hit.place(step.access.addr),
                kind: step.access.kind,
                site: step.site,
            })
        });
        self.known = finder;
        for touch in self.order.iter() {
            self.pairs.add(touch.cpu, touch.of);
        }
    }
}

/// Where an access is in the type, if it is to a field that the edits concern.
fn find(
    model: &TypeModel,
    of: &CoveredType,
    concerned: &BTreeSet<LeafId>,
    outer: TypeId,
    step: &Step,
) -> Option<Hit> {
    let byte = ByteOffset(step.offset.into());
    let (_, at) = enclosing(model, outer, byte, &|id| of.ids.contains(&id))?;
    hit_at(of, concerned, at, step.access.size)
}

/// What an access of `size` bytes at an offset of the type is to.
fn hit_at(of: &CoveredType, concerned: &BTreeSet<LeafId>, at: ByteOffset, size: u8) -> Option<Hit> {
    let hit = of.neighbours.flat.find(at, size.into())?;
    concerned.contains(&hit.leaf).then(|| Hit {
        at,
        leaf: hit.leaf,
        // An access may begin in a hole before the field.
        line: of.neighbours.line_after(at.max(hit.offset)),
    })
}

/// The last write to a field.
#[derive(Clone, Copy)]
struct Written {
    at: Ordinal,
    site: SiteId,
}

/// The number of an access among those to fields of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Ordinal(u64);

/// A pair that a field is in: its number, and the other field.
#[derive(Clone, Copy)]
struct Partner {
    pair: usize,
    is_first: bool,
    other: LeafId,
}

/// Counts accesses to a type's fields and to its pairs of new neighbours, given in their order. To
/// a pair are those on a line that both fields are on.
struct Pairs {
    partners: FxHashMap<(LeafId, LineIndex), Vec<Partner>>,
    /// The last write of each.
    writes: FxHashMap<FieldPlace, Written>,
    touches: FxHashMap<(FieldPlace, CpuId), Ordinal>,
    /// How many of `touches` are stored at most, and so of `writes`.
    touches_max: usize,
    cut: bool,
    now: Ordinal,
    by_function: FxHashMap<(LeafId, SiteId), [u64; 3]>,
    counts: Vec<PairCount>,
}

impl Pairs {
    fn new(of: &NewNeighbours, touches_max: usize) -> Pairs {
        let mut partners: FxHashMap<(LeafId, LineIndex), Vec<Partner>> = FxHashMap::default();
        for (pair, both) in of.gained.iter().enumerate() {
            let FieldPair { first, second } = *both;
            for line in of.shared(*both) {
                for (is_first, one, other) in [(true, first, second), (false, second, first)] {
                    partners.entry((one, line)).or_default().push(Partner {
                        pair,
                        is_first,
                        other,
                    });
                }
            }
        }
        Pairs {
            partners,
            writes: FxHashMap::default(),
            touches: FxHashMap::default(),
            touches_max,
            cut: false,
            now: Ordinal::default(),
            by_function: FxHashMap::default(),
            counts: of.gained.iter().map(|_| PairCount::default()).collect(),
        }
    }

    fn add(&mut self, cpu: CpuId, touch: &FieldTouch) {
        let by = self.by_function.entry((touch.place.leaf, touch.site));
        by.or_default()[touch.kind as usize] += 1;
        let line = touch.place.line.map(|line| (touch.place.leaf, line));
        let Some(partners) = line.and_then(|line| self.partners.get(&line)) else {
            return;
        };
        self.cut |= self.touches.len() >= self.touches_max;
        if self.cut {
            return;
        }
        self.now.0 += 1;
        for partner in partners {
            let after = self.after(cpu, touch.place, partner.other);
            self.counts[partner.pair].add(partner.is_first, touch.site, after);
        }
        self.touches.insert((touch.place, cpu), self.now);
        if touch.kind != AccessKind::Load {
            let written = Written {
                at: self.now,
                site: touch.site,
            };
            self.writes.insert(touch.place, written);
        }
    }

    /// The write by another CPU of the other field since this CPU's last access to either, if none
    /// has written this one since this CPU's last access to it. A field that is written as well
    /// moves with its line anyhow, as those of a task that changes its CPU do, and those of a new
    /// object at an old address.
    fn after(&self, cpu: CpuId, place: FieldPlace, other: LeafId) -> Option<Written> {
        let other = FieldPlace {
            leaf: other,
            ..place
        };
        let touched = |place| self.touches.get(&(place, cpu)).copied();
        // One by this CPU is never later than its last access.
        let written = |place| self.writes.get(&place).copied();
        let own = touched(place)?;
        let is_lost = written(place).is_some_and(|written| written.at > own);
        let last = touched(other).map_or(own, |at| at.max(own));
        written(other).filter(|written| !is_lost && written.at > last)
    }

    fn named(self, scene: &Scene<'_>) -> FieldUses {
        let mut fields: BTreeMap<LeafId, Vec<FieldFunction>> = BTreeMap::new();
        for ((leaf, site), [loads, stores, rmws]) in self.by_function {
            fields.entry(leaf).or_default().push(FieldFunction {
                name: name(scene, site),
                loads,
                stores,
                rmws,
            });
        }
        for functions in fields.values_mut() {
            functions.sort_by(|a, b| (b.accesses(), &a.name).cmp(&(a.accesses(), &b.name)));
        }
        let pairs = self.counts.into_iter();
        FieldUses {
            fields,
            pairs: pairs.map(|pair| pair.named(scene)).collect(),
            cut: self.cut,
        }
    }
}

fn name(scene: &Scene<'_>, site: SiteId) -> String {
    let site = scene.sites.get(site.0 as usize);
    site.map(|of| of.function.clone()).unwrap_or_default()
}

/// What is counted for a pair.
#[derive(Default)]
struct PairCount {
    sum: PairUses,
    functions: FxHashMap<SiteId, PairFunction>,
}

impl PairCount {
    /// An access by the function of `site`, after the write of the other field that is given.
    fn add(&mut self, is_first: bool, site: SiteId, after: Option<Written>) {
        let (one, other) = if is_first { (1, 0) } else { (0, 1) };
        self.sum.first += one;
        self.sum.second += other;
        let function = self.functions.entry(site).or_default();
        function.first += one;
        function.second += other;
        if let Some(written) = after {
            function.contended += 1;
            self.sum.contended += 1;
            self.functions.entry(written.site).or_default().caused += 1;
        }
    }

    fn named(self, scene: &Scene<'_>) -> PairUses {
        let functions = self.functions.into_iter().map(|(site, of)| PairFunction {
            name: name(scene, site),
            ..of
        });
        let mut functions: Vec<PairFunction> = functions.collect();
        let rank = |of: &PairFunction| Reverse((of.first.min(of.second), of.accesses()));
        functions.sort_by(|a, b| (rank(a), &a.name).cmp(&(rank(b), &b.name)));
        PairUses {
            functions,
            ..self.sum
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use linemate_layout::parse;
    use linemate_testkit::btf_writer::longs_around_an_array;

    use super::*;

    /// `a` is moved to the end, which brings the last elements
    /// and `c` to the second line, and `a` to `d` on the third.
    fn model() -> (TypeModel, TypeId) {
        let (list, id) = longs_around_an_array();
        (TypeModel::new(list.types, 8).unwrap(), id)
    }

    fn covered(model: &TypeModel, id: TypeId) -> CoveredType {
        let edits = parse("type s\nmove a last").unwrap();
        let mut plan = Plan::new(model, LineSize::B64, &edits, &BTreeMap::new()).unwrap();
        CoveredType {
            name: "s".to_owned(),
            ids: vec![id],
            neighbours: NewNeighbours::new(&mut plan, id).unwrap(),
        }
    }

    /// What an access to 8 bytes at an offset of the object at `object` touches.
    fn touch(of: &CoveredType, object: u64, at: u64, kind: AccessKind) -> FieldTouch {
        let at = ByteOffset(at);
        let hit = hit_at(of, &of.neighbours.concerned(), at, 8).unwrap();
        FieldTouch {
            place: hit.place(GuestAddr(object + at.0)),
            kind,
            site: SiteId(0),
        }
    }

    /// Accesses to each field of the pair `many[] c`, and contended ones.
    fn uses(pairs: &Pairs) -> (u64, u64, u64) {
        let PairUses {
            first,
            second,
            contended,
            ..
        } = pairs.counts[1].sum;
        (first, second, contended)
    }

    const ELEMENTS: [(u64, (u64, u64, u64)); 4] = [
        // On the first line with the edit, where `c` is not.
        (16, (0, 8, 0)),
        (64, (0, 8, 0)),
        (72, (8, 8, 7)),
        (120, (8, 8, 7)),
    ];

    #[test]
    fn of_an_array_the_elements_on_the_neighbours_line_are_counted() {
        let (model, id) = model();
        let of = covered(&model, id);
        for (element, expected) in ELEMENTS {
            let mut pairs = Pairs::new(&of.neighbours, TOUCHES_MAX);
            for _ in 0..8 {
                pairs.add(CpuId(1), &touch(&of, 0x1000, element, AccessKind::Store));
                pairs.add(CpuId(0), &touch(&of, 0x1000, 128, AccessKind::Load));
            }
            assert_eq!(uses(&pairs), expected, "{element}");
            // All of them are accesses to the field.
            assert_eq!(pairs.by_function.values().flatten().sum::<u64>(), 16);
        }
    }

    #[test]
    fn what_is_distinguished_is_bounded_and_said_to_be() {
        let (model, id) = model();
        let of = covered(&model, id);
        let after = |objects: u64| {
            let mut pairs = Pairs::new(&of.neighbours, 3);
            for object in 0..objects {
                pairs.add(CpuId(0), &touch(&of, object << 8, 128, AccessKind::Store));
            }
            (
                pairs.cut,
                uses(&pairs).1,
                pairs.touches.len(),
                pairs.writes.len(),
            )
        };
        assert_eq!(after(3), (false, 3, 3, 3));
        assert_eq!(after(9), (true, 3, 3, 3));
    }
}
