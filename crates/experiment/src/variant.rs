//! A variant of a what-if: where the accesses of a recording go under a plan, and which do not
//! happen.

mod objects;

use std::ops::Range;
use std::sync::Arc;

use linemate_answers::{Followed, Paired};
use linemate_machine::LineSize;
use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, PAGE};
use linemate_replay::{Fate, Item, Later, Placed, Sharing};
use linemate_types::{ByteAlign, ByteOffset, ByteSize, FlatType, TypeId, TypeModel};
use rustc_hash::{FxHashMap, FxHashSet};

use linemate_layout::map::{OffsetMap, To};
use linemate_layout::nesting::{embeds, enclosing, size_of};
use linemate_layout::plan::{AccessRule, Field, ObjectRule, Plan};
use linemate_layout::pointer::PointerChase;
use linemate_session::step::Step;

use crate::code::code_of;
use crate::conditions::Seed;
pub use crate::error::VariantError;
use crate::follow::Arrays;
use crate::relocate::{Area, Frames, Halves, Resize, relocate};
use crate::scene::Scene;

/// How the objects of a subject change.
#[derive(Clone, Debug, Default)]
struct SubjectEdit {
    map: Option<Arc<OffsetMap>>,
    /// Old base to new one.
    moved: FxHashMap<GuestAddr, GuestAddr>,
    /// Each CPU's copies start here: by old base and CPU.
    copies: FxHashMap<(GuestAddr, CpuId), GuestAddr>,
    /// Objects that are not accessed at all.
    gone: FxHashSet<GuestAddr>,
    /// Whether no store is made that changes nothing.
    skip_silent: bool,
    /// Which rules' fields are where: (rule, offset of the field in this subject's type).
    rules: FxHashMap<u32, Vec<usize>>,
}

/// A rule about accesses with its function found.
#[derive(Clone, Debug)]
enum Rule {
    Reuse {
        code: Vec<Range<GuestAddr>>,
    },
    SkipSilent,
    /// Has its effect by object.
    SkipArray,
}

/// The layout of a variant without edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unedited {
    /// Everything is where it was recorded.
    AsRecorded,
    /// What is aligned to lines is aligned to the machine's.
    BuiltForLines,
}

/// A variant of a what-if.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Whether its plan has edits.
    edited: bool,
    subjects: Vec<Option<Box<SubjectEdit>>>,
    rules: Vec<Rule>,
    /// Where pages of per-CPU memory are.
    frames: Frames,
    /// In which half of a pair of lines objects are that can be in either.
    halves: Halves,
    /// How many objects have new addresses.
    pub relocated: usize,
    /// What each `colocate` found.
    pub paired: Vec<Paired>,
    /// What each `skip array` found.
    pub followed: Vec<Followed>,
}

/// What a variant remembers from access to access; each replay has its own.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// By (rule, CPU): the address of the field that was last read-modified-written there.
    rmw: FxHashMap<(usize, CpuId), GuestAddr>,
}

impl Variant {
    /// What `plan` means for the recording of `scene`. `seed` decides in which frames pages of
    /// per-CPU memory are.
    ///
    /// # Errors
    /// A function that the kernel does not have, a type that the recording does not touch.
    pub fn new(
        plan: &mut Plan<'_>,
        scene: &Scene<'_>,
        seed: Seed,
    ) -> Result<Variant, VariantError> {
        let mut area = Area::new(plan.layouts.line());
        let mut variant = Variant {
            edited: !(plan.types.is_empty() && plan.objects.is_empty() && plan.accesses.is_empty()),
            frames: Frames::new(seed),
            ..Variant::as_recorded(scene)
        };
        let base_align = |id: TypeId, rules: &[ObjectRule]| {
            let aligns = rules.iter().filter_map(|rule| match rule {
                ObjectRule::BaseAlign(ids, align) if ids.contains(&id) => Some(*align),
                _ => None,
            });
            aligns.max().unwrap_or_default()
        };
        for (subject, id) in scene.movable.iter().enumerate() {
            let Some(id) = *id else { continue };
            let Ok(layout) = plan.layouts.of(id) else {
                continue;
            };
            let resize = resize(plan, id, base_align(id, &plan.objects));
            // An alignment alone moves objects, too.
            if layout.map.is_none() && resize.align == ByteAlign::ONE {
                continue;
            }
            let bases = scene.objects[subject].keys().copied();
            let bases: Vec<GuestAddr> = bases.collect();
            let moved = relocate(&bases, resize, &mut area);
            variant.relocated += moved.len();
            let edit = variant.edit(subject);
            edit.map = layout.map.clone();
            edit.moved = moved.into_iter().collect();
        }
        // After the layouts: what moves as a whole object replaces the address that a new size gave
        // it.
        variant.apply_objects(plan, scene, &mut area)?;
        variant.apply_rules(plan, scene)?;
        Ok(variant)
    }

    /// The recorded layout: nothing moves, everything happens.
    pub fn as_recorded(scene: &Scene<'_>) -> Variant {
        Variant {
            edited: false,
            subjects: (0..scene.types.len()).map(|_| None).collect(),
            rules: Vec::new(),
            frames: Frames::default(),
            halves: Halves::default(),
            relocated: 0,
            paired: Vec::new(),
            followed: Vec::new(),
        }
    }

    /// How many objects can be in either half of a pair of lines.
    pub fn in_either_half(&self) -> usize {
        // Where each CPU has a copy, no access is to the object.
        let edits = self.subjects.iter().flatten();
        let moved = edits.filter(|edit| edit.copies.is_empty());
        let moved = moved.flat_map(|edit| edit.moved.values());
        moved.filter(|new| Area::is_in_either_half(**new)).count()
    }

    /// The same with objects in the other half of their pairs of lines, if some can be in either.
    pub(crate) fn in_other_half(&self, line: LineSize) -> Option<Variant> {
        (self.in_either_half() > 0).then(|| Variant {
            halves: Halves::Other(line),
            ..self.clone()
        })
    }

    /// What it is, if it has no edits.
    pub(crate) fn unedited(&self) -> Option<Unedited> {
        let stays = self.rules.is_empty() && self.subjects.iter().all(Option::is_none);
        match (stays, self.edited) {
            (true, _) => Some(Unedited::AsRecorded),
            (false, false) => Some(Unedited::BuiltForLines),
            (false, true) => None,
        }
    }

    /// Whether it changes anything about a subject's accesses.
    pub fn edits(&self, subject: usize) -> bool {
        self.subjects.get(subject).is_some_and(Option::is_some)
    }

    fn edit(&mut self, subject: usize) -> &mut SubjectEdit {
        self.subjects[subject].get_or_insert_default()
    }

    fn apply_rules(&mut self, plan: &Plan<'_>, scene: &Scene<'_>) -> Result<(), VariantError> {
        let symbols = scene.session.analysis().symbols();
        for (number, rule) in plan.accesses.iter().enumerate() {
            let field = match rule {
                AccessRule::Reuse { field, function } => {
                    let of_program = || scene.code_of_program(function);
                    let code = code_of(symbols, function);
                    self.rules.push(Rule::Reuse {
                        code: code.or_else(|missing| of_program().ok_or(missing))?,
                    });
                    field
                }
                AccessRule::SkipSilent { field } => {
                    self.rules.push(Rule::SkipSilent);
                    field
                }
                AccessRule::SkipArray(chase) => {
                    self.rules.push(Rule::SkipArray);
                    self.skip_arrays(chase, plan.layouts.model(), scene)?;
                    continue;
                }
            };
            self.mark(number, field, plan.layouts.model(), scene);
        }
        Ok(())
    }

    /// Notes which objects the pointer leads to.
    fn skip_arrays(
        &mut self,
        chase: &PointerChase,
        model: &TypeModel,
        scene: &Scene<'_>,
    ) -> Result<(), VariantError> {
        let path = path_of(model, &chase.field);
        let known = scene.arrays.iter().find(|(asked, _)| asked == chase);
        let nothing = Arrays::default();
        let arrays = known.map_or(&nothing, |(_, arrays)| arrays);
        let owners = arrays.owners;
        if arrays.found.is_empty() {
            return Err(VariantError::NoArray { path, owners });
        }
        for (base, subject) in &arrays.found {
            self.edit(subject.index()).gone.insert(*base);
        }
        self.followed.push(Followed {
            pointer: path,
            owners,
            arrays: arrays.found.len(),
        });
        Ok(())
    }

    /// Notes at which offsets of which subjects the field is.
    fn mark(&mut self, rule: usize, field: &Field, model: &TypeModel, scene: &Scene<'_>) {
        for (subject, id) in scene.types.iter().enumerate() {
            let Some(id) = *id else { continue };
            if !embeds(model, id, &field.types) {
                continue;
            }
            let size = model.size_of(id).unwrap_or(0);
            let inside = |offset: &u64| {
                let wanted = |t| field.types.contains(&t);
                let found = enclosing(model, id, ByteOffset(*offset), &wanted);
                found.is_some_and(|(_, at)| at >= field.offset && at < field.offset + field.bytes)
            };
            for offset in (0..size).filter(inside) {
                let Ok(offset) = u32::try_from(offset) else {
                    continue;
                };
                self.edit(subject)
                    .rules
                    .entry(offset)
                    .or_default()
                    .push(rule);
            }
        }
    }

    /// What becomes of a step: `emit` gets each access that happens, with its place.
    #[inline]
    pub fn apply<E>(
        &self,
        step: &Step,
        memory: &mut Memory,
        mut emit: impl FnMut(&Item, Placed) -> Result<(), E>,
    ) -> Result<(), E> {
        let placed = step.placed();
        match &self.subjects[step.subject.0 as usize] {
            None => emit(&step.item(), placed),
            Some(edit) => self.apply_edit(edit, step, placed, memory, emit),
        }
    }

    fn apply_edit<E>(
        &self,
        edit: &SubjectEdit,
        step: &Step,
        mut placed: Placed,
        memory: &mut Memory,
        mut emit: impl FnMut(&Item, Placed) -> Result<(), E>,
    ) -> Result<(), E> {
        let item = Item {
            // Words of the line where it was.
            later: Later::default(),
            ..step.item()
        };
        let rules = edit.rules.get(&step.offset);
        if let Some(rules) = rules {
            if !self.happens(rules, &step.access, memory) {
                placed.fate = Fate::Removed;
                return emit(&item, placed);
            }
        }
        let compares = |number: &usize| matches!(self.rules[*number], Rule::SkipSilent);
        let compares = edit.skip_silent || rules.is_some_and(|rules| rules.iter().any(compares));
        if compares && item.kind == AccessKind::Store {
            // Of a store that changes nothing the comparison's load remains. One that changes
            // something has that load before it, which fetches a line that the store then has to
            // own.
            let load = Item {
                kind: AccessKind::Load,
                ..item
            };
            self.place(edit, step, load, placed, &mut emit)?;
            if step.access.silent {
                return Ok(());
            }
        }
        self.place(edit, step, item, placed, emit)
    }

    /// Emits an access of an edited subject where the edit puts its bytes.
    fn place<E>(
        &self,
        edit: &SubjectEdit,
        step: &Step,
        mut item: Item,
        mut placed: Placed,
        mut emit: impl FnMut(&Item, Placed) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset = ByteOffset::from(step.offset);
        let old = step.access.addr.wrapping_sub(offset);
        if edit.gone.contains(&old) {
            placed.fate = Fate::Removed;
            return emit(&item, placed);
        }
        let mut base = edit.moved.get(&old).copied().unwrap_or(old);
        // By the accessing CPU: it uses its own copy, whichever CPU used the object before.
        if let Some(copy) = edit.copies.get(&(old, step.access.cpu)) {
            base = *copy;
            placed.sharing = Sharing::OfCpu(step.access.cpu);
        }
        let bytes = ByteSize::from(item.size);
        let Some(map) = &edit.map else {
            return self.emit(base.wrapping_add(offset), &item, placed, emit);
        };
        let at = map.at(offset);
        // Most accesses are to one member, which moves as a whole; only others are taken apart.
        if let (To::Byte(new), true) = (at.to, at.run >= bytes) {
            return self.emit(base.wrapping_add(new), &item, placed, emit);
        }
        let parts = map.parts(offset, bytes);
        if parts.is_empty() {
            placed.fate = Fate::Removed;
            return emit(&item, placed);
        }
        for part in parts {
            // No part is longer than the access, which is at most 64 bytes.
            item.size = part.bytes.0.clamp(1, bytes.0) as u8;
            let addr = base.wrapping_add(part.offset);
            self.emit(addr, &item, placed, &mut emit)?;
        }
        Ok(())
    }

    /// Emits an access to `item.size` bytes from `addr` on; two if its bytes are in two pages that
    /// are apart.
    fn emit<E>(
        &self,
        addr: GuestAddr,
        item: &Item,
        mut placed: Placed,
        mut emit: impl FnMut(&Item, Placed) -> Result<(), E>,
    ) -> Result<(), E> {
        let addr = self.halves.place(addr);
        placed.addr = self.frames.place(addr);
        // Pages of per-CPU memory are in frames that are not adjacent, so what crosses one is two
        // accesses.
        let before = ByteSize(PAGE - addr.0 % PAGE);
        let there = self.frames.place(addr.wrapping_add(before));
        let together = placed.addr.wrapping_add(before) == there;
        if ByteSize::from(item.size) <= before || together {
            return emit(item, placed);
        }
        let mut part = Item {
            // Less than the access's size.
            size: before.0 as u8,
            ..*item
        };
        emit(&part, placed)?;
        part.size = item.size - part.size;
        placed.addr = there;
        emit(&part, placed)
    }

    /// Whether the rules let the access happen.
    fn happens(&self, rules: &[usize], access: &Access, memory: &mut Memory) -> bool {
        for number in rules {
            match &self.rules[*number] {
                // Both change what is emitted, not whether.
                Rule::SkipArray | Rule::SkipSilent => {}
                Rule::Reuse { code } => {
                    let state = (*number, access.cpu);
                    match access.kind {
                        AccessKind::Rmw => {
                            memory.rmw.insert(state, access.addr);
                        }
                        AccessKind::Store => {
                            memory.rmw.remove(&state);
                        }
                        AccessKind::Load => {
                            let inside = code.iter().any(|part| part.contains(&access.pc));
                            // Only the first load after an atomic on the same field by the same
                            // CPU: its value is the one that the atomic returned. A store in
                            // between ends that.
                            if inside && memory.rmw.remove(&state) == Some(access.addr) {
                                return false;
                            }
                        }
                    }
                }
            }
        }
        true
    }
}

/// How a field of a type is called.
fn path_of(model: &TypeModel, field: &Field) -> String {
    let id = field.types.first().copied().unwrap_or_default();
    let name = model.composite_name(model.strip(id));
    let flat = FlatType::new(model, id).ok();
    let leaf = flat.as_ref().and_then(|flat| {
        let hit = flat.find(field.offset, 1)?;
        flat.leaf(hit.leaf)
    });
    format!("{name}.{}", leaf.map_or("", |leaf| &leaf.path))
}

fn resize(plan: &mut Plan<'_>, id: TypeId, extra: ByteAlign) -> Resize {
    let old = size_of(plan.layouts.model(), id);
    let recorded = plan.layouts.origin(id).map(|origin| origin.align);
    let after = plan.layouts.of(id);
    let (new, align) = after.map_or((old, ByteAlign::ONE), |l| (l.size, l.align));
    // The allocator preserved an existing alignment as far as it was one; a larger one must be
    // enforced.
    let align = if align > recorded.unwrap_or_default() {
        align
    } else {
        ByteAlign::ONE
    };
    Resize {
        old,
        new,
        align: align.max(extra),
    }
}

fn subjects_of<'s>(scene: &'s Scene<'_>, ids: &'s [TypeId]) -> impl Iterator<Item = usize> + 's {
    let wanted = |id: &Option<TypeId>| id.is_some_and(|id| ids.contains(&id));
    scene
        .movable
        .iter()
        .enumerate()
        .filter(move |(_, id)| wanted(id))
        .map(|(subject, _)| subject)
}

#[cfg(test)]
mod tests {
    use linemate_attribution::SubjectId;
    use linemate_recording::VirtualTime;
    use linemate_replay::{KeyId, SiteId};

    use super::*;
    use linemate_layout::map::{Inner, MovedBytes};

    const OBJECT: u64 = 0xffff_8880_0000_1000;

    fn piece(old: u64, bytes: u64, new: Option<u64>) -> MovedBytes {
        MovedBytes {
            old: ByteOffset(old),
            bytes: ByteSize(bytes),
            new: new.map(ByteOffset),
            inner: Inner::Whole,
        }
    }

    /// Subject 0 is not edited. Subject 1: a (0..8) to 64, b (8..16) to 0, c (16..24) removed, and
    /// its object moved.
    fn variant(rules: Vec<Rule>, at: &[(u32, Vec<usize>)]) -> Variant {
        let map = OffsetMap::new(vec![
            piece(0, 8, Some(64)),
            piece(8, 8, Some(0)),
            piece(16, 8, None),
        ]);
        let edit = SubjectEdit {
            map: Some(Arc::new(map)),
            moved: [(GuestAddr(OBJECT), GuestAddr(0xe0_0000))]
                .into_iter()
                .collect(),
            copies: FxHashMap::default(),
            gone: FxHashSet::default(),
            skip_silent: false,
            rules: at.iter().cloned().collect(),
        };
        Variant {
            edited: true,
            subjects: vec![None, Some(Box::new(edit))],
            rules,
            frames: Frames::default(),
            halves: Halves::default(),
            relocated: 1,
            paired: Vec::new(),
            followed: Vec::new(),
        }
    }

    fn step(subject: u32, offset: u32, size: u8, kind: AccessKind) -> Step {
        let access = Access {
            time: VirtualTime(0),
            cpu: CpuId(3),
            pc: GuestAddr(0x1000),
            addr: GuestAddr(OBJECT + u64::from(offset)),
            size,
            kind,
            silent: false,
            user_mapping: false,
        };
        Step {
            key: KeyId(7),
            site: SiteId(8),
            ..Step::new(&access, SubjectId(subject), offset)
        }
    }

    /// (address, bytes, kind, skipped) of what becomes of the steps.
    fn emitted(variant: &Variant, steps: &[Step]) -> Vec<(u64, u8, AccessKind, bool)> {
        let (mut memory, mut found) = (Memory::default(), Vec::new());
        for step in steps {
            let result: Result<(), ()> = variant.apply(step, &mut memory, |item, placed| {
                assert_eq!((placed.key, placed.site), (KeyId(7), SiteId(8)));
                found.push((
                    placed.addr.0,
                    item.size,
                    item.kind,
                    placed.fate == Fate::Removed,
                ));
                Ok(())
            });
            assert_eq!(result, Ok(()));
        }
        found
    }

    #[test]
    fn an_object_with_copies_for_each_cpu_is_in_no_half() {
        let mut variant = variant(Vec::new(), &[]);
        let resize = Resize {
            old: ByteSize(48),
            new: ByteSize(64),
            align: ByteAlign::new(64).unwrap(),
        };
        for (base, expected) in [(OBJECT, 0), (OBJECT + 16, 1)] {
            let bases = [GuestAddr(base)];
            let moved = relocate(&bases, resize, &mut Area::new(LineSize::B64));
            variant.subjects[1].as_mut().unwrap().moved = moved.into_iter().collect();
            assert_eq!(variant.in_either_half(), expected, "{base:#x}");
        }
        let copies = &mut variant.subjects[1].as_mut().unwrap().copies;
        copies.insert((GuestAddr(OBJECT + 16), CpuId(0)), GuestAddr(OBJECT));
        assert_eq!(variant.in_either_half(), 0);
    }

    #[test]
    fn accesses_go_where_their_fields_went() {
        use AccessKind::{Load, Store};
        let variant = variant(Vec::new(), &[]);
        let steps = [
            step(0, 8, 8, Load),
            step(1, 0, 8, Load),
            step(1, 12, 4, Store),
            step(1, 4, 8, Load),
            step(1, 16, 8, Store),
            step(1, 12, 8, Load),
        ];
        let expected = [
            (OBJECT + 8, 8, Load, false),
            (0xe0_0040, 8, Load, false),
            (0xe0_0004, 4, Store, false),
            // Half of a and half of b: two accesses now.
            (0xe0_0044, 4, Load, false),
            (0xe0_0000, 4, Load, false),
            // c was removed.
            (OBJECT + 16, 8, Store, true),
            (0xe0_0004, 4, Load, false),
        ];
        assert_eq!(emitted(&variant, &steps), expected);
    }

    #[test]
    fn the_load_after_an_atomic_is_reused_once_and_only_there() {
        use AccessKind::{Load, Rmw, Store};
        let rules = vec![Rule::Reuse {
            code: vec![GuestAddr(0x1000)..GuestAddr(0x1100)],
        }];
        let variant = variant(rules, &[(0, vec![0])]);
        let elsewhere = |kind| {
            let mut step = step(1, 0, 8, kind);
            step.access.pc = GuestAddr(0x2000);
            step
        };
        let other_cpu = {
            let mut step = step(1, 0, 8, Load);
            step.access.cpu = CpuId(4);
            step
        };
        let (rmw, load) = (elsewhere(Rmw), step(1, 0, 8, Load));
        let skips = |steps: &[Step]| {
            emitted(&variant, steps)
                .iter()
                .map(|e| e.3)
                .collect::<Vec<_>>()
        };
        assert_eq!(skips(&[load, rmw, load, load]), [false, false, true, false]);
        assert_eq!(skips(&[rmw, elsewhere(Load), load]), [false, false, true]);
        assert_eq!(skips(&[rmw, other_cpu, load]), [false, false, true]);
        assert_eq!(skips(&[rmw, elsewhere(Store), load]), [false, false, false]);
    }

    #[test]
    fn a_store_is_compared_first_and_a_silent_one_is_not_made() {
        use AccessKind::{Load, Rmw, Store};
        let variant = variant(vec![Rule::SkipSilent], &[(8, vec![0])]);
        let silent = |kind| {
            let mut step = step(1, 8, 8, kind);
            step.access.silent = true;
            step
        };
        let kinds = |steps: &[Step]| {
            emitted(&variant, steps)
                .iter()
                .map(|e| e.2)
                .collect::<Vec<_>>()
        };
        let steps = [silent(Store), step(1, 8, 8, Store), silent(Rmw)];
        assert_eq!(kinds(&steps), [Load, Load, Store, Rmw]);
        // The same of all that has a name.
        let mut variant = super::tests::variant(Vec::new(), &[]);
        variant.edit(1).skip_silent = true;
        let kinds: Vec<_> = emitted(&variant, &steps).iter().map(|e| e.2).collect();
        assert_eq!(kinds, [Load, Load, Store, Rmw]);
    }

    #[test]
    fn each_cpu_has_its_own_copy() {
        let mut variant = variant(Vec::new(), &[]);
        let edit = variant.edit(1);
        edit.map = None;
        let copies = [(3, 0x100), (4, 0x200)].into_iter();
        let copy = |(cpu, at)| ((GuestAddr(OBJECT), CpuId(cpu)), GuestAddr(at));
        edit.copies = copies.map(copy).collect();
        let mut memory = Memory::default();
        let mut places = Vec::new();
        for cpu in [3, 4] {
            let mut step = step(1, 8, 8, AccessKind::Load);
            step.access.cpu = CpuId(cpu);
            let result: Result<(), ()> = variant.apply(&step, &mut memory, |_, placed| {
                places.push((placed.addr.0, placed.sharing));
                Ok(())
            });
            assert_eq!(result, Ok(()));
        }
        let own = |cpu| Sharing::OfCpu(CpuId(cpu));
        assert_eq!(places, [(0x108, own(3)), (0x208, own(4))]);
    }
}
