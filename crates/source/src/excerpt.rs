//! Shortens the two layouts of a type, as pahole prints them, for a commit message: the members
//! that are elsewhere on their lines now.

use crate::rewrite::wrap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The widest line, in columns.
const WIDTH: usize = 75;
/// Blanks before every line of a message.
const MARGIN: &str = "  ";
/// How many unchanged members are shown next to changed ones.
const CONTEXT: usize = 2;

/// A member, with the notes (holes, boundaries) before it.
struct ExcerptMember<'t> {
    notes: Vec<&'t str>,
    /// Several for a struct or union that is printed with its contents.
    lines: Vec<&'t str>,
}

/// A type as pahole prints it.
struct Printed<'t> {
    head: &'t str,
    items: Vec<ExcerptMember<'t>>,
    /// Everything after the last member: notes, sums, the brace.
    tail: Vec<&'t str>,
}

/// `before` and `after` (one type as pahole prints it, for lines of `line` bytes) without the runs
/// of members that keep their order and their places on their lines, in at most 75 columns.
pub fn excerpt(before: &str, after: &str, line: u64) -> (String, String) {
    let (old, new) = (read(before), read(after));
    let keys = |printed: &Printed<'_>| -> Vec<String> {
        printed.items.iter().map(|item| key(item, line)).collect()
    };
    let (mut in_old, mut in_new) = (vec![false; old.items.len()], vec![false; new.items.len()]);
    for op in capture_diff_slices(Algorithm::Myers, &keys(&old), &keys(&new)) {
        if let DiffOp::Equal {
            old_index,
            new_index,
            len,
        } = op
        {
            hide(&mut in_old, old_index, len);
            hide(&mut in_new, new_index, len);
        }
    }
    (print(&old, &in_old), print(&new, &in_new))
}

/// Only the members with these names, as pahole prints them; for an anonymous one its contents,
/// too.
pub fn only(printed: &str, names: &[&str]) -> String {
    let mut text = String::new();
    for item in read(printed).items {
        let declares =
            |line: &&str| declared_name(parted(line).0).is_some_and(|n| names.contains(&n));
        if item.lines.iter().any(declares) {
            item.lines.iter().for_each(|line| put(&mut text, line));
        }
    }
    text
}

/// The name that a line of pahole's declares: the last word before an attribute, a width, a
/// dimension or the end.
fn declared_name(declared: &str) -> Option<&str> {
    let end = declared.find([';', '[', ':'])?;
    let front = declared[..end].split("__attribute__").next()?.trim_end();
    let front = match front.split_once("(*") {
        Some((_, pointer)) => pointer.split(')').next()?,
        None => front,
    };
    front.rsplit([' ', '\t', '*']).next()
}

/// Hides a run of equal members except for some at its ends; a run that would hide only one or two
/// is shown.
fn hide(hidden: &mut [bool], from: usize, length: usize) {
    let start = if from == 0 { 0 } else { from + CONTEXT };
    let end = match from + length {
        end if end == hidden.len() => end,
        end => end - CONTEXT.min(length),
    };
    if end > start + CONTEXT {
        hidden[start..end].fill(true);
    }
}

fn read(text: &str) -> Printed<'_> {
    let mut lines = text.lines();
    let mut printed = Printed {
        head: lines.next().unwrap_or(""),
        items: Vec::new(),
        tail: Vec::new(),
    };
    let (mut notes, mut open, mut depth) = (Vec::new(), Vec::new(), 0_usize);
    for line in lines {
        let code = line.trim();
        let is_note = code.is_empty() || code.starts_with("/*");
        if depth == 0 && (is_note || code.starts_with('}')) {
            notes.push(line);
            continue;
        }
        open.push(line);
        depth = (depth + usize::from(code.ends_with('{')))
            .saturating_sub(usize::from(code.starts_with('}')));
        if depth == 0 {
            printed.items.push(ExcerptMember {
                notes: std::mem::take(&mut notes),
                lines: std::mem::take(&mut open),
            });
        }
    }
    printed.tail = notes;
    printed.tail.extend(open);
    printed
}

/// Equal for members that are declared alike and start at the same place of a line.
fn key(item: &ExcerptMember<'_>, line: u64) -> String {
    let mut key = String::new();
    for text in &item.lines {
        let (declared, place) = parted(text);
        key.push_str(declared);
        let offset = place.trim_start_matches("/*").split_whitespace().next();
        if let Some(Ok(offset)) = offset.map(str::parse::<u64>) {
            key.push_str(&format!("@{}", offset % line.max(1)));
        }
        key.push('\n');
    }
    key
}

/// A member's declaration, and the comment with its place.
fn parted(line: &str) -> (&str, &str) {
    match line.find("/*") {
        Some(at) if !line.trim_start().starts_with("/*") => (line[..at].trim_end(), &line[at..]),
        _ => (line.trim_end(), ""),
    }
}

fn print(printed: &Printed<'_>, hidden: &[bool]) -> String {
    let mut text = String::new();
    put(&mut text, printed.head);
    let mut skipped = 0;
    for (item, hides) in printed.items.iter().zip(hidden) {
        if *hides {
            skipped += 1;
            continue;
        }
        omission(&mut text, &mut skipped);
        item.notes
            .iter()
            .chain(&item.lines)
            .for_each(|line| put(&mut text, line));
    }
    omission(&mut text, &mut skipped);
    for line in &printed.tail {
        put(&mut text, line);
    }
    text
}

fn omission(text: &mut String, skipped: &mut usize) {
    if *skipped > 0 {
        let note = format!("\n\t/* ... {skipped} members that stay on their lines ... */\n");
        note.lines().for_each(|line| put(text, line));
        text.push('\n');
        *skipped = 0;
    }
}

/// Adds a line; if it is too wide, it loses the blanks of its columns, and if that is not enough,
/// its place goes below.
fn put(text: &mut String, line: &str) {
    let tabs = line.len() - line.trim_start_matches('\t').len();
    let indentation = format!("{MARGIN}{}", "    ".repeat(tabs));
    let line = line.trim();
    let fits = |line: &str| indentation.len() + line.chars().count() <= WIDTH;
    let (declared, place) = parted(line);
    if line.is_empty() {
        // Blank lines are never doubled.
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
    } else if fits(line) {
        text.push_str(&format!("{indentation}{line}\n"));
    } else if place.is_empty() {
        for (i, part) in wrap(line, room_for(&indentation)).iter().enumerate() {
            let hanging = if i == 0 { "" } else { "   " };
            text.push_str(&format!("{indentation}{hanging}{part}\n"));
        }
    } else {
        let declared = declared.split_whitespace().collect::<Vec<_>>().join(" ");
        let room = WIDTH.saturating_sub(indentation.len() + declared.chars().count());
        if place.len() < room {
            text.push_str(&format!("{indentation}{declared}{place:>room$}\n"));
        } else {
            for (i, part) in wrap(&declared, room_for(&indentation)).iter().enumerate() {
                let hanging = if i == 0 { "" } else { "    " };
                text.push_str(&format!("{indentation}{hanging}{part}\n"));
            }
            text.push_str(&format!("{place:>WIDTH$}\n"));
        }
    }
}

/// Columns for text whose continuation lines are indented by up to four.
fn room_for(indentation: &str) -> usize {
    WIDTH.saturating_sub(indentation.len() + 4).max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(names: &str, first: u64) -> String {
        let mut text = String::from("struct t {\n");
        for (i, name) in names.split_whitespace().enumerate() {
            let offset = first + 8 * i as u64;
            text.push_str(&format!(
                "\tlong unsigned int          {name:20} /* {offset:5}     8 */\n"
            ));
        }
        text + "\n\t/* size: 1 */\n};\n"
    }

    #[test]
    fn members_that_lie_as_before_are_counted() {
        let (old, new) = (
            members("x; a; b; c; d; e; f; g; h; i;", 0),
            members("y; a; b; c; d; e; f; g; h; i;", 64),
        );
        let (old, new) = excerpt(&old, &new, 64);
        assert_eq!(
            new,
            "  struct t {\n\
             \x20     long unsigned int          y;                   /*    64     8 */\n\
             \x20     long unsigned int          a;                   /*    72     8 */\n\
             \x20     long unsigned int          b;                   /*    80     8 */\n\n\
             \x20     /* ... 7 members that stay on their lines ... */\n\n\
             \x20     /* size: 1 */\n  };\n"
        );
        assert!(old.contains(" x;") && old.contains("... 7 members"));
        // All of them are elsewhere on their lines.
        let (_, new) = excerpt(
            &members("a; b; c; d; e; f; g;", 0),
            &members("a; b; c; d; e; f; g;", 8),
            64,
        );
        assert!(!new.contains("..."), "{new}");
    }

    #[test]
    fn the_inside_of_a_union_stays_with_it() {
        let union = "struct t {\n\tlong a; /* 0 8 */\n\tlong b; /* 8 8 */\n\tlong c; /* 16 8 */\n\tlong d; /* 24 8 */\n\tunion {\n\t\tlong u; /* 32 8 */\n\t\tlong v; /* 32 8 */\n\t}; /* 32 8 */\n\tlong z; /* 40 8 */\n};\n";
        let other = union.replace("long v;", "char v;");
        let (old, new) = excerpt(union, &other, 64);
        assert_eq!(
            new,
            "  struct t {\n      long a; /* 0 8 */\n      long b; /* 8 8 */\n      long c; /* 16 8 */\n      long d; /* 24 8 */\n      union {\n          long u; /* 32 8 */\n          char v; /* 32 8 */\n      }; /* 32 8 */\n      long z; /* 40 8 */\n  };\n"
        );
        assert_eq!(old, new.replace("char v", "long v"));
    }

    #[test]
    fn only_what_is_named_is_shown() {
        let text = "struct t {\n\tstruct a_s   b; /* 0 8 */\n\tvoid (*f)(int); /* 8 8 */\n\tint a[2] ; /* 16 8 */\n\tu64 c __attribute__((__aligned__(64))); /* 64 8 */\n\tunion {\n\t\tlong u; /* 72 8 */\n\t\tlong v; /* 72 8 */\n\t}; /* 72 8 */\n};\n";
        assert_eq!(only(text, &["a_s", "t"]), "");
        assert_eq!(only(text, &["b"]), "      struct a_s   b; /* 0 8 */\n");
        assert_eq!(only(text, &["f"]).lines().count(), 1);
        assert_eq!(only(text, &["c", "u"]).lines().count(), 5);
    }

    #[test]
    fn wide_lines_are_squeezed_then_broken() {
        let print = |line: &str| {
            let text = format!("struct t {{\n\t{line}\n}};\n");
            excerpt(&text, "", 64).0
        };
        assert_eq!(
            print("long unsigned int          a_member_with_a_rather_long_one; /*    24     8 */"),
            "  struct t {\n      long unsigned int a_member_with_a_rather_long_one;  /*    24     8 */\n  };\n"
        );
        let broken = print(
            "call_single_data_t         nohz_csd_with_a_longer_name __attribute__((__aligned__(64))); /*    64    32 */",
        );
        let place = format!("{:>75}", "/*    64    32 */");
        assert_eq!(
            broken,
            format!(
                "  struct t {{\n      call_single_data_t nohz_csd_with_a_longer_name\n          \
                 __attribute__((__aligned__(64)));\n{place}\n  }};\n"
            )
        );
    }

    #[test]
    fn wide_notes_are_wrapped() {
        let note = "/* sum bitfield members: 83 bits, bit holes: 2, sum bit holes: 45 bits */";
        let (text, _) = excerpt(&format!("struct t {{\n\t{note}\n}};\n"), "", 64);
        assert_eq!(
            text,
            "  struct t {\n      /* sum bitfield members: 83 bits, bit holes: 2, sum bit holes: 45\n         bits */\n  };\n"
        );
    }

    #[test]
    fn any_text_is_taken() {
        for text in ["", "x", "{\n{\n", "}\n}\n", "struct {\n\ta; /* x", "é /* é"] {
            excerpt(text, text, 0);
            excerpt(text, "struct t {\n\tint a; /* 0 4 */\n};\n", 64);
        }
    }
}
