//! What breaks a rule, as data and as a sentence.

use std::collections::BTreeSet;
use std::fmt;

use linemate_text::Position;
use linemate_types::SourceLine;

use crate::rules::Limit;

/// The kinds of rules, by the words that they start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// A `group` rule: members that share lines.
    Group,
    /// An `apart` rule: members on different lines.
    Apart,
    /// An `isolate` rule: members with lines of their own.
    Isolate,
    /// A `start` rule: a member that starts a line.
    Start,
    /// A `size` rule: the largest size of the type.
    Size,
    /// A `hole` rule: the largest hole.
    Hole,
}

impl RuleKind {
    pub const ALL: [RuleKind; 6] = [
        RuleKind::Group,
        RuleKind::Apart,
        RuleKind::Isolate,
        RuleKind::Start,
        RuleKind::Size,
        RuleKind::Hole,
    ];

    /// The word that such a rule starts with.
    pub fn name(self) -> &'static str {
        match self {
            RuleKind::Group => "group",
            RuleKind::Apart => "apart",
            RuleKind::Isolate => "isolate",
            RuleKind::Start => "start",
            RuleKind::Size => "size",
            RuleKind::Hole => "hole",
        }
    }

    /// What such a rule requires.
    pub fn asks(self) -> &'static str {
        match self {
            RuleKind::Group => "These members share lines.",
            RuleKind::Apart => "These members share no line.",
            RuleKind::Isolate => "No other member is on the lines of this one.",
            RuleKind::Start => "This member starts a line.",
            RuleKind::Size => "The type is no larger than that.",
            RuleKind::Hole => "No hole between members is larger than that.",
        }
    }
}

/// The lines of an object from the first to the last, both counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lines {
    /// The first line's number, from the type's start.
    pub first: u64,
    /// The last; the first again for a single one.
    pub last: u64,
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "line {}", self.first),
            false => write!(f, "lines {} to {}", self.first, self.last),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A group on too many lines.
    Scattered {
        lines: u64,
        /// How many are enough.
        enough: u64,
        /// Which members are where, in the order of the lines.
        places: Vec<(Lines, Vec<String>)>,
    },
    /// Two that must be apart share lines.
    Shared {
        /// How many lines they share.
        lines: u64,
        /// The first of these.
        first: u64,
        /// The members on one side that exist.
        a: Vec<String>,
        /// Those on the other side.
        b: Vec<String>,
    },
    /// Other members on lines that must belong to one.
    Intruded {
        lines: Vec<Lines>,
        /// The other members there.
        others: Vec<String>,
    },
    /// A member that starts inside of a line.
    Inside {
        /// From the start of the type, in bytes.
        offset: u64,
        /// From the start of the line, in bytes.
        into: u64,
        line: u64,
    },
    /// A type larger than its budget.
    TooLarge {
        /// Its size, in the unit of the limit.
        size: Limit,
        limit: Limit,
    },
    /// Holes that are too large.
    Holes {
        /// The member before each (empty for a hole at the start), and its bytes.
        holes: Vec<(String, u64)>,
        limit: u64,
    },
}

/// A rule that a kernel breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The type, as the rules call it.
    pub subject: String,
    pub kind: RuleKind,
    /// The rule without its list of members: `group clocks`, `apart rto_mask from cpupri`. The same
    /// in every version of the rules in which it means the same.
    pub rule: String,
    /// Where the rule is.
    pub at: Position,
    pub reason: Option<String>,
    pub fault: Fault,
    /// Where the source declares what is wrong: the last of the members involved, else the type.
    pub declared: Option<SourceLine>,
}

impl Finding {
    /// How bad it is, to compare a finding with an older one of the same rule: lines too many,
    /// lines that are shared, bytes too many.
    pub fn measure(&self) -> u64 {
        match &self.fault {
            Fault::Scattered { lines, enough, .. } => lines - enough.min(lines),
            Fault::Shared { lines, .. } => *lines,
            // One more that intrudes is one more in `members`, which baselines compare as well.
            Fault::Intruded { .. } | Fault::Inside { .. } => 1,
            Fault::TooLarge { size, .. } => match size {
                Limit::Bytes(size) | Limit::Lines(size) => *size,
            },
            Fault::Holes { holes, .. } => holes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0),
        }
    }

    /// The members involved: those away from where most of a group is, those that share or intrude,
    /// those before holes.
    pub fn members(&self) -> BTreeSet<String> {
        match &self.fault {
            Fault::Scattered { places, .. } => {
                let most = places.iter().map(|(_, names)| names.len()).max();
                let home = places
                    .iter()
                    .position(|(_, names)| Some(names.len()) == most);
                let away = places.iter().enumerate().filter(|(i, _)| Some(*i) != home);
                away.flat_map(|(_, (_, names))| names.iter().cloned())
                    .collect()
            }
            Fault::Shared { a, b, .. } => a.iter().chain(b).cloned().collect(),
            Fault::Intruded { others, .. } => others.iter().cloned().collect(),
            Fault::Inside { .. } | Fault::TooLarge { .. } => BTreeSet::new(),
            Fault::Holes { holes, .. } => holes.iter().map(|(after, _)| after.clone()).collect(),
        }
    }
}

/// `a`, `a and b`, `a, b and c`; more than eight are counted.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        names if names.len() > SHOWN => {
            let more = names.len() - SHOWN;
            format!("{} and {more} more", names[..SHOWN].join(", "))
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The sentence about the fault.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Scattered {
                lines,
                enough,
                places,
            } => {
                let is = if *enough == 1 { "is" } else { "are" };
                write!(f, "on {lines} lines where {enough} {is} enough: ")?;
                let place = |(lines, names): &(Lines, Vec<String>)| {
                    let verb = if names.len() == 1 { "is" } else { "are" };
                    format!("{} {verb} on {lines}", list(names))
                };
                let all: Vec<String> = places.iter().map(place).collect();
                f.write_str(&all.join("; "))
            }
            Fault::Shared { lines, first, a, b } => {
                let where_ = match lines {
                    1 => format!("line {first}"),
                    lines => format!("{lines} lines from line {first} on"),
                };
                let verb = if a.len() == 1 { "shares" } else { "share" };
                write!(f, "{} {verb} {where_} with {}", list(a), list(b))
            }
            Fault::Intruded { lines, others } => {
                let verb = if others.len() == 1 { "is" } else { "are" };
                let all: Vec<String> = lines.iter().map(Lines::to_string).collect();
                write!(f, "{} {verb} on {} too", list(others), list(&all))
            }
            Fault::Inside { offset, into, line } => {
                write!(f, "starts {into} bytes into line {line}, at byte {offset}")
            }
            Fault::TooLarge { size, limit } => {
                write!(f, "the type has {size}, at most {limit} are allowed")
            }
            Fault::Holes { holes, limit } => {
                let hole = |(after, bytes): &(String, u64)| match after.is_empty() {
                    true => format!("{bytes} bytes at the start"),
                    false => format!("{bytes} bytes after {after}"),
                };
                let all: Vec<String> = holes.iter().map(hole).collect();
                write!(f, "{} are unused, at most {limit} are allowed", list(&all))
            }
        }
    }
}
