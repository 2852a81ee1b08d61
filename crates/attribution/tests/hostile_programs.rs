//! Hostile debug information inside a recording: every question gets an answer or an error,
//! quickly, and the ledger's sum is the recording's.
//!
//! The programs are the fuzzer's seeds, so nothing has to be compiled.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use linemate_attribution::{Analysis, AnalysisError};
use linemate_recording::Recording;
use linemate_testkit::numbers::Numbers;
use linemate_testkit::programs::recording_of;

fn seed(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/dwarf");
    std::fs::read(folder.join(name)).unwrap()
}

/// The findings about a program's recording.
#[derive(Debug, Default)]
struct Answer {
    accesses: u64,
    typed: u64,
    /// The names of accesses that have one.
    names: BTreeSet<String>,
    /// Instructions whose line is known.
    lines: usize,
}

/// Asks everything that attribution answers about a recording of `program`, whose split units are
/// in `split`.
fn ask(program: &[u8], split: &[&[u8]]) -> Result<Answer, AnalysisError> {
    let Some(bytes) = recording_of(program, split) else {
        return Ok(Answer::default());
    };
    let recording = Recording::from_source(bytes).unwrap();
    let analysis = Analysis::new(&recording)?;
    let counted = analysis.count().unwrap();
    let accesses = recording.totals().accesses();
    assert_eq!(counted.tally.ledger().total(), accesses);
    let schema = analysis.schema();
    let subjects = analysis.subjects().iter();
    let names = subjects.filter_map(|subject| Some(schema.name(subject.ty?).to_owned()));
    let places = analysis.source_places();
    let pcs = recording.instructions().iter();
    Ok(Answer {
        accesses,
        typed: counted.tally.ledger().typed(),
        names: names.collect(),
        lines: pcs.filter(|pc| places.at(**pc).is_some()).count(),
    })
}

const SEEDS: [&str; 7] = [
    "c-dwarf5",
    "c-split5",
    "c-split4-types",
    "c-package5-types",
    "c-dwarf4-compressed",
    "c-dwarf4-types",
    "cpp-dwarf5",
];

#[test]
fn sound_programs_have_names_and_lines() {
    for name in SEEDS {
        let whole = seed(name);
        let answer = ask(&whole, &[&whole]).unwrap();
        assert!(answer.typed > 0 && answer.lines > 20, "{name}: {answer:?}");
    }
    // The split units are in what is attached.
    let split = seed("c-split5");
    let with = ask(&split, &[&split]).unwrap();
    assert!(with.names.iter().any(|n| n.starts_with("list")), "{with:?}");
}

#[test]
fn changed_bytes_do_no_harm() {
    let mut numbers = Numbers(11);
    let (mut named, mut bare, mut refused) = (0, 0, 0);
    for name in SEEDS {
        let whole = seed(name);
        let expected = ask(&whole, &[&whole]).unwrap();
        for _ in 0..120 {
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.below(4) {
                let at = numbers.below(bytes.len());
                bytes[at] = match numbers.below(4) {
                    0 => 0,
                    1 => 0xff,
                    _ => u8::try_from(numbers.below(256)).unwrap(),
                };
            }
            let begun = Instant::now();
            match ask(&bytes, &[&bytes]) {
                Ok(answer) if answer.typed > 0 => named += 1,
                Ok(answer) => {
                    assert!(answer.accesses <= expected.accesses.max(1) * 8);
                    bare += 1;
                }
                Err(AnalysisError::Programs(_)) => refused += 1,
                Err(error) => panic!("{name}: {error}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        }
    }
    assert!(
        named > 100 && bare > 50 && refused > 5,
        "{named} named, {bare} without names, {refused} refused"
    );
}
