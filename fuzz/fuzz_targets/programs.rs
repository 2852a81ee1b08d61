//! Programs inside recordings: whatever is in their files, attribution answers or refuses, and its
//! ledger's sum is the recording's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linemate_attribution::Analysis;
use linemate_recording::Recording;
use linemate_testkit::programs::recording_of;

fuzz_target!(|data: &[u8]| {
    // What is attached to a program is its split units, if it has such sections, else what `dwz`
    // moved.
    let Some(bytes) = recording_of(data, &[data]) else {
        return;
    };
    let recording = Recording::from_source(bytes).expect("what was written can be read");
    let Ok(analysis) = Analysis::new(&recording) else {
        return;
    };
    let counted = analysis.count().expect("the chunks are whole");
    assert_eq!(counted.tally.ledger().total(), recording.totals().accesses());
    let places = analysis.source_places();
    for pc in recording.instructions() {
        let _ = places.at(*pc);
    }
});
