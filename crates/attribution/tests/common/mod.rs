//! The names of recordings' accesses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_attribution::{Analysis, Bucket};
use linemate_recording::Recording;

/// Type names with offsets in them.
pub(crate) type Places = Vec<(String, u32)>;

/// Non-empty buckets; and the names of everything with a type or a label, with offsets.
pub(crate) fn named(recording: &Recording) -> (Vec<(Bucket, u64)>, Places) {
    let analysis = Analysis::new(recording).unwrap();
    let counted = analysis.count().unwrap();
    let ledger = counted.tally.ledger();
    assert_eq!(ledger.total(), recording.totals().accesses());
    let buckets = Bucket::ALL.iter().map(|b| (*b, ledger.of(*b)));
    let names = analysis.names().unwrap();
    let mut fields: Vec<(String, u32)> = counted
        .tally
        .rows()
        .iter()
        .map(|(key, _)| {
            let subject = &names.subjects()[key.subject.0 as usize];
            let name = subject.ty.map(|t| analysis.schema().name(t).to_owned());
            (name.unwrap_or_else(|| subject.label.clone()), key.offset)
        })
        .filter(|(name, _)| !name.is_empty())
        .collect();
    fields.sort();
    (buckets.filter(|(_, n)| *n > 0).collect(), fields)
}
