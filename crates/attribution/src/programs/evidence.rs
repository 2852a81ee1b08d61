//! A pass over programs' accesses: where their files and stacks are, and what their objects are.
//!
//! An instruction-relative access shows where its file is mapped. An access through a register
//! that, according to the debug information, points to a struct shows what is there.

use std::collections::BTreeSet;

use linemate_programs::{Base, Operand, Programs, UserInstruction};
use linemate_recording::{
    Access, AccessKind, Call, CpuId, GuestAddr, Mark, Marker, PAGE, Return, Visitor,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{CodeTable, KnownInstruction};
use super::debug::{DebugInformation, Pointee, ScalarName};
use super::heap_index::{HeapIndex, HeapPlace};
use super::places::{Space, UserAddr, UserPlaces};
use super::scalars::{ScalarVote, part_of};
use super::stack_objects::Reached;
use super::stack_watch::{Look, StackWatch};
use crate::index::ObjectId;
use crate::schema::TypeIndex;
use crate::votes::Votes;

/// The maximum number of places stored for one file in one space.
const BASES_MAX: usize = 4;

/// What an access by a pointer to a struct and an index says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IndexedVote {
    pub(crate) object: ObjectId,
    pub(crate) ty: TypeIndex,
    /// Where in the object the pointer and the index lead, without the constant.
    pub(crate) offset: u64,
}

/// What the pass finds.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Mapped files: the offset added to their addresses.
    pub(crate) bases: BTreeSet<(Space, u32, u64)>,
    /// The thread pointers of each space.
    pub(crate) threads: BTreeSet<(Space, u64)>,
    /// Pages accessed through the stack pointer.
    pub(crate) stacks: BTreeSet<(Space, u64)>,
    /// Instructions that reached memory outside the heap, and name the object if it is on a stack
    /// or in a mapping.
    pub(crate) beside_heap: FxHashSet<GuestAddr>,
    /// What other threads than those whose stack it may be on accessed.
    pub(crate) reached: Reached,
    /// The calls in progress on stacks.
    pub(crate) looks: Vec<Look>,
    /// The struct types that objects were accessed as.
    pub(crate) votes: FxHashMap<ObjectId, Votes>,
    /// The struct types by a pointer to which, plus an index, objects were accessed.
    pub(crate) indexed: FxHashMap<IndexedVote, u64>,
    /// The scalars that objects were accessed as arrays of, where, and how often.
    pub(crate) scalars: FxHashMap<ScalarVote, u64>,
}

impl Evidence {
    pub(crate) fn merge(&mut self, other: Evidence) {
        self.bases.extend(other.bases);
        self.threads.extend(other.threads);
        self.stacks.extend(other.stacks);
        self.beside_heap.extend(other.beside_heap);
        self.reached.merge(other.reached);
        self.looks.extend(other.looks);
        for (object, votes) in other.votes {
            let mine = self.votes.entry(object).or_default();
            for (offset, ty, weight) in votes.iter() {
                mine.add(offset, ty, weight);
            }
        }
        for (vote, weight) in other.indexed {
            *self.indexed.entry(vote).or_default() += weight;
        }
        for (key, weight) in other.scalars {
            *self.scalars.entry(key).or_default() += weight;
        }
    }

    /// Keeps the first few places of each file in a space: it is mapped once, and a misread
    /// instruction must not fill memory.
    pub(crate) fn prune(&mut self) {
        let mut seen: FxHashMap<(Space, u32), usize> = FxHashMap::default();
        self.bases.retain(|(space, file, _)| {
            let count = seen.entry((*space, *file)).or_default();
            *count += 1;
            *count <= BASES_MAX
        });
    }
}

/// A thread's part of the pass.
pub(crate) struct Gather<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) code: &'a CodeTable,
    pub(crate) places: &'a UserPlaces,
    pub(crate) heap: &'a HeapIndex,
    pub(crate) debug: &'a DebugInformation,
    pub(crate) watch: StackWatch,
    pub(crate) found: Evidence,
}

impl Gather<'_> {
    /// A chunk has been read to its end.
    pub(crate) fn end_chunk(&mut self) {
        self.watch.end_chunk();
        self.found.looks.append(&mut self.watch.take());
    }

    fn look(&mut self, access: &Access, at: UserAddr) {
        let Some(known) = self.code.at(access.pc) else {
            return;
        };
        if known.instruction.uses_stack {
            self.found.stacks.insert((at.space, at.addr / PAGE));
            self.on_stack(access, at, known.instruction);
        }
        match known.instruction.operand {
            Operand::Place(target) if !known.instruction.uses_stack => {
                let base = at.addr.wrapping_sub(target.0);
                let fixed = self
                    .programs
                    .image(known.place.file)
                    .is_some_and(|i| i.fixed);
                // Files are mapped by pages. A fixed one (ET_EXEC) is at its own addresses, and any
                // other never is: evidence to the contrary is a misread instruction.
                if base % PAGE == 0 && (base == 0) == fixed {
                    self.found.bases.insert((at.space, known.place.file, base));
                }
            }
            Operand::Thread { displacement } => {
                let thread = at.offset(displacement.wrapping_neg());
                self.found.threads.insert((at.space, thread.addr));
            }
            Operand::Based { base, .. } if base == Base::STACK || known.in_frame => {
                self.found.stacks.insert((at.space, at.addr / PAGE));
                // Its own frame, however the code around it reached the stack.
                self.watch.uses(access.cpu, at.flat());
                self.beside_heap(access, at);
            }
            Operand::Based {
                displacement,
                indexed,
                ..
            } if !known.instruction.uses_stack => match known.points_to {
                // What is before a pointer's target is not part of it: a hash table's elements, a
                // header.
                Some(Pointee::Struct(ty)) if !indexed && displacement >= 0 => {
                    self.vote(access, at.offset(displacement.wrapping_neg()), ty);
                    self.beside_heap(access, at);
                    self.reach(access, at);
                }
                Some(Pointee::Struct(ty) | Pointee::Indexed(ty)) => {
                    if displacement >= 0 {
                        self.vote_indexed(access, at.offset(displacement.wrapping_neg()), ty);
                    }
                    self.reach(access, at);
                }
                Some(Pointee::Scalar(name)) => self.vote_scalar(access, at, Some(name)),
                // Without a name it votes for nothing, but counts among those of which half have to
                // be by pointers to scalars.
                None if known.described => self.vote_scalar(access, at, None),
                // A library without debug information that takes a lock.
                None => self.reach(access, at),
            },
            _ => {}
        }
    }

    /// Follows a push, pop, call or return.
    fn on_stack(&mut self, access: &Access, at: UserAddr, instruction: UserInstruction) {
        let stores = access.kind == AccessKind::Store;
        // `call [rax]` and `push [rax]` read other memory, too.
        let is_stack = match instruction.calls {
            true => stores,
            false => instruction.operand == Operand::None,
        };
        if is_stack {
            let call = instruction.calls.then_some(access.pc);
            self.watch.at(access.time);
            self.watch.used(access.cpu, at.flat(), call);
        }
    }

    fn beside_heap(&mut self, access: &Access, at: UserAddr) {
        if !self.in_heap(access, at) {
            self.found.beside_heap.insert(access.pc);
        }
    }

    /// A pointer is followed: to a variable of another thread, if that is on a stack that this CPU
    /// does not use.
    fn reach(&mut self, access: &Access, at: UserAddr) {
        if self.watch.is_elsewhere(access.cpu, at.flat()) && !self.in_heap(access, at) {
            self.found.reached.add(at.flat());
        }
    }

    fn in_heap(&self, access: &Access, at: UserAddr) -> bool {
        self.heap.at(at, access.time).is_some()
    }

    fn object_at(&self, at: UserAddr, access: &Access) -> Option<HeapPlace> {
        let heap = self.heap.at(at, access.time);
        heap.or_else(|| self.heap.mapped_at(at, access.time))
    }

    fn vote(&mut self, access: &Access, pointed: UserAddr, ty: TypeIndex) {
        if let Some(place) = self.object_at(pointed, access) {
            let votes = self.found.votes.entry(place.object).or_default();
            votes.add(place.offset, ty, 1);
        }
    }

    /// An element of an array of structs, which then begins at `indexed`, or of an array in a
    /// struct.
    fn vote_indexed(&mut self, access: &Access, indexed: UserAddr, ty: TypeIndex) {
        if let Some(HeapPlace { object, offset }) = self.object_at(indexed, access) {
            let vote = IndexedVote { object, ty, offset };
            *self.found.indexed.entry(vote).or_default() += 1;
        }
    }

    /// It does not matter where in an array a pointer points, so an index may be added.
    fn vote_scalar(&mut self, access: &Access, at: UserAddr, name: Option<ScalarName>) {
        if let Some(place) = self.object_at(at, access) {
            let vote = ScalarVote {
                object: place.object,
                part: part_of(place.offset),
                name,
            };
            *self.found.scalars.entry(vote).or_default() += 1;
        } else {
            self.reach(access, at);
        }
    }
}

impl Visitor for Gather<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        if access.user_mapping && access.pc.0 >> 63 == 0 {
            if let Some(at) = self.places.of(access) {
                self.look(access, at);
            }
        }
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, marker: &Marker) {
        if marker.mark == Mark::Turn {
            let (code, debug) = (self.code, self.debug);
            self.watch.at(marker.time);
            self.watch.turn(|site| holds(code, debug, site));
        }
    }
}

/// Whether the function that makes a call has variables in its frame.
fn holds(code: &CodeTable, debug: &DebugInformation, site: GuestAddr) -> bool {
    code.at(site)
        .is_some_and(|known| !debug.held_in_call(known.place).is_empty())
}

/// The calls that each CPU made, by where on the stack the return address is: the site of a
/// function is the call that wrote its return address last. It need not be the last call of all:
/// the first time that a program calls a library's function, the loader looks it up in between. A
/// slot keeps its call until another one is made there, so a call by code that is not known can get
/// the site of an older one at the same place of a page.
#[derive(Debug, Default)]
pub(crate) struct LastCall(Vec<Option<Box<[Option<GuestAddr>; SLOTS]>>>);

/// How many functions that get memory for a vector may be in one another. Rust's standard library
/// has three.
const GROWTH_CALLS_MAX: usize = 4;

/// Return addresses that a page has room for.
const SLOTS: usize = PAGE as usize / 8;

/// By the offset in the page, which the direct map's alias and the program's address have in
/// common.
fn slot(stack: GuestAddr) -> usize {
    (stack.0 % PAGE / 8) as usize
}

impl LastCall {
    /// Handles an access.
    #[inline]
    pub(crate) fn access(&mut self, code: &CodeTable, access: &Access) {
        if !access.user_mapping || access.pc.0 >> 63 != 0 {
            return;
        }
        if access.kind == AccessKind::Store
            && code.at(access.pc).is_some_and(|k| k.instruction.calls)
        {
            self.made(access.cpu, access.pc, access.addr);
        }
    }

    /// A call has stored its return address.
    fn made(&mut self, cpu: CpuId, site: GuestAddr, stored: GuestAddr) {
        let cpu = usize::from(cpu.0);
        if cpu >= self.0.len() {
            self.0.resize_with(cpu + 1, || None);
        }
        let slots = self.0[cpu].get_or_insert_with(|| Box::new([None; SLOTS]));
        slots[slot(stored)] = Some(site);
    }

    /// The instruction that called the function, if known: its return address is where the stack
    /// pointer is. A function that another one jumped to has that one's. Of a standard library's
    /// functions that get memory for a vector, the call that entered the first of them.
    pub(crate) fn of(&self, code: &CodeTable, call: &Call) -> Option<GuestAddr> {
        let slots = self.0.get(usize::from(call.cpu.0))?.as_ref()?;
        let mut stack = call.stack;
        let mut site = slots[slot(stack)]?;
        for _ in 0..GROWTH_CALLS_MAX {
            let Some(growth) = code.at(site).and_then(|known| known.growth) else {
                break;
            };
            stack.0 = stack.0.wrapping_add(growth.frame.0);
            let outer = slots[slot(stack)].and_then(|pc| Some((pc, code.at(pc)?)));
            // What is there may be an older call of something else.
            let entered = |call: &KnownInstruction| call.instruction.target == Some(growth.entry);
            match outer {
                Some((pc, known)) if entered(known) => site = pc,
                _ => break,
            }
        }
        Some(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Lifetime, LifetimeIndex, NEVER};
    use linemate_programs::{CodePlace, ElfAddr, UserInstruction};
    use linemate_recording::{FunctionId, VirtualTime};
    use linemate_testkit::accesses::access;

    use super::super::heap_index::Forks;
    use super::super::library::GrowthCall;
    use super::super::mappings::MappingIndex;

    const TASK: TypeIndex = TypeIndex(2);

    #[test]
    fn a_function_is_called_where_its_return_address_was_written() {
        let mut calls = LastCall::default();
        let entered = |calls: &LastCall, cpu, stack| {
            let call = Call {
                time: VirtualTime(0),
                cpu: CpuId(cpu),
                function: FunctionId(0),
                stack: GuestAddr(stack),
                caller: GuestAddr(0),
                values: [None; linemate_recording::MAX_PARAMETERS],
            };
            calls.of(&CodeTable::default(), &call)
        };
        calls.made(
            CpuId(1),
            GuestAddr(0x40_1000),
            GuestAddr(0xffff_8880_0000_7ff8),
        );
        // The loader looks the function up.
        calls.made(
            CpuId(1),
            GuestAddr(0x40_2000),
            GuestAddr(0xffff_8880_0000_7fb8),
        );
        assert_eq!(
            entered(&calls, 1, 0x7fff_dfff_3ff8),
            Some(GuestAddr(0x40_1000))
        );
        assert_eq!(
            entered(&calls, 1, 0x7fff_dfff_3fb8),
            Some(GuestAddr(0x40_2000))
        );
        assert_eq!(entered(&calls, 1, 0x7fff_dfff_3fb0), None, "nobody called");
        assert_eq!(entered(&calls, 0, 0x7fff_dfff_3ff8), None, "another CPU");
        calls.made(
            CpuId(1),
            GuestAddr(0x40_3000),
            GuestAddr(0xffff_8880_0000_7ff8),
        );
        assert_eq!(
            entered(&calls, 1, 0x7fff_dfff_3ff8),
            Some(GuestAddr(0x40_3000))
        );
    }

    /// What is where the outer call's return address would be may be another call's.
    #[test]
    fn a_vectors_block_is_asked_for_by_the_call_that_enters_its_functions() {
        let (inner, outer) = (GuestAddr(0x40_1000), GuestAddr(0x40_2000));
        let entry = ElfAddr(0x1000);
        let code = |target| {
            let call = |target, growth| KnownInstruction {
                place: CodePlace {
                    file: 0,
                    address: entry,
                },
                instruction: UserInstruction {
                    operand: Operand::None,
                    bytes: 0,
                    uses_stack: true,
                    calls: true,
                    target,
                },
                points_to: None,
                in_frame: false,
                described: true,
                of_allocator: false,
                maps: false,
                growth,
            };
            let frame = linemate_types::ByteSize(48);
            CodeTable::of([
                (inner, call(None, Some(GrowthCall { entry, frame }))),
                (outer, call(Some(target), None)),
            ])
        };
        let mut calls = LastCall::default();
        calls.made(CpuId(0), outer, GuestAddr(0xffff_8880_0000_7fe8));
        calls.made(CpuId(0), inner, GuestAddr(0xffff_8880_0000_7fb8));
        let call = Call {
            time: VirtualTime(0),
            cpu: CpuId(0),
            function: FunctionId(0),
            stack: GuestAddr(0x7fff_dfff_3fb8),
            caller: GuestAddr(0),
            values: [None; linemate_recording::MAX_PARAMETERS],
        };
        assert_eq!(calls.of(&code(entry), &call), Some(outer));
        assert_eq!(calls.of(&code(ElfAddr(0x2000)), &call), Some(inner));
    }

    /// The type that an object of 256 bytes is accessed as through a register that points 64 bytes
    /// into it.
    fn votes_of(displacement: i64, indexed: bool) -> Vec<(u64, TypeIndex, u64)> {
        let space = Space(0);
        let start = UserAddr {
            space,
            addr: 0x1000,
        };
        let heap = LifetimeIndex::new(&[Lifetime {
            range: start.flat().0..start.offset(256).flat().0,
            birth: VirtualTime(0),
            death: NEVER,
            object: ObjectId(7),
        }]);
        let heap = HeapIndex::new(heap, MappingIndex::default(), &Forks::default());
        let access = access(1, 0, AccessKind::Load, 0, 8);
        let operand = Operand::Based {
            base: Base(3),
            displacement,
            indexed,
        };
        let known = KnownInstruction {
            place: CodePlace {
                file: 0,
                address: ElfAddr(0x400),
            },
            instruction: UserInstruction {
                operand,
                bytes: 8,
                uses_stack: false,
                calls: false,
                target: None,
            },
            points_to: Some(Pointee::Struct(TASK)),
            in_frame: false,
            described: true,
            of_allocator: false,
            maps: false,
            growth: None,
        };
        let mut gather = Gather {
            programs: &Programs::default(),
            code: &CodeTable::of([(access.pc, known)]),
            places: &UserPlaces::new(0),
            heap: &heap,
            debug: &DebugInformation::default(),
            watch: StackWatch::default(),
            found: Evidence::default(),
        };
        gather.look(&access, start.offset(64 + displacement));
        let votes = gather.found.votes.remove(&ObjectId(7));
        votes.iter().flat_map(Votes::iter).collect()
    }

    /// Whether an access counts as one to another thread's variable, on a CPU that has used the
    /// stack at 0x7000 or none; `in_frame`: by the frame pointer.
    fn reaches(used: bool, base: Base, in_frame: bool, addr: u64) -> bool {
        let access = access(1, 0, AccessKind::Load, 0, 8);
        let known = KnownInstruction {
            place: CodePlace {
                file: 0,
                address: ElfAddr(0x400),
            },
            instruction: UserInstruction {
                operand: Operand::Based {
                    base,
                    displacement: 8,
                    indexed: false,
                },
                bytes: 8,
                uses_stack: false,
                calls: false,
                target: None,
            },
            points_to: None,
            in_frame,
            described: false,
            of_allocator: false,
            maps: false,
            growth: None,
        };
        let mut gather = Gather {
            programs: &Programs::default(),
            code: &CodeTable::of([(access.pc, known)]),
            places: &UserPlaces::new(0),
            heap: &HeapIndex::default(),
            debug: &DebugInformation::default(),
            watch: StackWatch::default(),
            found: Evidence::default(),
        };
        if used {
            gather.watch.used(access.cpu, GuestAddr(0x7000), None);
        }
        let space = Space(0);
        gather.look(&access, UserAddr { space, addr });
        let around = addr..addr + 1;
        gather.found.reached.any(&around)
    }

    #[test]
    fn a_frame_of_the_own_thread_is_not_another_threads() {
        let (general, far) = (Base(3), 0x7000 + (1 << 21));
        assert!(reaches(true, general, false, far));
        assert!(
            reaches(false, general, false, far),
            "its stack is not known"
        );
        assert!(!reaches(true, general, false, 0x7100), "its own stack");
        assert!(!reaches(false, Base::STACK, false, far));
        assert!(!reaches(true, Base::FRAME, true, far));
    }

    #[test]
    fn an_access_says_what_is_at_its_pointer_and_after() {
        assert_eq!(votes_of(0, false), [(64, TASK, 1)]);
        assert_eq!(votes_of(24, false), [(64, TASK, 1)]);
    }

    #[test]
    fn an_access_before_its_pointer_says_nothing_of_what_is_there() {
        assert_eq!(votes_of(-24, false), []);
        assert_eq!(votes_of(24, true), [], "an index may be of any size");
    }
}
