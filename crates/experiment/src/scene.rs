//! What a recording holds of the things that edits touch: objects with their users, fields,
//! functions.
//!
//! All of it comes from the recording's counts ([`Session`]), except for pairs of objects and what
//! pointers lead to, which only the order of accesses shows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use linemate_attribution::counted::Objects;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket, FieldRef, FunctionName, Names, SubjectId};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_layout::pointer::PointerChase;
use linemate_machine::LineSize;
use linemate_recording::{Access, Accesses, GuestAddr};
use linemate_replay::{KeyId, Outcome, SiteId};
use linemate_session::ownership::{Ownership, is_on_stack};
use linemate_session::rounds::{Rounds, read_ahead};
use linemate_session::stream::{Reader, Tables, Wanted};
use linemate_session::{Session, recorded_cpus};
use linemate_types::{FlatType, TypeId, TypeModel};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::ExperimentError;
use crate::follow::Arrays;
use crate::order;
pub use crate::order::Neighbours;
use crate::ranges;
pub use crate::watch::{TypePair, Watch};
pub use linemate_session::step::{Slice, Step};

/// What a key of a replay means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    /// Which of the watched types or of the memory watched as a whole, by its number; `None` for
    /// all else.
    pub watched: Option<usize>,
    /// The field's path, or what else it is.
    pub path: String,
    /// In a scene of every type: bytes from the start of the type to the accesses of this key, each
    /// place having a key of its own.
    pub place: Option<Place>,
}

/// A place in a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the type is called in tables.
    pub type_name: String,
    /// The type in the schema of the recording.
    pub ty: TypeIndex,
    /// Bytes from its start.
    pub offset: u32,
}

impl KeyName {
    /// Whether it is of a type whose fields are distinguished, not of something else that may have
    /// the same name.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.place.is_some()
    }
}

/// What a site of a replay means: a function, or a line of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function that the instruction is in.
    pub function: String,
    /// Whether it is a program's, not the kernel's.
    pub user: bool,
}

impl Site {
    fn new(function: FunctionName<'_>) -> Site {
        Site {
            function: function.as_str().to_owned(),
            user: function.is_user(),
        }
    }
}

/// What a recording holds.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The recording that is replayed.
    pub session: &'a Session<'a>,
    pub(crate) ownership: &'a Ownership,
    /// How many CPUs were recorded.
    pub cpus: usize,
    /// By subject: the model's type for the subject's type.
    pub types: &'a [Option<TypeId>],
    /// The same of subjects whose objects edits move.
    pub movable: &'a [Option<TypeId>],
    /// By subject: its objects' addresses with their users.
    pub objects: &'a Objects,
    /// How often an object of the first type and one of the second are touched one directly after
    /// the other by one CPU; for each requested pair.
    pub neighbours: Vec<(TypePair, Neighbours)>,
    /// What each requested pointer leads to.
    pub arrays: Vec<(PointerChase, Arrays)>,
    /// What each [`KeyId`] of a replay means.
    pub keys: Vec<KeyName>,
    /// By [`SiteId`]. Several are of one function where source lines are distinguished; a function
    /// of the kernel and one of a program may have the same name.
    pub sites: Vec<Site>,
    /// By [`SiteId`], where they are distinguished: the line of a program's source, or the function
    /// where no lines are known. Else empty.
    pub sources: Vec<String>,
    /// How many accesses the recording has.
    pub accesses: Accesses,
    /// Loads, stores and RMWs as recorded.
    counts: BTreeMap<FieldRef, [Accesses; 3]>,
    subject_keys: Vec<Option<KeyId>>,
    fields: FxHashMap<FieldRef, KeyId>,
    functions: FxHashMap<GuestAddr, SiteId>,
    /// The instructions that acquire locks, if it was asked ([`crate::locks`]).
    pub(crate) acquiring: OnceLock<Arc<FxHashSet<GuestAddr>>>,
}

impl<'a> Scene<'a> {
    /// Accesses of programs that no cache of their domain served in a replay of this scene: loads,
    /// stores, RMWs. The kernel's are the rest.
    #[must_use]
    pub fn llc_misses_of_programs(&self, outcome: &Outcome) -> [Accesses; 3] {
        let sites = self.sites.iter().zip(&outcome.sites);
        let programs = sites.filter(|(site, _)| site.user);
        programs.fold([Accesses::ZERO; 3], |mut sum, (_, counts)| {
            let kinds = sum.iter_mut().zip(counts.llc_misses);
            kinds.for_each(|(sum, part)| *sum += part);
            sum
        })
    }

    /// Looks at the recording's counts; reads the recording only for pairs and pointers.
    ///
    /// # Errors
    /// A recording without its number of CPUs, or damaged.
    pub fn new(session: &'a Session<'a>, watch: &Watch) -> Result<Scene<'a>, ExperimentError> {
        let (analysis, ownership) = (session.analysis(), session.ownership()?);
        let types = &ownership.types;
        let model = analysis.model();
        let told_apart = |id| watch.every || watch.types.iter().any(|set| embeds(model, id, set));
        let watched: Vec<bool> = types.iter().map(|id| id.is_some_and(told_apart)).collect();
        let cpus = recorded_cpus(analysis)?;
        let found = order::find(analysis, cpus, &ownership.movable, watch)?;
        let mut scene = Scene {
            session,
            ownership,
            cpus,
            types,
            movable: &ownership.movable,
            objects: &session.counted().objects,
            neighbours: watch.pairs.iter().cloned().zip(found.neighbours).collect(),
            arrays: watch.chases.iter().cloned().zip(found.arrays).collect(),
            keys: Vec::new(),
            sites: Vec::new(),
            sources: Vec::new(),
            accesses: Accesses(session.counted().tally.ledger().total()),
            counts: counts(session, types),
            subject_keys: Vec::new(),
            fields: FxHashMap::default(),
            functions: FxHashMap::default(),
            acquiring: OnceLock::new(),
        };
        scene.number_subjects(analysis);
        let offsets = scene
            .counts
            .keys()
            .filter(|field| watched[field.subject.index()]);
        let offsets: BTreeSet<FieldRef> = offsets.copied().collect();
        if watch.every {
            scene.number_every_field(analysis, offsets);
        } else {
            scene.number_keys(model, watch, offsets);
        }
        for (number, name) in (watch.types.len()..).zip(&watch.memory) {
            scene.watch_memory(number, name);
        }
        // Of all instructions, not only those that touch what is watched: sites of everything are
        // needed for `whole` by function.
        let pcs = session.rows().iter().map(|row| row.pc).collect();
        match watch.sources {
            true => scene.number_sources(analysis, pcs),
            false => scene.number_functions(analysis, pcs),
        }
        Ok(scene)
    }

    /// The first keys are the subjects that have accesses, in their order: one in fifty, and each
    /// key takes 300 bytes of every replay.
    fn number_subjects(&mut self, analysis: &Analysis<'_>) {
        let schema = analysis.schema();
        self.subject_keys = vec![None; analysis.subjects().len()];
        let touched: BTreeSet<SubjectId> = self.counts.keys().map(|field| field.subject).collect();
        for subject in touched {
            let at = subject.index();
            self.subject_keys[at] = Some(KeyId(self.keys.len() as u32));
            let subject = &analysis.subjects()[at];
            let path = match (subject.ty, subject.label.as_str()) {
                (Some(ty), "") => schema.name(ty).to_owned(),
                (None, "") => subject.bucket.name().to_owned(),
                (_, label) => label.to_owned(),
            };
            self.keys.push(KeyName {
                watched: None,
                path,
                place: None,
            });
        }
    }

    /// The fields of all types after them, in the order of (subject, offset); and variables without
    /// a type.
    fn number_every_field(&mut self, analysis: &Analysis<'_>, offsets: BTreeSet<FieldRef>) {
        let (model, schema) = (analysis.model(), analysis.schema());
        for (subject, key) in analysis.subjects().iter().zip(&self.subject_keys) {
            let named = matches!(
                subject.bucket,
                Bucket::GlobalScalar
                    | Bucket::GlobalNamed
                    | Bucket::PercpuNamed
                    | Bucket::StackNamed
                    | Bucket::StackShared
            );
            if let Some(key) = key.filter(|_| named) {
                self.keys[key.0 as usize].watched = Some(0);
            }
        }
        let mut flats: FxHashMap<TypeId, Option<FlatType>> = FxHashMap::default();
        let mut known: FxHashMap<(String, u32), KeyId> = FxHashMap::default();
        for field in offsets {
            let at = field.subject.index();
            let (Some(outer), Some(ty)) = (self.types[at], analysis.subjects()[at].ty) else {
                continue;
            };
            let flat = flats
                .entry(outer)
                .or_insert_with(|| FlatType::new(model, outer).ok());
            let leaf = flat.as_ref().and_then(|flat| {
                let found = flat.find(field.byte(), 1)?;
                Some(flat.names(found.leaf))
            });
            // A variable's name says more than that its struct has none.
            let label = analysis.subjects()[at].label.as_str();
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
                // By offset as well as by path: members of a union, and elements of an array, have
                // one path and several places.
                .entry((path, field.offset))
                .or_insert_with_key(|(path, offset)| {
                    keys.push(KeyName {
                        watched: Some(0),
                        path: path.clone(),
                        place: Some(Place {
                            type_name: name.to_owned(),
                            ty,
                            offset: *offset,
                        }),
                    });
                    KeyId((keys.len() - 1) as u32)
                });
            self.fields.insert(field, key);
        }
    }

    /// The fields of watched types after them, in the order of (subject, offset).
    fn number_keys(&mut self, model: &TypeModel, watch: &Watch, offsets: BTreeSet<FieldRef>) {
        let flats: Vec<Option<FlatType>> = watch
            .types
            .iter()
            .map(|set| FlatType::new(model, *set.first()?).ok())
            .collect();
        let mut known: FxHashMap<(usize, String), KeyId> = FxHashMap::default();
        for field in offsets {
            let Some(outer) = self.types[field.subject.index()] else {
                continue;
            };
            let inner = watch.types.iter().enumerate().find_map(|(number, set)| {
                let found = enclosing(model, outer, field.byte(), &|id| set.contains(&id))?;
                Some((number, found.1))
            });
            let Some((number, inner)) = inner else {
                continue;
            };
            let hit = flats[number]
                .as_ref()
                .and_then(|flat| Some(flat.names(flat.find(inner, 1)?.leaf)));
            let path = hit.unwrap_or_else(|| "(padding)".to_owned());
            let keys = &mut self.keys;
            let key = *known
                // By path alone: elements of an array are one field in a what-if, wherever they
                // are.
                .entry((number, path))
                .or_insert_with_key(|(number, path)| {
                    keys.push(KeyName {
                        watched: Some(*number),
                        path: path.clone(),
                        place: None,
                    });
                    KeyId((keys.len() - 1) as u32)
                });
            self.fields.insert(field, key);
        }
    }

    /// Watches what a name of an edit means, each variable or block as a whole.
    fn watch_memory(&mut self, number: usize, name: &str) {
        for subject in ranges::named(self.session, name) {
            if let Some(key) = self.subject_keys[subject] {
                self.keys[key.0 as usize] = KeyName {
                    watched: Some(number),
                    path: name.to_owned(),
                    place: None,
                };
            }
        }
    }

    fn number_functions(&mut self, analysis: &Analysis<'_>, pcs: BTreeSet<GuestAddr>) {
        let mut known: BTreeMap<FunctionName<'_>, u32> = BTreeMap::new();
        for pc in pcs {
            let function = FunctionName::at(analysis.symbols(), pc);
            let sites = &mut self.sites;
            let site = *known.entry(function).or_insert_with(|| {
                sites.push(Site::new(function));
                (sites.len() - 1) as u32
            });
            self.functions.insert(pc, SiteId(site));
        }
    }

    /// Lines of programs' source, each with its function. A line of code that is inlined into
    /// several functions is each one's own.
    fn number_sources(&mut self, analysis: &Analysis<'_>, pcs: BTreeSet<GuestAddr>) {
        let places = analysis.source_places();
        let mut known: BTreeMap<(String, FunctionName<'_>), u32> = BTreeMap::new();
        for pc in pcs {
            let function = FunctionName::at(analysis.symbols(), pc);
            let place = places.at(pc);
            let source = place.map_or_else(|| function.to_string(), ToString::to_string);
            let next = known.len() as u32;
            let site = *known.entry((source, function)).or_insert(next);
            if site == next {
                self.sites.push(Site::new(function));
            }
            self.functions.insert(pc, SiteId(site));
        }
        self.sources = vec![String::new(); known.len()];
        for ((source, _), site) in known {
            self.sources[site as usize] = source;
        }
    }

    /// The instructions of a program's function that access memory; `None` if there are none.
    pub(crate) fn code_of_program(&self, function: &str) -> Option<Vec<Range<GuestAddr>>> {
        let is_its = |site: &SiteId| {
            let site = &self.sites[site.0 as usize];
            site.user && site.function == function
        };
        let its = self.functions.iter().filter(|(_, site)| is_its(site));
        let mut code: Vec<Range<GuestAddr>> = its
            .map(|(pc, _)| *pc..GuestAddr(pc.0.saturating_add(1)))
            .collect();
        code.sort_by_key(|range| range.start);
        (!code.is_empty()).then_some(code)
    }

    /// How often bytes were accessed as recorded: loads, stores and RMWs; of subjects without a
    /// type all at 0.
    pub fn counts(&self) -> impl Iterator<Item = (FieldRef, [Accesses; 3])> {
        self.counts.iter().map(|(field, kinds)| (*field, *kinds))
    }

    /// Accesses to these types, or to what embeds them, on programs' stacks, where edits do not
    /// move them.
    pub fn accesses_on_stacks(&self, ids: &[TypeId]) -> Accesses {
        let (model, subjects) = (
            self.session.analysis().model(),
            self.session.analysis().subjects(),
        );
        let on_stack = self.counts.iter().filter(|(field, _)| {
            let at = field.subject.index();
            is_on_stack(&subjects[at]) && self.types[at].is_some_and(|id| embeds(model, id, ids))
        });
        on_stack.flat_map(|(_, kinds)| kinds).sum()
    }

    /// Accesses to the watched types.
    pub fn watched_accesses(&self) -> Accesses {
        let watched = self.counts.iter().filter(|(field, _)| {
            let key = self.keys.get(self.counted_key(**field).0 as usize);
            key.is_some_and(|key| key.watched.is_some())
        });
        watched.flat_map(|(_, kinds)| kinds).sum()
    }

    /// The keys that belong to watched types, by their numbers.
    pub fn watched(&self) -> Vec<usize> {
        let keys = self.keys.iter().enumerate();
        let watched = keys.filter(|(_, key)| key.watched.is_some());
        watched.map(|(number, _)| number).collect()
    }

    /// What accesses to a subject's byte count for.
    #[inline]
    pub fn key(&self, field: FieldRef) -> KeyId {
        let key = self.fields.get(&field).copied();
        key.or_else(|| self.subject_key(field.subject))
            .unwrap_or_default()
    }

    /// What accesses to a subject's byte count for, given as the recording's counts have it.
    pub(crate) fn counted_key(&self, field: FieldRef) -> KeyId {
        self.key(self.counted_field(field))
    }

    /// The field, or the subject where its fields are not distinguished in the recording's counts.
    pub(crate) fn counted_field(&self, field: FieldRef) -> FieldRef {
        let typed = self.types[field.subject.index()].is_some();
        FieldRef {
            offset: if typed { field.offset } else { 0 },
            ..field
        }
    }

    /// What accesses to a subject count for where its fields are not distinguished; `None` if it
    /// has none.
    #[inline]
    pub fn subject_key(&self, subject: SubjectId) -> Option<KeyId> {
        self.subject_keys.get(subject.index()).copied().flatten()
    }

    /// The function of an instruction.
    #[inline]
    pub(crate) fn site(&self, pc: GuestAddr) -> SiteId {
        self.functions.get(&pc).copied().unwrap_or_default()
    }

    /// What the scene counts each row of the recording's stream for.
    pub(crate) fn tables(&self) -> Tables {
        Tables::new(self.session.rows(), |key| {
            (self.key(key.field()), self.site(key.pc))
        })
    }

    /// Hands over the recording's rounds, many at a time, each as its slices, with the accesses of
    /// the subjects in `only`, all of which have types.
    ///
    /// # Errors
    /// A recording without its number of CPUs, or damaged.
    pub fn rounds(
        &self,
        line: LineSize,
        only: &[bool],
        mut take: impl FnMut(&[Vec<Slice<'_>>]) + Send,
    ) -> Result<(), ExperimentError> {
        let l1s = self.session.recorded_l1s(line)?;
        // Those that an earlier edit of the same types has kept are far fewer.
        let stream = match self.session.followed(&l1s, only) {
            Some(stream) => Arc::new(stream),
            None => self.session.stream(&l1s)?,
        };
        let tables = self.tables();
        let mut reader = Reader::new(&stream, self.ownership, &tables, Wanted::Only(only));
        let hand_over = |rounds: &mut Rounds| {
            let rounds: Vec<Vec<Slice<'_>>> = rounds.iter().map(Iterator::collect).collect();
            take(&rounds);
            Ok(())
        };
        Ok(read_ahead(|into| reader.next(into), hand_over)?)
    }

    /// The access with what is known of it.
    #[inline]
    pub fn step(&self, names: &Names, access: &Access) -> Step {
        let step = self.ownership.step(names, access);
        Step {
            key: self.key(step.field()),
            site: self.site(access.pc),
            ..step
        }
    }
}

/// By subject and offset; without a type there are no fields to distinguish.
fn counts(session: &Session<'_>, types: &[Option<TypeId>]) -> BTreeMap<FieldRef, [Accesses; 3]> {
    let mut counts: BTreeMap<FieldRef, [Accesses; 3]> = BTreeMap::new();
    for (key, count) in session.counted().tally.rows() {
        let typed = types[key.subject.index()].is_some();
        let field = FieldRef {
            subject: key.subject,
            offset: if typed { key.offset } else { 0 },
        };
        counts.entry(field).or_default()[key.kind as usize] += Accesses(count.count);
    }
    counts
}
