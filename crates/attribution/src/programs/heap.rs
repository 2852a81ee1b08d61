//! The first pass over programs: their allocators' calls and returns in, objects out.

use linemate_recording::{Call, FunctionTable, GuestAddr, Meaning, Return, Role, VirtualTime};
use rustc_hash::FxHashMap;

use super::places::{Places, Space, UserAddr};
use crate::collect::{NO_CPU, Object};
use crate::index::{NEVER, ObjectId};
use crate::kinds::{KindId, Kinds, ObjectKind, Origin, SILENT};
use crate::sites::SiteUse;
use crate::votes::Bounds;

/// The largest object that is believed: 64 GiB. Larger sizes are of calls that fail.
const SIZE_MAX: u64 = 1 << 36;

/// An allocation under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    time: VirtualTime,
    site: Option<GuestAddr>,
    size: u64,
    /// `realloc`: what there was.
    old: Option<u64>,
}

/// What the pass leaves.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// By [`ObjectId`]; addresses are [`UserAddr::flat`].
    pub(crate) objects: Vec<Object>,
    pub(crate) kinds: Kinds,
    living: FxHashMap<GuestAddr, ObjectId>,
    /// Objects inside others: those of an allocator that puts something before them.
    inside: FxHashMap<ObjectId, ObjectId>,
    /// By space and stack pointer. A function that jumps to another leaves two.
    pending: FxHashMap<(Space, u64), Vec<Pending>>,
}

impl Heap {
    /// Takes in a call of a program's function; `site` is the instruction that calls, where it is known.
    pub(crate) fn call(
        &mut self,
        table: &FunctionTable,
        places: &Places,
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
        match (function.role, size) {
            (Role::HeapAlloc, Some(size)) => {
                let pending = Pending {
                    time: call.time,
                    site,
                    size: size.saturating_mul(count),
                    old: object,
                };
                let calls = self.pending.entry((space, call.stack.0)).or_default();
                calls.push(pending);
            }
            (Role::HeapFree, _) => {
                if let Some(addr) = object {
                    self.free(UserAddr { space, addr }, call.time);
                }
            }
            _ => {}
        }
    }

    /// Takes in a return.
    pub(crate) fn returned(&mut self, places: &Places, ret: &Return) {
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
        if ret.value == 0 || last.size > SIZE_MAX {
            return;
        }
        if let Some(addr) = calls.iter().find_map(|c| c.old).filter(|old| *old != 0) {
            self.free(UserAddr { space, addr }, first.time);
        }
        let addr = ret.value;
        let call = Pending {
            site: first.site,
            time: first.time,
            ..*last
        };
        self.born(UserAddr { space, addr }, &call);
    }

    fn born(&mut self, at: UserAddr, call: &Pending) {
        let start = at.flat();
        if let Some(&inner) = self.living.get(&start) {
            let object = &self.objects[inner.0 as usize];
            if object.birth >= call.time {
                // An allocator called another: the object is there, the outer call knows better who asked for it.
                let size = object.range.end - object.range.start;
                self.objects[inner.0 as usize].kind = self.kind(call.site, size);
                return;
            }
            self.end(inner, call.time);
        }
        let id = ObjectId(self.objects.len() as u32);
        let container = self.begun_around(start, call);
        let kind = self.kind(call.site, call.size);
        self.objects.push(Object {
            range: start.0..start.0.saturating_add(call.size.max(1)),
            birth: call.time,
            death: NEVER,
            kind,
            signature: SILENT,
            cpu: NO_CPU,
            ready: call.time,
        });
        self.living.insert(start, id);
        if let Some(container) = container {
            self.inside.insert(container, id);
        }
    }

    /// An object that this call got from another allocator, and that begins a little before what it hands out.
    fn begun_around(&self, start: GuestAddr, call: &Pending) -> Option<ObjectId> {
        (1..=4).find_map(|words| {
            let before = GuestAddr(start.0.checked_sub(8 * words)?);
            let id = *self.living.get(&before)?;
            let object = &self.objects[id.0 as usize];
            (object.birth >= call.time && object.range.contains(&start.0)).then_some(id)
        })
    }

    fn kind(&mut self, site: Option<GuestAddr>, size: u64) -> KindId {
        let kind = ObjectKind {
            origin: Origin::Program,
            site: Some(site.unwrap_or_default()),
            size,
            usage: SiteUse::Other,
        };
        self.kinds.number(kind, Bounds::Exact(size), None)
    }

    fn free(&mut self, at: UserAddr, time: VirtualTime) {
        if let Some(id) = self.living.get(&at.flat()).copied() {
            self.end(id, time);
        }
    }

    fn end(&mut self, id: ObjectId, time: VirtualTime) {
        let object = &mut self.objects[id.0 as usize];
        object.death = time;
        self.living.remove(&GuestAddr(object.range.start));
        if let Some(inner) = self.inside.remove(&id) {
            self.end(inner, time);
        }
    }
}
