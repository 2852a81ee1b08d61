//! What the recorder does before watched instructions.

use crate::watch::Watched;

/// What to do before an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Report the entry of a function.
    Enter(Watched),
    /// Report the return of a function.
    Leave(Watched),
    /// Report what a program's function has returned, if this is where one returns to.
    Back,
    /// See what a program asks the kernel for.
    Ask,
    /// See what came of it, if this is where the kernel returns to.
    Answer,
    /// Report that the CPU is going to wait.
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
    /// It is the kernel's.
    pub(crate) kernel: bool,
}
