//! The first pass over programs: their allocators' calls and returns in, objects out.

use linemate_recording::{
    Call, FunctionTable, GuestAddr, Meaning, PAGE, Return, Role, VirtualTime,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::heap_index::{Forks, HeapIndex};
use super::mappings::MappingIndex;
use super::places::{Space, UserAddr, UserPlaces};
use super::processes::Fork;
use crate::collect::Object;
use crate::index::{Lifetime, LifetimeIndex, NEVER, ObjectId};
use crate::kinds::{KindId, Kinds, ObjectKind, Origin, SILENT};
use crate::sites::SiteUse;
use crate::votes::Bounds;

/// The largest plausible object: 64 GiB. Larger sizes belong to failing calls.
const SIZE_MAX: u64 = 1 << 36;

/// An allocation in progress.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    time: VirtualTime,
    site: Option<GuestAddr>,
    size: u64,
    /// `realloc`: the old block.
    old: Option<u64>,
    asked: MemoryCall,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryCall {
    Block,
    Mapping,
    /// A segment of shared memory, which is attached by its number.
    Segment,
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// By [`ObjectId`]; addresses are [`UserAddr::flat`].
    pub(crate) objects: Vec<Object>,
    pub(crate) kinds: Kinds,
    living: FxHashMap<GuestAddr, ObjectId>,
    /// Objects inside others: those of an allocator that puts something before them.
    inside: FxHashMap<ObjectId, ObjectId>,
    /// By space and stack pointer. A function that jumps to another leaves two.
    pending: FxHashMap<(Space, u64), Vec<PendingCall>>,
    forks: Forks,
    /// Mappings that live, by their first byte: a block may start there, too.
    mapped: FxHashMap<GuestAddr, ObjectId>,
    /// Bytes of each segment of shared memory, by its number, which all processes have in common.
    segments: FxHashMap<u32, u64>,
    /// What processes with a parent freed that they had not allocated, and when.
    freed_elsewhere: Vec<(UserAddr, VirtualTime)>,
}

impl Heap {
    /// Handles a call of a program's function; `site` is the calling instruction, if known.
    pub(crate) fn call(
        &mut self,
        table: &FunctionTable,
        places: &UserPlaces,
        call: &Call,
        site: Option<GuestAddr>,
    ) {
        let Some(function) = table.functions.get(call.function.0 as usize) else {
            return;
        };
        let Some(space) = places.space(call.cpu, call.time) else {
            return;
        };
        let (mut size, mut count, mut object) = (None, 1, None);
        for (parameter, value) in function.parameters.iter().zip(&call.values) {
            let Some(value) = *value else { continue };
            match parameter.meaning {
                Meaning::Size => size = Some(value),
                Meaning::Count => count = value,
                Meaning::Object => object = Some(value),
                _ => {}
            }
        }
        let asked = match function.role {
            Role::VirtualAlloc => MemoryCall::Mapping,
            Role::Plain => MemoryCall::Segment,
            _ => MemoryCall::Block,
        };
        if function.role == Role::VirtualAlloc && size.is_none() {
            size = object
                .take()
                .and_then(|id| self.segments.get(&(id as u32)).copied());
        }
        match (function.role, size) {
            (Role::HeapAlloc | Role::VirtualAlloc | Role::Plain, Some(size)) => {
                let pending = PendingCall {
                    time: call.time,
                    site,
                    size: size.saturating_mul(count),
                    old: object,
                    asked,
                };
                let calls = self.pending.entry((space, call.stack.0)).or_default();
                calls.push(pending);
            }
            (Role::HeapFree, _) => {
                if let Some(addr) = object {
                    self.free(UserAddr { space, addr }, call.time);
                }
            }
            (Role::VirtualFree, Some(size)) => {
                if let Some(addr) = object {
                    self.unmap(UserAddr { space, addr }, size, call.time);
                }
            }
            _ => {}
        }
    }

    /// Handles a return.
    pub(crate) fn returned(&mut self, places: &UserPlaces, ret: &Return) {
        let Some(space) = places.space(ret.cpu, ret.time) else {
            return;
        };
        let Some(calls) = self.pending.remove(&(space, ret.stack.0)) else {
            return;
        };
        // Of functions that jump to one another the first has the site, the last the size.
        let (Some(first), Some(last)) = (calls.first(), calls.last()) else {
            return;
        };
        if last.size > SIZE_MAX {
            return;
        }
        if first.asked == MemoryCall::Segment {
            // `int`, as where it is attached; 0 is the first number.
            self.segments.insert(ret.value as u32, last.size);
            return;
        }
        let addr = ret.value;
        if addr == 0 {
            return;
        }
        // `realloc` freed the old block only if it succeeded, which the return shows.
        if let Some(old) = calls.iter().find_map(|c| c.old).filter(|old| *old != 0) {
            // A block that moves is read until it has been copied; one that stays is the new one
            // from the call on.
            let end = if old == addr { first.time } else { ret.time };
            self.freed_by(UserAddr { space, addr: old }, first.time, end);
        }
        let call = PendingCall {
            site: first.site,
            time: first.time,
            asked: first.asked,
            ..*last
        };
        match call.asked == MemoryCall::Mapping {
            true => self.map(UserAddr { space, addr }, &call),
            false => self.born(UserAddr { space, addr }, &call),
        }
    }

    /// A program has mapped memory. Where it failed, the value is not a page's address.
    fn map(&mut self, at: UserAddr, call: &PendingCall) {
        if at.addr % PAGE != 0 {
            return;
        }
        if let Some(old) = self.mapped.get(&at.flat()).copied() {
            self.objects[old.0 as usize].death = call.time;
        }
        let id = self.object(at.flat(), call);
        self.mapped.insert(at.flat(), id);
    }

    /// What is unmapped in part stays: allocators cut ends off to align what is left.
    fn unmap(&mut self, at: UserAddr, size: u64, time: VirtualTime) {
        let Some(id) = self.mapped.get(&at.flat()).copied() else {
            return;
        };
        let object = &mut self.objects[id.0 as usize];
        if size.saturating_add(PAGE) > length(object) {
            object.death = time;
            self.mapped.remove(&at.flat());
        }
    }

    /// Handles a fork: the child has what its parent has.
    pub(crate) fn forked(&mut self, fork: Fork) {
        self.forks.add(fork);
    }

    /// All objects by address, when all calls have been handled. What a process freed that was its
    /// parent's becomes an object of its own, which ends there.
    pub(crate) fn index(&mut self) -> HeapIndex {
        let index = self.index_of_all();
        let before = self.objects.len();
        let mut seen = FxHashSet::default();
        for (at, time) in std::mem::take(&mut self.freed_elsewhere) {
            let Some(place) = index.at(at, time).filter(|place| place.offset == 0) else {
                continue;
            };
            let original = &self.objects[place.object.0 as usize];
            let Some(birth) = self.forks.of(at.space).map(|fork| fork.time) else {
                continue;
            };
            let start = at.flat().0;
            if seen.insert(start) {
                self.objects.push(Object {
                    range: start..start.saturating_add(length(original)),
                    birth,
                    death: time,
                    ..original.clone()
                });
            }
        }
        match self.objects.len() == before {
            true => index,
            false => self.index_of_all(),
        }
    }

    fn index_of_all(&self) -> HeapIndex {
        let (mut blocks, mut mappings) = (Vec::new(), Vec::new());
        for (id, object) in (0u32..).zip(&self.objects) {
            let list = match self.kinds.get(object.kind).origin {
                Origin::Mapping => &mut mappings,
                _ => &mut blocks,
            };
            list.push(Lifetime {
                range: object.range.clone(),
                birth: object.birth,
                death: object.death,
                object: ObjectId(id),
            });
        }
        let blocks = LifetimeIndex::new(&blocks);
        HeapIndex::new(blocks, MappingIndex::new(mappings), &self.forks)
    }

    fn born(&mut self, at: UserAddr, call: &PendingCall) {
        let start = at.flat();
        if let Some(&inner) = self.living.get(&start) {
            let object = &self.objects[inner.0 as usize];
            if object.birth >= call.time {
                // An allocator called another: the object exists; the outer call knows better who
                // asked for it.
                let size = length(object);
                let kind = self.kind(&PendingCall { size, ..*call });
                self.objects[inner.0 as usize].kind = kind;
                return;
            }
            self.end(inner, call.time);
        }
        let container = self.begun_around(start, call);
        let id = self.object(start, call);
        self.living.insert(start, id);
        if let Some(container) = container {
            self.inside.insert(container, id);
        }
    }

    fn object(&mut self, start: GuestAddr, call: &PendingCall) -> ObjectId {
        let id = ObjectId(self.objects.len() as u32);
        let kind = self.kind(call);
        self.objects.push(Object {
            range: start.0..start.0.saturating_add(call.size.max(1)),
            birth: call.time,
            death: NEVER,
            kind,
            signature: SILENT,
            cpu: None,
            ready: call.time,
        });
        id
    }

    /// An object that this call got from another allocator, and that starts a little before what it
    /// hands out.
    fn begun_around(&self, start: GuestAddr, call: &PendingCall) -> Option<ObjectId> {
        // Up to four words, a choice: wrappers put a size or a pointer or both before the block
        // that they hand out.
        (1..=4).find_map(|words| {
            let before = GuestAddr(start.0.checked_sub(8 * words)?);
            let id = *self.living.get(&before)?;
            let object = &self.objects[id.0 as usize];
            (object.birth >= call.time && object.range.contains(&start.0)).then_some(id)
        })
    }

    fn kind(&mut self, call: &PendingCall) -> KindId {
        let kind = ObjectKind {
            origin: match call.asked == MemoryCall::Mapping {
                true => Origin::Mapping,
                false => Origin::Program,
            },
            site: Some(call.site.unwrap_or_default()),
            size: call.size,
            usage: SiteUse::Other,
        };
        self.kinds.number(kind, Bounds::Exact(call.size), None)
    }

    fn free(&mut self, at: UserAddr, time: VirtualTime) {
        match self.living.get(&at.flat()).copied() {
            Some(id) => self.end(id, time),
            None => self.end_elsewhere(at, time),
        }
    }

    fn end_elsewhere(&mut self, at: UserAddr, time: VirtualTime) {
        if self.forks.of(at.space).is_some() {
            self.freed_elsewhere.push((at, time));
        }
    }

    /// Ends what a call that began at `call` freed at `end`, unless it has been handed out again in
    /// between.
    fn freed_by(&mut self, at: UserAddr, call: VirtualTime, end: VirtualTime) {
        match self.living.get(&at.flat()).copied() {
            Some(id) if self.objects[id.0 as usize].birth < call => self.end(id, end),
            Some(_) => {}
            None => self.end_elsewhere(at, end),
        }
    }

    /// Ends an object and those nested in it, of which there may be any number.
    fn end(&mut self, id: ObjectId, time: VirtualTime) {
        let mut next = Some(id);
        // A loop, because a recording may nest objects arbitrarily deep.
        while let Some(id) = next {
            let object = &mut self.objects[id.0 as usize];
            object.death = time;
            self.living.remove(&GuestAddr(object.range.start));
            next = self.inside.remove(&id);
        }
    }
}

fn length(object: &Object) -> u64 {
    object.range.end - object.range.start
}

#[cfg(test)]
mod tests;
