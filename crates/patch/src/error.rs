//! Why there is no patch.

use linemate_layout::origin::OriginError;
use linemate_layout::{ParseError, PlanError, PlanReason};
use linemate_source::proof::Mismatch;
use linemate_source::tree::TreeError;
use linemate_source::{RewriteError, WantedError};

use crate::compiler::CompileError;
use crate::folder::FolderError;
use crate::together::Parted;

/// Why a compiled definition is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error("with {compiler}, {parted}; nothing is written")]
    Parted { compiler: String, parted: Parted },
}

impl ProofError {
    /// Like `blame`, unless this computer lacks something.
    pub(crate) fn blamed(self, blame: impl FnOnce(ProofError) -> PatchError) -> PatchError {
        match self {
            ProofError::Compile(error @ CompileError::MissingTool { .. }) => {
                PatchError::NoProof(error)
            }
            error => blame(error),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{path}:{error}")]
    Parse { path: String, error: ParseError },
    #[error("{path}:{error}")]
    Statement { path: String, error: WantedError },
    #[error("{0} has no edits")]
    NoEdits(String),
    #[error("{path}")]
    Evidence {
        path: String,
        source: serde_json::Error,
    },
    #[error(
        "{path}: evidence for an edit other than {edit}: remove it, or name the right one with --evidence"
    )]
    OtherEvidence { path: String, edit: String },
    #[error("{path}:{error}")]
    Plan { path: String, error: Box<PlanError> },
    #[error("{subject}: {reason}")]
    Subject {
        subject: String,
        reason: Box<PlanReason>,
    },
    #[error(transparent)]
    Wanted(#[from] WantedError),
    #[error(transparent)]
    Layout(#[from] OriginError),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("{path}:{error}")]
    Rewrite { path: String, error: RewriteError },
    #[error(
        "{path}: `{member}` would carry its field group's alignment, but a config can remove the member: start the group in {edit} with another one"
    )]
    Removable {
        path: String,
        member: String,
        edit: String,
    },
    #[error(
        "{name} is a base of {derived}, whose members would follow on its last line: first end {name} with a member that fills it, then edit that"
    )]
    OpenBase { name: String, derived: String },
    #[error(
        "{path}:{line}: the comment \"{text}\" is about {members}, whose cache lines change: say what is true now with --reword '{text}=NEW' (the same words to keep it, none to remove it)"
    )]
    Contradicted {
        path: String,
        line: u32,
        text: String,
        members: String,
    },
    #[error("--reword: the definition has no comment `{0}`")]
    NoComment(String),
    /// Nothing about the tree: the proof could not be attempted.
    #[error(transparent)]
    NoProof(CompileError),
    #[error("{path}: the unpatched tree is not what was recorded, or its config differs")]
    Unpatched {
        path: String,
        source: Box<ProofError>,
    },
    #[error("{path}: the patched {name} does not have the edit's layout; nothing is written")]
    Patched {
        path: String,
        name: String,
        source: Box<ProofError>,
    },
    #[error("{path}: {name}")]
    OtherConfig {
        path: String,
        name: String,
        source: Box<ProofError>,
    },
    #[error("{0:?} is not an author: write `Name <address>`")]
    Author(String),
    #[error("no author: git has no user.name and user.email for {0}: give --author")]
    NoAuthor(String),
}

/// Adds the place to an error in a file's definition.
pub(crate) fn rewriting(path: &str) -> impl FnOnce(RewriteError) -> PatchError {
    move |error| PatchError::Rewrite {
        path: path.to_owned(),
        error,
    }
}
