//! What edits bring together, and which recordings exercise that.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{
    CoverageDocument, CoveredChange, CoveredField, CoveredRecording, LineSpan, NewPair,
    PairFunction, PairUses, WhatIf,
};
use linemate_layout::neighbours::{FieldLines, FieldPair};
use linemate_recording::Recording;
use linemate_study::{CoveredType, FieldUses};
use linemate_types::{LeafId, LineSize};

use crate::replayed::checksum;

/// What edits change in the recording in the file `path`, by machine; `uses` of each edited type.
#[must_use]
pub fn covered_recording(
    path: &str,
    recording: &Recording,
    results: &[WhatIf],
    uses: &[FieldUses],
) -> CoveredRecording {
    let change = |result: &WhatIf| CoveredChange {
        machine: result.machine.clone(),
        cpus: result.cpus,
        types: result.types,
        whole: result.whole,
    };
    CoveredRecording {
        path: path.to_owned(),
        recording: recording.metadata().clone(),
        checksum: checksum(recording),
        cut: uses.iter().any(|of| of.cut),
        prediction_error: results
            .first()
            .and_then(|result| result.prediction_error.clone()),
        results: results.iter().map(change).collect(),
    }
}

/// What edits do to types, and who uses these.
#[derive(Debug)]
pub struct CoverageFacts<'f> {
    /// The edits as text.
    pub edits: String,
    /// Lines of this size.
    pub line: LineSize,
    /// The types that the edit changes.
    pub types: &'f [CoveredType],
    /// By a member's name, the functions that use it in the source.
    pub source: &'f BTreeMap<String, BTreeSet<String>>,
    /// By recording, then by type.
    pub uses: Vec<&'f [FieldUses]>,
}

/// The document of edits asked of `recordings`, made by version `tool`.
#[must_use]
pub fn coverage_document(
    tool: &str,
    recordings: Vec<CoveredRecording>,
    facts: CoverageFacts<'_>,
) -> CoverageDocument {
    let (mut fields, mut pairs) = (Vec::new(), Vec::new());
    for (number, of) in facts.types.iter().enumerate() {
        let uses = facts.uses.iter().filter_map(|uses| uses.get(number));
        let uses: Vec<&FieldUses> = uses.collect();
        let concerned = of.neighbours.concerned().into_iter();
        fields.extend(concerned.filter_map(|leaf| field(of, leaf, facts.source, &uses)));
        let gained = of.neighbours.gained.iter().enumerate();
        pairs.extend(gained.map(|(number, pair)| new_pair(of, *pair, number, &uses)));
    }
    // Of those that as many recordings exercise, the ones whose less used field is used most.
    pairs.sort_by_key(|pair| (pair.exercised, Reverse(less_used(pair))));
    CoverageDocument {
        schema: CoverageDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        edits: facts.edits,
        line_bytes: facts.line.bytes(),
        recordings,
        fields,
        pairs,
    }
}

fn span(lines: &FieldLines) -> LineSpan {
    LineSpan {
        first: lines.first.0.into(),
        last: lines.last.0.into(),
    }
}

/// The fields that are in a pair with this one.
fn others(of: &CoveredType, pairs: &BTreeSet<FieldPair>, leaf: LeafId) -> Vec<String> {
    let other = |pair: &FieldPair| match (pair.first == leaf, pair.second == leaf) {
        (true, _) => Some(of.neighbours.flat.names(pair.second)),
        (_, true) => Some(of.neighbours.flat.names(pair.first)),
        _ => None,
    };
    pairs.iter().filter_map(other).collect()
}

/// A field that the edits concern; `None` if no layout of the type has it.
fn field(
    of: &CoveredType,
    leaf: LeafId,
    source: &BTreeMap<String, BTreeSet<String>>,
    uses: &[&FieldUses],
) -> Option<CoveredField> {
    let neighbours = &of.neighbours;
    let name = neighbours.flat.names(leaf);
    let functions = uses.iter().map(|uses| uses.fields.get(&leaf).cloned());
    let functions: Vec<_> = functions.map(Option::unwrap_or_default).collect();
    let seen = functions.iter().flatten();
    let seen: BTreeSet<String> = seen.map(|function| in_source(&function.name)).collect();
    let named = members_of(&name).filter_map(|member| source.get(member));
    let unseen = named.flatten().filter(|function| !seen.contains(*function));
    let unseen: BTreeSet<String> = unseen.cloned().collect();
    Some(CoveredField {
        type_name: of.name.clone(),
        changed: neighbours.changes(leaf),
        from: neighbours.before.get(&leaf).map(span)?,
        to: neighbours.after.get(&leaf).map(span),
        joins: others(of, &neighbours.gained, leaf),
        leaves: others(of, &neighbours.lost, leaf),
        unseen: unseen.into_iter().collect(),
        functions,
        field: name,
    })
}

/// The name that a function of a recording has when it is found in the source: a system call's has
/// several symbols, of which a recording has one.
fn in_source(function: &str) -> String {
    const SYMBOLS: [(&str, &str); 5] = [
        ("__do_sys_", "__x64_sys_"),
        ("__se_sys_", "__x64_sys_"),
        ("__ia32_sys_", "__x64_sys_"),
        ("__do_compat_sys_", "__ia32_compat_sys_"),
        ("__se_compat_sys_", "__ia32_compat_sys_"),
    ];
    let call = SYMBOLS.iter().find_map(|(symbol, named)| {
        let call = function.strip_prefix(symbol)?;
        Some(format!("{named}{call}"))
    });
    call.unwrap_or_else(|| function.to_owned())
}

/// New neighbours, the type's pair with that number.
fn new_pair(of: &CoveredType, pair: FieldPair, number: usize, uses: &[&FieldUses]) -> NewPair {
    let uses = uses.iter().map(|uses| uses.pairs.get(number).cloned());
    let uses: Vec<PairUses> = uses.map(Option::unwrap_or_default).collect();
    NewPair {
        type_name: of.name.clone(),
        first: of.neighbours.flat.names(pair.first),
        second: of.neighbours.flat.names(pair.second),
        exercised: uses.iter().filter(|uses| uses.is_exercised()).count(),
        alone: alone(&uses),
        uses,
    }
}

fn less_used(pair: &NewPair) -> u64 {
    let sums = pair.uses.iter().fold((0, 0), |(first, second), uses| {
        (first + uses.first, second + uses.second)
    });
    sums.0.min(sums.1)
}

/// Functions that use a pair and exercise it in no recording: those first that use both fields
/// most.
fn alone(uses: &[PairUses]) -> Vec<String> {
    let mut sums: BTreeMap<&str, PairFunction> = BTreeMap::new();
    for uses in uses {
        for function in &uses.functions {
            let sum = sums.entry(&function.name).or_default();
            // One that is rarely a user in every recording, and one that exercises the pair in any,
            // is left out.
            if uses.is_frequent(function) {
                sum.first += function.first;
                sum.second += function.second;
            }
            sum.contended += u64::from(function.is_exercising());
        }
    }
    let is_open = |of: &PairFunction| of.contended == 0 && of.accesses() > 0;
    let open = sums.into_iter().filter(|(_, of)| is_open(of));
    let mut open: Vec<(&str, PairFunction)> = open.collect();
    open.sort_by_key(|(_, of)| Reverse((of.first.min(of.second), of.accesses())));
    let names = open.into_iter();
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The direct members that a field's path, or each of its names, begins with: what code that has
/// the type calls them.
fn members_of(field: &str) -> impl Iterator<Item = &str> {
    let paths = field.split(" | ");
    paths.filter_map(|path| path.split(['.', '[']).next())
}

/// The members that the source is searched for.
#[must_use]
pub fn covered_members(types: &[CoveredType]) -> BTreeSet<String> {
    let names = types.iter().flat_map(|of| {
        let concerned = of.neighbours.concerned().into_iter();
        concerned.map(|leaf| of.neighbours.flat.names(leaf))
    });
    let members = names.flat_map(|name| members_of(&name).map(str::to_owned).collect::<Vec<_>>());
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::{in_source, members_of};

    #[test]
    fn a_system_call_is_one_function() {
        for symbol in ["__do_sys_read", "__se_sys_read", "__ia32_sys_read"] {
            assert_eq!(in_source(symbol), "__x64_sys_read");
        }
        assert_eq!(in_source("__do_compat_sys_stat"), "__ia32_compat_sys_stat");
        assert_eq!(in_source("do_sys_open"), "do_sys_open");
    }

    #[test]
    fn the_source_names_direct_members() {
        let of = |field| members_of(field).collect::<Vec<_>>();
        assert_eq!(of("s_sync_lock.owner"), ["s_sync_lock"]);
        assert_eq!(of("vm_start | vm_freeptr"), ["vm_start", "vm_freeptr"]);
        assert_eq!(of("slots[].rb.left | raw"), ["slots", "raw"]);
    }
}
