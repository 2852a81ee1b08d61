//! Names of types and members, as ranges of the string table they came from.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A name; it dereferences to `str`. Empty means anonymous.
///
/// A name is a range of a shared table instead of a `String` because BTF stores a name once and
/// refers to it from many places: a hostile blob could have a million types with one megabyte-long
/// name.
#[derive(Clone)]
pub struct Name {
    table: Arc<str>,
    start: u32,
    end: u32,
}

impl Name {
    /// The bytes `start..end` of `table`; the empty name if they are not a piece of it.
    pub(crate) fn of_table(table: &Arc<str>, start: u32, end: u32) -> Name {
        Name {
            table: Arc::clone(table),
            start,
            end,
        }
    }

    pub fn as_str(&self) -> &str {
        self.table
            .get(self.start as usize..self.end as usize)
            .unwrap_or("")
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Name {
    /// Names are at most 4 GiB long; longer ones become the empty name.
    fn from(text: &str) -> Name {
        let end = u32::try_from(text.len()).unwrap_or(0);
        Name {
            table: Arc::from(text),
            start: 0,
            end,
        }
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::from("")
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
