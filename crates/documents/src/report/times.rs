//! When a type is accessed, and by which CPUs.

use std::collections::BTreeMap;

use linemate_answers::{CpuRow, FieldTimes, LineTimes, TypeTimes};
use linemate_attribution::naming::Inside;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::times::GridCell;
use linemate_attribution::{Analysis, Counted};
use linemate_recording::AccessKind;
use linemate_study::border::time_grid;
use linemate_types::LineSize;

use super::resolve::{FieldName, Resolver};

type Cells = BTreeMap<GridCell, u64>;

/// Accesses to a type's fields and lines over time, over all places of the type.
pub(crate) fn build(
    analysis: &Analysis<'_>,
    counted: &Counted,
    resolver: &mut Resolver<'_>,
    ty: TypeIndex,
    line: LineSize,
) -> TypeTimes {
    let mut fields: BTreeMap<FieldName, Cells> = BTreeMap::new();
    let mut lines: BTreeMap<u64, Cells> = BTreeMap::new();
    let mut inside = Inside::new(analysis.schema(), ty);
    for (place, cells) in &counted.times.places {
        let subject = &analysis.subjects()[place.subject.0 as usize];
        let Some(outer) = subject.ty else { continue };
        let Some(within) = inside.at(outer, place.offset) else {
            continue;
        };
        let offset = within.offset;
        let field = resolver.field(ty, offset, place.size);
        add(fields.entry(field).or_default(), cells);
        add(
            lines.entry(u64::from(offset) / line.bytes()).or_default(),
            cells,
        );
    }
    let grid = analysis.recording().time_grid();
    let rows = |cells: &Cells| {
        let counts = cells.iter();
        grid.rows_of(counts.map(|(cell, count)| ((cell.row, cell.bin), *count)))
    };
    let of_field = |(field, cells): (FieldName, Cells)| FieldTimes {
        field: field.path,
        offset: field.offset,
        accesses: rows(&cells),
    };
    let of_line = |(line, cells): (u64, Cells)| LineTimes {
        line,
        accesses: rows(&cells),
    };
    TypeTimes {
        grid: time_grid(grid),
        fields: fields.into_iter().map(of_field).collect(),
        lines: lines.into_iter().map(of_line).collect(),
    }
}

/// A type's accesses by CPU, over all places of the type.
pub(crate) fn cpus(analysis: &Analysis<'_>, counted: &Counted, ty: TypeIndex) -> Vec<CpuRow> {
    let grid = analysis.recording().time_grid();
    let last = analysis.recording().description().cpus.unwrap_or(1).max(1) - 1;
    let row = |row: u16| {
        let cpu = row * grid.cpus_per_row;
        CpuRow {
            cpu: cpu.into(),
            last: last.min(cpu + (grid.cpus_per_row - 1)).into(),
            accesses: 0,
            loads: 0,
            stores: 0,
            rmws: 0,
            remote_share: None,
        }
    };
    let mut rows: Vec<CpuRow> = (0..grid.rows).map(row).collect();
    let mut inside = Inside::new(analysis.schema(), ty);
    for (place, cells) in &counted.times.places {
        let subject = &analysis.subjects()[place.subject.0 as usize];
        let Some(outer) = subject.ty else { continue };
        if inside.at(outer, place.offset).is_none() {
            continue;
        }
        for (cell, count) in cells {
            let Some(row) = rows.get_mut(usize::from(cell.row)) else {
                continue;
            };
            let count = u64::from(*count);
            row.accesses += count;
            match place.kind {
                AccessKind::Load => row.loads += count,
                AccessKind::Store => row.stores += count,
                AccessKind::Rmw => row.rmws += count,
            }
        }
    }
    rows
}

fn add(sum: &mut Cells, part: &[(GridCell, u32)]) {
    for (cell, count) in part {
        *sum.entry(*cell).or_default() += u64::from(*count);
    }
}
