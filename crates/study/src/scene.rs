//! What a recording holds of the things that edits touch: objects with their users, fields, functions.
//!
//! One pass over the recording before the first replay, on all threads; sums and sets only, so the result does not
//! depend on their number.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use linemate_attribution::schema::Schema;
use linemate_attribution::{Analysis, Bucket, FunctionName, Located, Names, SubjectId};
use linemate_recording::{
    Access, Call, Decoder, Error as RecordingError, GuestAddr, Marker, Return, Visitor,
};
use linemate_replay::{Fate, Item, KeyId, Later, Placed, Sharing, SiteId};
use linemate_types::{ByteOffset, FlatType, TypeId, TypeModel};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use linemate_layout::nesting::{embeds, enclosing};
use linemate_layout::pointer::Chase;

use crate::follow::{Arrays, Follower, Places, Votes};

/// What a key of a replay stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    /// Which of the watched types, by its number; `None` for all else.
    pub watched: Option<usize>,
    /// The field's path, or what else it is.
    pub path: String,
    /// In a scene of every type: bytes from the start of the type to the accesses of this key, each place having a key of its own.
    pub place: Option<Place>,
}

/// A place in a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The type's name.
    pub type_name: String,
    /// Bytes from its start.
    pub offset: u32,
}

/// An access with all that does not depend on edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The access as recorded.
    pub access: Access,
    /// What it is counted for.
    pub subject: SubjectId,
    /// Bytes from the start of the object's type.
    pub offset: u32,
    /// Its field, or its subject.
    pub key: KeyId,
    /// Its function.
    pub site: SiteId,
    /// Whose memory it is when CPUs are cloned.
    pub sharing: Sharing,
    /// Whether it goes through the caches.
    pub fate: Fate,
    /// Instructions from its slice's first access, where the recording has been cut into slices; else 0.
    pub at: u32,
    /// What was left out after it.
    pub later: Later,
}

impl Step {
    /// The access as a replay takes it.
    #[inline]
    pub fn item(&self) -> Item {
        Item {
            pc: self.access.pc,
            offset: self.at,
            size: self.access.size,
            kind: self.access.kind,
            later: self.later,
        }
    }

    /// Where it goes and what it counts for, without edits.
    #[inline]
    pub fn placed(&self) -> Placed {
        Placed {
            addr: self.access.addr,
            key: self.key,
            site: self.site,
            sharing: self.sharing,
            fate: self.fate,
        }
    }
}

/// Accesses to an object by CPU.
type Users = Vec<u32>;

/// What a recording holds.
#[derive(Debug)]
pub struct Scene<'a> {
    names: &'a Names,
    /// By subject: the model's type that stands for the subject's.
    pub types: Vec<Option<TypeId>>,
    /// By subject: its objects' addresses with their users.
    pub objects: Vec<BTreeMap<u64, Users>>,
    /// How often an object of the first type and one of the second are touched one directly after the other by one
    /// CPU; for each question asked.
    pub neighbours: Vec<BTreeMap<(u64, u64), u64>>,
    /// What each pointer that was asked for leads to.
    pub arrays: Vec<(Chase, Arrays)>,
    /// By [`KeyId`].
    pub keys: Vec<KeyName>,
    /// By [`SiteId`].
    pub sites: Vec<String>,
    /// Accesses in all.
    pub accesses: u64,
    /// Loads, stores and RMWs as recorded, by subject and offset.
    counts: BTreeMap<(u32, u32), [u64; 3]>,
    fields: FxHashMap<(u32, u32), u32>,
    functions: FxHashMap<u64, u32>,
    sharing: Vec<SubjectSharing>,
    /// The first idle task and its stack.
    first_idle: [Range<u64>; 2],
}

/// Bytes of a kernel stack on x86-64 (`THREAD_SIZE` without KASAN).
const STACK_BYTES: u64 = 16 << 10;

#[derive(Clone, Debug)]
enum SubjectSharing {
    All(Sharing),
    /// Registers of devices, which no cache holds.
    Device,
    /// Cloned objects by address; the others are shared.
    ByObject(FxHashSet<u64>),
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Types (each with its variants) whose fields are told apart.
    pub types: Vec<Vec<TypeId>>,
    /// Instead of those: every type that the recording has objects of. Keys are then called `TYPE.PATH`, variables without a type
    /// by their names.
    pub every: bool,
    /// Pairs of types whose objects are matched.
    pub pairs: Vec<(Vec<TypeId>, Vec<TypeId>)>,
    /// Pointers whose arrays are looked for.
    pub chases: Vec<Chase>,
}

impl<'a> Scene<'a> {
    /// Reads the recording once.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn new(
        analysis: &'a Analysis<'_>,
        cpus: usize,
        watch: &Watch,
    ) -> Result<Scene<'a>, RecordingError> {
        let names = analysis.names();
        let types = subject_types(analysis);
        let model = analysis.model();
        let holds = |id: TypeId, set: &[TypeId]| set.contains(&id);
        let told_apart = |id| watch.every || watch.types.iter().any(|set| embeds(model, id, set));
        let watched: Vec<bool> = types.iter().map(|id| id.is_some_and(told_apart)).collect();
        let sides: Vec<[Vec<bool>; 2]> = watch
            .pairs
            .iter()
            .map(|(a, b)| {
                [a, b].map(|set| {
                    types
                        .iter()
                        .map(|id| id.is_some_and(|id| holds(id, set)))
                        .collect()
                })
            })
            .collect();
        let places = Places::new(&watch.chases, model, names, &types);
        let questions = Questions {
            types: &types,
            sides: &sides,
            places: &places,
        };
        let survey = run_survey(analysis, cpus, questions)?;
        let arrays = survey.votes.settle(watch.chases.len());
        let mut scene = Scene {
            names,
            types,
            objects: survey
                .objects
                .into_iter()
                .map(|map| map.into_iter().collect())
                .collect(),
            neighbours: survey
                .neighbours
                .into_iter()
                .map(|map| map.into_iter().collect())
                .collect(),
            arrays: watch.chases.iter().cloned().zip(arrays).collect(),
            keys: Vec::new(),
            sites: Vec::new(),
            accesses: survey.accesses,
            counts: BTreeMap::new(),
            fields: FxHashMap::default(),
            functions: FxHashMap::default(),
            sharing: Vec::new(),
            first_idle: first_idle(analysis),
        };
        scene.number_subjects(names.schema());
        let watched = |place: &&(u32, u32)| watched[place.0 as usize];
        let offsets: BTreeSet<(u32, u32)> = survey.counts.keys().filter(watched).copied().collect();
        if watch.every {
            scene.number_every_field(model, names.schema(), offsets);
        } else {
            scene.number_keys(model, watch, offsets);
        }
        scene.counts = survey.counts.into_iter().collect();
        scene.number_functions(analysis, survey.pcs.into_iter().collect());
        scene.sharing = scene.share_out(cpus);
        Ok(scene)
    }

    /// The first keys are the subjects themselves, in their order.
    fn number_subjects(&mut self, schema: &Schema) {
        for subject in self.names.subjects() {
            let path = match (subject.ty, subject.label.as_str()) {
                (Some(ty), "") => schema.name(ty).to_owned(),
                (None, "") => subject.bucket.words().to_owned(),
                (_, label) => label.to_owned(),
            };
            self.keys.push(KeyName {
                watched: None,
                path,
                place: None,
            });
        }
    }

    /// The fields of all types behind them, in the order of (subject, offset); and variables without a type.
    fn number_every_field(
        &mut self,
        model: &TypeModel,
        schema: &Schema,
        offsets: BTreeSet<(u32, u32)>,
    ) {
        for (key, subject) in self.keys.iter_mut().zip(self.names.subjects()) {
            if matches!(subject.bucket, Bucket::GlobalNamed | Bucket::PercpuNamed) {
                key.watched = Some(0);
            }
        }
        let mut flats: FxHashMap<TypeId, Option<FlatType>> = FxHashMap::default();
        let mut known: FxHashMap<(String, u32), u32> = FxHashMap::default();
        for (subject, offset) in offsets {
            let at = subject as usize;
            let (Some(outer), Some(ty)) = (self.types[at], self.names.subjects()[at].ty) else {
                continue;
            };
            let flat = flats
                .entry(outer)
                .or_insert_with(|| FlatType::new(model, outer).ok());
            let leaf = flat.as_ref().and_then(|flat| {
                let found = flat.find(ByteOffset(u64::from(offset)), 1)?;
                Some(flat.names(found.leaf))
            });
            // A variable's name tells more than that its struct has none.
            let label = self.names.subjects()[at].label.as_str();
            let untagged = schema.get(ty).is_some_and(|about| about.name.is_empty());
            let name = match label {
                label if untagged && !label.is_empty() => label,
                _ => schema.name(ty),
            };
            let path = leaf.map_or_else(
                || format!("{name} (padding)"),
                |leaf| format!("{name}.{leaf}"),
            );
            let keys = &mut self.keys;
            let key = *known
                .entry((path, offset))
                .or_insert_with_key(|(path, offset)| {
                    keys.push(KeyName {
                        watched: Some(0),
                        path: path.clone(),
                        place: Some(Place {
                            type_name: name.to_owned(),
                            offset: *offset,
                        }),
                    });
                    (keys.len() - 1) as u32
                });
            self.fields.insert((subject, offset), key);
        }
    }

    /// The fields of watched types behind them, in the order of (subject, offset).
    fn number_keys(&mut self, model: &TypeModel, watch: &Watch, offsets: BTreeSet<(u32, u32)>) {
        let flats: Vec<Option<FlatType>> = watch
            .types
            .iter()
            .map(|set| FlatType::new(model, *set.first()?).ok())
            .collect();
        let mut known: FxHashMap<(usize, String), u32> = FxHashMap::default();
        for (subject, offset) in offsets {
            let Some(outer) = self.types[subject as usize] else {
                continue;
            };
            let inner = watch.types.iter().enumerate().find_map(|(number, set)| {
                let found = enclosing(model, outer, u64::from(offset), &|id| set.contains(&id))?;
                Some((number, found.1))
            });
            let Some((number, inner)) = inner else {
                continue;
            };
            let hit = flats[number]
                .as_ref()
                .and_then(|flat| Some(flat.names(flat.find(ByteOffset(inner), 1)?.leaf)));
            let path = hit.unwrap_or_else(|| "(padding)".to_owned());
            let keys = &mut self.keys;
            let key = *known
                .entry((number, path))
                .or_insert_with_key(|(number, path)| {
                    keys.push(KeyName {
                        watched: Some(*number),
                        path: path.clone(),
                        place: None,
                    });
                    (keys.len() - 1) as u32
                });
            self.fields.insert((subject, offset), key);
        }
    }

    fn number_functions(&mut self, analysis: &Analysis<'_>, pcs: BTreeSet<u64>) {
        let mut known: BTreeMap<&str, u32> = BTreeMap::new();
        for pc in pcs {
            let name = FunctionName::at(analysis.symbols(), GuestAddr(pc)).as_str();
            let sites = &mut self.sites;
            let site = *known.entry(name).or_insert_with(|| {
                sites.push(name.to_owned());
                (sites.len() - 1) as u32
            });
            self.functions.insert(pc, site);
        }
    }

    /// Whose memory the subjects' objects are: see docs/scaling.md.
    fn share_out(&self, cpus: usize) -> Vec<SubjectSharing> {
        let mut population: FxHashMap<TypeId, usize> = FxHashMap::default();
        for (id, objects) in self.types.iter().zip(&self.objects) {
            if let Some(id) = id {
                *population.entry(*id).or_default() += objects.len();
            }
        }
        let subjects = self
            .names
            .subjects()
            .iter()
            .zip(&self.types)
            .zip(&self.objects);
        let one = |((subject, id), objects): (
            (&linemate_attribution::Subject, &Option<TypeId>),
            &BTreeMap<u64, Users>,
        )| {
            match subject.bucket {
                Bucket::Device => SubjectSharing::Device,
                Bucket::GlobalTyped
                | Bucket::GlobalNamed
                | Bucket::UnknownImage
                | Bucket::UnknownArea => SubjectSharing::All(Sharing::Shared),
                Bucket::Field if !subject.percpu => {
                    let count = id.and_then(|id| population.get(&id)).copied().unwrap_or(0);
                    if count >= cpus {
                        return SubjectSharing::All(Sharing::Cloned);
                    }
                    let own = |(base, users): (&u64, &Users)| majority(users).map(|_| *base);
                    SubjectSharing::ByObject(objects.iter().filter_map(own).collect())
                }
                _ => SubjectSharing::All(Sharing::Cloned),
            }
        };
        subjects.map(one).collect()
    }

    /// How often bytes were accessed as recorded: loads, stores and RMWs, by subject and offset in its type; without a type at 0.
    pub fn counts(&self) -> impl Iterator<Item = ((u32, u32), [u64; 3])> {
        self.counts.iter().map(|(place, kinds)| (*place, *kinds))
    }

    /// The keys that belong to watched types, by their numbers.
    pub fn watched(&self) -> Vec<usize> {
        let keys = self.keys.iter().enumerate();
        let watched = keys.filter(|(_, key)| key.watched.is_some());
        watched.map(|(number, _)| number).collect()
    }

    /// What accesses to a subject's byte count for.
    #[inline]
    pub fn key(&self, subject: u32, offset: u32) -> KeyId {
        let field = self.fields.get(&(subject, offset));
        KeyId(field.copied().unwrap_or(subject))
    }

    /// The access with what is known of it.
    #[inline]
    pub fn step(&self, access: &Access) -> Step {
        let at = self.names.locate(access);
        let base = access.addr.0.wrapping_sub(u64::from(at.offset));
        let sharing = match &self.sharing[at.subject.0 as usize] {
            // A task and a stack like others, but variables of the kernel image, which are shared otherwise.
            _ if self
                .first_idle
                .iter()
                .any(|part| part.contains(&access.addr.0)) =>
            {
                Sharing::Cloned
            }
            SubjectSharing::All(sharing) => *sharing,
            SubjectSharing::Device => Sharing::Shared,
            SubjectSharing::ByObject(cloned) if cloned.contains(&base) => Sharing::Cloned,
            SubjectSharing::ByObject(_) => Sharing::Shared,
        };
        let key = self.key(at.subject.0, at.offset);
        let site = self.functions.get(&access.pc.0).copied().unwrap_or(0);
        let (subject, offset) = (at.subject, at.offset);
        let fate = match &self.sharing[subject.0 as usize] {
            SubjectSharing::Device => Fate::Uncached,
            _ => Fate::Cached,
        };
        Step {
            access: *access,
            subject,
            offset,
            key,
            site: SiteId(site),
            sharing,
            fate,
            at: 0,
            later: Later::default(),
        }
    }
}

/// Where the first idle task and its stack lie; a part that the kernel has no symbol for is empty.
fn first_idle(analysis: &Analysis<'_>) -> [Range<u64>; 2] {
    let model = analysis.model();
    let task = model.struct_named("task_struct");
    let task_bytes = task.and_then(|id| model.size_of(id)).unwrap_or(0);
    [("init_task", task_bytes), ("init_stack", STACK_BYTES)].map(|(symbol, bytes)| {
        let start = analysis.symbols().address_of(symbol).unwrap_or(0);
        start..start.saturating_add(if start == 0 { 0 } else { bytes })
    })
}

/// The CPU that makes more than half of the accesses, if any.
pub(crate) fn majority(users: &[u32]) -> Option<u16> {
    let total: u64 = users.iter().map(|count| u64::from(*count)).sum();
    let most = users
        .iter()
        .position(|count| 2 * u64::from(*count) > total)?;
    u16::try_from(most).ok()
}

/// By subject: a type of the model that its type stands for.
fn subject_types(analysis: &Analysis<'_>) -> Vec<Option<TypeId>> {
    let (_, numbers) = Schema::of_model(analysis.model());
    let mut ids = FxHashMap::default();
    for (id, index) in numbers {
        let known = ids.entry(index).or_insert(id);
        *known = id.min(*known);
    }
    let id = |subject: &linemate_attribution::Subject| Some(TypeId(*ids.get(&subject.ty?)?));
    analysis.names().subjects().iter().map(id).collect()
}

#[derive(Default)]
struct Survey {
    objects: Vec<FxHashMap<u64, Users>>,
    neighbours: Vec<FxHashMap<(u64, u64), u64>>,
    counts: FxHashMap<(u32, u32), [u64; 3]>,
    pcs: FxHashSet<u64>,
    accesses: u64,
    votes: Votes,
}

/// What the survey looks for, by subject.
#[derive(Clone, Copy)]
struct Questions<'s> {
    types: &'s [Option<TypeId>],
    sides: &'s [[Vec<bool>; 2]],
    places: &'s Places,
}

struct Surveyor<'s> {
    names: &'s Names,
    asked: Questions<'s>,
    cpus: usize,
    follower: Follower,
    /// By question and CPU: the last object of either side.
    last: Vec<Vec<[Option<u64>; 2]>>,
    found: Survey,
}

fn run_survey(
    analysis: &Analysis<'_>,
    cpus: usize,
    asked: Questions<'_>,
) -> Result<Survey, RecordingError> {
    let chunks = analysis.recording().chunks();
    let next = AtomicUsize::new(0);
    let workers = rayon::current_num_threads().clamp(1, chunks.len().max(1));
    let work = |_| {
        let found = Survey {
            objects: vec![FxHashMap::default(); asked.types.len()],
            neighbours: vec![FxHashMap::default(); asked.sides.len()],
            ..Survey::default()
        };
        let names = analysis.names();
        let last = Vec::new();
        let mut surveyor = Surveyor {
            names,
            asked,
            cpus,
            follower: Follower::default(),
            last,
            found,
        };
        let mut decoder = Decoder::new();
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Neighbours are counted within a chunk: chunks are taken in any order.
            surveyor.last = vec![vec![[None; 2]; cpus]; asked.sides.len()];
            surveyor.follower.restart(cpus);
            analysis
                .recording()
                .visit(chunk, &mut decoder, &mut surveyor)?;
        }
        surveyor.found.votes = surveyor.follower.votes;
        Ok(surveyor.found)
    };
    let parts: Vec<Result<Survey, RecordingError>> =
        (0..workers).into_par_iter().map(work).collect();
    let mut sum = Survey::default();
    for part in parts {
        sum.merge(part?);
    }
    Ok(sum)
}

impl Survey {
    fn merge(&mut self, other: Survey) {
        self.objects
            .resize_with(other.objects.len(), FxHashMap::default);
        self.neighbours
            .resize_with(other.neighbours.len(), FxHashMap::default);
        for (mine, theirs) in self.objects.iter_mut().zip(other.objects) {
            for (base, users) in theirs {
                let sum = mine.entry(base).or_insert_with(|| vec![0; users.len()]);
                for (a, b) in sum.iter_mut().zip(users) {
                    *a = a.saturating_add(b);
                }
            }
        }
        for (mine, theirs) in self.neighbours.iter_mut().zip(other.neighbours) {
            for (pair, count) in theirs {
                *mine.entry(pair).or_default() += count;
            }
        }
        for (place, kinds) in other.counts {
            let mine = self.counts.entry(place).or_default();
            for (sum, count) in mine.iter_mut().zip(kinds) {
                *sum += count;
            }
        }
        self.pcs.extend(other.pcs);
        self.accesses += other.accesses;
        self.votes.merge(other.votes);
    }
}

impl Surveyor<'_> {
    fn neighbours(&mut self, cpu: usize, at: &Located, base: u64) {
        let subject = at.subject.0 as usize;
        for (question, sides) in self.asked.sides.iter().enumerate() {
            let Some(last) = self.last[question].get_mut(cpu) else {
                continue;
            };
            for side in 0..2 {
                if sides[side][subject] {
                    // Only the step from one side to the other counts, once.
                    if last[side] != Some(base) {
                        if let Some(other) = last[1 - side] {
                            let pair = if side == 0 {
                                (base, other)
                            } else {
                                (other, base)
                            };
                            *self.found.neighbours[question].entry(pair).or_default() += 1;
                        }
                    }
                    last[side] = Some(base);
                }
            }
        }
    }
}

impl Visitor for Surveyor<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let at = self.names.locate(access);
        let subject = at.subject.0 as usize;
        self.found.accesses += 1;
        // Without a type there are no fields to tell apart.
        let typed = self.asked.types[subject].is_some();
        let place = (at.subject.0, if typed { at.offset } else { 0 });
        self.found.counts.entry(place).or_default()[access.kind as usize] += 1;
        self.found.pcs.insert(access.pc.0);
        let places = self.asked.places;
        self.follower
            .access(places, access, at.subject.0, at.offset);
        if !typed {
            return;
        }
        let base = access.addr.0.wrapping_sub(u64::from(at.offset));
        let cpu = usize::from(access.cpu.0);
        let cpus = self.cpus;
        let users = self.found.objects[subject]
            .entry(base)
            .or_insert_with(|| vec![0; cpus]);
        if let Some(count) = users.get_mut(cpu) {
            *count = count.saturating_add(1);
        }
        self.neighbours(cpu, &at, base);
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}
