//! How a source tree writes an alignment.

use crate::body::DeclaredMember;
use crate::declaration::{DeclarationShape, alignments, starts_line};
use crate::dialect::Dialect;
use crate::wanted::Align;

/// The longest line that passes the kernel's coding style checks.
const MAX_COLUMNS: usize = 100;

/// The style of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idiom {
    /// Linux: `____cacheline_aligned` or, where the definition uses that, another of its family;
    /// `__aligned(n)`.
    Kernel {
        /// The attribute for "to a line".
        line: String,
    },
    /// C11: `alignas(64)` before it, under the name that the file uses.
    Alignas {
        /// `alignas` or `_Alignas`.
        keyword: String,
        /// The bytes of a line, as the file writes them.
        line: String,
    },
    /// GNU C: `__attribute__((aligned(64)))` after.
    Attribute {
        /// Bytes of a line.
        line: u64,
    },
}

impl Idiom {
    /// The idiom of a definition: `body` is its text, `file` that of its file.
    pub fn of(is_kernel: bool, dialect: Dialect, body: &str, file: &str, line: u64) -> Idiom {
        let used = |text: &str, word: &str| {
            crate::lex::lex(text)
                .iter()
                .any(|t| t.is_word() && t.text == word)
        };
        if is_kernel {
            let smp = "____cacheline_aligned_in_smp";
            let only_smp = used(body, smp) && !used(body, "____cacheline_aligned");
            let line = if only_smp {
                smp
            } else {
                "____cacheline_aligned"
            }
            .to_owned();
            return Idiom::Kernel { line };
        }
        if dialect == Dialect::Cpp {
            let constant = "hardware_destructive_interference_size";
            let line = match used(file, constant) {
                true => format!("std::{constant}"),
                false => line.to_string(),
            };
            let keyword = "alignas".to_owned();
            return Idiom::Alignas { keyword, line };
        }
        match ["alignas", "_Alignas"]
            .into_iter()
            .find(|word| used(file, word))
        {
            Some(keyword) => Idiom::Alignas {
                keyword: keyword.to_owned(),
                line: line.to_string(),
            },
            None => Idiom::Attribute { line },
        }
    }

    /// Makes a member request an alignment; an earlier request goes. `None` if its text has no
    /// place for that.
    pub(crate) fn apply(&self, member: &mut DeclaredMember, align: Align) -> Option<()> {
        if matches!(align, Align::Own(_)) && alignments(&member.text).is_empty() {
            return Some(());
        }
        if align == Align::Line && starts_line(&member.text) {
            return Some(());
        }
        // What a macro without arguments expands to need not end where its name does.
        if matches!(member.declaration.shape, DeclarationShape::Macro(_))
            && !member.text.contains('(')
        {
            return None;
        }
        let in_braces = matches!(member.declaration.shape, DeclarationShape::Anonymous(_));
        let mut text = member.text.clone();
        for range in alignments(&text).into_iter().rev() {
            // Before a declaration the blank after the attribute goes with it.
            let end = match range.start {
                0 => range.end + text[range.end..].len() - text[range.end..].trim_start().len(),
                _ => range.end,
            };
            text.replace_range(range.start..end, "");
        }
        let specifier = match self {
            Idiom::Alignas { keyword, line } => Some(format!("{keyword}({}) ", bytes(align, line))),
            _ if in_braces => Some(self.before(align)),
            _ => None,
        };
        match specifier {
            Some(specifier) => text.insert_str(0, &specifier),
            None => {
                let end = text.strip_suffix(';')?.trim_end().len();
                text.insert_str(end, &format!(" {}", self.attribute(align)));
            }
        }
        let old = std::mem::replace(&mut member.text, text);
        keep_column(member, &old);
        Some(())
    }

    /// For members without a name: an attribute after their brace would apply to their type, and
    /// make that longer.
    fn before(&self, align: Align) -> String {
        match (self, align) {
            (Idiom::Kernel { .. }, Align::Line) => "_Alignas(SMP_CACHE_BYTES) ".to_owned(),
            (Idiom::Alignas { line, .. }, Align::Line) => format!("_Alignas({line}) "),
            (Idiom::Attribute { line }, Align::Line) => format!("_Alignas({line}) "),
            (_, Align::Bytes(bytes) | Align::Own(bytes)) => format!("_Alignas({bytes}) "),
        }
    }

    fn attribute(&self, align: Align) -> String {
        match (self, align) {
            (Idiom::Kernel { line }, Align::Line) => line.clone(),
            (Idiom::Kernel { .. }, Align::Bytes(bytes) | Align::Own(bytes)) => {
                format!("__aligned({bytes})")
            }
            (Idiom::Alignas { line, .. }, align) => {
                format!("__attribute__((aligned({})))", bytes(align, line))
            }
            (Idiom::Attribute { line }, align) => {
                format!(
                    "__attribute__((aligned({})))",
                    bytes(align, &line.to_string())
                )
            }
        }
    }
}

/// Keeps the comment after a member in its column if there is room, and puts it before the member
/// if the line would be longer than [`MAX_COLUMNS`].
fn keep_column(member: &mut DeclaredMember, old: &str) {
    let comment = member.trail.trim_start_matches([' ', '\t']);
    let blanks = &member.trail[..member.trail.len() - comment.len()];
    if !comment.starts_with("/*") || blanks.is_empty() {
        return;
    }
    let indentation = match member.lead.rfind('\n') {
        Some(at) => &member.lead[at + 1..],
        None => member.lead.as_str(),
    };
    let last_line = |text: &str| text.rsplit('\n').next().map(str::to_owned);
    let end = |text: &str| last_line(&format!("{indentation}{text}")).map_or(0, |l| columns(0, &l));
    let (was, is) = (columns(end(old), blanks), end(&member.text));
    let mut between = String::new();
    while columns(is, &between) < was {
        between.push('\t');
    }
    if between.is_empty() || columns(is, &between) > was {
        between = if blanks.starts_with('\t') { "\t" } else { " " }.to_owned();
    }
    let line = comment.trim_end();
    if columns(is, &between) + columns(0, line) > MAX_COLUMNS && !line.contains('\n') {
        member
            .lead
            .push_str(&format!("{line}\n{}", indentation.to_owned()));
        member.trail = "\n".to_owned();
    } else {
        member.trail = format!("{between}{comment}");
    }
}

/// The column after `text` that starts in column `from`, with tabs of 8.
pub(crate) fn columns(from: usize, text: &str) -> usize {
    text.chars().fold(from, |column, c| match c {
        '\t' => (column / 8 + 1) * 8,
        _ => column + 1,
    })
}

fn bytes(align: Align, line: &str) -> String {
    match align {
        Align::Line => line.to_owned(),
        Align::Bytes(bytes) | Align::Own(bytes) => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{BodyNode, read};

    fn apply(idiom: &Idiom, text: &str, align: Align) -> String {
        let mut body = read(text, 0).unwrap();
        let BodyNode::Member(member) = &mut body.nodes[0] else {
            panic!("{body:?}")
        };
        idiom.apply(member, align).unwrap();
        member.text.clone()
    }

    #[test]
    fn each_tree_its_way() {
        let kernel = Idiom::of(true, Dialect::C, "", "", 64);
        assert_eq!(
            apply(&kernel, "int a, b ;", Align::Line),
            "int a, b ____cacheline_aligned ;"
        );
        assert_eq!(
            apply(&kernel, "int a __aligned(8);", Align::Line),
            "int a ____cacheline_aligned;"
        );
        assert_eq!(
            apply(&kernel, "u64 a ____cacheline_aligned;", Align::Bytes(8)),
            "u64 a __aligned(8);"
        );
        assert_eq!(
            apply(&kernel, "u64 a ____cacheline_aligned;", Align::Own(8)),
            "u64 a __aligned(8);"
        );
        assert_eq!(apply(&kernel, "u64 a;", Align::Own(8)), "u64 a;");
        assert_eq!(
            apply(
                &kernel,
                "union { int a ____cacheline_aligned; };",
                Align::Line
            ),
            "_Alignas(SMP_CACHE_BYTES) union { int a ____cacheline_aligned; };"
        );
        let smp = Idiom::of(
            true,
            Dialect::C,
            "int x ____cacheline_aligned_in_smp;",
            "",
            64,
        );
        assert_eq!(
            apply(&smp, "int a;", Align::Line),
            "int a ____cacheline_aligned_in_smp;"
        );
        let c11 = Idiom::of(false, Dialect::C, "", "alignas(8) int x;", 64);
        assert_eq!(apply(&c11, "int a;", Align::Line), "alignas(64) int a;");
        assert_eq!(
            apply(&c11, "alignas(8) int a;", Align::Bytes(128)),
            "alignas(128) int a;"
        );
        assert_eq!(
            apply(&c11, "struct { int a; };", Align::Line),
            "alignas(64) struct { int a; };"
        );
        let gnu = Idiom::of(false, Dialect::C, "", "/* alignas */ int x;", 128);
        assert_eq!(
            apply(&gnu, "int a[2];", Align::Line),
            "int a[2] __attribute__((aligned(128)));"
        );
        assert_eq!(
            apply(&gnu, "union { int a; };", Align::Line),
            "_Alignas(128) union { int a; };"
        );
        let bare = read("FIELDS\n", 0).unwrap();
        let BodyNode::Member(mut member) = bare.nodes[0].clone() else {
            panic!("{bare:?}")
        };
        assert_eq!(kernel.apply(&mut member, Align::Line), None);
    }

    #[test]
    fn comments_after_keep_their_column() {
        let kernel = Idiom::of(true, Dialect::C, "", "", 64);
        let print = |text: &str| {
            let mut body = read(text, 0).unwrap();
            let BodyNode::Member(member) = &mut body.nodes[0] else {
                panic!("{body:?}")
            };
            kernel.apply(member, Align::Line).unwrap();
            body.print()
        };
        assert_eq!(
            print("\tint a;\t\t\t\t\t/* a */\n"),
            "\tint a ____cacheline_aligned;\t\t/* a */\n"
        );
        assert_eq!(
            print("\tint a;\t\t/* a */\n"),
            "\tint a ____cacheline_aligned;\t/* a */\n"
        );
        assert_eq!(
            print("\tint a; /* a */\n"),
            "\tint a ____cacheline_aligned; /* a */\n"
        );
        let long = "/* so long that it has no room on this line any more, after the attribute */";
        assert_eq!(
            print(&format!("\tint a; {long}\n")),
            format!("\t{long}\n\tint a ____cacheline_aligned;\n")
        );
    }
}
