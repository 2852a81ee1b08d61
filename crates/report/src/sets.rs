//! How a type's lines fall into the sets of caches, as a table.

use linemate_answers::{CacheSets, SetsChange, TypeSets};

use crate::{Table, Text};

/// Of a type as recorded.
pub(crate) fn sets(out: &mut Text, sets: &TypeSets) {
    let mut table = table();
    rows(&mut table, "", sets);
    out.table(table);
}

/// Of types before and after edits; once, where those change nothing.
pub(crate) fn changes(out: &mut Text, changes: &[SetsChange]) {
    let mut table = table();
    for change in changes {
        let name = &change.name;
        match (&change.without, &change.with) {
            (without, with) if without == with => {
                if let Some(sets) = without {
                    rows(&mut table, &format!("{name}, "), sets);
                }
            }
            sides => {
                for (side, sets) in [("before", sides.0), ("after", sides.1)] {
                    if let Some(sets) = sets {
                        rows(&mut table, &format!("{name} {side}, "), sets);
                    }
                }
            }
        }
    }
    if !changes.is_empty() {
        out.table(table);
    }
}

fn table() -> Table {
    Table::of_figures(&[
        "cache, CPU",
        "distinct lines",
        "sets reached",
        "sets",
        "max per set",
        "ways",
        "beyond the ways",
    ])
}

/// Two rows for each cache: the CPU with the most lines, and the mean of all.
fn rows(table: &mut Table, what: &str, sets: &TypeSets) {
    let caches: [(&str, &CacheSets); 3] = [("L1", &sets.l1), ("L2", &sets.l2), ("LLC", &sets.llc)];
    for (name, cache) in caches {
        let most = &cache.most;
        table.add_row(vec![
            format!("{what}{name}, CPU {}", sets.cpu),
            most.lines.to_string(),
            most.reached.to_string(),
            cache.sets.to_string(),
            most.fullest.to_string(),
            cache.ways.to_string(),
            most.beyond.to_string(),
        ]);
        if sets.cpus > 1 {
            let mean = &cache.mean;
            table.add_row(vec![
                format!("{what}{name}, mean of {} CPUs", sets.cpus),
                format!("{:.1}", mean.lines),
                format!("{:.1}", mean.reached),
                cache.sets.to_string(),
                format!("{:.1}", mean.fullest),
                cache.ways.to_string(),
                format!("{:.1}", mean.beyond),
            ]);
        }
    }
}
