//! A recording whose disk fills up ends at a complete chunk, and the first error is reported.

#![allow(clippy::unwrap_used, reason = "a set-up that fails fails the test")]

use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use linemate_recording::*;

/// Memory that accepts `room` bytes and then reports a full disk.
#[derive(Clone)]
struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let taken = buffer.len().min(self.room - bytes.len());
        if taken == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&buffer[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for SmallDisk {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(length as usize);
        Ok(())
    }
}

fn access(time: u64) -> RawAccess {
    RawAccess {
        time: VirtualTime(time),
        cpu: CpuId(0),
        instruction: InstructionId(0),
        addr: GuestAddr(time.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        size_log2: 3,
        kind: AccessKind::Load,
        silent: false,
        user_mapping: false,
    }
}

/// Four chunks of a hundred accesses; the file's bytes and the result of stopping the writer.
fn record(room: usize) -> (Vec<u8>, Result<Totals, Error>) {
    let disk = SmallDisk {
        bytes: Arc::default(),
        room,
    };
    let bytes = Arc::clone(&disk.bytes);
    let result = Writer::create_in(Box::new(disk), "1", &Metadata::new()).and_then(|writer| {
        let (sender, told) = channel();
        let background = BackgroundWriter::start_with_progress(writer, 1, move |error, bytes| {
            sender.send((error.to_string(), bytes)).unwrap();
        })?;
        let lane = background.lane();
        lane.instructions(vec![GuestAddr(1)]);
        let mut encoder = Encoder::new(LaneId(0), 100);
        let mut spare = RawChunk::default();
        for chunk in 0..4 {
            for i in 0..100 {
                encoder.access(access(100 * chunk + i));
            }
            spare = lane.events(encoder.take(spare));
            assert_eq!(
                spare.events() % 101,
                0,
                "a spare is empty or has been written"
            );
        }
        let stopped = background.stop();
        // Reported once, during the run, with the bytes written until then.
        let told: Vec<(String, u64)> = told.iter().collect();
        match &stopped {
            Ok(_) => assert_eq!(told, []),
            Err(error) => {
                let written = bytes.lock().unwrap().len() as u64;
                assert_eq!(told, [(error.to_string(), written)]);
            }
        }
        stopped?.finish()
    });
    let bytes = bytes.lock().unwrap().clone();
    (bytes, result)
}

#[test]
fn a_full_disk_leaves_whole_chunks() {
    let (whole, result) = record(usize::MAX);
    let totals = result.unwrap();
    assert_eq!(
        totals,
        Totals {
            loads: 400,
            ..Totals::default()
        }
    );
    assert!(verify(whole.clone()).unwrap().is_sound());
    let mut lengths = std::collections::BTreeSet::new();
    // Room for the header: 16 bytes, the tool's version of one byte and the checksum.
    for room in 25..whole.len() {
        let (bytes, result) = record(room);
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
            "{room}: {error}"
        );
        assert!(bytes.len() <= room && whole.starts_with(&bytes), "{room}");
        lengths.insert(bytes.len());
        let report = verify(bytes).unwrap();
        let cut = report.findings.last().unwrap().to_string();
        assert!(
            cut.starts_with("truncated: it has no end; "),
            "{room}: {cut}"
        );
    }
    // The header; then METADATA, INSTRUCTIONS and four chunks of events.
    assert_eq!(lengths.len(), 1 + 2 + 4);
}
