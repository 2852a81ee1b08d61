//! Reads the edit language of [`crate::edit`]; its grammar is in `docs/edits.md`.
//!
//! A statement is a line, but what stands in braces may take several. Every refusal tells line and column and what would
//! have been right there.

use crate::edit::{Alignment, Edit, EditFile, Position, Section, Statement, Subject, Target};

/// The longest text that is read, in bytes: hand-written edits are a thousand times shorter.
pub const MAX_TEXT: usize = 1 << 20;

/// Why a text is no edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Something else was expected.
    #[error("{at}: expected {expected}, found {found}")]
    Unexpected {
        /// Where.
        at: Position,
        /// What would have been right.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A statement that does not exist.
    #[error(
        "{at}: unknown statement `{word}`; known are type, order, move, align, isolate, group, pad, remove, reuse, \
         skip, colocate, percpu, base-align, layout-from"
    )]
    UnknownStatement {
        /// Where.
        at: Position,
        /// Its first word.
        word: String,
    },
    /// A statement about fields without a type.
    #[error("{at}: `{word}` names fields, but no `type` line stands above it")]
    NoType {
        /// Where.
        at: Position,
        /// Its first word.
        word: String,
    },
    /// A quote that is not closed on its line.
    #[error("{0}: the quote is not closed")]
    OpenQuote(Position),
    /// Something that is no edit at all.
    #[error("{length} bytes are too many for edits ({MAX_TEXT} at most)")]
    TooLong {
        /// Bytes.
        length: usize,
    },
}

/// Whether a character ends a bare word by itself.
pub(crate) fn is_special(c: char) -> bool {
    matches!(c, '{' | '}' | '#' | '"')
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// Never a keyword.
    Quoted(String),
    Open,
    Close,
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Word(text) => format!("`{text}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Open => "`{`".to_owned(),
            Token::Close => "`}`".to_owned(),
            Token::End => "the end of the line".to_owned(),
        }
    }

    fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(text) if text == keyword)
    }
}

/// Reads a file of edits.
///
/// # Errors
/// The first thing that is wrong, with its line and column.
pub fn parse(text: &str) -> Result<EditFile, ParseError> {
    parse_in(text, None)
}

/// Reads `-e` flags: each is one or more statements about `subject`, unless it brings a `type` line of its own.
/// In positions the number of the flag stands for the line.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_flags(subject: Subject, flags: &[String]) -> Result<EditFile, ParseError> {
    // A flag is one line: what a shell's quoting put on several lines is still one flag.
    let lines: Vec<String> = flags
        .iter()
        .map(|flag| flag.replace(['\n', '\r'], " "))
        .collect();
    parse_in(&lines.join("\n"), Some(subject))
}

fn parse_in(text: &str, subject: Option<Subject>) -> Result<EditFile, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::TooLong { length: text.len() });
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
    };
    let mut file = EditFile::default();
    if subject.is_some() {
        file.sections.push(Section {
            subject,
            statements: Vec::new(),
        });
    }
    while parser.next < parser.tokens.len() {
        if *parser.peek() == Token::End {
            parser.next += 1;
        } else {
            parser.line(&mut file)?;
        }
    }
    Ok(file)
}

/// The words of a text; every line that has any ends with [`Token::End`].
fn tokens(text: &str) -> Result<Vec<(Token, Position)>, ParseError> {
    let mut found = Vec::new();
    for (line, content) in (1u32..).zip(text.lines()) {
        let mut rest = content.chars().peekable();
        let mut column = 0u32;
        while let Some(c) = rest.next() {
            column += 1;
            let at = Position { line, column };
            match c {
                '#' => break,
                '{' => found.push((Token::Open, at)),
                '}' => found.push((Token::Close, at)),
                '"' => {
                    let mut word = String::new();
                    loop {
                        column += 1;
                        match rest.next() {
                            Some('"') => break,
                            Some(c) => word.push(c),
                            None => return Err(ParseError::OpenQuote(at)),
                        }
                    }
                    found.push((Token::Quoted(word), at));
                }
                c if c.is_whitespace() => {}
                c => {
                    let mut word = String::from(c);
                    while let Some(c) = rest.next_if(|c| !c.is_whitespace() && !is_special(*c)) {
                        column += 1;
                        word.push(c);
                    }
                    found.push((Token::Word(word), at));
                }
            }
        }
        found.push((
            Token::End,
            Position {
                line,
                column: column + 1,
            },
        ));
    }
    Ok(found)
}

struct Parser {
    tokens: Vec<(Token, Position)>,
    next: usize,
}

const FIELD: &str = "a field's name";
const TYPE: &str = "a type's name";

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens
            .get(self.next)
            .map_or(&Token::End, |(token, _)| token)
    }

    fn at(&self) -> Position {
        let last = self
            .tokens
            .last()
            .map_or(Position { line: 1, column: 1 }, |(_, at)| *at);
        self.tokens.get(self.next).map_or(last, |(_, at)| *at)
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, ParseError> {
        Err(ParseError::Unexpected {
            at: self.at(),
            expected,
            found: self.peek().describe(),
        })
    }

    /// A `type` header or a statement, up to the end of its line.
    fn line(&mut self, file: &mut EditFile) -> Result<(), ParseError> {
        let at = self.at();
        let verb = match self.peek() {
            Token::Word(verb) => verb.clone(),
            _ => return self.unexpected("a statement"),
        };
        self.next += 1;
        if verb == "type" {
            let subject = Some(self.subject()?);
            file.sections.push(Section {
                subject,
                statements: Vec::new(),
            });
        } else {
            let edit = self.edit(&verb, at)?;
            if file.sections.is_empty() {
                file.sections.push(Section {
                    subject: None,
                    statements: Vec::new(),
                });
            }
            if let Some(section) = file.sections.last_mut() {
                if section.subject.is_none() && !edit.names_its_types() {
                    return Err(ParseError::NoType { at, word: verb });
                }
                section.statements.push(Statement { edit, at });
            }
        }
        match self.peek() {
            Token::End => Ok(()),
            _ => self.unexpected("the end of the line"),
        }
    }

    fn subject(&mut self) -> Result<Subject, ParseError> {
        if self.peek().is("with") {
            self.next += 1;
            return Ok(Subject::With(self.names(FIELD)?));
        }
        if self.peek().is("struct") {
            self.next += 1;
        }
        Ok(Subject::Named(self.name(TYPE)?))
    }

    fn edit(&mut self, verb: &str, at: Position) -> Result<Edit, ParseError> {
        match verb {
            "order" => Ok(Edit::Order(self.names(FIELD)?)),
            "isolate" => Ok(Edit::Isolate(self.names(FIELD)?)),
            "move" => {
                let field = self.name(FIELD)?;
                match self.target()? {
                    Some(target) => Ok(Edit::Move { field, target }),
                    None => self.unexpected("`after F`, `before F`, `first` or `last`"),
                }
            }
            "align" => Ok(Edit::Align {
                field: self.name(FIELD)?,
                alignment: self.alignment()?,
            }),
            "group" => self.group(),
            "pad" => self.pad(),
            "remove" => Ok(Edit::Remove(self.name(FIELD)?)),
            "reuse" => {
                self.keywords(&[("RMW", "`RMW`"), ("of", "`of`")])?;
                let field = self.name(FIELD)?;
                self.keywords(&[("in", "`in`")])?;
                Ok(Edit::Reuse {
                    field,
                    function: self.name("a function's name")?,
                })
            }
            "skip" => {
                self.keywords(&[
                    ("silent", "`silent`"),
                    ("stores", "`stores`"),
                    ("of", "`of`"),
                ])?;
                Ok(Edit::SkipSilent(self.name(FIELD)?))
            }
            "layout-from" => Ok(Edit::LayoutFrom(self.name("a kernel image")?)),
            "colocate" => Ok(Edit::Colocate(self.name(TYPE)?, self.name(TYPE)?)),
            "percpu" => Ok(Edit::Percpu(self.name(TYPE)?)),
            "base-align" => Ok(Edit::BaseAlign {
                type_name: self.name(TYPE)?,
                alignment: self.alignment()?,
            }),
            _ => Err(ParseError::UnknownStatement {
                at,
                word: verb.to_owned(),
            }),
        }
    }

    fn group(&mut self) -> Result<Edit, ParseError> {
        let name = self.name("the group's name")?;
        let target = self.target()?;
        if *self.peek() != Token::Open {
            return self.unexpected("`{`, `after F`, `before F`, `first` or `last`");
        }
        self.next += 1;
        let mut fields = Vec::new();
        loop {
            match self.peek() {
                Token::Close if !fields.is_empty() => break,
                Token::End if self.next + 1 < self.tokens.len() => self.next += 1,
                Token::Word(_) | Token::Quoted(_) => fields.push(self.name(FIELD)?),
                _ if fields.is_empty() => return self.unexpected(FIELD),
                _ => return self.unexpected("a field's name or `}`"),
            }
        }
        self.next += 1;
        Ok(Edit::Group {
            name,
            target,
            fields,
        })
    }

    fn pad(&mut self) -> Result<Edit, ParseError> {
        if self.peek().is("after") {
            self.next += 1;
            return Ok(Edit::PadAfter {
                field: self.name(FIELD)?,
                bytes: self.number()?,
            });
        }
        let field = self.name("a field's name or `after`")?;
        self.keywords(&[("to", "`to`")])?;
        Ok(Edit::PadTo {
            field,
            bytes: self.number()?,
        })
    }

    fn target(&mut self) -> Result<Option<Target>, ParseError> {
        let Token::Word(keyword) = self.peek() else {
            return Ok(None);
        };
        let target = match keyword.as_str() {
            "first" => Target::First,
            "last" => Target::Last,
            "after" => {
                self.next += 1;
                return Ok(Some(Target::After(self.name(FIELD)?)));
            }
            "before" => {
                self.next += 1;
                return Ok(Some(Target::Before(self.name(FIELD)?)));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(target))
    }

    fn keywords(&mut self, wanted: &[(&str, &'static str)]) -> Result<(), ParseError> {
        for (keyword, expected) in wanted {
            if !self.peek().is(keyword) {
                return self.unexpected(expected);
            }
            self.next += 1;
        }
        Ok(())
    }

    fn name(&mut self, expected: &'static str) -> Result<String, ParseError> {
        match self.peek() {
            Token::Word(text) | Token::Quoted(text) if !text.is_empty() => {
                let text = text.clone();
                self.next += 1;
                Ok(text)
            }
            _ => self.unexpected(expected),
        }
    }

    /// One or more names, up to the end of the line.
    fn names(&mut self, expected: &'static str) -> Result<Vec<String>, ParseError> {
        let mut names = vec![self.name(expected)?];
        while !matches!(self.peek(), Token::End) {
            names.push(self.name(expected)?);
        }
        Ok(names)
    }

    fn alignment(&mut self) -> Result<Alignment, ParseError> {
        if self.peek().is("line") {
            self.next += 1;
            return Ok(Alignment::Line);
        }
        match self.number() {
            Ok(bytes) => Ok(Alignment::Bytes(bytes)),
            Err(_) => self.unexpected("a number of bytes or `line`"),
        }
    }

    fn number(&mut self) -> Result<u64, ParseError> {
        let parsed = match self.peek() {
            Token::Word(text) => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            _ => None,
        };
        match parsed {
            Some(number) => {
                self.next += 1;
                Ok(number)
            }
            None => self.unexpected("a number of bytes"),
        }
    }
}
