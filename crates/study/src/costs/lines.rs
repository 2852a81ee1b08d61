//! Costs by line: a type's lines, over all objects of the type, and what happens inside them.
//!
//! Every access that left its core is in exactly one cell of exactly one line: that of the type it
//! is named after. A line of memory that holds objects of two types is therefore a part of a row of
//! each; what the other type does there is shown next to it, as [`LineCost::neighbours`], and not
//! counted again. Stacks and page contents are not neighbours: memory that was theirs at another
//! time is all that they share with a type.

use std::collections::BTreeMap;

use linemate_answers::{CellCost, HotPlace, LineCost, LinePair};
use linemate_attribution::FunctionName;
use linemate_recording::{Accesses, Cycles, GuestAddr, TimeGrid};
use linemate_replay::{Cell, KeyId, LineView, Tally, Uncontested};

use super::{Book, owner};

/// The most functions named with a place in a line.
const FUNCTIONS_MAX: usize = 3;

/// A line of a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LineId<'b> {
    /// The type, the variable, or other name.
    name: &'b str,
    /// Whether it is a type with fields: other things may have the same name.
    typed: bool,
    /// Whether it is the requested type, if there is one.
    wanted: bool,
    /// Bytes from the object's start to the line's.
    start: i64,
}

/// A place in a line: an offset, and what is accounted there.
type CellId<'b> = (u8, &'b str);

/// The lines with costs, most cycles first.
pub(super) fn lines(book: &Book<'_>) -> Vec<LineCost> {
    let mut sums: BTreeMap<LineId<'_>, LineSum<'_>> = BTreeMap::new();
    for sum in &book.outcome.uncontested {
        if let Some((line, cell)) = book.place(sum.key, sum.offset) {
            sums.entry(line)
                .or_default()
                .own
                .entry(cell)
                .or_default()
                .add_uncontested(book, sum);
        }
    }
    for view in &book.outcome.lines {
        add_view(book, view, &mut sums);
    }
    add_transfers(book, &mut sums);
    let grid = &book.grid;
    let mut lines: Vec<LineCost> = sums
        .into_iter()
        .filter(|(id, line)| id.wanted && line.misses() > Accesses::ZERO)
        .map(|(id, line)| line.finish(id, grid))
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.cycles));
    lines
}

/// Where accesses to what is called `name` that left their core cost most.
pub(super) fn hottest(book: &Book<'_>, name: &str) -> Option<HotPlace> {
    let is_named = |cell: &Cell| {
        let number = cell.key.0 as usize;
        match (book.only, book.scene.keys.get(number)) {
            (Some(only), _) => only.of(number).is_some(),
            (None, key) => key.is_some_and(|key| owner(key) == name),
        }
    };
    let mut sums: BTreeMap<GuestAddr, Cycles> = BTreeMap::new();
    for cell in book.outcome.lines.iter().flat_map(|view| &view.cells) {
        if is_named(cell) {
            *sums.entry(cell.pc).or_default() += cell.loads.cycles + cell.stores.cycles;
        }
    }
    // The first of equals.
    let (pc, _) = sums
        .into_iter()
        .max_by_key(|(pc, cycles)| (*cycles, std::cmp::Reverse(*pc)))?;
    let place = book
        .analysis
        .source_places()
        .at(pc)
        .map(ToString::to_string);
    Some(HotPlace {
        name: name.to_owned(),
        function: FunctionName::at(book.analysis.symbols(), pc).to_string(),
        source: place,
    })
}

/// Who took modified lines from whom, and when.
fn add_transfers<'b>(book: &'b Book<'_>, sums: &mut BTreeMap<LineId<'b>, LineSum<'b>>) {
    let transfers = &book.outcome.transfers;
    for pair in &transfers.pairs {
        if let Some((line, _)) = book.place(pair.key, pair.offset) {
            let pairs = &mut sums.entry(line).or_default().pairs;
            *pairs.entry((pair.from, pair.to)).or_default() += pair.count;
        }
    }
    for time in &transfers.times {
        if let Some((line, cell)) = book.place(time.key, time.offset) {
            let own = &mut sums.entry(line).or_default().own;
            let times = &mut own.entry(cell).or_default().times;
            *times.entry((time.row, time.bin)).or_default() += time.count;
        }
    }
}

/// Each cell goes to the line of its own type, and as a neighbour to all others of this line of
/// memory.
fn add_view<'b>(book: &'b Book<'_>, view: &LineView, sums: &mut BTreeMap<LineId<'b>, LineSum<'b>>) {
    let places = |cell: &Cell| book.place(cell.key, cell.offset);
    // Whether each is of a type or a variable.
    // A line of memory counts once for each line of a type that it holds, however many of its cells
    // belong there.
    let mut ids: BTreeMap<LineId<'_>, bool> = BTreeMap::new();
    for cell in &view.cells {
        if let Some((id, _)) = places(cell) {
            *ids.entry(id).or_default() |= book.is_named(cell.key);
        }
    }
    for (id, named) in ids {
        let line = sums.entry(id).or_default();
        line.lines += 1;
        for cell in &view.cells {
            match places(cell) {
                Some((own, at)) if own == id => line.own.entry(at).or_default().add(book, cell),
                Some((_, at)) if named && book.is_named(cell.key) => {
                    line.others.entry(at).or_default().add(book, cell);
                }
                _ => {}
            }
        }
    }
}

impl<'b> Book<'b> {
    /// Whether accesses of `key` are to a type or to a variable.
    fn is_named(&self, key: KeyId) -> bool {
        let key = self.scene.keys.get(key.0 as usize);
        key.is_some_and(|key| key.watched.is_some())
    }

    /// The line of a type, and the place in it, that accesses of `key` at `offset` of a line of
    /// memory belong to.
    fn place(&self, key: KeyId, offset: u8) -> Option<(LineId<'b>, CellId<'b>)> {
        let number = key.0 as usize;
        let key = self.scene.keys.get(number)?;
        // Negative where the object begins within the line: rows of objects that start at different
        // places in lines stay apart, because their members share lines differently.
        let start = |place: u32| i64::from(place) - i64::from(offset);
        if let Some((only, found)) = self.only.and_then(|only| Some((only, only.of(number)?))) {
            let line = LineId {
                name: &only.name,
                typed: true,
                wanted: true,
                start: start(found.offset),
            };
            return Some((line, (offset, found.field.as_str())));
        }
        let line = LineId {
            name: owner(key),
            typed: key.is_typed(),
            wanted: self.only.is_none(),
            start: key.place.as_ref().map_or(0, |place| start(place.offset)),
        };
        Some((line, (offset, key.path.as_str())))
    }
}

/// A line's cells: the type's own, and those of other types.
#[derive(Default)]
struct LineSum<'b> {
    lines: u64,
    own: BTreeMap<CellId<'b>, Gathered<'b>>,
    others: BTreeMap<CellId<'b>, Gathered<'b>>,
    pairs: BTreeMap<(u16, u16), Accesses>,
}

impl LineSum<'_> {
    fn misses(&self) -> Accesses {
        self.own.values().map(Gathered::misses).sum()
    }

    fn finish(self, id: LineId<'_>, grid: &TimeGrid) -> LineCost {
        let misses = self.misses();
        let cells = |side: BTreeMap<CellId<'_>, Gathered<'_>>| -> Vec<CellCost> {
            let cell = |(id, sums): (_, Gathered<'_>)| sums.finish(id, grid);
            side.into_iter().map(cell).collect()
        };
        let own = cells(self.own);
        let pair = |((from, to), hitm): (_, Accesses)| LinePair {
            from,
            to,
            hitm: hitm.0,
        };
        LineCost {
            name: id.name.to_owned(),
            start: id.start,
            lines: self.lines,
            hitm: own.iter().map(|cell| cell.hitm).sum(),
            misses: misses.0,
            cycles: own.iter().map(|cell| cell.cycles).sum(),
            cells: own,
            neighbours: cells(self.others),
            pairs: self.pairs.into_iter().map(pair).collect(),
        }
    }
}

/// A cell's sums, and its cycles by function.
#[derive(Default)]
struct Gathered<'b> {
    loads: Tally,
    stores: Tally,
    hitm: Accesses,
    upgrades: Accesses,
    functions: BTreeMap<&'b str, Cycles>,
    /// HITM by row of CPUs and part of the time.
    times: BTreeMap<(u16, u16), Accesses>,
}

impl<'b> Gathered<'b> {
    fn misses(&self) -> Accesses {
        self.loads.count + self.stores.count
    }

    fn add_tallies(&mut self, loads: Tally, stores: Tally, function: &'b str) {
        self.loads.merge(loads);
        self.stores.merge(stores);
        *self.functions.entry(function).or_default() += loads.cycles + stores.cycles;
    }

    fn add_uncontested(&mut self, book: &'b Book<'_>, sum: &Uncontested) {
        let function = book.scene.sites.get(sum.site.0 as usize);
        let function = function.map_or("", |site| &site.function);
        self.add_tallies(sum.loads, sum.stores, function);
    }

    fn add(&mut self, book: &'b Book<'_>, cell: &Cell) {
        let function = FunctionName::at(book.analysis.symbols(), cell.pc).as_str();
        self.add_tallies(cell.loads, cell.stores, function);
        self.hitm += cell.hitm.iter().sum();
        self.upgrades += cell.upgrades;
    }

    fn finish(self, (offset, field): CellId<'_>, grid: &TimeGrid) -> CellCost {
        let times = grid.rows_of(self.times.iter().map(|(at, count)| (*at, count.0)));
        let mut ranked: Vec<(&str, Cycles)> = self.functions.into_iter().collect();
        ranked.sort_by_key(|(name, cycles)| (std::cmp::Reverse(*cycles), *name));
        let names = ranked.into_iter().take(FUNCTIONS_MAX);
        CellCost {
            offset,
            field: field.to_owned(),
            hitm: self.hitm.0,
            loads: self.loads.count.0,
            cycles_per_load: f64::from(self.loads.cycles)
                / f64::from(self.loads.count.max(Accesses::ONE)),
            stores: self.stores.count.0,
            upgrades: self.upgrades.0,
            cycles: (self.loads.cycles + self.stores.cycles).0,
            functions: names.map(|(name, _)| name.to_owned()).collect(),
            times,
        }
    }
}
