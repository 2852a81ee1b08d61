//! The tokens of linemate's small languages: what edits and rules share before they mean anything.
//!
//! A statement ends with its line or with `;`, but braces may span several lines. `#` starts a
//! comment that ends with the line. Text in `"quotes"` is never a keyword. Every error has line and
//! column and what would have been right there. It knows no statement and no type, and opens no
//! file.

use std::fmt;

/// The longest text that is read, in bytes: hand-written ones are a thousand times shorter.
pub const MAX_TEXT: usize = 1 << 20;

/// Where a word starts in its text, both counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line; for flags the number of the flag.
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text does not have the expected words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// Something else was expected.
    #[error("{at}: expected {expected}, found {found}")]
    Unexpected {
        at: Position,
        /// What would have been right.
        expected: &'static str,
        found: String,
    },
    /// A quote that is not closed on its line.
    #[error("{0}: the quote is not closed")]
    OpenQuote(Position),
    /// Text that no person wrote.
    #[error("{length} bytes are too many to read ({MAX_TEXT} at most)")]
    TooLong {
        /// Bytes.
        length: usize,
    },
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A bare word: a keyword or a name.
    Word(String),
    /// Text in quotes: never a keyword.
    Quoted(String),
    /// `{`
    Open,
    /// `}`
    Close,
    /// The end of a line, or `;`.
    End,
}

impl Token {
    /// Whether it is this bare word.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(text) if text == keyword)
    }

    fn describe(&self) -> String {
        match self {
            Token::Word(text) => format!("`{text}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Open => "`{`".to_owned(),
            Token::Close => "`}`".to_owned(),
            Token::End => "the end of the statement".to_owned(),
        }
    }
}

/// Whether a character ends a bare word by itself.
fn is_special(c: char) -> bool {
    matches!(c, '{' | '}' | '#' | '"' | ';')
}

/// A name as written: in quotes if a bare word would be read as something else, as `keywords` are.
pub fn written(text: &str, keywords: &[&str]) -> String {
    let bare = !text.is_empty()
        && !keywords.contains(&text)
        && !text.chars().any(|c| c.is_whitespace() || is_special(c));
    if bare {
        text.to_owned()
    } else {
        format!("\"{text}\"")
    }
}

/// The words of a text, read one after the other.
#[derive(Clone, Debug)]
pub struct Words {
    tokens: Vec<(Token, Position)>,
    next: usize,
}

impl Words {
    /// The words of `text`.
    ///
    /// # Errors
    /// A text longer than [`MAX_TEXT`], or a quote that is not closed on its line.
    pub fn new(text: &str) -> Result<Words, WordError> {
        if text.len() > MAX_TEXT {
            return Err(WordError::TooLong { length: text.len() });
        }
        Ok(Words {
            tokens: tokens(text)?,
            next: 0,
        })
    }

    /// Whether all words have been read.
    pub fn is_done(&self) -> bool {
        self.next >= self.tokens.len()
    }

    /// The next word; after the last one the end of its line.
    pub fn peek(&self) -> &Token {
        self.tokens
            .get(self.next)
            .map_or(&Token::End, |(token, _)| token)
    }

    /// Advances past the next word.
    pub fn skip(&mut self) {
        self.next += 1;
    }

    /// Advances past the ends of statements, to the first word of the next one or the end of the
    /// text.
    pub fn skip_ends(&mut self) {
        while !self.is_done() && *self.peek() == Token::End {
            self.next += 1;
        }
    }

    /// Where the next word starts.
    pub fn at(&self) -> Position {
        let last = self
            .tokens
            .last()
            .map_or(Position { line: 1, column: 1 }, |(_, at)| *at);
        self.tokens.get(self.next).map_or(last, |(_, at)| *at)
    }

    /// Refuses the next word.
    ///
    /// # Errors
    /// Always: that `expected` would have been right here.
    pub fn unexpected<T, E: From<WordError>>(&self, expected: &'static str) -> Result<T, E> {
        let error = WordError::Unexpected {
            at: self.at(),
            expected,
            found: self.peek().describe(),
        };
        Err(error.into())
    }

    /// Reads `keyword` if it comes next, and returns whether it did.
    pub fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is(keyword);
        self.next += usize::from(found);
        found
    }

    /// Reads these keywords, each with the text for the error if it is missing.
    ///
    /// # Errors
    /// Another word.
    pub fn keywords(&mut self, wanted: &[(&str, &'static str)]) -> Result<(), WordError> {
        for (keyword, expected) in wanted {
            if !self.accept(keyword) {
                return self.unexpected(expected);
            }
        }
        Ok(())
    }

    /// Reads a name, bare or in quotes.
    ///
    /// # Errors
    /// Something else, which `expected` names.
    pub fn name(&mut self, expected: &'static str) -> Result<String, WordError> {
        match self.peek() {
            Token::Word(text) | Token::Quoted(text) if !text.is_empty() => {
                let text = text.clone();
                self.next += 1;
                Ok(text)
            }
            _ => self.unexpected(expected),
        }
    }

    /// Reads one or more names, up to the end of the statement.
    ///
    /// # Errors
    /// Something else, which `expected` names.
    pub fn names(&mut self, expected: &'static str) -> Result<Vec<String>, WordError> {
        let mut names = vec![self.name(expected)?];
        while *self.peek() != Token::End {
            names.push(self.name(expected)?);
        }
        Ok(names)
    }

    /// Reads one or more of what `item` reads, in braces and over any number of lines; the opening
    /// brace comes next.
    ///
    /// # Errors
    /// Something else than a brace (`before` says what would be right there), no closing brace, or
    /// what `item` refuses.
    pub fn braced<T, E: From<WordError>>(
        &mut self,
        before: &'static str,
        mut item: impl FnMut(&mut Words) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        if *self.peek() != Token::Open {
            return self.unexpected(before);
        }
        self.next += 1;
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Token::Close if !items.is_empty() => break,
                Token::End if self.next + 1 < self.tokens.len() => self.next += 1,
                Token::Word(_) | Token::Quoted(_) => items.push(item(self)?),
                _ if items.is_empty() => return self.unexpected(FIELD),
                _ => return self.unexpected("a field's name or `}`"),
            }
        }
        self.next += 1;
        Ok(items)
    }

    /// Reads a number, decimal or `0x…`.
    ///
    /// # Errors
    /// Something else, which `expected` names, or more than 64 bits.
    pub fn number(&mut self, expected: &'static str) -> Result<u64, WordError> {
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
            None => self.unexpected(expected),
        }
    }
}

const FIELD: &str = "a field's name";

/// The words of a text; every line ends with [`Token::End`].
fn tokens(text: &str) -> Result<Vec<(Token, Position)>, WordError> {
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
                ';' => found.push((Token::End, at)),
                '"' => {
                    let mut word = String::new();
                    loop {
                        column += 1;
                        match rest.next() {
                            Some('"') => break,
                            Some(c) => word.push(c),
                            None => return Err(WordError::OpenQuote(at)),
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
