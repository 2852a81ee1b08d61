//! A changed definition, and the files with changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_layout::Layout;
use linemate_source::{Dialect, Sought, Wanted};
use linemate_types::{LineSize, TypeId};

/// A file's text before and after.
pub(crate) struct FileText {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// By path below the tree's root.
pub(crate) type ChangedFiles = BTreeMap<String, FileText>;

/// A type whose definition changes.
pub(crate) struct Change {
    /// `struct rq`
    pub(crate) name: String,
    pub(crate) sought: Sought,
    pub(crate) id: TypeId,
    pub(crate) wanted: Wanted,
    pub(crate) path: String,
    /// Source files of C++ that mention it.
    pub(crate) users: Vec<String>,
    pub(crate) recorded: Arc<Layout>,
    pub(crate) planned: Arc<Layout>,
}

impl Change {
    /// Whether fields are wrapped, so that the compiler orders the lines.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.sought.dialect() == Dialect::Rust && !self.wanted.groups.is_empty()
    }
}

/// By member, the line it starts on; `None` for one without a place.
pub(crate) fn lines(layout: &Layout, line: LineSize) -> Vec<Option<u64>> {
    let offsets = layout.offsets.iter();
    offsets
        .map(|offset| offset.map(|bit| bit.0 / 8 / line.bytes()))
        .collect()
}
