//! Conditions of the preprocessor: read, negated, written. They are never evaluated.

use crate::lex::{TokenKind, lex};

/// How a preprocessor line affects the conditions around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionLine {
    /// `#if`, `#ifdef`, `#ifndef`
    If(Condition),
    /// `#elif`, `#elifdef`, `#elifndef`
    Elif(Condition),
    /// `#else`
    Else,
    /// `#endif`
    Endif,
    /// Anything else: `#define`, `#pragma`, …
    Other,
}

/// A condition in one spelling: without comments, with single blanks, `#if defined(X)` as
/// `#ifdef X`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The macro is defined.
    Defined(String),
    /// The macro is not defined.
    Undefined(String),
    /// The expression is not 0.
    Expression(String),
}

impl Condition {
    /// The condition of an expression.
    fn of(expression: &str) -> Condition {
        let tokens: Vec<&str> = lex(expression)
            .iter()
            .filter(|t| t.is_significant())
            .map(|t| t.text)
            .collect();
        match tokens.as_slice() {
            ["defined", "(", name, ")"] | ["defined", name] => {
                Condition::Defined((*name).to_owned())
            }
            ["!", "defined", "(", name, ")"] | ["!", "defined", name] => {
                Condition::Undefined((*name).to_owned())
            }
            _ => Condition::Expression(squeeze(expression)),
        }
    }

    /// The line that opens a block with this condition.
    pub fn opening(&self) -> String {
        match self {
            Condition::Defined(name) => format!("#ifdef {name}"),
            Condition::Undefined(name) => format!("#ifndef {name}"),
            Condition::Expression(text) => format!("#if {text}"),
        }
    }

    /// True exactly when this is false.
    #[must_use]
    pub fn negated(&self) -> Condition {
        match self {
            Condition::Defined(name) => Condition::Undefined(name.clone()),
            Condition::Undefined(name) => Condition::Defined(name.clone()),
            Condition::Expression(text) => match inside_negation(text) {
                Some(inner) => Condition::of(inner),
                None => Condition::Expression(format!("!({text})")),
            },
        }
    }

    /// True when both are.
    #[must_use]
    pub fn and(&self, other: &Condition) -> Condition {
        Condition::Expression(format!("{} && {}", self.operand(), other.operand()))
    }

    fn operand(&self) -> String {
        match self {
            Condition::Defined(name) => format!("defined({name})"),
            Condition::Undefined(name) => format!("!defined({name})"),
            Condition::Expression(text) if inside_negation(text).is_some() => text.clone(),
            Condition::Expression(text) => format!("({text})"),
        }
    }
}

/// `X` of `!(X)`.
fn inside_negation(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("!(").and_then(|t| t.strip_suffix(')'));
    // `!(A) || !(B)` begins and ends like a negation without being one.
    inner.filter(|inner| balanced(inner))
}

/// Whether every closing parenthesis has an opening one.
fn balanced(text: &str) -> bool {
    let mut depth = 0_i64;
    for c in text.chars() {
        depth += i64::from(c == '(') - i64::from(c == ')');
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// Without comments, line ends and double blanks.
fn squeeze(text: &str) -> String {
    let mut squeezed = String::new();
    for token in lex(text) {
        match token.kind {
            TokenKind::Blank | TokenKind::Newline | TokenKind::Comment => {
                if !squeezed.is_empty() && !squeezed.ends_with(' ') {
                    squeezed.push(' ');
                }
            }
            _ => squeezed.push_str(token.text),
        }
    }
    squeezed.truncate(squeezed.trim_end().len());
    squeezed
}

/// Reads a preprocessor line, from its `#`.
pub fn read(directive: &str) -> ConditionLine {
    let text = squeeze(directive.strip_prefix('#').unwrap_or(directive));
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let (word, rest) = (&text[..end], text[end..].trim());
    match word {
        "if" => ConditionLine::If(Condition::of(rest)),
        "ifdef" => ConditionLine::If(Condition::Defined(rest.to_owned())),
        "ifndef" => ConditionLine::If(Condition::Undefined(rest.to_owned())),
        "elif" => ConditionLine::Elif(Condition::of(rest)),
        "elifdef" => ConditionLine::Elif(Condition::Defined(rest.to_owned())),
        "elifndef" => ConditionLine::Elif(Condition::Undefined(rest.to_owned())),
        "else" => ConditionLine::Else,
        "endif" => ConditionLine::Endif,
        _ => ConditionLine::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_condition() {
        let smp = ConditionLine::If(Condition::Defined("CONFIG_SMP".to_owned()));
        for text in [
            "#ifdef CONFIG_SMP",
            "#ifdef\tCONFIG_SMP /* x */",
            "# if defined(CONFIG_SMP)",
            "#if defined CONFIG_SMP // y",
            "#if \\\n defined ( CONFIG_SMP )",
        ] {
            assert_eq!(read(text), smp, "{text}");
        }
        assert_eq!(read("#endif /* CONFIG_SMP */"), ConditionLine::Endif);
        assert_eq!(read("#else"), ConditionLine::Else);
        assert_eq!(read("#define IF"), ConditionLine::Other);
        assert_eq!(read("#"), ConditionLine::Other);
    }

    #[test]
    fn negation_is_its_own_inverse() {
        for text in ["defined(A)", "!defined(A)", "A > 1 && (B)", "!(A) || !(B)"] {
            let condition = Condition::of(text);
            assert_ne!(condition.negated(), condition);
            assert_eq!(condition.negated().negated(), condition, "{text}");
        }
        assert_eq!(Condition::of("A > 1").negated().opening(), "#if !(A > 1)");
        assert_eq!(
            Condition::of("!(A) || !(B)").negated().opening(),
            "#if !(!(A) || !(B))"
        );
    }

    #[test]
    fn both() {
        let both = Condition::Undefined("A".to_owned()).and(&Condition::of("B > 1"));
        assert_eq!(both.opening(), "#if !defined(A) && (B > 1)");
    }
}
