//! Variables on one thread's stack that other threads use: partial sums, a lock, what a closure
//! borrows.
//!
//! A frame is not allocated, and nothing marks its end. But a thread whose variables others use is
//! in a call, and calls store their return addresses. So the frames on its stack are known, and the
//! debug information says where in a frame a variable is:
//!
//! ```text
//! main's frame     sums[4] ◄──────────── worker: add [rax],1
//!                  …
//!   return address of pthread_join(), by the call in main: the stack pointer was 8 bytes higher
//! ```
//!
//! From the end of the turn in which the call was made until the stack pointer rises above it, the
//! variable is an object like a block on the heap, whatever code accesses it.

use std::collections::BTreeMap;
use std::ops::Range;

use linemate_dwarf::FramePlace;
use linemate_recording::{GuestAddr, PAGE, VirtualTime};
use linemate_types::Name;
use rustc_hash::FxHashMap;

use super::code::ProgramFacts;
use super::frame::HeldVariable;
use super::located::{InProgram, of_program};
use super::places::UserAddr;
use super::stack_watch::{Look, OpenCall, REACH, Rise, in_order};
use crate::index::{Lifetime, LifetimeIndex, NEVER, ObjectId, Tenant};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// Bytes of a return address.
const SLOT: u64 = 8;

/// Bytes of the pieces of memory of which is stored whether other threads access them: a page has
/// as many as a word has bits.
const PIECE: u64 = PAGE / 64;

/// What threads access through pointers, outside the heap and the stacks that they use.
#[derive(Debug, Default)]
pub(crate) struct Reached(FxHashMap<u64, u64>);

impl Reached {
    pub(super) fn add(&mut self, at: GuestAddr) {
        *self.0.entry(at.0 / PAGE).or_default() |= 1 << (at.0 % PAGE / PIECE);
    }

    pub(super) fn merge(&mut self, other: Reached) {
        for (page, pieces) in other.0 {
            *self.0.entry(page).or_default() |= pieces;
        }
    }

    pub(super) fn any(&self, range: &Range<u64>) -> bool {
        let mut pages = range.start / PAGE..range.end.div_ceil(PAGE);
        pages.any(|page| {
            let pieces = self.0.get(&page).copied().unwrap_or(0);
            let start = range.start.saturating_sub(page * PAGE) / PIECE;
            let end = (range.end - page * PAGE).min(PAGE).div_ceil(PIECE);
            let here = u64::MAX << start & u64::MAX >> (PAGE / PIECE - end);
            pieces & here != 0
        })
    }
}

/// A variable while its function is in a call.
#[derive(Clone, Debug)]
struct StackObject {
    range: Range<u64>,
    birth: VirtualTime,
    death: VirtualTime,
    name: Name,
    ty: Option<TypeIndex>,
}

/// Puts looks at stacks together.
struct StackFrames<'a> {
    facts: ProgramFacts<'a>,
    reached: &'a Reached,
    /// Calls in progress: their sites by slot.
    calls: BTreeMap<GuestAddr, GuestAddr>,
    /// By first byte.
    living: BTreeMap<GuestAddr, usize>,
    objects: Vec<StackObject>,
}

impl StackFrames<'_> {
    fn look(&mut self, look: &Look) {
        for rise in &look.rises {
            self.rise(*rise);
        }
        for open in &look.calls {
            self.calls.insert(open.slot, open.site);
        }
        for open in &look.calls {
            self.frame(*open, look.time);
        }
    }

    fn rise(&mut self, rise: Rise) {
        let below = GuestAddr(rise.to.0.saturating_sub(REACH - 1))..=rise.to;
        let returned = self.calls.range(below.clone()).map(|(slot, _)| *slot);
        let returned: Vec<GuestAddr> = returned.collect();
        for slot in returned {
            self.calls.remove(&slot);
        }
        let ended: Vec<GuestAddr> = self.living.range(below).map(|(at, _)| *at).collect();
        for start in ended {
            self.end(start, rise.time);
        }
    }

    fn end(&mut self, start: GuestAddr, time: VirtualTime) {
        if let Some(id) = self.living.remove(&start) {
            self.objects[id].death = time;
        }
    }

    /// The variables of the function that made a call have begun.
    fn frame(&mut self, call: OpenCall, time: VirtualTime) {
        let Some(known) = self.facts.code.at(call.site) else {
            return;
        };
        let mut here: Vec<Range<u64>> = Vec::new();
        for held in self.facts.debug.held_in_call(known.place) {
            let Some(range) = self.place(call.slot, held) else {
                continue;
            };
            // The innermost scope comes first: what it has put into a slot is there.
            let is_hidden = here
                .iter()
                .any(|inner| inner.start < range.end && range.start < inner.end);
            if !is_hidden && self.reached.any(&range) {
                self.begin(range.clone(), held, time);
            }
            here.push(range);
        }
    }

    /// Where a variable is, given the slot of a call that its function makes.
    fn place(&self, slot: GuestAddr, held: &HeldVariable<TypeIndex>) -> Option<Range<u64>> {
        let slot = slot.0;
        let start = match held.place {
            FramePlace::AboveStackPointer(at) => slot.checked_add(SLOT)?.checked_add_signed(at)?,
            FramePlace::AboveFrameAddress(at) => {
                // The frame address is above the return address of the function itself, which its
                // caller's call stored: the next one on the stack.
                let above = GuestAddr(slot.checked_add(1)?)..GuestAddr(slot.checked_add(REACH)?);
                let (outer, _) = self.calls.range(above).next()?;
                outer.0.checked_add(SLOT)?.checked_add_signed(at)?
            }
        };
        let end = start.checked_add(held.size)?;
        (end - start < REACH).then_some(start..end)
    }

    fn begin(&mut self, range: Range<u64>, held: &HeldVariable<TypeIndex>, time: VirtualTime) {
        let overlaps = |id: &usize| self.objects[*id].range.end > range.start;
        let before = self.living.range(..GuestAddr(range.end)).rev();
        // Living objects do not overlap, so those that reach into the range are the last before its
        // end.
        let overlapped: Vec<usize> = before
            .map(|(_, id)| *id)
            .take_while(|id| overlaps(id))
            .collect();
        if let [id] = overlapped[..] {
            let object = &self.objects[id];
            if object.range == range && object.name == held.name {
                return;
            }
        }
        for id in overlapped {
            self.end(GuestAddr(self.objects[id].range.start), time);
        }
        let start = GuestAddr(range.start);
        self.living.insert(start, self.objects.len());
        self.objects.push(StackObject {
            range,
            birth: time,
            death: NEVER,
            name: held.name.clone(),
            ty: held.ty,
        });
    }
}

/// The subject of a variable while other threads use it.
pub(super) fn shared(name: &str, ty: Option<TypeIndex>) -> Subject {
    Subject {
        ty,
        label: name.to_owned(),
        ..of_program(Bucket::StackShared)
    }
}

/// What stack variables that other threads use are called, and where they are.
#[derive(Debug, Default)]
pub(super) struct StackObjects {
    lifetimes: LifetimeIndex,
    /// By object.
    named: Vec<NamedObject>,
}

#[derive(Clone, Copy, Debug)]
struct NamedObject {
    subject: SubjectId,
    /// Bytes of an element, if it is a struct or an array of them.
    stride: Option<u64>,
}

impl StackObjects {
    pub(super) fn new(
        facts: ProgramFacts<'_>,
        schema: &Schema,
        subjects: &mut Subjects,
        looks: Vec<Look>,
        reached: &Reached,
    ) -> StackObjects {
        let mut frames = StackFrames {
            facts,
            reached,
            calls: BTreeMap::new(),
            living: BTreeMap::new(),
            objects: Vec::new(),
        };
        for look in in_order(looks) {
            frames.look(&look);
        }
        let lifetimes = (0u32..).zip(&frames.objects).map(|(id, object)| Lifetime {
            range: object.range.clone(),
            birth: object.birth,
            death: object.death,
            object: ObjectId(id),
        });
        let lifetimes: Vec<Lifetime> = lifetimes.collect();
        let named = frames.objects.iter().map(|object| NamedObject {
            subject: subjects.number(shared(&object.name, object.ty)),
            stride: object.ty.map(|ty| schema.size(ty)),
        });
        StackObjects {
            named: named.collect(),
            lifetimes: LifetimeIndex::new(&lifetimes),
        }
    }

    /// The variable at an address at a time.
    pub(super) fn at(&self, at: UserAddr, time: VirtualTime) -> Option<InProgram> {
        if self.named.is_empty() {
            return None;
        }
        let addr = at.flat();
        let Tenant::Alive { object, start } = self.lifetimes.at(addr, time) else {
            return None;
        };
        let named = self.named[object.0 as usize];
        let offset = addr.0 - start.0;
        let within = named.stride.and_then(|stride| offset.checked_rem(stride));
        Some(InProgram {
            subject: named.subject,
            offset: clip(within.unwrap_or(offset)),
            object: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use linemate_programs::{CodePlace, ElfAddr, Operand, Programs, UserInstruction};

    use super::super::code::{CodeTable, KnownInstruction};
    use super::super::debug::{DebugInformation, FileDebug};
    use super::*;

    const TOP: u64 = 0x7fff_0000;
    const CALLER: GuestAddr = GuestAddr(0x40_0100);
    /// A call in a function that holds variables.
    const SITE: GuestAddr = GuestAddr(0x40_0200);

    fn held(name: &str, place: FramePlace, size: u64) -> HeldVariable<TypeIndex> {
        HeldVariable {
            name: Name::from(name),
            ty: None,
            size,
            place,
        }
    }

    fn look(time: u64, rises: &[(u64, u64)], calls: &[(u64, GuestAddr)]) -> Look {
        let rises = rises.iter().map(|(below, time)| Rise {
            to: GuestAddr(TOP - below),
            time: VirtualTime(*time),
        });
        let calls = calls.iter().map(|(below, site)| OpenCall {
            slot: GuestAddr(TOP - below),
            site: *site,
        });
        Look {
            time: VirtualTime(time),
            rises: rises.collect(),
            calls: calls.collect(),
        }
    }

    /// Name, first byte below [`TOP`], birth and death of each object, where others reach the bytes
    /// at `reached` below it.
    fn objects(
        variables: Vec<HeldVariable<TypeIndex>>,
        reached: &[u64],
        looks: &[Look],
    ) -> Vec<(String, u64, u64, u64)> {
        let place = CodePlace {
            file: 0,
            address: ElfAddr(0x200),
        };
        let known = KnownInstruction {
            place,
            instruction: UserInstruction {
                operand: Operand::None,
                bytes: 8,
                uses_stack: true,
                calls: true,
                target: None,
            },
            points_to: None,
            in_frame: false,
            described: true,
            of_allocator: false,
            maps: false,
            growth: None,
        };
        let file = FileDebug::with_held(vec![(place.address, variables)]);
        let debug = DebugInformation {
            files: vec![file],
            scalars: Vec::new(),
        };
        let mut others = Reached::default();
        reached
            .iter()
            .for_each(|at| others.add(GuestAddr(TOP - at)));
        let mut frames = StackFrames {
            facts: ProgramFacts {
                programs: &Programs::default(),
                debug: &debug,
                code: &CodeTable::of([(SITE, known)]),
            },
            reached: &others,
            calls: BTreeMap::new(),
            living: BTreeMap::new(),
            objects: Vec::new(),
        };
        looks.iter().for_each(|look| frames.look(look));
        let found = frames.objects.into_iter();
        let found = found.map(|o| {
            (
                o.name.to_string(),
                TOP - o.range.start,
                o.birth.0,
                o.death.0,
            )
        });
        found.collect()
    }

    #[test]
    fn a_variable_lives_from_the_end_of_the_turn_to_the_return_of_its_function() {
        let sums = || vec![held("sums", FramePlace::AboveStackPointer(16), 32)];
        let call = look(10, &[(0, 1)], &[(0, CALLER), (108, SITE)]);
        // The stack pointer was at 100 when the call was made.
        let start = 100 - 16;
        let expected = |death| vec![("sums".to_owned(), start, 10, death)];
        let found = |looks: &[Look]| objects(sums(), &[start - 8], looks);
        assert_eq!(found(std::slice::from_ref(&call)), expected(NEVER.0));
        // Another call of the same function, as when it waits for one thread after the other.
        let again = look(20, &[(108, 15)], &[(108, SITE)]);
        assert_eq!(found(&[call.clone(), again]), expected(NEVER.0));
        let returns = look(30, &[(108, 24), (90, 25), (84, 26), (8, 27)], &[]);
        assert_eq!(found(&[call.clone(), returns]), expected(26));
        assert_eq!(
            objects(sums(), &[start + 128], &[call]),
            [],
            "of no other thread"
        );
    }

    #[test]
    fn frames_with_a_frame_pointer_are_found_by_their_callers() {
        let sums = || vec![held("sums", FramePlace::AboveFrameAddress(-48), 32)];
        let of = |looks: &[Look]| objects(sums(), &[150], looks);
        // The caller's call put the return address at 128: the frame address is 120.
        let expected = [("sums".to_owned(), 120 + 48, 10, NEVER.0)];
        let by = |rise, caller| look(10, &[(rise, 9)], &[(caller, CALLER), (256, SITE)]);
        assert_eq!(of(&[by(0, 128)]), expected);
        let unknown = look(10, &[(0, 1)], &[(256, SITE)]);
        assert_eq!(of(&[unknown]), [], "who called it is not known");
        // Another caller, after the first one has returned.
        let returned = look(5, &[(0, 1)], &[(240, CALLER)]);
        assert_eq!(of(&[returned, by(128, 128)]), expected);
    }

    #[test]
    fn what_an_inner_scope_holds_hides_what_was_there() {
        let inner = held("inner", FramePlace::AboveStackPointer(16), 16);
        let outer = held("outer", FramePlace::AboveStackPointer(24), 16);
        let beside = held("beside", FramePlace::AboveStackPointer(40), 8);
        let call = look(10, &[(0, 1)], &[(108, SITE)]);
        let found = objects(vec![inner, outer, beside], &[84, 60], &[call]);
        let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["inner", "beside"]);
    }

    #[test]
    fn hostile_frames_have_no_objects() {
        let far = [i64::MAX, i64::MIN].map(FramePlace::AboveStackPointer);
        let above = [i64::MAX, i64::MIN].map(FramePlace::AboveFrameAddress);
        let variables = far.iter().chain(&above).map(|place| held("far", *place, 8));
        let large = [REACH, 1 << 40, u64::MAX];
        let large = large.map(|size| held("large", FramePlace::AboveStackPointer(0), size));
        let variables: Vec<_> = variables.chain(large).collect();
        let call = look(10, &[(0, 1)], &[(0, CALLER), (108, SITE)]);
        assert_eq!(objects(variables, &[84], &[call]), []);
    }
}
