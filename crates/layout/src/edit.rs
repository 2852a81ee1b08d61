//! The edit language: what a what-if changes, as a small text.
//!
//! This module defines the statements ([`EditFile`], [`Edit`]) and their canonical spelling
//! ([`std::fmt::Display`]); [`crate::parse()`] reads them. Neither knows any type:
//! [`crate::arrange`] checks whether a field exists. The grammar with examples is in
//! `docs/reference/edits.md`.

use std::fmt;

pub use linemate_text::Position;
use linemate_types::{ByteSize, TypeQuery};

/// Which type a section edits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EditSubject {
    /// The struct with that tag (or the target of the typedef with that name).
    Named(String),
    /// The one struct that has all these members, to name a struct without a tag (the scheduler's
    /// `nohz`).
    With(Vec<String>),
}

/// How an edit specifies an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// The machine's line size: 64 or 128.
    Line,
    /// A power of two, in bytes.
    Bytes(ByteSize),
}

/// Where a moved field or a group goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the start of the struct.
    First,
    /// After everything but a flexible array.
    Last,
    /// Directly after a field or group.
    After(String),
    /// Directly before a field or group.
    Before(String),
}

/// One change to a layout or to a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// `order F G H`: F stays, G follows it directly, then H.
    Order(Vec<String>),
    /// `move F after G`
    Move {
        /// The field or group that moves.
        field: String,
        /// The place that it goes to.
        target: Target,
    },
    /// `align F 64`
    Align {
        /// The field, by its path in the type.
        field: String,
        /// The number that its offset must be a multiple of.
        alignment: Alignment,
    },
    /// `isolate F G`: these together on lines of their own, at F's position.
    Isolate(Vec<String>),
    /// `group NAME first { F G }`: like isolate, with a name and a position.
    Group {
        /// Its name, for other edits to refer to.
        name: String,
        /// Where it goes; `None`: to the position of its first field.
        target: Option<Target>,
        /// Its fields in order.
        fields: Vec<String>,
    },
    /// `pad F to 64`: the next member starts at least that many bytes after F's start.
    PadTo {
        /// The field, by its path in the type.
        field: String,
        /// Bytes from its start.
        bytes: ByteSize,
    },
    /// `pad after F 8`: that many unused bytes after F.
    PadAfter {
        /// The field, by its path in the type.
        field: String,
        /// How many unused bytes follow it.
        bytes: ByteSize,
    },
    /// `pad elements of F to 64`: at least that many bytes from each element of the array F to the
    /// next.
    PadElements {
        /// The array whose elements are padded.
        field: String,
        /// Bytes from element to element; for lines, as many lines as an element needs.
        stride: Alignment,
    },
    /// `pad ranges of N to 64`: what each CPU alone writes of a program's variable or blocks starts
    /// at a multiple of that.
    PadRanges {
        /// The variable, or what an allocation is called in advice.
        name: String,
        /// What the starts become multiples of.
        alignment: Alignment,
    },
    /// `remove F`: the field and its accesses disappear.
    Remove(String),
    /// `reuse RMW of F in FUNCTION`: FUNCTION does not reload what an atomic read-modify-write of F
    /// returned.
    Reuse {
        /// The field, by its path in the type.
        field: String,
        /// The function whose loads disappear.
        function: String,
    },
    /// `skip silent stores of F`: stores that would leave F unchanged are not made.
    SkipSilent(String),
    /// `skip silent stores in N`: the same of a program's variable or blocks.
    SkipSilentIn(String),
    /// `skip array of F`: the array that F points to is not accessed; its contents are known by
    /// other means.
    SkipArray(String),
    /// `layout-from IMAGE`: the layout that the type has in another kernel.
    LayoutFrom(String),
    /// `colocate A B`: A and B that belong together are in one object.
    Colocate(String, String),
    /// `percpu A`: each CPU has its own copy of each A.
    Percpu(String),
    /// `allocate-percpu A`: the A that each CPU uses most come from the per-CPU allocator.
    AllocatePercpu(String),
    /// `base-align T 64`: objects of type T start at multiples of that.
    BaseAlign {
        /// The type whose objects are placed.
        type_name: String,
        /// What their addresses become multiples of.
        alignment: Alignment,
    },
}

impl Edit {
    /// Whether the edit is about whole objects and names its types itself, so that it needs no
    /// `type` header.
    pub fn names_its_types(&self) -> bool {
        matches!(
            self,
            Edit::Colocate(..)
                | Edit::Percpu(_)
                | Edit::AllocatePercpu(_)
                | Edit::BaseAlign { .. }
                | Edit::PadRanges { .. }
                | Edit::SkipSilentIn(_)
        )
    }
}

/// An [`Edit`] at its place in the text. Two are equal if they say the same, wherever they are.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What the statement changes.
    pub edit: Edit,
    /// Where the statement starts, for messages.
    pub at: Position,
}

impl PartialEq for Statement {
    fn eq(&self, other: &Statement) -> bool {
        self.edit == other.edit
    }
}

impl Eq for Statement {}

/// The statements under one `type` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The header; `None` for statements before the first one, which name their types themselves.
    pub subject: Option<EditSubject>,
    /// In text order, in which they take effect.
    pub statements: Vec<Statement>,
}

/// A whole file of edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditFile {
    /// In text order. The same type may have several sections.
    pub sections: Vec<Section>,
}

impl EditFile {
    /// All statements with their subjects, in order.
    pub fn statements(&self) -> impl Iterator<Item = (Option<&EditSubject>, &Statement)> {
        self.sections.iter().flat_map(|s| {
            s.statements
                .iter()
                .map(move |statement| (s.subject.as_ref(), statement))
        })
    }

    /// The number of statements.
    pub fn len(&self) -> usize {
        self.sections.iter().map(|s| s.statements.len()).sum()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file with all headers and the statements whose number (from 0) `keep` accepts.
    pub fn filtered(&self, keep: impl Fn(usize) -> bool) -> EditFile {
        let mut number = 0;
        let mut wanted = |_: &&Statement| {
            number += 1;
            keep(number - 1)
        };
        let sections = self.sections.iter().map(|section| Section {
            subject: section.subject.clone(),
            statements: section
                .statements
                .iter()
                .filter(&mut wanted)
                .cloned()
                .collect(),
        });
        EditFile {
            sections: sections.collect(),
        }
    }
}

/// Keywords that can occur where a name is expected; a field with such a name is written in quotes.
const KEYWORDS: [&str; 8] = [
    "after", "before", "first", "last", "line", "struct", "to", "with",
];

/// A name as written: in quotes if a bare word would be read as something else.
fn word(text: &str) -> String {
    linemate_text::written(text, &KEYWORDS)
}

fn words(names: &[String]) -> String {
    names.iter().map(|n| word(n)).collect::<Vec<_>>().join(" ")
}

impl EditSubject {
    /// What a kernel is searched for.
    pub fn query(&self) -> TypeQuery<'_> {
        match self {
            EditSubject::Named(name) => TypeQuery::Named(name),
            EditSubject::With(members) => TypeQuery::With(members),
        }
    }
}

impl fmt::Display for EditSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditSubject::Named(name) => f.write_str(&word(name)),
            EditSubject::With(members) => write!(f, "with {}", words(members)),
        }
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alignment::Line => f.write_str("line"),
            Alignment::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::First => f.write_str("first"),
            Target::Last => f.write_str("last"),
            Target::After(field) => write!(f, "after {}", word(field)),
            Target::Before(field) => write!(f, "before {}", word(field)),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Order(fields) => write!(f, "order {}", words(fields)),
            Edit::Move { field, target } => write!(f, "move {} {target}", word(field)),
            Edit::Align { field, alignment } => write!(f, "align {} {alignment}", word(field)),
            Edit::Isolate(fields) => write!(f, "isolate {}", words(fields)),
            Edit::Group {
                name,
                target: None,
                fields,
            } => {
                write!(f, "group {} {{ {} }}", word(name), words(fields))
            }
            Edit::Group {
                name,
                target: Some(target),
                fields,
            } => {
                write!(f, "group {} {target} {{ {} }}", word(name), words(fields))
            }
            Edit::PadTo { field, bytes } => write!(f, "pad {} to {bytes}", word(field)),
            Edit::PadAfter { field, bytes } => write!(f, "pad after {} {bytes}", word(field)),
            Edit::PadElements { field, stride } => {
                write!(f, "pad elements of {} to {stride}", word(field))
            }
            Edit::PadRanges { name, alignment } => {
                write!(f, "pad ranges of {} to {alignment}", word(name))
            }
            Edit::Remove(field) => write!(f, "remove {}", word(field)),
            Edit::Reuse { field, function } => {
                write!(f, "reuse RMW of {} in {}", word(field), word(function))
            }
            Edit::SkipSilent(field) => write!(f, "skip silent stores of {}", word(field)),
            Edit::SkipSilentIn(name) => write!(f, "skip silent stores in {}", word(name)),
            Edit::SkipArray(field) => write!(f, "skip array of {}", word(field)),
            Edit::LayoutFrom(image) => write!(f, "layout-from {}", word(image)),
            Edit::Colocate(a, b) => write!(f, "colocate {} {}", word(a), word(b)),
            Edit::Percpu(name) => write!(f, "percpu {}", word(name)),
            Edit::AllocatePercpu(name) => write!(f, "allocate-percpu {}", word(name)),
            Edit::BaseAlign {
                type_name,
                alignment,
            } => {
                write!(f, "base-align {} {alignment}", word(type_name))
            }
        }
    }
}

impl fmt::Display for EditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            if let Some(subject) = &section.subject {
                writeln!(f, "type {subject}")?;
            }
            for statement in &section.statements {
                writeln!(f, "{}", statement.edit)?;
            }
        }
        Ok(())
    }
}
