//! The invariants of the events themselves, for [`crate::verify()`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use linemate_units::{CpuId, GuestAddr};

use crate::{
    Access, AccessKind, Call, Finding, Function, FunctionId, FunctionTable, LaneId, Mark, Marker,
    Meaning, Return, Role, VerifyReport, VirtualTime, Visitor,
};

/// State accumulated over the events so far.
pub(crate) struct EventsCheck {
    one_lane: bool,
    /// The last time in the only lane.
    last: u64,
    /// Lane and last time of each CPU.
    cpus: Vec<Option<(LaneId, u64)>>,
    /// Calls with recorded returns, by stack pointer; empty if all have returned.
    pending: HashMap<u64, Vec<OpenCall>>,
    /// Live heap objects of known size.
    live: BTreeMap<u64, u64>,
    /// Freed addresses that have not been allocated again, and who freed them.
    freed: HashMap<u64, FunctionId>,
    /// Instructions with RMWs and with plain stores.
    writers: HashMap<u64, AccessKind>,
    reported: HashSet<u64>,
    start: Option<VirtualTime>,
    stopped: bool,
    any: bool,
    /// Booting is recorded, too: the start mark is where the command starts.
    whole_boot: bool,
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct OpenCall {
    function: FunctionId,
    size: Option<u64>,
}

/// Addresses from here on are error numbers, not objects.
const FIRST_ERROR: u64 = 0xffff_ffff_ffff_f001;
/// `kmalloc(0)` returns 16: such small values are not objects.
const LAST_NULL: u64 = 16;

impl EventsCheck {
    pub(crate) fn new(one_lane: bool) -> Self {
        Self {
            one_lane,
            last: 0,
            cpus: Vec::new(),
            pending: HashMap::new(),
            live: BTreeMap::new(),
            freed: HashMap::new(),
            writers: HashMap::new(),
            reported: HashSet::new(),
            start: None,
            stopped: false,
            any: false,
            whole_boot: false,
        }
    }

    /// Events may precede the start mark.
    pub(crate) fn allow_before_start(&mut self) {
        self.whole_boot = true;
    }

    /// A visitor for the events of one chunk.
    pub(crate) fn visitor<'a>(
        &'a mut self,
        chunk: u32,
        lane: LaneId,
        functions: &'a FunctionTable,
        report: &'a mut VerifyReport,
    ) -> CheckVisitor<'a> {
        CheckVisitor {
            state: self,
            chunk,
            lane,
            functions,
            report,
        }
    }

    /// When recording started, if it is running.
    pub(crate) fn started_and_not_stopped(&self) -> Option<VirtualTime> {
        self.start.filter(|_| !self.stopped)
    }
}

/// Checks the events of one chunk.
pub(crate) struct CheckVisitor<'a> {
    state: &'a mut EventsCheck,
    chunk: u32,
    lane: LaneId,
    functions: &'a FunctionTable,
    report: &'a mut VerifyReport,
}

impl<'a> CheckVisitor<'a> {
    #[inline]
    fn time(&mut self, cpu: CpuId, time: VirtualTime) {
        let index = usize::from(cpu.0);
        if index >= self.state.cpus.len() {
            self.state.cpus.resize(index + 1, None);
        }
        let (lane, last) = self.state.cpus[index].get_or_insert((self.lane, time.0));
        let mut before = *last;
        *last = time.0;
        let first = *lane;
        if first != self.lane {
            *lane = self.lane;
            self.report.add(Finding::TwoLanes {
                cpu,
                first,
                second: self.lane,
            });
        }
        // One clock for the whole guest: time may not go back across CPUs either.
        if self.state.one_lane {
            before = self.state.last;
            self.state.last = time.0;
        }
        if time.0 < before {
            let (chunk, time) = (self.chunk, time.0);
            self.report.add(Finding::TimeBackwards {
                chunk,
                cpu,
                before,
                time,
            });
        }
    }

    /// Only further marks may follow a stop.
    #[inline]
    fn inside(&mut self, time: VirtualTime) {
        if self.state.stopped && self.state.one_lane {
            self.report
                .add(Finding::OutsideOfRecording { time, early: false });
        }
        self.state.any = true;
    }

    fn function(&mut self, time: VirtualTime, function: FunctionId) -> Option<&'a Function> {
        let found = self.functions.functions.get(function.0 as usize);
        if found.is_none() {
            let known = self.functions.functions.len();
            self.report.add(Finding::UnknownFunction {
                time,
                function,
                known,
            });
        }
        found
    }

    fn allocated(&mut self, time: VirtualTime, addr: u64, size: Option<u64>) {
        // Also for an unknown size: what was freed there is allocated again.
        self.state.freed.remove(&addr);
        let Some(size) = size.filter(|&size| size > 0) else {
            return;
        };
        let last = addr.saturating_add(size - 1);
        // Only the nearest live object below the new one's last byte can overlap it.
        let below = self
            .state
            .live
            .range(..=last)
            .next_back()
            .map(|(&a, &s)| (a, s));
        match below {
            // A wrapper and its callee both return the same object.
            Some((live, _)) if live == addr => {}
            Some((live, live_size)) if live.saturating_add(live_size - 1) >= addr => {
                self.report.add(Finding::Overlap {
                    time,
                    object: GuestAddr(addr),
                    size,
                    live: GuestAddr(live),
                    live_size,
                });
            }
            _ => {}
        }
        self.state.live.insert(addr, size);
    }

    fn freed(&mut self, call: &Call, function: &Function) {
        if is_a_programs(function) {
            return;
        }
        let object = function
            .parameters
            .iter()
            .position(|p| p.meaning == Meaning::Object);
        let Some(object) = object.and_then(|i| call.values.get(i).copied().flatten()) else {
            return;
        };
        if object <= LAST_NULL || object >= FIRST_ERROR {
            return;
        }
        // Also an unknown one: it was allocated before the start.
        self.state.live.remove(&object);
        match self.state.freed.entry(object) {
            Entry::Vacant(entry) => {
                entry.insert(call.function);
            }
            // A free of the same object by another function is that of a wrapper or its callee.
            Entry::Occupied(entry) if *entry.get() != call.function => {}
            Entry::Occupied(_) => {
                self.report.add(Finding::DoubleFree {
                    time: call.time,
                    name: function.name.clone(),
                    object: GuestAddr(object),
                });
            }
        }
    }
}

/// Whether a function belongs to a program: its object addresses belong to one process, and
/// `realloc` frees unseen.
fn is_a_programs(function: &Function) -> bool {
    function.entry.0 >> 63 == 0
}

impl Visitor for CheckVisitor<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        self.time(access.cpu, access.time);
        self.inside(access.time);
        let totals = &mut self.report.totals;
        match access.kind {
            AccessKind::Load => {
                totals.loads += 1;
                return;
            }
            AccessKind::Store => totals.stores += 1,
            AccessKind::Rmw => totals.rmws += 1,
        }
        // An instruction is either atomic or not: both kinds at one instruction mean that half of
        // an atomic was taken for a store.
        let first = *self.state.writers.entry(access.pc.0).or_insert(access.kind);
        if first != access.kind && self.state.reported.insert(access.pc.0) {
            self.report.add(Finding::RmwAndStore {
                time: access.time,
                pc: access.pc,
            });
        }
    }

    fn call(&mut self, call: &Call) {
        self.time(call.cpu, call.time);
        self.inside(call.time);
        self.report.totals.calls += 1;
        let Some(function) = self.function(call.time, call.function) else {
            return;
        };
        let values = call
            .values
            .iter()
            // The last one present: an earlier parameter can be `None` for its own reasons.
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        let listed = function.parameters.len();
        if values > listed {
            let (time, name) = (call.time, function.name.clone());
            self.report.add(Finding::UnlistedValue {
                time,
                name,
                values,
                listed,
            });
        }
        let bulk = function
            .parameters
            .iter()
            .any(|p| p.meaning == Meaning::ObjectArray);
        match function.role {
            // The objects that a bulk call frees or allocates are not recorded: it may be any.
            Role::HeapFree if bulk => self.state.live.clear(),
            Role::HeapAlloc if bulk => self.state.freed.clear(),
            Role::HeapFree => self.freed(call, function),
            _ => {}
        }
        if function.returns {
            let size = function
                .parameters
                .iter()
                .position(|p| p.meaning == Meaning::Size);
            let size = size.and_then(|i| call.values.get(i).copied().flatten());
            let pending = self.state.pending.entry(call.stack.0).or_default();
            // A function that ended by jumping to another one never returns; it is not stored
            // twice.
            pending.retain(|old| old.function != call.function);
            pending.push(OpenCall {
                function: call.function,
                size,
            });
        }
    }

    fn ret(&mut self, ret: &Return) {
        self.time(ret.cpu, ret.time);
        self.inside(ret.time);
        self.report.totals.returns += 1;
        let Some(function) = self.function(ret.time, ret.function) else {
            return;
        };
        if !function.returns {
            let (time, name) = (ret.time, function.name.clone());
            self.report.add(Finding::UnwantedReturn { time, name });
            return;
        }
        // A stack pointer without a call belongs to a function that was entered before the start.
        let Some(pending) = self.state.pending.get_mut(&ret.stack.0) else {
            return;
        };
        let call = pending
            .iter()
            .find(|call| call.function == ret.function)
            .copied();
        // All of them: functions that ended by jumping to this one share its stack pointer and have
        // returned with it.
        pending.clear();
        let Some(call) = call else {
            let (time, name, stack) = (ret.time, function.name.clone(), ret.stack);
            self.report
                .add(Finding::ReturnWithoutCall { time, name, stack });
            return;
        };
        let told = ret.value > LAST_NULL && ret.value < FIRST_ERROR;
        if function.role == Role::HeapAlloc && told && !is_a_programs(function) {
            self.allocated(ret.time, ret.value, call.size);
        }
    }

    fn marker(&mut self, marker: &Marker) {
        self.time(marker.cpu, marker.time);
        self.report.totals.markers += 1;
        match marker.mark {
            Mark::Start => {
                // There is no order between lanes, so this applies to a single lane.
                let late = self.state.any && self.state.start.is_none();
                if late && self.state.one_lane && !self.state.whole_boot {
                    let time = marker.time;
                    self.report
                        .add(Finding::OutsideOfRecording { time, early: true });
                }
                self.state.start.get_or_insert(marker.time);
            }
            Mark::Stop => self.state.stopped = true,
            Mark::Idle | Mark::Resume | Mark::Turn | Mark::Space | Mark::Page => {}
        }
    }
}
