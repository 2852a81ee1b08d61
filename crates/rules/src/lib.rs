//! Rules about which members of a type share cache lines, and what in a kernel breaks them.
//!
//! * [`Rules`] are the requirements: groups, separations, starts of lines, budgets. They print as a
//!   file that reads back the same; [`parse()`] reads it. The grammar is in
//!   `docs/reference/rules.md`.
//! * [`check()`] compares them with the types of one kernel, for one line size, and returns
//!   [`Finding`]s.
//! * [`assertions`] are rules as static assertions, for the compiler of the types.
//! * [`Baseline`] separates known and accepted findings from new, worse and fixed ones.
//!
//! Everything here is a pure function of its inputs: no file is opened, nothing is printed. It
//! knows only layouts: not how often a member is used, and not where objects are. An object is
//! assumed to start at the start of a line.

mod asserts;
mod baseline;
mod check;
mod finding;
mod member;
mod parse;
mod ranges;
mod rules;
mod sanity;

pub use asserts::{AssertionLanguage, Assertions, assertions};
pub use baseline::{Baseline, BaselineError, Gone, Verdict, Where};
pub use check::{CheckError, CheckReason, Checked, Skipped, check};
pub use finding::{Fault, Finding, Lines, RuleKind};
pub use linemate_text::Position;
pub use member::PathError;
pub use parse::{ParseError, parse};
pub use rules::{Limit, Reason, Rule, RuleMember, RuleSubject, Rules, Statement, TypeRules};
pub use sanity::{Contradiction, SanityError};
