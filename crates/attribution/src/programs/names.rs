//! Where a program's access went: an object of the heap, a file's variable, a thread's memory, a
//! stack.

use linemate_recording::{Access, GuestAddr, PAGE};
use rustc_hash::FxHashSet;

use super::code::ProgramFacts;
use super::evidence::Evidence;
use super::files::FileNames;
use super::heap::Heap;
use super::heap_index::HeapIndex;
use super::located::{InProgram, of_program};
use super::objects::ObjectNames;
use super::places::{Space, UserAddr, UserPlaces};
use super::stack::StackNames;
use super::stack_objects::StackObjects;
use super::threads::{InThread, ThreadNames};
use crate::ledger::Bucket;
use crate::schema::Schema;
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// Finds where programs' accesses went.
#[derive(Debug)]
pub(crate) struct ProgramNames {
    places: UserPlaces,
    objects: ObjectNames,
    files: FileNames,
    threads: ThreadNames,
    /// Pages accessed through a stack pointer.
    stacks: FxHashSet<(Space, u64)>,
    on_stacks: StackNames,
    stack_objects: StackObjects,
    /// Instructions of the allocators' own functions.
    of_allocators: FxHashSet<GuestAddr>,
    /// Code that copies or clears bytes.
    copying: FxHashSet<GuestAddr>,
    whole: Wholes,
}

/// The subjects of memory that has only its area.
#[derive(Debug)]
struct Wholes {
    stack: SubjectId,
    thread_block: SubjectId,
    file: SubjectId,
    allocator: SubjectId,
    copied: SubjectId,
    unknown: SubjectId,
}

impl Wholes {
    fn new(subjects: &mut Subjects) -> Wholes {
        let mut of = |bucket| subjects.number(of_program(bucket));
        let stack = of(Bucket::ProgramStack);
        let thread_block = subjects.number(Subject {
            label: "(thread control block)".to_owned(),
            of_threads: true,
            ..of_program(Bucket::GlobalNamed)
        });
        let mut of = |bucket| subjects.number(of_program(bucket));
        Wholes {
            stack,
            thread_block,
            file: of(Bucket::ProgramFile),
            allocator: of(Bucket::Allocator),
            copied: of(Bucket::ProgramCopied),
            unknown: of(Bucket::UnknownUser),
        }
    }
}

/// The inputs of `ProgramNames`.
pub(crate) struct ProgramFindings {
    pub(crate) places: UserPlaces,
    pub(crate) heap: Heap,
    pub(crate) index: HeapIndex,
    pub(crate) evidence: Evidence,
}

impl ProgramNames {
    /// Resolves what was found.
    // The areas number their subjects in this order, which orders rows that are otherwise equal.
    pub(crate) fn new(
        facts: ProgramFacts<'_>,
        schema: &Schema,
        subjects: &mut Subjects,
        found: ProgramFindings,
    ) -> ProgramNames {
        let ProgramFindings {
            places,
            heap,
            index,
            mut evidence,
        } = found;
        let objects = ObjectNames::new(facts, schema, subjects, heap, index, &evidence);
        let files = FileNames::new(facts, schema, subjects, &evidence);
        let looks = std::mem::take(&mut evidence.looks);
        let stack_objects = StackObjects::new(facts, schema, subjects, looks, &evidence.reached);
        let reached = evidence.beside_heap.iter().copied();
        let on_stacks = StackNames::new(reached, facts, schema, subjects);
        ProgramNames {
            places,
            objects,
            files,
            threads: ThreadNames::new(facts.programs, &evidence),
            stacks: evidence.stacks.iter().copied().collect(),
            on_stacks,
            stack_objects,
            of_allocators: facts.code.of_allocators().collect(),
            copying: facts.code.copying().clone(),
            whole: Wholes::new(subjects),
        }
    }

    /// Where an access through a user mapping went; `None` if its process is unknown.
    pub(crate) fn locate(&self, access: &Access) -> Option<InProgram> {
        let at = self.places.of(access)?;
        let found = self
            .in_block(access, at)
            // The best known first: an allocation is known to the byte, a file to the end of its
            // last page, a thread only by its pointer.
            .or_else(|| self.in_file(at))
            .or_else(|| self.in_thread(at))
            .or_else(|| self.in_stack_object(access, at));
        if found.is_some() {
            return found;
        }
        if !self.stacks.contains(&(at.space, at.addr / PAGE)) {
            // What the program maps may be an allocator's memory, and then code knows better what
            // is there.
            let pointed = self.on_stacks.elsewhere(access);
            let found = pointed.or_else(|| self.in_mapping(access, at));
            return Some(found.unwrap_or_else(|| InProgram::whole(self.by_code(access.pc))));
        }
        let named = self.on_stacks.at(access);
        Some(named.unwrap_or_else(|| InProgram::whole(self.whole.stack)))
    }

    fn in_block(&self, access: &Access, at: UserAddr) -> Option<InProgram> {
        let found = self.objects.at(at, access.time)?;
        if !self.objects.is_untyped(found.subject) {
            return Some(found);
        }
        // The loader allocates the first thread's storage.
        let thread = self.in_thread(at);
        Some(match self.is_kept(found, access.pc) {
            // What an allocator keeps in a block of its own: its threads' caches.
            true => InProgram::whole(self.whole.allocator),
            false => thread.unwrap_or(found),
        })
    }

    /// Whether an allocator's own code accesses a block without a type.
    fn is_kept(&self, found: InProgram, pc: GuestAddr) -> bool {
        self.of_allocators.contains(&pc) && self.objects.is_untyped(found.subject)
    }

    /// Memory that no allocation covers, by the code that accesses it.
    fn by_code(&self, pc: GuestAddr) -> SubjectId {
        if self.of_allocators.contains(&pc) {
            self.whole.allocator
        } else if self.copying.contains(&pc) {
            self.whole.copied
        } else {
            self.whole.unknown
        }
    }

    /// In what the program maps: not what is copied to and from there, if that is all there is.
    fn in_mapping(&self, access: &Access, at: UserAddr) -> Option<InProgram> {
        let found = self.objects.mapped_at(at, access.time)?;
        let pc = access.pc;
        let by_code = self.of_allocators.contains(&pc) || self.copying.contains(&pc);
        (!by_code || !self.objects.is_untyped(found.subject)).then_some(found)
    }

    fn in_stack_object(&self, access: &Access, at: UserAddr) -> Option<InProgram> {
        let found = self.stack_objects.at(at, access.time)?;
        self.on_stacks
            .allows(access, found.subject)
            .then_some(found)
    }

    fn in_file(&self, at: UserAddr) -> Option<InProgram> {
        let found = self.files.at(at)?;
        let variable = self.files.variable(found);
        Some(variable.unwrap_or_else(|| InProgram::whole(self.whole.file)))
    }

    fn in_thread(&self, at: UserAddr) -> Option<InProgram> {
        match self.threads.at(at)? {
            InThread::Block { offset } => Some(InProgram {
                subject: self.whole.thread_block,
                offset: clip(offset),
                object: true,
            }),
            InThread::Local { file, offset } => self.files.thread_local(file, offset),
        }
    }
}
