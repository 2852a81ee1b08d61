//! Comments that say which members share a cache line: found, compared with the new layout, and
//! reworded.

use crate::body::{BodyNode, DeclaredMember};
use crate::definition::{Definition, line_of};
use crate::lex::{TokenKind, lex};
use crate::rewrite::{Parts, RewriteError, comment};
use crate::wanted::Wanted;

/// Marks of a comment about cache lines, in lower case.
const TELLING: [&str; 4] = ["cache line", "cacheline", "cache-line", "false sharing"];

/// A comment about cache lines, and the members it is about: those it names, else those after it up
/// to the next blank line or comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Its line in the file, counted from 1.
    pub line: u32,
    pub text: String,
    /// Indices in [`Wanted::members`].
    pub members: Vec<usize>,
}

/// The comments about cache lines in a definition.
///
/// # Errors
/// If its contents are not understood.
pub fn remarks(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
) -> Result<Vec<Remark>, RewriteError> {
    let parts = Parts::new(file, definition)?;
    let mut found = Finder {
        wanted,
        remarks: Vec::new(),
        open: None,
    };
    found.nodes(&parts.body.nodes);
    for remark in &mut found.remarks {
        remark.narrow(wanted);
        remark.line = line_of_comment(file, definition, &remark.text).unwrap_or(definition.line);
    }
    Ok(found.remarks)
}

struct Finder<'w> {
    wanted: &'w Wanted,
    remarks: Vec<Remark>,
    /// The remark that further members belong to.
    open: Option<usize>,
}

impl Finder<'_> {
    /// Recursion: as deep as conditions nest.
    fn nodes(&mut self, nodes: &[BodyNode]) {
        for node in nodes {
            match node {
                // A separate comment is about the next paragraph.
                BodyNode::Blank(_) => {
                    let remarks = &self.remarks;
                    self.open = self.open.filter(|open| remarks[*open].members.is_empty());
                }
                BodyNode::Loose(text) => self.leads(text),
                BodyNode::Member(member) => self.member(member),
                BodyNode::Block(block) => {
                    self.leads(&block.lead);
                    for arm in &block.arms {
                        self.nodes(&arm.nodes);
                    }
                }
            }
        }
    }

    /// Comments before something: they end the scope of an earlier remark.
    fn leads(&mut self, text: &str) {
        if !text.contains("/*") && !text.contains("//") {
            return;
        }
        self.open = None;
        for words in comments(text).filter(|words| is_informative(words)) {
            self.open = Some(self.remarks.len());
            self.add(words, Vec::new());
        }
    }

    fn add(&mut self, text: String, members: Vec<usize>) {
        self.remarks.push(Remark {
            line: 0,
            text,
            members,
        });
    }

    fn member(&mut self, member: &DeclaredMember) {
        self.leads(&member.lead);
        let names = member.declaration.names();
        let known = (0..self.wanted.members.len()).filter(|i| {
            let recorded = &self.wanted.members[*i].names;
            recorded.iter().any(|name| names.contains(name))
        });
        let known: Vec<usize> = known.collect();
        for words in comments(&member.trail).filter(|words| is_informative(words)) {
            self.add(words, known.clone());
        }
        if let Some(open) = self.open {
            self.remarks[open].members.extend(known);
        }
    }
}

fn is_informative(words: &str) -> bool {
    let words = words.to_lowercase();
    TELLING.iter().any(|telling| words.contains(telling))
}

/// The words of each comment in a text.
fn comments(text: &str) -> impl Iterator<Item = String> {
    lex(text)
        .into_iter()
        .filter(|token| token.kind == TokenKind::Comment)
        .map(|token| words(token.text))
        .collect::<Vec<_>>()
        .into_iter()
}

/// A comment without its delimiters, on one line.
fn words(comment: &str) -> String {
    let inside = comment.trim_start_matches(['/', '*']);
    let inside = inside.strip_suffix("*/").unwrap_or(inside);
    let lines = inside
        .lines()
        .map(|line| line.trim().trim_start_matches('*'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// Words of a comment that say that its members share a line, in lower case.
const TOGETHER: [&str; 6] = ["same", "one", "single", "together", "share", "shares"];
/// Words that say that they are apart from others. "False" is that of false sharing.
const APART: [&str; 9] = [
    "own",
    "separate",
    "separated",
    "separately",
    "apart",
    "alone",
    "false",
    "contended",
    "contention",
];

impl Remark {
    /// Whether it may no longer be true. `before` and `after` give, by member in the recorded
    /// order, the line it starts on.
    ///
    /// A comment whose words do not say whether its members are together or apart may mean either.
    pub fn is_stale<L: PartialEq>(&self, before: &[L], after: &[L]) -> bool {
        let (together, apart) = (says(&self.text, &TOGETHER), says(&self.text, &APART));
        ((together || !apart) && self.parted(before, after))
            || ((apart || !together) && self.joined(before, after))
    }

    /// A comment that names other members is about its first one and those: `nr_running` or `@pgd`,
    /// not names that are also plain words.
    fn narrow(&mut self, wanted: &Wanted) {
        let marked = self.text.split_whitespace().flat_map(|word| {
            let inside = word.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '@');
            let at = inside.starts_with('@');
            let names = inside.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.filter(move |name| at || name.contains('_'))
        });
        let marked: Vec<&str> = marked.collect();
        let first = self.members.first().copied();
        let named = (0..wanted.members.len()).filter(|member| {
            let names = &wanted.members[*member].names;
            first == Some(*member) || names.iter().any(|name| marked.contains(&name.as_str()))
        });
        let named: Vec<usize> = named.collect();
        if named.len() > 1 {
            self.members = named;
        }
    }

    /// Whether members that shared a line no longer do: for several, those of the comment; for a
    /// single one, its company.
    fn parted<L: PartialEq>(&self, before: &[L], after: &[L]) -> bool {
        let single = self.members.len() == 1;
        self.members.iter().any(|member| {
            let new = company(after, *member);
            let mut old = company(before, *member).into_iter();
            old.any(|o| (single || self.members.contains(&o)) && !new.contains(&o))
        })
    }

    /// Whether new members are on its members' lines. If there were already others after them, the
    /// comment can only have meant that they are apart from those before them.
    fn joined<L: PartialEq>(&self, before: &[L], after: &[L]) -> bool {
        let others = |lines: &[L]| -> Vec<usize> {
            let all = self.members.iter().flat_map(|m| company(lines, *m));
            all.filter(|m| !self.members.contains(m)).collect()
        };
        let Some(first) = self.members.iter().min() else {
            return false;
        };
        let old = others(before);
        let only_after = !old.is_empty() && old.iter().all(|m| m > first);
        let new = others(after);
        let mut come = new.iter().filter(|m| !old.contains(m));
        come.any(|m| !only_after || m < first)
    }
}

/// Whether one of the words is in a text, ignoring case.
fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    let mut all = text.split(|c: char| !c.is_alphanumeric());
    all.any(|word| words.contains(&word))
}

/// Whether comments before a member are about those after it, too: "These ...", or that they share
/// a line.
pub(crate) fn is_about_several(lead: &str) -> bool {
    comments(lead).any(|words| {
        let first = words.split(' ').next().unwrap_or("");
        let shared = is_informative(&words) && says(&words, &TOGETHER) && !says(&words, &APART);
        shared || first.eq_ignore_ascii_case("these")
    })
}

/// The other members that start on a member's line.
fn company<L: PartialEq>(lines: &[L], member: usize) -> Vec<usize> {
    let same = |other: &usize| *other != member && lines.get(*other) == lines.get(member);
    (0..lines.len()).filter(same).collect()
}

/// The file's text with another comment instead of the one with the words `old`; without `new` it
/// goes. `None` if there is no such comment.
pub fn reword(file: &str, definition: &Definition, old: &str, new: &str) -> Option<String> {
    let body = &file[definition.body.clone()];
    let token = lex(body)
        .into_iter()
        .find(|token| token.kind == TokenKind::Comment && words(token.text) == old)?;
    if new == old {
        return Some(file.to_owned());
    }
    let at = definition.body.start + token.start;
    let line = file[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let indentation = &file[line..at];
    let own_line = indentation.trim().is_empty();
    let end = at + token.text.len();
    let (start, end, text) = match (own_line, new.trim().is_empty()) {
        (true, true) => {
            let rest = file[end..].find('\n').map_or(file.len(), |n| end + n + 1);
            (line, rest, String::new())
        }
        (true, false) => (line, end, comment(new, indentation).trim_end().to_owned()),
        (false, true) => {
            let kept = file[..at].trim_end_matches([' ', '\t']).len();
            (kept, end, String::new())
        }
        (false, false) => (at, end, comment(new, "").trim_end().to_owned()),
    };
    Some(format!("{}{text}{}", &file[..start], &file[end..]))
}

/// The line of a comment with the words `old` in a definition, counted from 1.
fn line_of_comment(file: &str, definition: &Definition, old: &str) -> Option<u32> {
    let tokens = lex(&file[definition.body.clone()]);
    let token = tokens
        .into_iter()
        .find(|token| token.kind == TokenKind::Comment && words(token.text) == old)?;
    Some(line_of(file, definition.body.start + token.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Sought, find};
    use crate::wanted::Recorded;
    use linemate_types::LineSize;

    const FILE: &str = "struct t {\n\tint a;\n\t/* All of these on the same\n\t * cache line */\n\tint b;\n\tint c;\n\n\tint d; /* own cacheline */\n\tint e; /* counts */\n};\n";

    fn world() -> (Definition, Wanted) {
        let definition = find(FILE, &Sought::Tag("t".to_owned())).remove(0);
        let member = |name: &str| Recorded {
            names: vec![name.to_owned()],
            align: None,
            group: None,
            unit: 0,
            is_inherited: false,
        };
        let wanted = Wanted {
            members: ["a", "b", "c", "d", "e"].map(member).to_vec(),
            order: (0..5).collect(),
            groups: Vec::new(),
            line: LineSize::B64,
        };
        (definition, wanted)
    }

    #[test]
    fn comments_about_lines_are_found_and_held_against_the_layout() {
        let (definition, wanted) = world();
        let found = remarks(FILE, &definition, &wanted).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].text, "All of these on the same cache line");
        assert_eq!(found[0].members, [1, 2]);
        assert_eq!((found[1].line, &found[1].members[..]), (8, &[3][..]));
        let before = [0, 0, 0, 1, 2];
        assert!(
            !found[0].is_stale(&before, &[3, 1, 1, 2, 4]),
            "still together"
        );
        assert!(found[0].is_stale(&before, &[0, 0, 1, 2, 3]), "parted");
        assert!(!found[1].is_stale(&before, &[0, 0, 1, 2, 3]), "still alone");
        assert!(
            found[1].is_stale(&before, &[0, 0, 1, 2, 2]),
            "no longer alone"
        );
    }

    #[test]
    fn a_comment_that_names_members_is_about_those() {
        let text = "struct t {\n\tint flags;\n\tint mm_cid;\n\t/* near @pgd, on its cache line, unlike flags */\n\tint state;\n\tint a;\n\tint pgd;\n};\n";
        let (_, mut wanted) = world();
        for (member, name) in ["flags", "mm_cid", "state", "a", "pgd"].iter().enumerate() {
            wanted.members[member].names = vec![(*name).to_owned()];
        }
        let about = |text: &str| {
            let definition = find(text, &Sought::Tag("t".to_owned())).remove(0);
            remarks(text, &definition, &wanted).unwrap()[0]
                .members
                .clone()
        };
        // `flags` is a word like any other.
        assert_eq!(about(text), [2, 4]);
        assert_eq!(about(&text.replace("@pgd", "mm_cid")), [1, 2]);
        assert_eq!(about(&text.replace("@pgd", "pgd")), [2, 3, 4]);
    }

    #[test]
    fn a_comment_that_stands_apart_is_about_the_next_paragraph() {
        let text = "struct t {\n\tint a;\n\n\t/* second cache line */\n\n\tint b;\n\tint c;\n\n\tint d;\n\tint e;\n};\n";
        let (_, wanted) = world();
        let definition = find(text, &Sought::Tag("t".to_owned())).remove(0);
        let found = remarks(text, &definition, &wanted).unwrap();
        assert_eq!(found[0].members, [1, 2]);
    }

    fn remark(text: &str, members: &[usize]) -> Remark {
        Remark {
            line: 1,
            text: text.to_owned(),
            members: members.to_vec(),
        }
    }

    #[test]
    fn a_member_that_only_others_before_it_were_kept_from_may_get_company_from_after_it() {
        // As `load_avg` of a task group: it starts a line, `c` and `d` after it share that.
        let own = remark("in its own cache-line, apart from the fields above", &[1]);
        let before = [0, 1, 1, 1, 2];
        assert!(
            !own.is_stale(&before, &[0, 1, 1, 1, 1]),
            "one from after it"
        );
        assert!(!own.is_stale(&before, &[0, 1, 1, 2, 2]), "less company");
        assert!(
            own.is_stale(&before, &[1, 1, 1, 1, 2]),
            "one from before it"
        );
        // If one before it was there too, the comment disagrees with the layout anyway: any
        // newcomer is reported.
        let before = [1, 1, 1, 2, 2];
        assert!(own.is_stale(&before, &[1, 1, 1, 1, 2]));
    }

    #[test]
    fn what_a_comment_says_decides_what_makes_it_stale() {
        let (before, parted, joined) = ([0, 1, 1, 2], [0, 1, 2, 3], [0, 1, 1, 1]);
        let same = remark("keep on the same cache line", &[1, 2]);
        assert!(same.is_stale(&before, &parted));
        assert!(!same.is_stale(&before, &joined));
        let own = remark("known to be written: a cacheline of their own", &[1, 2]);
        assert!(!own.is_stale(&before, &parted));
        assert!(own.is_stale(&before, &joined));
        let neither = remark("mind the cacheline, well known", &[1, 2]);
        assert!(neither.is_stale(&before, &parted) && neither.is_stale(&before, &joined));
        // A single member that is said to share a line has lost its company.
        let with_b = remark("same cache line as b", &[2]);
        assert!(with_b.is_stale(&before, &parted));
        assert!(!with_b.is_stale(&before, &joined));
    }

    #[test]
    fn a_comment_is_reworded_or_goes() {
        let (definition, _) = world();
        let old = "All of these on the same cache line";
        let new = reword(FILE, &definition, old, "b is hot").unwrap();
        assert!(
            new.contains("\tint a;\n\t/* b is hot */\n\tint b;"),
            "{new}"
        );
        let gone = reword(FILE, &definition, old, "").unwrap();
        assert!(gone.contains("\tint a;\n\tint b;"), "{gone}");
        let gone = reword(FILE, &definition, "own cacheline", "").unwrap();
        assert!(gone.contains("\tint d;\n\tint e;"), "{gone}");
        let same = reword(FILE, &definition, old, old);
        assert_eq!(same.as_deref(), Some(FILE));
        assert_eq!(reword(FILE, &definition, "nobody said that", "x"), None);
        assert_eq!(line_of_comment(FILE, &definition, old), Some(3));
    }
}
