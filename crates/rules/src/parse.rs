//! Reads rules; their grammar is in `docs/reference/rules.md`, their tokens come from
//! [`linemate_text`].
//!
//! Contradictory rules have been refused (`sanity.rs`): the result can be checked.

use linemate_text::{Position, Token, WordError, Words};

use crate::rules::{Limit, Reason, Rule, RuleMember, RuleSubject, Rules, Statement, TypeRules};
use crate::sanity::{self, SanityError};

/// Why a text is not a set of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Different words were expected.
    #[error(transparent)]
    Words(#[from] WordError),
    /// A rule that does not exist.
    #[error(
        "{at}: unknown rule `{word}`; known are type, type?, group, apart, isolate, start, size, hole, because"
    )]
    UnknownRule { at: Position, word: String },
    /// A rule without a type.
    #[error("{at}: `{word}` is a rule about a type, but there is no `type` line above it")]
    NoType { at: Position, word: String },
    /// A reason for nothing.
    #[error("{0}: `because` gives the reason of the rule above it, but there is none without one")]
    NothingToExplain(Position),
    #[error("1:1: it has no rules")]
    Empty,
    /// Rules that contradict each other.
    #[error(transparent)]
    Sanity(#[from] SanityError),
}

impl ParseError {
    /// Where in the text.
    pub fn at(&self) -> Position {
        match self {
            ParseError::Words(WordError::Unexpected { at, .. } | WordError::OpenQuote(at))
            | ParseError::UnknownRule { at, .. }
            | ParseError::NoType { at, .. }
            | ParseError::NothingToExplain(at) => *at,
            ParseError::Words(WordError::TooLong { .. }) | ParseError::Empty => {
                Position { line: 1, column: 1 }
            }
            ParseError::Sanity(error) => error.at,
        }
    }
}

/// Reads a file of rules.
///
/// # Errors
/// The first thing that is wrong, with its line and column.
pub fn parse(text: &str) -> Result<Rules, ParseError> {
    let mut parser = Parser {
        words: Words::new(text)?,
    };
    let mut rules = Rules::default();
    loop {
        parser.words.skip_ends();
        if parser.words.is_done() {
            break;
        }
        parser.line(&mut rules)?;
    }
    if rules.types.is_empty() {
        return Err(ParseError::Empty);
    }
    sanity::check(&rules)?;
    Ok(rules)
}

const FIELD: &str = "a field's name";
const MEMBER: &str = "the name of a field or group";

struct Parser {
    words: Words,
}

impl Parser {
    /// A `type` header, a rule or a reason, up to the end of its line.
    fn line(&mut self, rules: &mut Rules) -> Result<(), ParseError> {
        let at = self.words.at();
        let verb = match self.words.peek() {
            Token::Word(verb) => verb.clone(),
            _ => return self.words.unexpected("a rule"),
        };
        self.words.skip();
        match verb.as_str() {
            "type" | "type?" => rules.types.push(TypeRules {
                optional: verb.ends_with('?'),
                subject: self.subject()?,
                rules: Vec::new(),
                at,
            }),
            "because" => {
                let unexplained = rules.types.last_mut().and_then(|t| t.rules.last_mut());
                match unexplained.filter(|rule| rule.reason.is_none()) {
                    Some(rule) => rule.reason = Some(self.reason()?),
                    None => return Err(ParseError::NothingToExplain(at)),
                }
            }
            _ => {
                let statement = self.statement(&verb, at)?;
                let Some(type_rules) = rules.types.last_mut() else {
                    return Err(ParseError::NoType { at, word: verb });
                };
                let reason = match self.words.accept("because") {
                    true => Some(self.reason()?),
                    false => None,
                };
                type_rules.rules.push(Rule {
                    statement,
                    reason,
                    at,
                });
            }
        }
        match self.words.peek() {
            Token::End => Ok(()),
            _ => self.words.unexpected("`;` or the end of the line"),
        }
    }

    fn subject(&mut self) -> Result<RuleSubject, ParseError> {
        if self.words.accept("with") {
            return Ok(RuleSubject::With(self.words.names(FIELD)?));
        }
        self.words.accept("struct");
        Ok(RuleSubject::Named(self.words.name("a type's name")?))
    }

    fn reason(&mut self) -> Result<Reason, ParseError> {
        let Token::Quoted(text) = self.words.peek() else {
            return self.words.unexpected("the reason, in quotes");
        };
        let reason = Reason::new(text);
        self.words.skip();
        Ok(reason)
    }

    fn statement(&mut self, verb: &str, at: Position) -> Result<Statement, ParseError> {
        match verb {
            "group" => self.group(),
            "apart" => {
                let what = member(&mut self.words)?;
                self.words.keywords(&[("from", "`from`")])?;
                let mut from = vec![member(&mut self.words)?];
                while !matches!(self.words.peek(), Token::End) && !self.words.peek().is("because") {
                    from.push(member(&mut self.words)?);
                }
                Ok(Statement::Apart { what, from })
            }
            "isolate" => Ok(Statement::Isolate(member(&mut self.words)?)),
            "start" => Ok(Statement::Start(member(&mut self.words)?)),
            "size" => match self.limit()? {
                Some(limit) => Ok(Statement::Size(limit)),
                None => self.words.unexpected("`bytes` or `lines`"),
            },
            "hole" => match self.limit()? {
                Some(Limit::Bytes(bytes)) => Ok(Statement::Hole(bytes)),
                _ => self.words.unexpected("`bytes`"),
            },
            _ => Err(ParseError::UnknownRule {
                at,
                word: verb.to_owned(),
            }),
        }
    }

    fn group(&mut self) -> Result<Statement, ParseError> {
        let name = self.words.name("the group's name")?;
        let lines = match self.words.accept("on") {
            true => Some(self.lines()?),
            false => None,
        };
        let before = match lines {
            Some(_) => "`{`",
            None => "`{` or `on N lines`",
        };
        let members = self.words.braced(before, member)?;
        Ok(Statement::Group {
            name,
            lines,
            members,
        })
    }

    fn lines(&mut self) -> Result<u64, ParseError> {
        let at = self.words.at();
        let lines = self.words.number("a number of lines")?;
        if lines == 0 {
            let found = "`0`".to_owned();
            let expected = "a number of lines";
            return Err(WordError::Unexpected {
                at,
                expected,
                found,
            }
            .into());
        }
        if !self.words.accept("line") {
            self.words.keywords(&[("lines", "`line` or `lines`")])?;
        }
        Ok(lines)
    }

    /// `at most N bytes` or `at most N lines`; `None` for another unit.
    fn limit(&mut self) -> Result<Option<Limit>, ParseError> {
        self.words
            .keywords(&[("at", "`at most`"), ("most", "`most`")])?;
        let number = self.words.number("a number")?;
        let limit = match self.words.peek() {
            Token::Word(unit) if unit == "byte" || unit == "bytes" => Limit::Bytes(number),
            Token::Word(unit) if unit == "line" || unit == "lines" => Limit::Lines(number),
            _ => return Ok(None),
        };
        self.words.skip();
        Ok(Some(limit))
    }
}

/// `F`, `F?`, `"F"` or `"F"?`
fn member(words: &mut Words) -> Result<RuleMember, WordError> {
    let bare = match words.peek() {
        Token::Word(text) => Some(text.clone()),
        _ => None,
    };
    if let Some(path) = bare.as_deref().and_then(|text| text.strip_suffix('?')) {
        if path.is_empty() {
            return words.unexpected(MEMBER);
        }
        words.skip();
        return Ok(RuleMember::optional(path));
    }
    let path = words.name(MEMBER)?;
    let optional = bare.is_none() && words.accept("?");
    Ok(RuleMember { path, optional })
}
