//! Reads a body's nodes from its tokens.
//!
//! Decides what belongs together: comments with members, lines with blocks, the end of a
//! declaration or of a macro that replaces one.

use super::{Arm, BodyError, BodyNode, BodyReason, ConditionalBlock, DeclaredMember, MAX_DEPTH};
use crate::condition::{self, Condition, ConditionLine};
use crate::declaration::{Declaration, is_call_word, is_type_word};
use crate::dialect::{Dialect, Masked};
use crate::lex::{Token, TokenKind};

/// A position in the tokens of a body.
pub(super) struct Reader<'t> {
    /// As it is written; tokens have the masked text.
    text: &'t str,
    tokens: Vec<Token<'t>>,
    dialect: Dialect,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    /// At the start of `text`, inside `depth` braces.
    pub(super) fn new(
        text: &'t str,
        masked: &'t Masked,
        dialect: Dialect,
        depth: usize,
    ) -> Reader<'t> {
        Reader {
            text,
            tokens: masked.tokens(),
            dialect,
            at: 0,
            depth,
        }
    }

    /// Everything up to the end of the text.
    pub(super) fn all(mut self) -> Result<Vec<BodyNode>, BodyError> {
        let nodes = self.nodes(0)?;
        match self.peek() {
            None => Ok(nodes),
            Some(token) => Err(self.error(token.start, BodyReason::LooseArm)),
        }
    }

    fn error(&self, start: usize, reason: BodyReason) -> BodyError {
        BodyError {
            line: self.line(start),
            reason,
        }
    }

    fn line(&self, start: usize) -> u32 {
        let lines = memchr::memchr_iter(b'\n', &self.text.as_bytes()[..start]).count();
        u32::try_from(lines).unwrap_or(u32::MAX)
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    /// A token as it is written.
    fn written(&self, token: Token<'_>) -> &'t str {
        &self.text[token.start..token.end()]
    }

    fn slice(&self, from: usize, to: usize) -> String {
        let start = self.tokens.get(from).map_or(self.text.len(), |t| t.start);
        let end = self.tokens.get(to).map_or(self.text.len(), |t| t.start);
        self.text[start..end.max(start)].to_owned()
    }

    /// Everything up to the end, or to a line that ends or changes the enclosing condition.
    fn nodes(&mut self, nesting: usize) -> Result<Vec<BodyNode>, BodyError> {
        let mut nodes = Vec::new();
        loop {
            let lead = self.trivia(&mut nodes);
            let Some(token) = self.peek() else {
                push(&mut nodes, lead, BodyNode::Loose);
                return Ok(nodes);
            };
            if token.kind != TokenKind::Directive {
                nodes.push(self.member(lead)?);
                continue;
            }
            match condition::read(token.text) {
                ConditionLine::If(condition) => nodes.push(self.block(lead, condition, nesting)?),
                ConditionLine::Other => {
                    self.at += 1;
                    let line = lead + self.written(token) + &self.rest_of_line();
                    nodes.push(BodyNode::Loose(line));
                }
                ConditionLine::Elif(_) | ConditionLine::Else | ConditionLine::Endif => {
                    // The indentation of the line belongs to it: see `arm_line`.
                    self.unread_indentation(&mut nodes, lead);
                    return Ok(nodes);
                }
            }
        }
    }

    /// Reads blanks and comments. Blank lines and the comments before them become nodes; comments
    /// directly before the next item are returned, with its indentation.
    fn trivia(&mut self, nodes: &mut Vec<BodyNode>) -> String {
        let (mut pending, mut line) = (String::new(), String::new());
        while let Some(token) = self.peek() {
            match token.kind {
                TokenKind::Newline => {
                    line.push_str(token.text);
                    if line.trim().is_empty() {
                        push(nodes, std::mem::take(&mut pending), BodyNode::Loose);
                        nodes.push(BodyNode::Blank(std::mem::take(&mut line)));
                    } else {
                        pending.push_str(&std::mem::take(&mut line));
                    }
                }
                TokenKind::Blank | TokenKind::Comment => line.push_str(self.written(token)),
                _ => break,
            }
            self.at += 1;
        }
        pending + &line
    }

    /// Returns the blanks before the current directive, and stores the comments as a node.
    fn unread_indentation(&mut self, nodes: &mut Vec<BodyNode>, lead: String) {
        let kept = lead.trim_end_matches([' ', '\t']).len();
        let indented = kept < lead.len() && (kept == 0 || lead[..kept].ends_with('\n'));
        let kept = if indented { kept } else { lead.len() };
        if indented {
            // The lexer makes one token of all blanks.
            self.at -= 1;
        }
        push(nodes, lead[..kept].to_owned(), BodyNode::Loose);
    }

    /// The current directive with its indentation and the end of its line.
    fn arm_line(&mut self) -> (String, Token<'t>) {
        let from = self.at;
        if self.peek().is_some_and(|t| t.kind == TokenKind::Blank) {
            self.at += 1;
        }
        let token = self.tokens[self.at.min(self.tokens.len() - 1)];
        self.at = (self.at + 1).min(self.tokens.len());
        let text = self.slice(from, self.at);
        (text + &self.rest_of_line(), token)
    }

    fn rest_of_line(&mut self) -> String {
        match self.peek() {
            Some(token) if token.kind == TokenKind::Newline => {
                self.at += 1;
                token.text.to_owned()
            }
            _ => String::new(),
        }
    }

    fn block(
        &mut self,
        lead: String,
        first: Condition,
        nesting: usize,
    ) -> Result<BodyNode, BodyError> {
        let start = self.peek().map_or(self.text.len(), |t| t.start);
        if nesting + self.depth >= MAX_DEPTH {
            return Err(self.error(start, BodyReason::TooDeep));
        }
        let line = self.line(start);
        let (mut directive, _) = self.arm_line();
        let (mut condition, mut otherwise) = (first.clone(), first.negated());
        let mut arms = Vec::new();
        loop {
            let nodes = self.nodes(nesting + 1)?;
            arms.push(Arm {
                directive,
                condition,
                nodes,
            });
            if self.peek().is_none() {
                return Err(self.error(start, BodyReason::OpenCondition));
            }
            let (text, token) = self.arm_line();
            match condition::read(token.text) {
                ConditionLine::Elif(next) => {
                    condition = otherwise.and(&next);
                    otherwise = otherwise.and(&next.negated());
                }
                ConditionLine::Else => condition = otherwise.clone(),
                _ => {
                    return Ok(BodyNode::Block(ConditionalBlock {
                        lead,
                        arms,
                        end: text,
                        line,
                    }));
                }
            }
            directive = text;
        }
    }

    fn member(&mut self, lead: String) -> Result<BodyNode, BodyError> {
        let from = self.at;
        let start = self.tokens[from].start;
        let after = match self.bare_macro() {
            Some(after) => after,
            None => self
                .declaration_end()
                .ok_or_else(|| self.error(start, BodyReason::OpenDeclaration))?,
        };
        if self.depth >= MAX_DEPTH {
            return Err(self.error(start, BodyReason::TooDeep));
        }
        let text = self.slice(from, after);
        let line = self.line(start);
        let declaration =
            Declaration::of(self.dialect, &text, self.depth).map_err(|inner| BodyError {
                line: line + inner.line + newlines_to_brace(&text),
                reason: inner.reason,
            })?;
        self.at = after;
        let trail = self.trail();
        Ok(BodyNode::Member(Box::new(DeclaredMember {
            lead,
            text,
            trail,
            line,
            declaration,
        })))
    }

    /// One past the `;` of the current declaration; `None` if it does not end. If conditions cut
    /// through it, everything between the first and last is part of it.
    fn declaration_end(&self) -> Option<usize> {
        let (mut depth, mut conditions, mut ended) = (0_i64, 0_i64, false);
        for (i, token) in self.tokens.iter().enumerate().skip(self.at) {
            match (token.kind, token.text) {
                (TokenKind::Sign, "(" | "[" | "{") => depth += 1,
                (TokenKind::Sign, ")" | "]" | "}") => depth -= 1,
                (TokenKind::Sign, ";") if depth == 0 => ended = true,
                (TokenKind::Directive, text) => match condition::read(text) {
                    ConditionLine::If(_) => conditions += 1,
                    ConditionLine::Endif => conditions -= 1,
                    _ => {}
                },
                _ => continue,
            }
            if conditions < 0 || depth < 0 {
                return None;
            }
            if ended && conditions == 0 {
                return Some(i + 1);
            }
        }
        None
    }

    /// One past a macro that replaces a declaration but has no `;`: alone on its line, and not
    /// continued by what follows.
    fn bare_macro(&self) -> Option<usize> {
        let first = self.peek().filter(|_| self.dialect == Dialect::C)?;
        if !first.is_word() || is_type_word(first.text) || is_call_word(first.text) {
            return None;
        }
        let mut after = self.at + 1;
        let called = self
            .significant(after)
            .is_some_and(|i| self.tokens[i].is("("));
        if called {
            after = self.closing(self.significant(after)?)? + 1;
        }
        let next = (after..self.tokens.len()).find(|i| {
            self.tokens[*i].is_significant() || self.tokens[*i].kind == TokenKind::Directive
        });
        let Some(next) = next else {
            return Some(after);
        };
        let token = self.tokens[next];
        let same_line = self.tokens[after..next]
            .iter()
            .all(|t| t.kind != TokenKind::Newline);
        if same_line {
            return None;
        }
        // A bare word above `#if`, or above a word that is indented further, may be a type whose
        // name follows there. Neither a call nor `randomized_struct_fields_start` is a type.
        let fresh = match token.kind {
            TokenKind::Directive => {
                condition::read(token.text) == ConditionLine::Other
                    || called
                    || first.text.starts_with("randomized_")
            }
            TokenKind::Word if called => true,
            TokenKind::Word => self.column(token.start) <= self.column(first.start),
            _ => false,
        };
        fresh.then_some(after)
    }

    fn significant(&self, from: usize) -> Option<usize> {
        (from..self.tokens.len()).find(|i| self.tokens[*i].is_significant())
    }

    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_i64;
        for (i, token) in self.tokens.iter().enumerate().skip(open) {
            match (token.kind, token.text) {
                (TokenKind::Sign, "(" | "[" | "{") => depth += 1,
                (TokenKind::Sign, ")" | "]" | "}") => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return Some(i);
            }
        }
        None
    }

    /// The column of a byte, with tabs of 8.
    fn column(&self, start: usize) -> usize {
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        self.text[line..start].chars().fold(0, |column, c| {
            if c == '\t' {
                (column / 8 + 1) * 8
            } else {
                column + 1
            }
        })
    }

    /// The rest of a declaration's line, and the comments that continue below in the same column.
    fn trail(&mut self) -> String {
        let from = self.at;
        let mut comment = None;
        while let Some(token) = self.peek() {
            match token.kind {
                TokenKind::Comment => comment = Some(self.column(token.start)),
                TokenKind::Newline => {
                    self.at += 1;
                    if let Some(column) = comment {
                        self.continued(column);
                    }
                    break;
                }
                TokenKind::Blank => {}
                _ => break,
            }
            self.at += 1;
        }
        self.slice(from, self.at)
    }

    /// Skips lines with only a comment that starts in `column` or to the right of it.
    fn continued(&mut self, column: usize) {
        loop {
            let mut ahead = self.tokens[self.at..].iter();
            let (Some(blank), Some(comment), Some(end)) =
                (ahead.next(), ahead.next(), ahead.next())
            else {
                return;
            };
            let alone = blank.kind == TokenKind::Blank
                && comment.kind == TokenKind::Comment
                && end.kind == TokenKind::Newline;
            // Column 8 is one tab, where members begin: a comment there is about the next one, even
            // below a member that is indented less.
            if !alone || self.column(comment.start) < column.max(9) {
                return;
            }
            self.at += 3;
        }
    }
}

fn push(nodes: &mut Vec<BodyNode>, text: String, node: fn(String) -> BodyNode) {
    if !text.is_empty() {
        nodes.push(node(text));
    }
}

/// Lines from the start of a declaration to its brace.
fn newlines_to_brace(text: &str) -> u32 {
    let brace = text.find('{').unwrap_or(0);
    u32::try_from(text[..brace].matches('\n').count()).unwrap_or(0)
}
