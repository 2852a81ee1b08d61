//! Why edits are impossible.

use linemate_types::FlattenError;

use crate::arrange::Refusal;
use crate::edit::Position;
use crate::origin::OriginError;

/// Why a file of edits is impossible for these types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {subject}: {reason}")]
pub struct PlanError {
    /// Where the refused statement is.
    pub at: Position,
    /// The type it is about.
    pub subject: String,
    /// Why the edit is impossible.
    pub reason: PlanReason,
}

/// The reason of a [`PlanError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanReason {
    /// A name that no type of the kernel has.
    #[error("there is no such struct{}", linemate_text::suggestion(.0))]
    NoType(Vec<String>),
    /// A `with` header that matches no struct, or several that differ.
    #[error("{count} different structs have these members: name one, or more members")]
    Ambiguous {
        /// How many structs have these members.
        count: usize,
    },
    /// Unions have no order of members.
    #[error("it is a union: its members overlap and have no order")]
    Union,
    /// The edit contradicts the layout or another edit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The layout of the type is not known well enough.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// `layout-from` cannot apply the other kernel's layout.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// Both another kernel's layout and edits of the same type.
    #[error(
        "a layout from another kernel allows no other edits: leave out those of this type's layout"
    )]
    ForeignAndEdits,
    /// A field that cannot point to an array.
    #[error("`{field}` {why}")]
    NoArray {
        /// The field whose pointer was followed.
        field: String,
        /// Why it does not lead to an array.
        why: String,
    },
    /// The image is not available.
    #[error("the types of `{0}` are not available")]
    NoImage(String),
}

/// Why another kernel's layout does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The other kernel lacks the type.
    #[error("the other kernel has no {name}{}", linemate_text::suggestion(nearest))]
    NoType {
        /// The tag that the other kernel lacks.
        name: String,
        /// The most similar tags.
        nearest: Vec<String>,
    },
    /// No tag to search for.
    #[error("a struct without a name cannot be found in another kernel")]
    Anonymous,
    /// The two kernels share no field of the type.
    #[error("the other kernel's {0} has no field of the same path")]
    NothingInCommon(String),
    /// More fields than a layout can name.
    #[error("{0}")]
    Flatten(FlattenError),
}

impl From<FlattenError> for ForeignError {
    fn from(error: FlattenError) -> ForeignError {
        ForeignError::Flatten(error)
    }
}
