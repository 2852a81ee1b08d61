//! Cuts C text into tokens without losing a byte.
//!
//! The concatenated tokens give the text again, whatever it is: there is no error here.
//! Preprocessor lines are single tokens; nothing is expanded or evaluated.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Spaces, tabs and spliced line ends.
    Blank,
    /// The end of a line.
    Newline,
    /// A comment of either kind, without the end of its line.
    Comment,
    /// A preprocessor line with its continuations and comments, from its `#`, without the end of
    /// its line.
    Directive,
    /// A name or keyword.
    Word,
    /// A number, string or character.
    Literal,
    /// Any other single character.
    Sign,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    pub kind: TokenKind,
    pub text: &'t str,
    /// Where it starts, in bytes.
    pub start: usize,
}

impl Token<'_> {
    /// One byte after its last.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether the compiler's parser would see it.
    pub fn is_significant(&self) -> bool {
        matches!(
            self.kind,
            TokenKind::Word | TokenKind::Literal | TokenKind::Sign
        )
    }

    /// Whether it is that sign or word.
    pub fn is(&self, text: &str) -> bool {
        self.is_significant() && self.text == text
    }

    /// Whether it is a name or keyword.
    pub fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }
}

/// The tokens of `text`.
pub fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line_start) = (0, true);
    while let Some(first) = text.as_bytes().get(at) {
        let rest = &text[at..];
        let (kind, length) = match first {
            b'\n' => (TokenKind::Newline, 1),
            b'#' if line_start => (TokenKind::Directive, directive(rest)),
            _ => token(rest, *first),
        };
        line_start = match kind {
            TokenKind::Newline => true,
            TokenKind::Blank | TokenKind::Comment => line_start,
            _ => false,
        };
        tokens.push(Token {
            kind,
            text: &rest[..length],
            start: at,
        });
        at += length;
    }
    tokens
}

fn token(rest: &str, first: u8) -> (TokenKind, usize) {
    match first {
        b' ' | b'\t' | b'\r' | 0x0b | 0x0c => (TokenKind::Blank, blank(rest)),
        b'\\' if splice(rest) > 0 => (TokenKind::Blank, blank(rest)),
        b'/' if rest.starts_with("/*") => (TokenKind::Comment, block_comment(rest)),
        b'/' if rest.starts_with("//") => (TokenKind::Comment, logical_line(rest)),
        b'"' | b'\'' => (TokenKind::Literal, quoted(rest, first)),
        b'0'..=b'9' => (TokenKind::Literal, number(rest)),
        // Bytes beyond ASCII are words, so that no token ends within a character.
        b'_' | b'$' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => (TokenKind::Word, word(rest)),
        _ => (TokenKind::Sign, 1),
    }
}

/// Bytes of the spliced line end at the start of `rest`; 0 if there is none.
fn splice(rest: &str) -> usize {
    if rest.starts_with("\\\n") {
        2
    } else if rest.starts_with("\\\r\n") {
        3
    } else {
        0
    }
}

fn blank(rest: &str) -> usize {
    let mut at = 0;
    loop {
        match rest.as_bytes().get(at) {
            Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => at += 1,
            Some(b'\\') if splice(&rest[at..]) > 0 => at += splice(&rest[at..]),
            _ => return at,
        }
    }
}

fn word(rest: &str) -> usize {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    rest.find(|c| !part(c)).unwrap_or(rest.len())
}

/// A preprocessing number: C11 6.4.8.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        let exponent = matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P');
        match byte {
            b'+' | b'-' if exponent => at += 1,
            // C23 and C++14 separate digits: C23 6.4.8.
            b'\'' if bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => at += 1,
            b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => at += 1,
            _ => break,
        }
    }
    at
}

fn block_comment(rest: &str) -> usize {
    rest[2..].find("*/").map_or(rest.len(), |end| end + 4)
}

/// To the end of the line or, if it is spliced, of the last line that belongs to it.
fn logical_line(rest: &str) -> usize {
    let mut at = 0;
    while let Some(end) = rest[at..].find('\n') {
        let line = rest[..at + end].trim_end_matches('\r');
        if !line.ends_with('\\') {
            return at + end;
        }
        at += end + 1;
    }
    rest.len()
}

/// A string or character constant; an unclosed one ends with its line.
fn quoted(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if splice(&rest[at..]) > 0 => at += splice(&rest[at..]),
            // An escaped character may have several bytes: its first is skipped, the others end
            // nothing.
            b'\\' if bytes.get(at + 1).is_some_and(u8::is_ascii) => at += 2,
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn directive(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' if splice(&rest[at..]) > 0 => at += splice(&rest[at..]),
            b'/' if rest[at..].starts_with("/*") => at += block_comment(&rest[at..]),
            b'/' if rest[at..].starts_with("//") => return at + logical_line(&rest[at..]),
            b'"' => at += quoted(&rest[at..], b'"'),
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        lex(text).into_iter().map(|t| (t.kind, t.text)).collect()
    }

    #[test]
    fn tokens_of_a_declaration() {
        use TokenKind::*;
        assert_eq!(
            kinds("int\ta[0x10]; // x\\\ny\n"),
            [
                (Word, "int"),
                (Blank, "\t"),
                (Word, "a"),
                (Sign, "["),
                (Literal, "0x10"),
                (Sign, "]"),
                (Sign, ";"),
                (Blank, " "),
                (Comment, "// x\\\ny"),
                (Newline, "\n"),
            ]
        );
    }

    #[test]
    fn directives_take_their_continuations_and_comments() {
        use TokenKind::*;
        assert_eq!(
            kinds("/* a */ #if X /* b\nc */ && \\\n Y\nint"),
            [
                (Comment, "/* a */"),
                (Blank, " "),
                (Directive, "#if X /* b\nc */ && \\\n Y"),
                (Newline, "\n"),
                (Word, "int"),
            ]
        );
        assert_eq!(kinds("a # b")[2], (Sign, "#"));
        assert_eq!(
            kinds("#define Q \"/*\"\n")[0],
            (Directive, "#define Q \"/*\"")
        );
    }

    #[test]
    fn unclosed_things_end() {
        use TokenKind::*;
        assert_eq!(kinds("/* a"), [(Comment, "/* a")]);
        assert_eq!(
            kinds("\"a\nb"),
            [(Literal, "\"a"), (Newline, "\n"), (Word, "b")]
        );
        assert_eq!(kinds("'\\ü'"), [(Literal, "'\\ü'")]);
        assert_eq!(kinds("\\"), [(Sign, "\\")]);
        assert_eq!(kinds("/*/"), [(Comment, "/*/")]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a{};#\"'/*\\\\\n\r \tü0.]{0,40}") {
            let tokens = lex(&text);
            prop_assert_eq!(tokens.iter().map(|t| t.text).collect::<String>(), text.as_str());
            prop_assert!(tokens.iter().all(|t| !t.text.is_empty()));
        }
    }
}
