//! When processes begin, from calls of the kernel's functions.
//!
//! A CPU shows only its page tables, and their memory is soon another process's. Two calls
//! distinguish processes:
//!
//! ```text
//! fork   parent: wake_up_new_task(child)   …   any CPU: page tables change, __switch_to(_, child)
//! exec   page tables change, setup_new_exec()
//! ```
//!
//! A new task whose first switch changes nothing is a thread of the kernel, which runs in the page
//! tables of the task before it; one that gets its creator's page tables is a thread.

use linemate_recording::{Call, CpuId, FunctionId, FunctionTable, Mark, Marker, VirtualTime};
use rustc_hash::{FxHashMap, FxHashSet};

use super::places::{Space, UserPlaces};

/// A process has begun as the copy of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fork {
    pub(super) child: Space,
    pub(super) parent: Space,
    /// When the child had its copy.
    pub(super) time: VirtualTime,
}

/// The creator of a task that has not run yet.
#[derive(Clone, Copy, Debug)]
struct Creator {
    space: Space,
    time: VirtualTime,
}

/// What a kernel's function says about processes.
#[derive(Clone, Copy, Debug)]
enum ProcessEvent {
    /// `wake_up_new_task(task)`.
    Created,
    /// `__switch_to(from, to)`.
    Switched,
    /// `setup_new_exec()`.
    Executed,
}

/// The processes of a recording.
#[derive(Debug)]
pub(crate) struct Processes {
    events: FxHashMap<FunctionId, ProcessEvent>,
    /// Who created a task that has not run yet.
    created: FxHashMap<u64, Creator>,
    /// CPUs whose page tables have changed since their last switch.
    changed: FxHashSet<CpuId>,
}

impl Processes {
    /// None yet; `table` has the functions that are recorded.
    pub(crate) fn new(table: &FunctionTable) -> Processes {
        let event = |name: &str| match name {
            "wake_up_new_task" => Some(ProcessEvent::Created),
            "__switch_to" => Some(ProcessEvent::Switched),
            "setup_new_exec" => Some(ProcessEvent::Executed),
            _ => None,
        };
        let functions = (0u32..).map(FunctionId).zip(&table.functions);
        let kernels = functions.filter(|(_, function)| function.entry.0 >> 63 == 1);
        let events = kernels.filter_map(|(id, function)| Some((id, event(&function.name)?)));
        Processes {
            events: events.collect(),
            created: FxHashMap::default(),
            changed: FxHashSet::default(),
        }
    }

    /// Handles a marker, in order.
    pub(crate) fn mark(&mut self, marker: &Marker) {
        if marker.mark == Mark::Space {
            self.changed.insert(marker.cpu);
        }
    }

    /// Handles a call of the kernel's, in order, after the markers before it. Returns the fork if
    /// a child runs for the first time.
    pub(crate) fn call(&mut self, places: &mut UserPlaces, call: &Call) -> Option<Fork> {
        match self.events.get(&call.function)? {
            ProcessEvent::Created => {
                let creator = Creator {
                    space: places.space(call.cpu, call.time)?,
                    time: call.time,
                };
                self.created.insert(call.values[0]?, creator);
                None
            }
            ProcessEvent::Switched => {
                let changed = self.changed.remove(&call.cpu);
                let creator = self.created.remove(&call.values[1]?)?;
                let space = places.space(call.cpu, call.time)?;
                if !changed || space == creator.space {
                    return None;
                }
                Some(Fork {
                    child: places.begin(call.cpu, call.time)?,
                    parent: creator.space,
                    time: creator.time,
                })
            }
            ProcessEvent::Executed => {
                self.changed.remove(&call.cpu);
                places.begin(call.cpu, call.time);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use linemate_recording::{Function, GuestAddr, MAX_PARAMETERS, Role};

    const KERNEL: u64 = 0xffff_ffff_8100_0000;

    const CREATED: u32 = 1;
    const SWITCHED: u32 = 2;
    const EXECUTED: u32 = 3;

    /// Processes, and what the CPUs say.
    struct World {
        processes: Processes,
        places: UserPlaces,
        time: u64,
    }

    impl World {
        fn new() -> World {
            let names = [
                // A program's function of this name says nothing.
                ("setup_new_exec", 0x40_0000),
                ("wake_up_new_task", KERNEL),
                ("__switch_to", KERNEL + 0x100),
                ("setup_new_exec", KERNEL + 0x200),
            ];
            let function = |(name, entry): (&str, u64)| Function {
                entry: GuestAddr(entry),
                size: 16,
                name: name.to_owned(),
                role: Role::Plain,
                returns: false,
                parameters: Vec::new(),
            };
            let table = FunctionTable {
                functions: names.map(function).into(),
            };
            World {
                processes: Processes::new(&table),
                places: UserPlaces::new(0),
                time: 0,
            }
        }

        fn page_tables(&mut self, cpu: u16, root: u64) {
            self.time += 1;
            let marker = Marker {
                time: VirtualTime(self.time),
                cpu: CpuId(cpu),
                mark: Mark::Space,
                value: root,
            };
            self.places.mark(&marker);
            self.processes.mark(&marker);
        }

        fn call(&mut self, cpu: u16, function: u32, arguments: &[u64]) -> Option<Fork> {
            self.time += 1;
            let mut values = [None; MAX_PARAMETERS];
            for (slot, value) in values.iter_mut().zip(arguments) {
                *slot = Some(*value);
            }
            let call = Call {
                time: VirtualTime(self.time),
                cpu: CpuId(cpu),
                function: FunctionId(function),
                stack: GuestAddr(0),
                caller: GuestAddr(0),
                values,
            };
            self.processes.call(&mut self.places, &call)
        }

        fn space(&self, cpu: u16) -> Space {
            let now = VirtualTime(self.time);
            self.places.space(CpuId(cpu), now).unwrap()
        }
    }

    #[test]
    fn a_child_is_the_copy_of_what_its_creator_was() {
        let mut world = World::new();
        world.page_tables(0, 0x7000);
        let parent = world.space(0);
        assert_eq!(world.call(0, CREATED, &[11]), None);
        let time = VirtualTime(world.time);
        world.page_tables(1, 0x9000);
        let fork = world.call(1, SWITCHED, &[10, 11]).unwrap();
        let child = world.space(1);
        assert_eq!(
            fork,
            Fork {
                child,
                parent,
                time
            }
        );
        assert_ne!(child, parent);
        // Both run again.
        world.page_tables(1, 0x7000);
        assert_eq!(world.call(1, SWITCHED, &[11, 10]), None);
        assert_eq!(world.space(1), parent);
        world.page_tables(1, 0x9000);
        assert_eq!(world.call(1, SWITCHED, &[10, 11]), None);
        assert_eq!(world.space(1), child);
    }

    #[test]
    fn a_child_in_the_page_tables_of_one_that_ended_is_another() {
        let mut world = World::new();
        let mut fork = || {
            world.page_tables(0, 0x7000);
            world.call(0, CREATED, &[11]);
            world.page_tables(0, 0x9000);
            world.call(0, SWITCHED, &[10, 11]).unwrap()
        };
        let (first, second) = (fork(), fork());
        assert_eq!(first.parent, second.parent);
        assert_ne!(first.child, second.child);
    }

    #[test]
    fn threads_are_no_forks() {
        let mut world = World::new();
        world.page_tables(0, 0x7000);
        let space = world.space(0);
        // A program's: it has its creator's page tables, on another CPU, too.
        world.call(0, CREATED, &[11]);
        world.page_tables(1, 0x7000);
        assert_eq!(world.call(1, SWITCHED, &[10, 11]), None);
        // The kernel's: it has those of the task before.
        world.page_tables(1, 0x9000);
        world.call(1, SWITCHED, &[10, 20]);
        world.call(0, CREATED, &[12]);
        assert_eq!(world.call(1, SWITCHED, &[20, 12]), None);
        assert_eq!(world.space(0), space);
    }

    #[test]
    fn a_new_program_has_nothing_of_the_old_one() {
        let mut world = World::new();
        world.page_tables(0, 0x7000);
        let old = world.space(0);
        world.call(0, 0, &[]);
        assert_eq!(world.space(0), old);
        world.page_tables(1, 0x9000);
        world.call(1, CREATED, &[12]);
        world.page_tables(0, 0xa000);
        world.call(0, EXECUTED, &[]);
        let new = world.space(0);
        assert_ne!(new, old);
        // A thread of the kernel runs next, in its page tables.
        assert_eq!(world.call(0, SWITCHED, &[10, 12]), None);
        assert_eq!(world.space(0), new);
    }
}
