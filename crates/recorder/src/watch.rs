//! The watched functions as the translator and the entry and return callbacks need them.
//!
//! Obeys a [`FunctionTable`] without knowing what a type or an allocator is: which registers to
//! read where, and which values are impossible.

use std::collections::HashMap;

use linemate_recording::{
    Function, FunctionId, FunctionTable, MAX_PARAMETERS, Meaning, PAGE, Register, Role,
};

use crate::address::{is_kernel, is_kernel_pointer, is_user_pointer, page_tables_in};
use crate::decode::ExitKind;

/// The maximum number of objects reported for one bulk allocation or free: the kernel's own calls
/// have up to a few dozen.
const MAX_BULK: u64 = 4096;
/// Calls that wait for their return; a call whose return is never seen must not stay forever.
const MAX_WAITING: usize = 1024;
/// The page orders of the kernel's page allocator.
const MAX_ORDER: u64 = 20;
/// Bytes of a `struct page` in the array of all pages.
const PAGE_STRUCT: u64 = 64;

/// The CPU at a watched instruction.
pub(crate) trait Cpu {
    fn argument(&self, register: Register) -> u64;
    /// The stack pointer, `rsp`.
    fn stack(&self) -> u64;
    /// A function's return value, `rax`; at `syscall` the call's number.
    fn result(&self) -> u64;
    /// The 64-bit word at a guest-virtual address, if it is mapped.
    fn word(&self, address: u64) -> Option<u64>;
    /// The root of the page tables, `cr3`, with its flags.
    fn page_tables(&self) -> u64;
}

/// The table, ready for look-ups by instruction.
#[derive(Debug)]
pub(crate) struct WatchTable {
    functions: Vec<Watched>,
    entries: HashMap<u64, FunctionId>,
    /// Code of the functions whose returns are recorded: (start, end, function), sorted, not
    /// overlapping.
    returning: Vec<(u64, u64, FunctionId)>,
    /// The return thunks: a jump to one is a return.
    thunks: Vec<u64>,
}

impl WatchTable {
    /// Prepares a table; `thunks` are the addresses of the kernel's return thunks.
    pub(crate) fn new(table: FunctionTable, thunks: Vec<u64>) -> Self {
        let functions = table.functions;
        let id = |i: usize| FunctionId(i as u32);
        let entries = functions
            .iter()
            .enumerate()
            .map(|(i, f)| (f.entry.0, id(i)))
            .collect();
        let mut returning: Vec<_> = functions
            .iter()
            .enumerate()
            .filter(|(_, f)| f.returns)
            .map(|(i, f)| {
                (
                    f.entry.0,
                    f.entry.0.saturating_add(u64::from(f.size)),
                    id(i),
                )
            })
            .collect();
        returning.sort_unstable();
        let functions = functions.iter().zip(0..);
        Self {
            functions: functions
                .map(|(function, id)| Watched::new(FunctionId(id), function))
                .collect(),
            entries,
            returning,
            thunks,
        }
    }

    /// The function that is entered at `pc`.
    pub(crate) fn entry(&self, pc: u64) -> Option<Watched> {
        self.function(*self.entries.get(&pc)?)
    }

    /// The function that an instruction at `pc` with this `flow` returns from.
    pub(crate) fn return_from(&self, pc: u64, flow: ExitKind) -> Option<Watched> {
        let returns = match flow {
            ExitKind::Return => true,
            // With return thunks the kernel's `ret` is patched to a jump.
            ExitKind::Jump(target) => self.thunks.contains(&target),
            ExitKind::Other | ExitKind::Halt => false,
        };
        if !returns {
            return None;
        }
        let after = self.returning.partition_point(|(start, _, _)| *start <= pc);
        let (_, end, id) = self.returning.get(after.checked_sub(1)?)?;
        if pc < *end { self.function(*id) } else { None }
    }

    fn function(&self, id: FunctionId) -> Option<Watched> {
        self.functions.get(id.0 as usize).copied()
    }
}

/// What the recorder must know about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParameterUse {
    /// It counts only if it can be a kernel pointer.
    Pointer,
    /// It counts only if it can be a program's pointer.
    UserPointer,
    Array,
    Slot,
    Count,
    Order,
    Other,
}

/// A watched function, small enough to be stored with each instruction that enters or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    id: FunctionId,
    /// It belongs to a program.
    user: bool,
    role: Role,
    returns: bool,
    parameters: [Option<(Register, ParameterUse)>; MAX_PARAMETERS],
}

impl Watched {
    fn new(id: FunctionId, function: &Function) -> Self {
        let mut parameters = [None; MAX_PARAMETERS];
        for (slot, parameter) in parameters.iter_mut().zip(&function.parameters) {
            let used = match parameter.meaning {
                Meaning::StructPointer(_) if is_kernel(function.entry.0) => ParameterUse::Pointer,
                Meaning::StructPointer(_) => ParameterUse::UserPointer,
                Meaning::ObjectArray => ParameterUse::Array,
                Meaning::ObjectSlot => ParameterUse::Slot,
                Meaning::Count => ParameterUse::Count,
                Meaning::Order => ParameterUse::Order,
                _ => ParameterUse::Other,
            };
            *slot = Some((parameter.register, used));
        }
        Self {
            id,
            user: !is_kernel(function.entry.0),
            role: function.role,
            returns: function.returns,
            parameters,
        }
    }

    fn has_array(&self) -> bool {
        let array = |(_, used): &(Register, ParameterUse)| *used == ParameterUse::Array;
        self.parameters.iter().flatten().any(array)
    }
}

/// A function's parameters at its entry.
struct Arguments {
    values: [Option<u64>; MAX_PARAMETERS],
    /// Which of them points to the array of objects.
    array: Option<(usize, u64)>,
    /// Where the object's address will be stored.
    slot: Option<u64>,
    count: u64,
    order: u64,
}

impl Arguments {
    #[inline]
    fn read(function: &Watched, state: &impl Cpu) -> Self {
        let mut read = Self {
            values: [None; MAX_PARAMETERS],
            array: None,
            slot: None,
            count: 0,
            order: 0,
        };
        for (index, parameter) in function.parameters.iter().enumerate() {
            let Some((register, used)) = parameter else {
                break;
            };
            let value = state.argument(*register);
            match used {
                ParameterUse::Pointer if !is_kernel_pointer(value) => continue,
                ParameterUse::UserPointer if !is_user_pointer(value) => continue,
                ParameterUse::Array => read.array = Some((index, value)),
                ParameterUse::Slot => read.slot = Some(value),
                ParameterUse::Count => read.count = value,
                ParameterUse::Order => read.order = value,
                ParameterUse::Pointer | ParameterUse::UserPointer | ParameterUse::Other => {}
            }
            read.values[index] = Some(value);
        }
        read
    }
}

/// Why a call that has not returned yet is remembered.
#[derive(Clone, Debug)]
struct AwaitedReturn {
    function: FunctionId,
    /// The page tables of the program that makes it: those that a server forks all have their
    /// stacks at one address.
    process: u64,
    stack: u64,
    /// The call as it will be reported once for each object of a bulk allocation.
    bulk: Option<(Entered, u64)>,
    order: u64,
    /// Where the object's address will be stored.
    slot: Option<u64>,
}

/// Turns entries and returns into events; remembers the calls whose return completes them.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: Vec<AwaitedReturn>,
}

/// A call according to the CPU's state: [`linemate_recording::Call`] without time and CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) function: FunctionId,
    /// The stack pointer at entry.
    pub(crate) stack: u64,
    /// The return address, or zero.
    pub(crate) caller: u64,
    pub(crate) values: [Option<u64>; MAX_PARAMETERS],
}

/// A return according to the CPU's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) function: FunctionId,
    /// The stack pointer at the return instruction.
    pub(crate) stack: u64,
    pub(crate) value: u64,
}

/// What a callback has to report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchedEvent {
    Call(Entered),
    Return(Left),
    /// The page allocator handed out these physical bytes: their contents are no longer known.
    Pages {
        /// Address of the first page's `struct page`.
        page: u64,
        /// Log2 of the number of pages.
        order: u64,
    },
}

/// The physical bytes behind a `struct page`, for the array at `vmemmap`.
pub(crate) fn page_range(vmemmap: u64, page: u64, order: u64) -> Option<std::ops::Range<u64>> {
    let start = page
        .checked_sub(vmemmap)?
        .checked_div(PAGE_STRUCT)?
        .checked_mul(PAGE)?;
    let length = PAGE << order.min(MAX_ORDER);
    Some(start..start.checked_add(length)?)
}

impl Calls {
    /// A function is entered. `caller` is called only if the table asks for it.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        function: &Watched,
        state: &impl Cpu,
        report: &mut impl FnMut(WatchedEvent),
    ) {
        let Arguments {
            values,
            array,
            slot,
            count,
            order,
        } = Arguments::read(function, state);
        let sightings_only = function.role == Role::Plain && !function.returns;
        if sightings_only && values.iter().all(Option::is_none) {
            return;
        }
        let stack = state.stack();
        // A read of guest memory at each entry: only for functions whose allocation site is wanted.
        let caller = match function.returns {
            true => state.word(stack).unwrap_or(0),
            false => 0,
        };
        let call = Entered {
            function: function.id,
            stack,
            caller,
            values,
        };
        match (function.role, array) {
            // A bulk allocation fills the array before it returns: each object is then reported, as
            // a call and a return of its own.
            (Role::HeapAlloc, Some((_, objects))) => {
                self.wait(AwaitedReturn {
                    function: function.id,
                    process: page_tables_in(state.page_tables()),
                    stack,
                    bulk: Some((call, objects)),
                    order,
                    slot: None,
                });
            }
            (_, Some((index, objects))) => {
                for object in bulk_objects(state, objects, count) {
                    let mut one = call.clone();
                    if let Some(value) = one.values.get_mut(index) {
                        *value = Some(object);
                    }
                    report(WatchedEvent::Call(one));
                }
            }
            (role, None) => {
                if role == Role::PageAlloc || (function.user && function.returns) {
                    self.wait(AwaitedReturn {
                        function: function.id,
                        process: page_tables_in(state.page_tables()),
                        stack,
                        bulk: None,
                        order,
                        slot,
                    });
                }
                report(WatchedEvent::Call(call));
            }
        }
    }

    #[inline]
    pub(crate) fn leave(
        &mut self,
        function: &Watched,
        state: &impl Cpu,
        report: &mut impl FnMut(WatchedEvent),
    ) {
        let (stack, value) = (state.stack(), state.result());
        let needs_call = function.role == Role::PageAlloc || function.has_array();
        let waiting = if needs_call {
            self.take(function.id, stack)
        } else {
            None
        };
        let done = Left {
            function: function.id,
            stack,
            value,
        };
        if let Some((call, objects)) = waiting.as_ref().and_then(|w| w.bulk.as_ref()) {
            // `int`: the number of objects actually allocated.
            for object in bulk_objects(state, *objects, value & 0xffff_ffff) {
                report(WatchedEvent::Call(call.clone()));
                report(WatchedEvent::Return(Left {
                    value: object,
                    ..done
                }));
            }
            return;
        }
        if function.role == Role::PageAlloc && is_kernel_pointer(value) {
            report(WatchedEvent::Pages {
                page: value,
                // If the call was not seen, the largest: contents forgotten too often only cost a
                // silent store.
                order: waiting.map_or(MAX_ORDER, |w| w.order),
            });
        }
        report(WatchedEvent::Return(done));
    }

    /// A program is where a call may have returned to. Of functions that called each other by
    /// jumps, the last one reports.
    #[inline]
    pub(crate) fn back(&mut self, state: &impl Cpu, report: &mut impl FnMut(WatchedEvent)) {
        if self.waiting.is_empty() {
            return;
        }
        // `ret` has popped the return address; at entry it was still there.
        let stack = state.stack().wrapping_sub(8);
        let mut returned = None;
        if self.waiting.iter().all(|waiting| waiting.stack != stack) {
            return;
        }
        let process = page_tables_in(state.page_tables());
        self.waiting.retain(|waiting| {
            let this = waiting.stack == stack && waiting.process == process;
            if this {
                returned = Some((waiting.function, waiting.slot));
            }
            !this
        });
        let Some((function, slot)) = returned else {
            return;
        };
        let value = match (slot, state.result()) {
            (None, value) => value,
            // `int`: only the lower half of the register is the result.
            (Some(slot), result) if result as u32 == 0 => state.word(slot).unwrap_or(0),
            (Some(_), _) => 0,
        };
        report(WatchedEvent::Return(Left {
            function,
            stack,
            value,
        }));
    }

    fn wait(&mut self, waiting: AwaitedReturn) {
        if self.waiting.len() >= MAX_WAITING {
            // The oldest, which is the most likely never to return.
            self.waiting.remove(0);
        }
        self.waiting.push(waiting);
    }

    fn take(&mut self, function: FunctionId, stack: u64) -> Option<AwaitedReturn> {
        let at = self
            .waiting
            .iter()
            .rposition(|w| w.function == function && w.stack == stack)?;
        Some(self.waiting.remove(at))
    }
}

/// The object addresses in an array of `count` words.
fn bulk_objects(state: &impl Cpu, array: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count.min(MAX_BULK)).filter_map(move |i| state.word(array.wrapping_add(8 * i)))
}

#[cfg(test)]
mod tests;
