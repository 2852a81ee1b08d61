//! Names for what programs access: heap objects, variables, thread-local ones, stacks.
//!
//! ```text
//! pass 1   markers, forks, allocators' calls ─► Places, Processes, Heap       (in order)
//! pass 2   programs' accesses ─► Evidence: where files are, what objects are  (all threads)
//!          ─► ProgramNames
//! ```
//!
//! Nothing here knows the kernel's memory. What its code does to programs' memory is named by the
//! address; copies to and from memory of which nothing is known are called that.

mod allocations;
mod allocators;
mod atomics;
mod bytes;
mod code;
mod debug;
mod elements;
mod evidence;
mod files;
mod flow;
mod frame;
mod heap;
mod heap_index;
mod library;
mod located;
mod mappings;
mod names;
mod objects;
mod places;
mod processes;
mod scalars;
mod slots;
mod stack;
mod stack_objects;
mod stack_watch;
mod threads;

pub(crate) use code::{CodeTable, ProgramFacts};
pub(crate) use debug::{DebugInformation, Descriptions, files_of};
pub(crate) use evidence::{Evidence, Gather, LastCall};
pub(crate) use heap::Heap;
pub(crate) use library::is_standard;
pub(crate) use names::{ProgramFindings, ProgramNames};
pub(crate) use places::UserPlaces;
pub(crate) use processes::Processes;
pub(crate) use stack_watch::StackWatch;
