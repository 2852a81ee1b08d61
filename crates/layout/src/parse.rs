//! Reads the edit language of [`crate::edit`]; its grammar is in `docs/reference/edits.md`, its
//! tokens come from [`linemate_text`].
//!
//! Every error has line and column and what would have been right there.

use linemate_text::{Position, Token, WordError, Words};
use linemate_types::ByteSize;

use crate::edit::{Alignment, Edit, EditFile, EditSubject, Section, Statement, Target};

/// Why a text is not an edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Different words were expected.
    #[error(transparent)]
    Words(#[from] WordError),
    /// A statement that does not exist.
    #[error(
        "{at}: unknown statement `{word}`; known are type, order, move, align, isolate, group, pad, remove, reuse, \
         skip, colocate, percpu, allocate-percpu, base-align, layout-from"
    )]
    UnknownStatement {
        /// Where the statement starts in its text.
        at: Position,
        /// The unknown word, as written.
        word: String,
    },
    /// A statement about fields without a type.
    #[error("{at}: `{word}` names fields of no type: write `type T` before it, or give --type T")]
    NoType {
        /// Where the statement starts in its text.
        at: Position,
        /// The word, as written.
        word: String,
    },
}

/// Reads a file of edits.
///
/// # Errors
/// The first error, with its line and column.
pub fn parse(text: &str) -> Result<EditFile, ParseError> {
    parse_in(text, None)
}

/// Reads `-e` options: each is one or more statements about `subject`, unless it has a `type` line
/// of its own. In positions, the number of the option replaces the line.
///
/// # Errors
/// The first error.
pub fn parse_flags(subject: EditSubject, flags: &[String]) -> Result<EditFile, ParseError> {
    // An option is one line, even if the shell's quoting spread it over several.
    let lines: Vec<String> = flags
        .iter()
        .map(|flag| flag.replace(['\n', '\r'], " "))
        .collect();
    parse_in(&lines.join("\n"), Some(subject))
}

fn parse_in(text: &str, subject: Option<EditSubject>) -> Result<EditFile, ParseError> {
    let mut parser = Parser {
        words: Words::new(text)?,
    };
    let mut file = EditFile::default();
    if subject.is_some() {
        file.sections.push(Section {
            subject,
            statements: Vec::new(),
        });
    }
    loop {
        parser.words.skip_ends();
        if parser.words.is_done() {
            return Ok(file);
        }
        parser.line(&mut file)?;
    }
}

struct Parser {
    words: Words,
}

const FIELD: &str = "a field's name";
const TYPE: &str = "a type's name";
const BYTES: &str = "a number of bytes";
const MEMORY: &str = "a variable or an allocation";

impl Parser {
    /// A `type` header or a statement, up to the end of its line.
    fn line(&mut self, file: &mut EditFile) -> Result<(), ParseError> {
        let at = self.words.at();
        let verb = match self.words.peek() {
            Token::Word(verb) => verb.clone(),
            _ => return self.words.unexpected("a statement"),
        };
        self.words.skip();
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
        match self.words.peek() {
            Token::End => Ok(()),
            _ => self.words.unexpected("`;` or the end of the line"),
        }
    }

    fn subject(&mut self) -> Result<EditSubject, ParseError> {
        if self.words.accept("with") {
            return Ok(EditSubject::With(self.words.names(FIELD)?));
        }
        self.words.accept("struct");
        Ok(EditSubject::Named(self.words.name(TYPE)?))
    }

    fn edit(&mut self, verb: &str, at: Position) -> Result<Edit, ParseError> {
        match verb {
            "order" => Ok(Edit::Order(self.words.names(FIELD)?)),
            "isolate" => Ok(Edit::Isolate(self.words.names(FIELD)?)),
            "move" => {
                let field = self.words.name(FIELD)?;
                match self.target()? {
                    Some(target) => Ok(Edit::Move { field, target }),
                    None => self
                        .words
                        .unexpected("`after F`, `before F`, `first` or `last`"),
                }
            }
            "align" => Ok(Edit::Align {
                field: self.words.name(FIELD)?,
                alignment: self.alignment()?,
            }),
            "group" => self.group(),
            "pad" => self.pad(),
            "remove" => Ok(Edit::Remove(self.words.name(FIELD)?)),
            "reuse" => {
                self.words.keywords(&[("RMW", "`RMW`"), ("of", "`of`")])?;
                let field = self.words.name(FIELD)?;
                self.words.keywords(&[("in", "`in`")])?;
                Ok(Edit::Reuse {
                    field,
                    function: self.words.name("a function's name")?,
                })
            }
            "skip" if self.words.accept("array") => {
                // `behind` is the older word.
                if !self.words.accept("behind") {
                    self.words.keywords(&[("of", "`of`")])?;
                }
                Ok(Edit::SkipArray(self.words.name(FIELD)?))
            }
            "skip" => {
                self.words
                    .keywords(&[("silent", "`silent` or `array`"), ("stores", "`stores`")])?;
                if self.words.accept("in") {
                    return Ok(Edit::SkipSilentIn(self.words.name(MEMORY)?));
                }
                self.words.keywords(&[("of", "`of` or `in`")])?;
                Ok(Edit::SkipSilent(self.words.name(FIELD)?))
            }
            "layout-from" => Ok(Edit::LayoutFrom(self.words.name("a kernel image")?)),
            "colocate" => Ok(Edit::Colocate(
                self.words.name(TYPE)?,
                self.words.name(TYPE)?,
            )),
            "percpu" => Ok(Edit::Percpu(self.words.name(TYPE)?)),
            "allocate-percpu" => Ok(Edit::AllocatePercpu(self.words.name(TYPE)?)),
            "base-align" => Ok(Edit::BaseAlign {
                type_name: self.words.name(TYPE)?,
                alignment: self.alignment()?,
            }),
            _ => Err(ParseError::UnknownStatement {
                at,
                word: verb.to_owned(),
            }),
        }
    }

    fn group(&mut self) -> Result<Edit, ParseError> {
        let name = self.words.name("the group's name")?;
        let target = self.target()?;
        let before = "`{`, `after F`, `before F`, `first` or `last`";
        let fields = self.words.braced(before, |words| words.name(FIELD))?;
        Ok(Edit::Group {
            name,
            target,
            fields,
        })
    }

    fn pad(&mut self) -> Result<Edit, ParseError> {
        if self.words.accept("after") {
            return Ok(Edit::PadAfter {
                field: self.words.name(FIELD)?,
                bytes: self.bytes()?,
            });
        }
        if self.words.accept("elements") {
            // A field may have this name.
            if self.words.accept("of") {
                let field = self.words.name(FIELD)?;
                self.words.keywords(&[("to", "`to`")])?;
                let stride = self.alignment()?;
                return Ok(Edit::PadElements { field, stride });
            }
            self.words.keywords(&[("to", "`of` or `to`")])?;
            return Ok(Edit::PadTo {
                field: "elements".to_owned(),
                bytes: self.bytes()?,
            });
        }
        if self.words.accept("ranges") {
            if self.words.accept("of") {
                let name = self.words.name(MEMORY)?;
                self.words.keywords(&[("to", "`to`")])?;
                let alignment = self.alignment()?;
                return Ok(Edit::PadRanges { name, alignment });
            }
            self.words.keywords(&[("to", "`of` or `to`")])?;
            return Ok(Edit::PadTo {
                field: "ranges".to_owned(),
                bytes: self.bytes()?,
            });
        }
        let field = self
            .words
            .name("a field's name, `after`, `elements of` or `ranges of`")?;
        self.words.keywords(&[("to", "`to`")])?;
        Ok(Edit::PadTo {
            field,
            bytes: self.bytes()?,
        })
    }

    fn target(&mut self) -> Result<Option<Target>, ParseError> {
        let Token::Word(keyword) = self.words.peek() else {
            return Ok(None);
        };
        let target = match keyword.as_str() {
            "first" => Target::First,
            "last" => Target::Last,
            "after" => {
                self.words.skip();
                return Ok(Some(Target::After(self.words.name(FIELD)?)));
            }
            "before" => {
                self.words.skip();
                return Ok(Some(Target::Before(self.words.name(FIELD)?)));
            }
            _ => return Ok(None),
        };
        self.words.skip();
        Ok(Some(target))
    }

    fn bytes(&mut self) -> Result<ByteSize, ParseError> {
        Ok(ByteSize(self.words.number(BYTES)?))
    }

    fn alignment(&mut self) -> Result<Alignment, ParseError> {
        if self.words.accept("line") {
            return Ok(Alignment::Line);
        }
        match self.bytes() {
            Ok(bytes) => Ok(Alignment::Bytes(bytes)),
            Err(_) => self.words.unexpected("a number of bytes or `line`"),
        }
    }
}
