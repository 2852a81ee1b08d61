//! Why there is no advice.

use linemate_experiment::{ExperimentError, UnderError};
use linemate_layout::origin::OriginError;
use linemate_layout::plan::{PlanError, PlanReason};
use linemate_recording::Error as RecordingError;
use linemate_study::WhatIfError;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// There is no such type, or it is not one whose members have an order.
    #[error("{name}: {reason}")]
    NoType {
        /// The name, as given.
        name: String,
        /// What the name means, or that it means nothing.
        reason: PlanReason,
    },
    /// The type cannot be searched.
    #[error("{name}: {why}")]
    Type {
        /// The name, as given.
        name: String,
        /// Why its members have no order to search.
        why: String,
    },
    /// The recording does not touch it.
    #[error(
        "the recording has no access to any {0}: was it recorded with a workload that uses it?"
    )]
    Absent(String),
    /// A pin that is not a member.
    #[error(
        "--pin {pin}: {type_name} has no such member{}",
        linemate_text::suggestion(nearest)
    )]
    Pin {
        /// The type being searched.
        type_name: String,
        /// The member, as given.
        pin: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// Recordings whose kernels lay out the type differently.
    #[error("{name} differs between the recordings' kernels: give recordings of one kernel")]
    Kernels {
        /// The type that they lay out differently.
        name: String,
    },
    /// A machine that is too small.
    #[error(
        "{machine} has {available} CPUs, but the recording has {recorded}: choose a larger machine"
    )]
    Machine {
        /// The name of the machine.
        machine: String,
        /// How many logical CPUs it has.
        available: usize,
        /// How many CPUs were recorded.
        recorded: usize,
    },
    /// No recording or machine.
    #[error("give at least one {0}")]
    Nothing(&'static str),
    /// The layout of the type cannot be known.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// An edit that the language refuses.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What a replay of layouts refuses before it starts.
    #[error(transparent)]
    WhatIf(#[from] WhatIfError),
    /// It is unknown when the function is on a stack.
    #[error("--under: {0}")]
    Under(#[from] UnderError),
    /// A replay of the recording or of a layout failed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The recording cannot be read to its end.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}
