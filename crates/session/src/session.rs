//! The session: the recording, its counts, and what is computed from it on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use linemate_answers::EventCount;
use linemate_attribution::counted::Objects;
use linemate_attribution::couse::CoUses;
use linemate_attribution::in_turn::InTurn;
use linemate_attribution::tally::{Count, CpuCount, Key};
use linemate_attribution::times::Times;
use linemate_attribution::{Analysis, AnalysisError, Counted, Directory, Tally};
use linemate_growth::Growth;
use linemate_machine::LineSize;
use linemate_recording::{Accesses, Recording, TimeGrid};
use linemate_replay::{Dependences, L1s};
use linemate_types::kernel_image::CodeSection;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::error::SessionError;
use crate::event::{EventError, count_event};
use crate::ownership::Ownership;
use crate::progress::{Progress, Silent, Step, StepParts};
use crate::recorded::{recorded_cpus, recorded_threads};
use crate::shelf::{self, Digest, Nothing, Part, Shelf};
use crate::stream::{self, Named, Stream};

/// A recording that answers questions.
pub struct Session<'r> {
    analysis: Analysis<'r>,
    counted: Counted,
    /// The tally's rows, in order.
    rows: Vec<Key>,
    shelf: Box<dyn Shelf + 'r>,
    progress: Box<dyn Progress + 'r>,
    ownership: OnceLock<Ownership>,
    streams: Mutex<BTreeMap<L1s, Arc<Stream>>>,
    code: Option<Code>,
    growth: Option<Growth>,
}

/// A recording with more accesses is a long one: memory counts for more than time. Its names go
/// once replays can do without, because they take as much as the replays and few questions need
/// them again; its edits are replayed in full.
pub const LONG: Accesses = Accesses(500_000_000);

/// The recorded kernel's machine code.
struct Code {
    sections: Vec<CodeSection>,
    digest: Digest,
    dependences: OnceLock<Arc<Dependences>>,
}

/// [`Part::Counts`], as stored on the shelf.
#[derive(Serialize, Deserialize)]
struct KeptCounts {
    directory: Directory,
    rows: Vec<(Key, Count)>,
    per_cpu: Vec<CpuCount>,
    co_uses: CoUses,
    in_turn: InTurn,
    objects: Objects,
    times: Times,
    calls: Vec<u64>,
}

impl KeptCounts {
    /// Whether every number in it names something.
    fn is_sound(&self) -> bool {
        let subjects = self.directory.subjects.len();
        let in_order = self.rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let known = |(key, _): &(Key, Count)| (key.subject.0 as usize) < subjects;
        let places = self.times.places.keys();
        let is_subject = |subject: u32| (subject as usize) < subjects;
        let mut counters = self.in_turn.counters.keys().map(|(write, _)| write.field);
        // The shelf's checksum was right, so this does not guard against damage but against an
        // analysis that packed something else: what fails is computed again.
        in_order
            && self.rows.iter().all(known)
            && self.objects.len() == subjects
            && places.map(|place| place.subject.0).all(is_subject)
            && counters.all(|field| is_subject(field.subject.0))
    }
}

impl<'r> Session<'r> {
    /// Of a recording, with what the shelf has of it. The rest is computed and stored there;
    /// `progress` receives how far that and replays are.
    ///
    /// # Errors
    /// A recording without types or symbols, or with a damaged chunk.
    pub fn open(
        recording: &'r Recording,
        shelf: Box<dyn Shelf + 'r>,
        progress: Box<dyn Progress + 'r>,
    ) -> Result<Session<'r>, AnalysisError> {
        let kept = shelf.load(Part::Counts).and_then(|bytes| unpack(&bytes));
        if let Some(kept) = kept {
            let analysis = Analysis::known(recording, kept.directory)?;
            let schema = analysis.schema();
            let known = |ty| schema.get(ty).is_some();
            // Types are numbered by the model, which is built anew from the recording each time.
            if analysis.subjects().iter().filter_map(|s| s.ty).all(known) {
                let counted = Counted {
                    tally: Tally::of(analysis.subjects(), kept.rows, kept.per_cpu),
                    co_uses: kept.co_uses,
                    in_turn: kept.in_turn,
                    objects: kept.objects,
                    times: kept.times,
                    calls: kept.calls,
                };
                return Ok(Session::with(analysis, counted, shelf, progress));
            }
        }
        let chunks = StepParts::from(recording.chunks().len());
        let done = |chunks| progress.advance(StepParts(chunks));
        progress.begin(Step::Naming, chunks);
        let analysis = Analysis::new_with_progress(recording, &done)?;
        progress.begin(Step::Counting, chunks);
        let counted = analysis.count_with_progress(&done)?;
        if let Some(bytes) = pack(&analysis, &counted) {
            shelf.store(Part::Counts, &bytes);
        }
        Ok(Session::with(analysis, counted, shelf, progress))
    }

    /// Of a recording, keeping nothing.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn new(recording: &'r Recording) -> Result<Session<'r>, AnalysisError> {
        Session::open(recording, Box::new(Nothing), Box::new(Silent))
    }

    fn with(
        analysis: Analysis<'r>,
        counted: Counted,
        shelf: Box<dyn Shelf + 'r>,
        progress: Box<dyn Progress + 'r>,
    ) -> Session<'r> {
        let rows = counted.tally.rows().iter().map(|(key, _)| *key).collect();
        Session {
            analysis,
            counted,
            rows,
            shelf,
            progress,
            ownership: OnceLock::new(),
            streams: Default::default(),
            code: None,
            growth: None,
        }
    }

    /// The same session, given the machine code of the recorded kernel: replays with overlap then
    /// know which misses are independent. Without it, and for code that is in no section (modules,
    /// BPF, user programs), every miss waits for the loads before it.
    #[must_use]
    pub fn with_code(self, sections: Vec<CodeSection>) -> Session<'r> {
        let mut digest = Xxh3::new();
        for section in &sections {
            // The address too: the same bytes elsewhere are other instructions' code.
            digest.update(&section.address.to_le_bytes());
            digest.update(&section.bytes);
        }
        let code = Code {
            digest: Digest(digest.digest()),
            sections,
            dependences: OnceLock::new(),
        };
        Session {
            code: Some(code),
            ..self
        }
    }

    /// The same session, with the growth of accesses with the number of CPUs: replays of more CPUs
    /// than were recorded make them as often.
    #[must_use]
    pub fn with_growth(self, growth: Growth) -> Session<'r> {
        Session {
            growth: Some(growth),
            ..self
        }
    }

    pub fn growth(&self) -> Option<&Growth> {
        self.growth.as_ref()
    }

    /// The machine code that was given, if any was.
    pub fn code(&self) -> Option<&[CodeSection]> {
        self.code.as_ref().map(|code| code.sections.as_slice())
    }

    /// A digest of the machine code that was given, if any was.
    pub fn code_digest(&self) -> Option<Digest> {
        self.code.as_ref().map(|code| code.digest)
    }

    /// From which loads the addresses of the recording's accesses come, as far as its code was
    /// given.
    pub fn dependences(&self) -> Arc<Dependences> {
        let Some(code) = &self.code else {
            return Arc::default();
        };
        let instructions = || self.rows.iter().map(|row| row.pc);
        let symbols = self.analysis.symbols();
        let find = || linemate_code::dependences(&code.sections, symbols, instructions());
        Arc::clone(code.dependences.get_or_init(|| Arc::new(find())))
    }

    /// Its types, symbols and subjects.
    pub fn analysis(&self) -> &Analysis<'r> {
        &self.analysis
    }

    /// How often a function was called.
    ///
    /// # Errors
    /// It was not recorded which calls it had, or it had none.
    pub fn event(&self, function: &str) -> Result<EventCount, EventError> {
        count_event(
            self.analysis.recording().functions(),
            &self.counted.calls,
            function,
        )
    }

    /// The counts of the whole recording.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// What counts over time are kept for.
    pub fn time_grid(&self) -> TimeGrid {
        self.analysis.recording().time_grid()
    }

    /// Where progress is reported.
    pub fn progress(&self) -> &dyn Progress {
        &*self.progress
    }

    /// Where results are stored.
    pub fn shelf(&self) -> &dyn Shelf {
        &*self.shelf
    }

    /// Every (instruction, subject, offset, kind, size) that it has accesses of, in order.
    pub fn rows(&self) -> &[Key] {
        &self.rows
    }

    /// Whose memory is whose.
    ///
    /// # Errors
    /// A recording without its number of CPUs.
    pub fn ownership(&self) -> Result<&Ownership, SessionError> {
        let cpus = recorded_cpus(&self.analysis)?;
        let objects = &self.counted.objects;
        let make = || Ownership::new(&self.analysis, objects, cpus);
        Ok(self.ownership.get_or_init(make))
    }

    /// What a stream is made from.
    fn named(&self) -> Result<Named<'_>, SessionError> {
        Ok(Named {
            analysis: &self.analysis,
            ownership: self.ownership()?,
            rows: &self.rows,
            tally: &self.counted.tally,
            progress: self.progress(),
        })
    }

    /// The L1s of machines whose cores have as many threads as the guest's.
    ///
    /// # Errors
    /// A recording without its number of CPUs.
    pub fn recorded_l1s(&self, line: LineSize) -> Result<L1s, SessionError> {
        let cpus = recorded_cpus(&self.analysis)?;
        let threads = recorded_threads(self.analysis.recording());
        Ok(L1s::of_threads(cpus, threads, line))
    }

    /// The accesses that replays with these L1s need.
    ///
    /// # Errors
    /// A recording without its number of CPUs, or damaged.
    pub fn stream(&self, l1s: &L1s) -> Result<Arc<Stream>, SessionError> {
        if let Some(stream) = self.streams().get(l1s) {
            return Ok(Arc::clone(stream));
        }
        let part = Part::Stream(l1s.line(), shared_l1s(l1s));
        let kept = || Stream::open(self.shelf.open(part)?, self.rows.len());
        let stream = match kept() {
            Some(stream) => stream,
            None => {
                let stream = stream::make(&self.named()?, l1s)?;
                if let Some(bytes) = stream.bytes() {
                    self.shelf.store(part, bytes);
                }
                if self.counted.tally.ledger().total() > LONG.0 {
                    self.analysis.forget_names();
                }
                // Where it is stored, it need not stay in memory as well.
                kept().unwrap_or(stream)
            }
        };
        // Two threads may have made one each: the first stays, and both are the same bytes.
        let mut streams = self.streams();
        let first = streams
            .entry(l1s.clone())
            .or_insert_with(|| Arc::new(stream));
        Ok(Arc::clone(first))
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<L1s, Arc<Stream>>> {
        // A panic elsewhere leaves the map whole.
        self.streams.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The accesses that edits of these subjects may affect, all of the subjects' own among them,
    /// if a question has kept them.
    pub fn followed(&self, l1s: &L1s, subjects: &[bool]) -> Option<Stream> {
        let bytes = self.shelf.open(self.followed_part(l1s, subjects))?;
        Stream::open(bytes, self.rows.len())
    }

    /// Keeps them for other questions.
    pub fn keep_followed(&self, l1s: &L1s, subjects: &[bool], stream: &Stream) {
        if let Some(bytes) = stream.bytes() {
            self.shelf.store(self.followed_part(l1s, subjects), bytes);
        }
    }

    fn followed_part(&self, l1s: &L1s, subjects: &[bool]) -> Part {
        let mut digest = Xxh3::new();
        digest.update(&l1s.line().bytes().to_le_bytes());
        if let Some(Digest(shared)) = shared_l1s(l1s) {
            digest.update(&shared.to_le_bytes());
        }
        let subjects = (0u32..).zip(subjects).zip(&self.counted.objects);
        // Without objects a subject has no accesses, wanted or not.
        let with_objects =
            subjects.filter(|((_, followed), objects)| **followed && !objects.is_empty());
        for ((subject, _), _) in with_objects {
            digest.update(&subject.to_le_bytes());
        }
        Part::Followed(Digest(digest.digest()))
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let recording = self.analysis.recording();
        f.debug_struct("Session")
            .field("checksum", &recording.checksum())
            .finish_non_exhaustive()
    }
}

/// Which CPUs share L1s; `None` where none do.
fn shared_l1s(l1s: &L1s) -> Option<Digest> {
    let mut digest = Xxh3::new();
    l1s.numbers()
        .for_each(|l1| digest.update(&l1.to_le_bytes()));
    (!l1s.are_separate()).then(|| Digest(digest.digest()))
}

fn pack(analysis: &Analysis<'_>, counted: &Counted) -> Option<Vec<u8>> {
    let rows = counted.tally.rows();
    let kept = KeptCounts {
        directory: analysis.directory().clone(),
        rows: rows
            .into_iter()
            .map(|(key, count)| (key, count.clone()))
            .collect(),
        per_cpu: counted.tally.per_cpu().to_vec(),
        co_uses: counted.co_uses.clone(),
        in_turn: counted.in_turn.clone(),
        objects: counted.objects.clone(),
        times: counted.times.clone(),
        calls: counted.calls.clone(),
    };
    shelf::pack(&kept)
}

fn unpack(bytes: &[u8]) -> Option<KeptCounts> {
    shelf::unpack(bytes).filter(KeptCounts::is_sound)
}

#[cfg(test)]
mod tests {
    use linemate_attribution::bitmap::BitmapId;
    use linemate_attribution::in_turn::CounterWrite;
    use linemate_attribution::{Bucket, FieldRef, Subject, SubjectId};
    use linemate_recording::{AccessKind, GuestAddr};

    use super::*;

    /// Two subjects, and a row for each of these.
    fn kept(rows: &[u32]) -> KeptCounts {
        let subject = Subject {
            bucket: Bucket::Field,
            ty: None,
            label: String::new(),
            site: None,
            percpu: false,
            program: false,
            of_threads: false,
        };
        let row = |subject: &u32| Key {
            subject: SubjectId(*subject),
            offset: 0,
            pc: GuestAddr(0),
            kind: AccessKind::Load,
            size: 8,
        };
        KeptCounts {
            directory: Directory {
                subjects: vec![subject; 2],
                ..Directory::default()
            },
            rows: rows.iter().map(|s| (row(s), Count::default())).collect(),
            per_cpu: Vec::new(),
            co_uses: CoUses::default(),
            in_turn: InTurn::default(),
            objects: vec![Default::default(); 2],
            times: Times::default(),
            calls: Vec::new(),
        }
    }

    #[test]
    fn what_names_nothing_is_not_sound() {
        assert!(kept(&[]).is_sound());
        assert!(kept(&[0, 1]).is_sound());
        assert!(!kept(&[0, 2]).is_sound(), "there is no subject 2");
        assert!(!kept(&[1, 0]).is_sound(), "rows are in order");
        assert!(!kept(&[1, 1]).is_sound(), "and there once");
        let mut more = kept(&[0]);
        more.objects.push(Default::default());
        assert!(!more.is_sound(), "objects of no subject");
        let counter = |subject: u32| {
            let mut kept = kept(&[0]);
            let field = FieldRef {
                subject: SubjectId(subject),
                offset: 0,
            };
            let pc = GuestAddr(0);
            let write = (CounterWrite { field, pc }, BitmapId(0));
            kept.in_turn.counters.insert(write, 1);
            kept.is_sound()
        };
        assert!(counter(1) && !counter(2), "there is no subject 2");
    }
}
