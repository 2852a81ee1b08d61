//! Boots a kernel under QEMU from a cached snapshot, runs a command in it, and records the run.
//!
//! * [`GuestShape`] is the guest's hardware; [`Workload`] is what runs in it;
//! * [`Conditions`] are everything that a recording depends on apart from its kernel, and
//!   [`Conditions::key`] identifies them;
//! * [`Session`] ties them to a kernel and a cache, and [`Session::record`] does the whole run;
//! * an [`Observer`] is notified of events; nothing is printed here.
//!
//! It knows QEMU's command line and protocol, the agent, and how to build the function table. It
//! does not know what an access means.

mod barrier;
mod boot_console;
mod booting;
mod cache;
mod command_line;
mod conditions;
mod confinement;
mod control;
mod cpio;
mod disk;
mod error;
mod functions;
mod guess;
mod head;
mod images;
mod initramfs;
mod kernel;
mod observer;
mod packing;
mod payload;
mod process;
mod processors;
mod program;
mod programs;
mod python;
mod qemu;
mod qmp;
mod ram;
mod run_folder;
mod session;
mod shape;
mod snapshot;
mod space;
mod text;
mod vm;

pub use cache::cache_folder;
pub use conditions::{Conditions, ProgramNaming};
pub use confinement::Confinement;
pub use control::ExitStatus;
pub use error::GuestError;
pub use functions::{EventRefusal, WatchList, nameless_watch_list, watch_list};
pub use kernel::{BootableKernel, default_kernel, recorded_kernel};
pub use observer::{BootProgress, Observer, OutputStream, Progress, RefusedCall, Stage};
pub use payload::{ExtraFile, Workload};
pub use processors::Topology;
pub use program::ProgramError;
pub use programs::OwnAllocator;
pub use qemu::Qemu;
pub use qmp::QmpError;
pub use session::{Failure, Recorded, Session};
pub use shape::{BIG_CPUS, GuestShape, MAX_CPUS, MIN_MEMORY, ShapeError, Timing};
