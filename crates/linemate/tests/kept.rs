//! The cache of a recording: the same answers with and without it, and any defective file counts as
//! absent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, NOHZ, RQ, UNITS, Variant, World};
use tempfile::TempDir;

/// A recording and a cache of its own.
struct RecordingAndCache {
    folder: TempDir,
}

impl RecordingAndCache {
    fn new() -> RecordingAndCache {
        let place = RecordingAndCache {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(place.cache()).unwrap();
        place.write(100);
        place
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("linemate.data")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Two CPUs that share lines of an `rq`, so often.
    fn write(&self, rounds: u64) {
        let mut w = World::with_chunks_of(64);
        let rq = UNITS[0] + RQ;
        for _ in 0..rounds {
            for field in [0, 0, 8, 8] {
                w.access(0, AccessKind::Store, rq + field, 4, F::WakeTask, false);
            }
            w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
            w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
            w.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
        }
        let contents = Contents::of(Variant::default());
        fs::write(self.data(), w.bytes(true, contents)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
        command.args(arguments).arg("-i").arg(self.data());
        command.env("LINEMATE_CACHE", self.cache());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output
    }

    /// What it answers without a word on standard error.
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert!(output.stderr.is_empty(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is kept of answers.
    fn kept(&self) -> Vec<PathBuf> {
        let mut files = self.all_kept();
        files.retain(|path| !path.to_string_lossy().contains(".sound-"));
        files
    }

    fn all_kept(&self) -> Vec<PathBuf> {
        let folder = self.cache().join("questions");
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// Of each chunk its kind and a byte in the middle of its payload.
fn chunks(bytes: &[u8]) -> Vec<([u8; 4], usize)> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + u32_at(12) + 8;
    let mut chunks = Vec::new();
    while at < bytes.len() {
        let length = u32_at(at + 8);
        chunks.push((bytes[at..at + 4].try_into().unwrap(), at + 32 + length / 2));
        at += 32 + length;
    }
    chunks
}

const REPORT: &[&str] = &["report", "--type", "rq"];
const COSTS: &[&str] = &["report", "--machine", "westmere-4s-80", "--json"];
const WHATIF: &[&str] = &[
    "whatif",
    "--type",
    "rq",
    "-e",
    "isolate nr_running",
    "--machine",
    "westmere-4s-80",
    "--json",
];

fn without(arguments: &[&'static str]) -> Vec<&'static str> {
    [arguments, &["--no-cache"]].concat()
}

#[test]
fn every_answer_is_the_same_with_what_is_kept_and_without() {
    let place = RecordingAndCache::new();
    for question in [REPORT, COSTS, WHATIF] {
        let plain = place.answer(&without(question));
        assert_eq!(
            place.answer(question),
            plain,
            "the first time: {question:?}"
        );
        assert_eq!(
            place.answer(question),
            plain,
            "the second time: {question:?}"
        );
    }
    let exact = place.answer(&[COSTS, &["--exact"]].concat());
    assert_eq!(place.answer(COSTS), exact);
    let kept = place.kept();
    let ends = |end: &str| {
        kept.iter()
            .any(|path| path.to_str().unwrap().ends_with(end))
    };
    let named = ends(".counts") && ends(".stream64");
    assert!(kept.len() == 4 && named, "two outcomes, too: {kept:?}");
}

#[test]
fn nothing_is_kept_if_nothing_shall_be() {
    let place = RecordingAndCache::new();
    place.answer(&without(WHATIF));
    assert!(place.kept().is_empty());
}

#[test]
fn a_damaged_file_is_made_again() {
    let place = RecordingAndCache::new();
    let answers = [REPORT, COSTS].map(|question| place.answer(question));
    let damage: [fn(&Path, Vec<u8>); 4] = [
        |path, bytes| fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
        |path, mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            fs::write(path, bytes).unwrap();
        },
        |path, _| fs::write(path, "").unwrap(),
        |path, _| {
            fs::write(
                path,
                "something else altogether, and longer than any head of such a file would be",
            )
            .unwrap()
        },
    ];
    for damage in damage {
        for path in place.kept() {
            damage(&path, fs::read(&path).unwrap_or_default());
        }
        let output = place.ask(&[COSTS, &["--verbose"]].concat());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), answers[1]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.lines().all(|line| line.starts_with("linemate: ")),
            "{said}"
        );
        assert!(said.contains("is rebuilt: "), "{said}");
        assert_eq!(place.answer(REPORT), answers[0]);
    }
}

/// A pipe would be waited for, a folder cannot be replaced: each answer is the one without a cache,
/// and says so in one line.
#[test]
fn what_is_no_file_in_a_files_place_is_no_cache() {
    let place = RecordingAndCache::new();
    let plain = place.answer(&without(COSTS));
    place.answer(COSTS);
    let obstacles: [fn(&Path); 2] = [
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| fs::create_dir(path).unwrap(),
    ];
    for obstacle in obstacles {
        for path in place.kept() {
            match path.is_dir() {
                true => fs::remove_dir(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
            obstacle(&path);
        }
        let output = place.ask(COSTS);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), plain);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("not a cache file"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(place.kept().iter().all(|path| !path.is_file()));
    }
}

/// Two files of one folder, of two questions whose outcomes differ.
#[test]
fn files_that_were_exchanged_answer_nothing() {
    let place = RecordingAndCache::new();
    let slower = ["report", "--machine", "gnr-2s-480", "--json"];
    let answers = [COSTS, &slower].map(|question| place.answer(question));
    let kept = place.kept();
    for (i, one) in kept.iter().enumerate() {
        for two in &kept[i + 1..] {
            let (a, b) = (fs::read(one).unwrap(), fs::read(two).unwrap());
            fs::write(one, &b).unwrap();
            fs::write(two, &a).unwrap();
            for (question, answer) in [COSTS, &slower].iter().zip(&answers) {
                assert_eq!(&place.answer(question), answer, "{one:?} {two:?}");
            }
        }
    }
}

/// Every byte of every chunk matters, those that no question reads again included; a warm cache
/// answers for none of them.
#[test]
fn a_damaged_recording_is_refused_with_the_cache_warm_and_without() {
    let place = RecordingAndCache::new();
    let sound = fs::read(place.data()).unwrap();
    let questions = [REPORT, COSTS, WHATIF];
    let answers = questions.map(|question| place.answer(question));
    let chunks = chunks(&sound);
    let first_of_its_kind = |i: &usize| chunks[..*i].iter().all(|chunk| chunk.0 != chunks[*i].0);
    let first = (0..chunks.len()).filter(first_of_its_kind);
    let mut places: Vec<usize> = first.map(|i| chunks[i].1).collect();
    assert!(places.len() >= 6, "{chunks:?}");
    // In the tool's version, which is in the header alone; in the last chunk of events.
    places.push(16);
    places.extend(
        chunks
            .iter()
            .rev()
            .find(|chunk| &chunk.0 == b"EVTS")
            .map(|chunk| chunk.1),
    );
    for at in places {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        let modified = fs::metadata(place.data()).unwrap().modified().unwrap();
        fs::write(place.data(), &damaged).unwrap();
        let file = fs::File::options().write(true).open(place.data()).unwrap();
        file.set_modified(modified).unwrap();
        let refused = |question: &[&str]| {
            let output = place.command(question).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "byte {at}: {question:?}");
            assert!(output.stdout.is_empty());
            String::from_utf8(output.stderr).unwrap()
        };
        for question in questions {
            let warm = refused(question);
            assert_eq!(warm, refused(&without(question)), "byte {at}");
            assert!(warm.contains("checksum of "), "byte {at}: {warm}");
            assert_eq!(warm.lines().count(), 1, "{warm}");
        }
        fs::write(place.data(), &sound).unwrap();
    }
    assert_eq!(questions.map(|question| place.answer(question)), answers);
}

/// What was found sound is noted once its file's times would reveal a later change.
#[test]
fn a_recording_that_was_checked_is_noted() {
    let place = RecordingAndCache::new();
    let noted = || {
        let sound = |path: &&PathBuf| path.to_string_lossy().contains(".sound-");
        place.all_kept().iter().filter(sound).count()
    };
    std::thread::sleep(std::time::Duration::from_millis(2100));
    place.answer(&without(REPORT));
    assert_eq!(noted(), 0);
    place.answer(REPORT);
    assert_eq!(noted(), 1);
}

/// The stream of another recording, with as many rows, under this one's name.
#[test]
fn another_recording_is_asked_anew() {
    let place = RecordingAndCache::new();
    let first = place.answer(COSTS);
    place.write(150);
    let second = place.answer(COSTS);
    assert_eq!(second, place.answer(&without(COSTS)));
    assert_ne!(first, second);
    assert_eq!(place.kept().len(), 6, "three of each");
    place.write(100);
    assert_eq!(place.answer(COSTS), first);
}

#[test]
fn a_cache_that_cannot_be_written_changes_nothing() {
    let place = RecordingAndCache::new();
    let plain = place.answer(&without(COSTS));
    fs::remove_dir(place.cache()).unwrap();
    fs::write(place.cache(), "a file, where a folder should be").unwrap();
    let output = place.ask(COSTS);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), plain);
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "linemate: note: nothing is cached: ";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn several_processes_at_once_answer_the_same() {
    let place = RecordingAndCache::new();
    let plain = place.answer(&without(WHATIF));
    let running: Vec<_> = (0..4)
        .map(|_| place.command(WHATIF).spawn().unwrap())
        .collect();
    for process in running {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), plain);
    }
    assert_eq!(place.kept().len(), 3, "{:?}", place.kept());
}
