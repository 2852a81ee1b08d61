//! Reads the members of a struct from its text: a tree of members, conditions and what is in
//! between.
//!
//! Lossless: [`Body::print`] returns the text byte for byte. Members are separated, not interpreted
//! ([`crate::declaration`] does that); conditions are preserved, not evaluated.

mod reader;

use crate::condition::Condition;
use crate::declaration::Declaration;
use crate::dialect::Dialect;
use reader::Reader;

/// How deep conditions and braces may nest.
pub const MAX_DEPTH: usize = 32;

/// A declaration with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredMember {
    /// Indentation, and the comments directly before.
    pub lead: String,
    /// From its first word to its `;`.
    pub text: String,
    /// The rest of its last line: comments and the line's end.
    pub trail: String,
    /// The line of its first word, counted from 0 at the start of the body.
    pub line: u32,
    pub declaration: Declaration,
}

/// One alternative of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The preprocessor line with its end.
    pub directive: String,
    /// When the alternative is compiled.
    pub condition: Condition,
    /// What is in it.
    pub nodes: Vec<BodyNode>,
}

/// `#if … #endif`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalBlock {
    /// The comments directly before.
    pub lead: String,
    /// The branches, at least one.
    pub arms: Vec<Arm>,
    /// The `#endif` line with its end.
    pub end: String,
    /// The line of the `#if`, counted from 0 at the start of the body.
    pub line: u32,
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyNode {
    /// A line with nothing on it, or the remainder of one.
    Blank(String),
    /// Comments that belong to no member, and preprocessor lines that are not conditions.
    Loose(String),
    Member(Box<DeclaredMember>),
    Block(ConditionalBlock),
}

/// The inside of a struct's braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// In the order of the text.
    pub nodes: Vec<BodyNode>,
}

/// Why a text is not a list of members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BodyError {
    /// The line, counted from 0 at the start of the body.
    pub line: u32,
    pub reason: BodyReason,
}

/// The reason of a [`BodyError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyReason {
    /// No `#endif`.
    #[error("this condition has no #endif within the definition")]
    OpenCondition,
    /// `#else`, `#elif` or `#endif` without `#if`.
    #[error("this preprocessor line has no #if within the definition")]
    LooseArm,
    /// No semicolon.
    #[error("this declaration does not end within the definition or its condition")]
    OpenDeclaration,
    #[error("braces and conditions nest more than {MAX_DEPTH} deep")]
    TooDeep,
}

/// Reads `text`, the inside of braces. `depth` counts the braces around it.
///
/// # Errors
/// If conditions or declarations do not end.
pub fn read(text: &str, depth: usize) -> Result<Body, BodyError> {
    let masked = Dialect::C.masked(text);
    let nodes = Reader::new(text, &masked, Dialect::C, depth).all()?;
    Ok(Body { nodes })
}

/// Likewise, of a definition in that language.
///
/// # Errors
/// If conditions or declarations do not end.
pub fn read_as(dialect: Dialect, text: &str) -> Result<Body, BodyError> {
    let masked = dialect.masked(text);
    let nodes = Reader::new(text, &masked, dialect, 0).all()?;
    Ok(Body { nodes })
}

impl Body {
    pub fn print(&self) -> String {
        let mut text = String::new();
        print(&self.nodes, &mut text);
        text
    }

    /// All members in text order, each with the conditions around it.
    pub fn members(&self) -> Vec<(Vec<Condition>, &DeclaredMember)> {
        let mut found = Vec::new();
        collect(&self.nodes, &mut Vec::new(), &mut found);
        found
    }

    /// The names of all members.
    pub fn names(&self) -> Vec<String> {
        let members = self.members();
        members
            .iter()
            .flat_map(|(_, m)| m.declaration.names())
            .collect()
    }
}

pub(crate) fn print(nodes: &[BodyNode], text: &mut String) {
    for node in nodes {
        match node {
            BodyNode::Blank(piece) | BodyNode::Loose(piece) => text.push_str(piece),
            BodyNode::Member(member) => {
                text.push_str(&member.lead);
                text.push_str(&member.text);
                text.push_str(&member.trail);
            }
            BodyNode::Block(block) => {
                text.push_str(&block.lead);
                for arm in &block.arms {
                    text.push_str(&arm.directive);
                    print(&arm.nodes, text);
                }
                text.push_str(&block.end);
            }
        }
    }
}

fn collect<'a>(
    nodes: &'a [BodyNode],
    around: &mut Vec<Condition>,
    found: &mut Vec<(Vec<Condition>, &'a DeclaredMember)>,
) {
    for node in nodes {
        match node {
            BodyNode::Member(member) => found.push((around.clone(), member)),
            BodyNode::Block(block) => {
                for arm in &block.arms {
                    around.push(arm.condition.clone());
                    collect(&arm.nodes, around, found);
                    around.pop();
                }
            }
            BodyNode::Blank(_) | BodyNode::Loose(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The kinds of nodes, in brief.
    fn sketch(nodes: &[BodyNode]) -> String {
        let each = nodes.iter().map(|node| match node {
            BodyNode::Blank(_) => "_".to_owned(),
            BodyNode::Loose(text) => format!("<{}>", text.trim()),
            BodyNode::Member(member) => {
                let comments: String = format!("{}{}", member.lead, member.trail)
                    .split_whitespace()
                    .filter(|w| !matches!(*w, "/*" | "*/" | "*"))
                    .collect();
                format!("{}({comments})", member.declaration.names().join("+"))
            }
            BodyNode::Block(block) => {
                let arms: Vec<String> = block.arms.iter().map(|a| sketch(&a.nodes)).collect();
                format!("{}[{}]", block.lead.trim(), arms.join("|"))
            }
        });
        each.collect::<Vec<_>>().join(" ")
    }

    fn check(text: &str, expected: &str) {
        let body = read(text, 0).unwrap();
        assert_eq!(body.print(), text);
        assert_eq!(sketch(&body.nodes), expected);
    }

    #[test]
    fn comments_go_with_their_members() {
        check(
            "\n\t/* A */\n\tint a;\n\tint b; /* B */\n\t       /* B2 */\n\n\t/* apart */\n\n\t/* C\n\t * C */\n\tint c;\n",
            "_ a(A) b(BB2) _ </* apart */> _ c(CC)",
        );
        // A comment further to the left below is about what comes next.
        check(
            "\tint a;\t\t/* A */\n\t\t\t/* A2 */\n\t/* B */\n\tint b;\n",
            "a(AA2) b(B)",
        );
        check(
            " int a; /* A */ int b; ",
            "a(A) b() < >".replace("< >", "").trim_end(),
        );
    }

    #[test]
    fn conditions_nest() {
        check(
            "\tint a;\n/* S */\n#ifdef S\n\tint b;\n# if T\n\tint c;\n# else\n\tint d;\n#endif\n#endif /* S */\n#define X 1\n",
            "a() /* S */[b() [c()|d()]] <#define X 1>",
        );
        let body = read("#if A\nint a;\n#elif B\nint b;\n#else\nint c;\n#endif\n", 0).unwrap();
        let conditions: Vec<String> = body.members().iter().map(|(c, _)| c[0].opening()).collect();
        assert_eq!(conditions, ["#if A", "#if !(A) && (B)", "#if !(A) && !(B)"]);
    }

    #[test]
    fn macros_without_semicolon() {
        check(
            "\trandomized_struct_fields_start\n\n\tvoid *stack;\n\tKABI_RESERVE(1)\n\tfoo_t\n\t\tname;\n\tLIST(x)\n#ifdef A\n\tint a;\n#endif\n\trandomized_struct_fields_end\n",
            "randomized_struct_fields_start() _ stack() () name() x+LIST__x() [a()] randomized_struct_fields_end()",
        );
    }

    #[test]
    fn torn_declarations_stay_whole() {
        check(
            "\tint a\n#ifdef X\n\t__aligned(8);\n#else\n\t;\n#endif\n\tint b;\n",
            "() b()",
        );
    }

    #[test]
    fn what_does_not_end_is_reported_with_its_line() {
        for (text, line, reason) in [
            ("int a;\n#ifdef X\nint b;\n", 1, BodyReason::OpenCondition),
            ("int a;\n\n#endif\n", 2, BodyReason::LooseArm),
            ("int a;\nint b\n", 1, BodyReason::OpenDeclaration),
            ("#if A\nint b\n#endif\n", 1, BodyReason::OpenDeclaration),
            (
                "int a;\nstruct {\nint b;\n#if X\n} c;\n",
                1,
                BodyReason::OpenDeclaration,
            ),
        ] {
            assert_eq!(read(text, 0), Err(BodyError { line, reason }), "{text}");
        }
        let deep = "struct {".repeat(100) + &"};".repeat(100);
        assert_eq!(read(&deep, 0).unwrap_err().reason, BodyReason::TooDeep);
        let deep = "#if A\n".repeat(100) + &"#endif\n".repeat(100);
        assert_eq!(read(&deep, 0).unwrap_err().reason, BodyReason::TooDeep);
    }

    proptest! {
        #[test]
        fn reading_loses_nothing(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "int a;", "\n", "\t", "/* c */", "// d\n", "#ifdef X\n", "#else\n", "#endif\n", "  #endif /* e\n */\n",
                    "struct {", "} s;", "MACRO(x)", ";", "b,", "#define Y\\\n 1\n", "\"", "{", ")",
                ]),
                0..24,
            ),
        ) {
            let text: String = pieces.concat();
            if let Ok(body) = read(&text, 0) {
                prop_assert_eq!(body.print(), text);
            }
        }
    }
}
