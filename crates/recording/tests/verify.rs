//! `verify` on sound files and on damaged ones: exactly these findings. verify_events.rs covers the
//! events.

#![allow(clippy::unwrap_used, reason = "a set-up that fails fails the test")]

mod made_up;

use linemate_recording::*;
use made_up::*;

#[test]
fn a_sound_recording_has_no_findings() {
    let bytes = sound();
    let kinds: Vec<String> = chunks(&bytes)
        .into_iter()
        .map(|(_, _, kind)| kind)
        .collect();
    let all = [
        "META", "BTF", "SYMS", "FUNC", "INST", "EVTS", "EVTS", "IMAG", "END",
    ];
    assert_eq!(kinds, all);
    let report = verify(bytes.clone()).unwrap();
    assert!(report.is_sound(), "{report}");
    let totals = Totals {
        loads: 1,
        stores: 1,
        rmws: 1,
        calls: 3,
        returns: 1,
        markers: 2,
    };
    assert_eq!((report.chunks, report.totals), (9, totals));
    let recording = Recording::from_source(bytes).unwrap();
    assert_eq!(recording.checksum(), Some(report.checksum));
    assert_eq!(recording.tool(), "1.0");
    assert_eq!(recording.metadata(), &metadata());
    let description = Description {
        kernel: Some("6.12".into()),
        ..Description::default()
    };
    assert_eq!(recording.description(), &description);
    assert_eq!(recording.totals(), totals);
    assert_eq!(recording.btf().unwrap(), b"types");
    assert_eq!(recording.symbols().unwrap(), b"ffffffff81000000 T _text");
    assert_eq!(recording.functions(), &functions());
    assert_eq!(recording.instructions(), pcs());
    let images: Result<Vec<_>, _> = recording.images().collect();
    let images = images.unwrap();
    assert_eq!(images.len(), 1);
    let (image, bytes) = &images[0];
    assert_eq!(
        (image.moment, image.addr, image.length),
        (Moment::Start, GuestAddr(HEAP), 100)
    );
    assert_eq!(bytes, &[1; 100]);
}

#[test]
fn a_flipped_bit_is_found_in_every_chunk_and_every_byte() {
    let bytes = sound();
    for (number, (start, length, kind)) in chunks(&bytes).into_iter().enumerate() {
        // In the payload and in the checksum; the fields before them decide where the next chunk
        // is.
        for at in start + 24..start + length {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            let found = findings(broken);
            let expected = format!("checksum of chunk {number} ({kind}) at byte {start} is ");
            assert!(found[0].starts_with(&expected), "byte {at}: {found:?}");
        }
    }
}

/// The findings after flipping the last bit of chunk `number`, without the first, which is the
/// checksum's.
fn findings_without(number: usize) -> Vec<String> {
    let mut bytes = sound();
    let (start, length, kind) = chunks(&bytes)[number].clone();
    bytes[start + length - 1] ^= 0x80;
    let mut found = findings(bytes);
    let checksum = found.remove(0);
    let expected = format!("checksum of chunk {number} ({kind}) at byte {start} is ");
    assert!(checksum.starts_with(&expected), "{checksum}");
    found
}

#[test]
fn what_cannot_be_read_is_not_used() {
    for harmless in [0, 1, 2, 7, 8] {
        assert_eq!(
            findings_without(harmless),
            Vec::<String>::new(),
            "chunk {harmless}"
        );
    }
    assert_eq!(
        findings_without(3),
        [
            "time 4: function 1 is not in the table of 0",
            "time 5: function 0 is not in the table of 0",
            "time 6: function 1 is not in the table of 0",
            "time 8: function 2 is not in the table of 0",
        ]
    );
    let all = chunks(&sound());
    assert_eq!(
        findings_without(4),
        [
            "chunk 5 uses 3 instructions, but only 0 are known before it".to_owned(),
            format!(
                "chunk 5 (EVTS) at byte {}: instruction 1 is used, but only 0 are known",
                all[5].0
            ),
            "chunk 6 uses 4 instructions, but only 0 are known before it".to_owned(),
            format!(
                "chunk 6 (EVTS) at byte {}: instruction 3 is used, but only 0 are known",
                all[6].0
            ),
            "the end counts 1 loads, the file has 0".to_owned(),
            "the end counts 1 stores, the file has 0".to_owned(),
            "the end counts 1 RMWs, the file has 0".to_owned(),
            "the end counts 3 calls, the file has 0".to_owned(),
            "the end counts 1 returns, the file has 0".to_owned(),
            "the end counts 2 markers, the file has 1".to_owned(),
            "recording started at 1 and was never stopped".to_owned(),
        ]
    );
    assert_eq!(
        findings_without(6),
        [
            "the end counts 1 stores, the file has 0",
            "the end counts 3 calls, the file has 2",
            "the end counts 2 markers, the file has 1",
            "recording started at 1 and was never stopped",
        ]
    );
}

#[test]
fn a_recording_cut_anywhere_says_so_and_keeps_its_whole_chunks() {
    let bytes = sound();
    let chunks = chunks(&bytes);
    let first = chunks[0].0;
    for length in 0..bytes.len() {
        let cut = bytes[..length].to_vec();
        let result = verify(cut.clone());
        if length < first {
            assert!(matches!(result, Err(Error::NotARecording)), "{length}");
            continue;
        }
        let whole = chunks
            .iter()
            .filter(|(start, size, _)| start + size <= length)
            .count();
        let end = chunks[..whole]
            .last()
            .map_or(first, |(start, size, _)| start + size);
        let accesses = [0, 0, 0, 0, 0, 0, 2, 3, 3][whole];
        let how = if end == length {
            "truncated: it has no end".to_owned()
        } else {
            format!("truncated inside the chunk at byte {end}")
        };
        let expected = format!("{how}; {whole} whole chunks with {accesses} accesses are readable");
        let mut found: Vec<_> = result
            .unwrap()
            .findings
            .iter()
            .map(ToString::to_string)
            .collect();
        if whole == 0 {
            assert_eq!(found.remove(0), "the first chunk is not META");
        }
        assert_eq!(found, [expected], "{length}");
        match Recording::from_source(cut) {
            Ok(recording) => {
                assert!(recording.cut().is_some());
                assert_eq!(recording.totals().accesses(), accesses);
                assert_eq!(recording.events().filter(Result::is_err).count(), 0);
            }
            Err(error) => assert_eq!(
                (whole, error.to_string().as_str()),
                (0, "the recording has no META chunk")
            ),
        }
    }
}

#[test]
fn swapped_chunks_are_found() {
    let bytes = sound();
    let all = chunks(&bytes);
    let ((a, a_length, _), (b, b_length, _)) = (all[5].clone(), all[6].clone());
    let mut swapped = bytes[..a].to_vec();
    swapped.extend_from_slice(&bytes[b..b + b_length]);
    swapped.extend_from_slice(&bytes[a..a + a_length]);
    swapped.extend_from_slice(&bytes[b + b_length..]);
    let found = findings(swapped);
    assert_eq!(
        found[0],
        format!("chunk 5 (EVTS) at byte {a}: chunk 6 is out of order")
    );
    assert_eq!(
        found[1],
        format!(
            "chunk 6 (EVTS) at byte {}: chunk 5 is out of order",
            a + b_length
        )
    );
    assert_eq!(found[2], "the end counts 1 loads, the file has 0");
    assert!(
        found
            .last()
            .unwrap()
            .starts_with("the chunks' checksum is ")
    );
    assert_eq!(found.len(), 2 + 6 + 1, "{found:?}");
}

#[test]
fn wrong_totals_are_found() {
    let bytes = sound();
    let (start, length, _) = chunks(&bytes).pop().unwrap();
    let stored = &bytes[start + 32..start + length];
    let compressed = bytes[start + 16] == 1;
    let mut payload = if compressed {
        zstd::bulk::decompress(stored, 1000).unwrap()
    } else {
        stored.to_vec()
    };
    assert_eq!(payload.len(), 6 * 8 + 4 + 8);
    payload[0] = 9; // loads
    payload[48] = 77; // chunks
    payload[52] ^= 1; // checksum
    let mut broken = bytes[..start + 32].to_vec();
    broken.extend_from_slice(&payload);
    broken[start + 8..start + 12].copy_from_slice(&60u32.to_le_bytes());
    broken[start + 16] = 0;
    fix_checksum(&mut broken, start, 32 + 60);
    let found = findings(broken);
    assert_eq!(found[0], "the end counts 77 chunks, the file has 8");
    assert_eq!(found[1], "the end counts 9 loads, the file has 1");
    assert!(
        found[2].starts_with("the chunks' checksum is "),
        "{found:?}"
    );
    assert_eq!(found.len(), 3);
}

#[test]
fn a_newer_recording_names_the_tool_that_wrote_it() {
    let mut bytes = sound();
    bytes[8] = 5;
    let error = verify(bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "recording format 5 is newer than this linemate reads (4); written by linemate 1.0: use that version or a later one"
    );
    let mut bytes = sound();
    bytes[8] = 0;
    assert!(matches!(verify(bytes), Err(Error::NotARecording)));
}

/// Also a damaged length of the tool's version: the checksum is then elsewhere.
#[test]
fn a_flipped_bit_is_found_in_every_byte_of_the_header() {
    let bytes = sound();
    let end = chunks(&bytes)[0].0;
    for (at, bit) in (0..end).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << bit;
        match verify(broken.clone()) {
            Ok(report) => {
                let found = report.to_string();
                let expected = "checksum of the file's header is ";
                assert!(found.starts_with(expected), "byte {at}: {found:?}");
            }
            Err(error) => assert!(
                at < 16 && matches!(error, Error::NotARecording | Error::NewerVersion { .. }),
                "byte {at}: {error}"
            ),
        }
        assert!(Recording::from_source(broken).is_err(), "byte {at}");
    }
}

/// Up to format 3 the header has no checksum; otherwise the files are the same.
#[test]
fn recordings_of_earlier_formats_are_read() {
    let bytes = sound();
    let first = chunks(&bytes)[0].0;
    for version in 1..=3 {
        let mut older = bytes.clone();
        older.drain(first - 8..first);
        older[8] = version;
        assert_eq!(findings(older.clone()), Vec::<String>::new());
        let recording = Recording::from_source(older).unwrap();
        assert_eq!(recording.version() as u8, version);
        assert_eq!(recording.tool(), "1.0");
        assert_eq!(recording.events().filter(Result::is_err).count(), 0);
    }
    // Labelled as an older one, it has a checksum where its first chunk should be.
    let mut renamed = bytes;
    renamed[8] = 3;
    let found = findings(renamed);
    let cut = found
        .iter()
        .any(|found| found.starts_with("truncated: no chunk at byte 19"));
    assert!(cut, "{found:?}");
}

/// What `check` says about a recording is what `verify` finds first; the contents of chunks are up
/// to `verify`.
#[test]
fn every_damaged_chunk_is_found_without_decoding() {
    let check =
        |bytes| Recording::from_source(bytes).and_then(|recording| recording.check(&|_| ()));
    let bytes = sound();
    check(bytes.clone()).unwrap();
    for (start, length, _) in chunks(&bytes) {
        for at in start + 24..start + length {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            let expected = findings(broken.clone()).remove(0);
            assert_eq!(
                check(broken).unwrap_err().to_string(),
                expected,
                "byte {at}"
            );
        }
    }
    // A chunk of another recording, intact in itself.
    let (start, length, _) = chunks(&bytes)[7].clone();
    let mut other = bytes.clone();
    let last = start + length - 1;
    other[last] ^= 1;
    fix_checksum(&mut other, start, length);
    let error = check(other).unwrap_err().to_string();
    assert!(error.starts_with("the chunks' checksum is "), "{error}");
}

#[test]
fn bytes_after_the_end_are_found() {
    let mut bytes = sound();
    bytes.extend_from_slice(b"more");
    assert_eq!(findings(bytes.clone()), ["4 bytes follow the end"]);
    let report = verify(bytes).unwrap().to_string();
    assert_eq!(
        report, "4 bytes follow the end\n",
        "a line for each finding"
    );
}

#[test]
fn bytes_that_are_no_chunk_cut_the_recording() {
    let mut bytes = sound();
    let (start, ..) = chunks(&bytes)[6];
    bytes[start] = b'?';
    assert_eq!(
        findings(bytes),
        [format!(
            "truncated: no chunk at byte {start}; 6 whole chunks with 2 accesses are readable"
        )]
    );
}

#[test]
fn chunks_that_there_is_one_of_must_not_be_repeated() {
    let bytes = recording_of(|writer| {
        writer.btf(b"one").unwrap();
        writer.btf(b"two").unwrap();
    });
    assert_eq!(findings(bytes), ["chunk 2 is a second BTF chunk"]);
}

#[test]
fn images_of_one_moment_must_agree_where_they_overlap() {
    let bytes = recording_of(|writer| {
        writer
            .image(Moment::Start, GuestAddr(HEAP), &[0; 100])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP), &[1; 100])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP + 99), &[1; 101])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP + 199), &[2; 100])
            .unwrap();
    });
    assert_eq!(
        findings(bytes),
        ["chunk 4: the Stop image at 0xffff8880000000c7 differs from one that it overlaps"]
    );
}

#[test]
fn events_without_their_instructions_are_not_written() {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", &metadata()).unwrap();
    let chunk = encode(0, &[access(1, 5, AccessKind::Load)]);
    assert_eq!(
        writer.events(&chunk).unwrap_err().to_string(),
        "cannot write: the number of used instructions is 6, more than 0"
    );
    writer.instructions(&pcs()[..6]).unwrap();
    writer.events(&chunk).unwrap();
}

#[test]
fn an_interrupted_recording_can_be_appended_to() {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", &metadata()).unwrap();
    writer.instructions(&pcs()[..4]).unwrap();
    writer
        .events(&encode(0, &[access(1, 1, AccessKind::Load)]))
        .unwrap();
    drop(writer);
    // Half a chunk after the complete ones.
    let mut bytes = std::fs::read(&scratch.0).unwrap();
    let whole = bytes.len();
    bytes.extend_from_slice(&sound()[27..68]);
    std::fs::write(&scratch.0, &bytes).unwrap();

    let mut writer = Writer::append(&scratch.0).unwrap();
    assert_eq!(writer.bytes(), whole as u64);
    writer.instructions(&pcs()[4..6]).unwrap();
    writer
        .events(&encode(0, &[access(2, 5, AccessKind::Store)]))
        .unwrap();
    let totals = writer.finish().unwrap();
    assert_eq!((totals.loads, totals.stores), (1, 1));
    let bytes = std::fs::read(&scratch.0).unwrap();
    assert_eq!(findings(bytes), Vec::<String>::new());
    assert!(matches!(Writer::append(&scratch.0), Err(Error::Finished)));
}

#[test]
fn many_findings_are_counted_and_not_kept() {
    let events: Vec<Event> = (0..1500)
        .map(|i| access(2000 - i, 1, AccessKind::Load))
        .collect();
    let report = verify(with_events(&events)).unwrap();
    assert_eq!((report.findings.len(), report.more), (MAX_FINDINGS, 499));
    assert!(report.to_string().ends_with("\n499 more findings\n"));
}
