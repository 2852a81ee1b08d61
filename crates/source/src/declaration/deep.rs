//! Tokens by the brackets around them.

use crate::lex::{Token, TokenKind};

/// A significant token with its bracket depth; brackets themselves are outside what they enclose.
pub(super) struct Deep<'t> {
    pub(super) token: Token<'t>,
    pub(super) depth: usize,
}

/// The significant tokens of a text.
pub(super) fn deepen<'t>(tokens: &[Token<'t>]) -> Vec<Deep<'t>> {
    let mut depth = 0_usize;
    let mut deep = Vec::new();
    for token in tokens.iter().filter(|t| t.is_significant()) {
        let closes = matches!(token.text, ")" | "]" | "}") && token.kind == TokenKind::Sign;
        let opens = matches!(token.text, "(" | "[" | "{") && token.kind == TokenKind::Sign;
        depth = depth.saturating_sub(usize::from(closes));
        deep.push(Deep {
            token: *token,
            depth,
        });
        depth += usize::from(opens);
    }
    deep
}

/// The index past the bracket that closes the one at `open`.
pub(super) fn close(deep: &[Deep<'_>], open: usize) -> usize {
    let inside = deep[open + 1..]
        .iter()
        .take_while(|d| d.depth > deep[open].depth)
        .count();
    (open + inside + 2).min(deep.len())
}
