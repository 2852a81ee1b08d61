//! What the recorder does before watched instructions.

use crate::watch::Watched;

/// The action before an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Report the entry of a function.
    Enter(Watched),
    /// Report the return of a function.
    Leave(Watched),
    /// Report the return value of a program's function, if the caller continues here.
    Back,
    /// Note a program's system call.
    Ask,
    /// Note its result, if the kernel returns here.
    Answer,
    /// Report that the CPU is about to wait.
    Idle,
    Start,
    Stop,
}

/// An action at its place.
#[derive(Debug)]
pub(crate) struct Hooked {
    pub(crate) action: Action,
    /// Instructions from this one (included) to the end of its block.
    pub(crate) back: u32,
    /// The instruction belongs to the kernel.
    pub(crate) kernel: bool,
}
