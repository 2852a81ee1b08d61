//! How a source tree writes an alignment.

use crate::body::Member;
use crate::declaration::{Shape, alignments, starts_line};
use crate::wanted::Align;

/// The way of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idiom {
    /// Linux: `____cacheline_aligned` or, where the definition uses that, another of its family; `__aligned(n)`.
    Kernel {
        /// What stands for "to a line".
        line: String,
    },
    /// C11: `alignas(64)` in front, under the name that the file uses.
    Alignas {
        /// `alignas` or `_Alignas`.
        keyword: String,
        /// Bytes of a line.
        line: u64,
    },
    /// GNU C: `__attribute__((aligned(64)))` behind.
    Attribute {
        /// Bytes of a line.
        line: u64,
    },
}

impl Idiom {
    /// The idiom of a definition: `body` is its text, `file` that of its file.
    pub fn of(is_kernel: bool, body: &str, file: &str, line: u64) -> Idiom {
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
        match ["alignas", "_Alignas"]
            .into_iter()
            .find(|word| used(file, word))
        {
            Some(keyword) => Idiom::Alignas {
                keyword: keyword.to_owned(),
                line,
            },
            None => Idiom::Attribute { line },
        }
    }

    /// Makes a member ask for an alignment; what it asked for before goes. `None` when its text has no place for that.
    pub(crate) fn apply(&self, member: &mut Member, align: Align) -> Option<()> {
        if align == Align::Line && starts_line(&member.text) {
            return Some(());
        }
        // What a macro without arguments stands for need not end where its name does.
        if matches!(member.declaration.shape, Shape::Macro(_)) && !member.text.contains('(') {
            return None;
        }
        let in_braces = matches!(member.declaration.shape, Shape::Anonymous(_));
        let mut text = member.text.clone();
        for range in alignments(&text).into_iter().rev() {
            // In front of a declaration the blank behind the attribute goes with it.
            let end = match range.start {
                0 => range.end + text[range.end..].len() - text[range.end..].trim_start().len(),
                _ => range.end,
            };
            text.replace_range(range.start..end, "");
        }
        match self {
            Idiom::Alignas { keyword, line } if !in_braces => {
                let bytes = bytes(align, *line);
                text.insert_str(0, &format!("{keyword}({bytes}) "));
            }
            _ => {
                let end = text.strip_suffix(';')?.trim_end().len();
                text.insert_str(end, &format!(" {}", self.attribute(align)));
            }
        }
        member.text = text;
        Some(())
    }

    fn attribute(&self, align: Align) -> String {
        match (self, align) {
            (Idiom::Kernel { line }, Align::Line) => line.clone(),
            (Idiom::Kernel { .. }, Align::Bytes(bytes)) => format!("__aligned({bytes})"),
            (Idiom::Alignas { line, .. } | Idiom::Attribute { line }, align) => {
                format!("__attribute__((aligned({})))", bytes(align, *line))
            }
        }
    }
}

fn bytes(align: Align, line: u64) -> u64 {
    match align {
        Align::Line => line,
        Align::Bytes(bytes) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Node, read};

    fn apply(idiom: &Idiom, text: &str, align: Align) -> String {
        let mut body = read(text, 0).unwrap();
        let Node::Member(member) = &mut body.nodes[0] else {
            panic!("{body:?}")
        };
        idiom.apply(member, align).unwrap();
        member.text.clone()
    }

    #[test]
    fn each_tree_its_way() {
        let kernel = Idiom::of(true, "", "", 64);
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
            apply(
                &kernel,
                "union { int a ____cacheline_aligned; };",
                Align::Line
            ),
            "union { int a ____cacheline_aligned; } ____cacheline_aligned;"
        );
        let smp = Idiom::of(true, "int x ____cacheline_aligned_in_smp;", "", 64);
        assert_eq!(
            apply(&smp, "int a;", Align::Line),
            "int a ____cacheline_aligned_in_smp;"
        );
        let c11 = Idiom::of(false, "", "alignas(8) int x;", 64);
        assert_eq!(apply(&c11, "int a;", Align::Line), "alignas(64) int a;");
        assert_eq!(
            apply(&c11, "alignas(8) int a;", Align::Bytes(128)),
            "alignas(128) int a;"
        );
        assert_eq!(
            apply(&c11, "struct { int a; };", Align::Line),
            "struct { int a; } __attribute__((aligned(64)));"
        );
        let gnu = Idiom::of(false, "", "/* alignas */ int x;", 128);
        assert_eq!(
            apply(&gnu, "int a[2];", Align::Line),
            "int a[2] __attribute__((aligned(128)));"
        );
    }
}
