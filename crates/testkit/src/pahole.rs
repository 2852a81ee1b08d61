//! Removes from pahole's text the remarks that versions newer than 1.24 add.
//!
//! linemate prints what 1.24 prints. 1.30, the pahole of Debian 13, also counts the holes, the bit
//! padding and the flexible arrays of embedded structs. Only the remarks known from 1.30 are taken
//! out: any other difference stays and fails a test.

use std::process::Command;

/// The version of pahole whose text linemate prints.
const PRINTED: (u32, u32) = (1, 24);

/// Major and minor version of what `pahole --version` answers (`v1.24`); `None` for another form.
pub fn version(answer: &str) -> Option<(u32, u32)> {
    let (major, minor) = answer.trim().strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether the pahole on PATH is newer than the one whose text linemate prints.
///
/// # Panics
/// When there is no pahole.
pub fn pahole_is_newer() -> bool {
    let output = Command::new("pahole")
        .arg("--version")
        .output()
        .unwrap_or_else(|e| panic!("pahole cannot be run ({e}): run `make setup`"));
    let answer = String::from_utf8_lossy(&output.stdout);
    version(&answer).unwrap_or_else(|| panic!("pahole --version says {answer:?}")) > PRINTED
}

/// The text as 1.24 prints it.
pub fn without_newer(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let line_at = |at: usize| lines.get(at).map_or("", |line| line.trim_start());
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        match remark(line) {
            Remark::Old => kept.push(line.to_owned()),
            Remark::Shortened(short) => kept.push(short),
            Remark::OfSums => {}
            Remark::OfMember => {
                let is_alone = line_at(at).is_empty() || line_at(at).starts_with('}');
                if is_alone && kept.last().is_some_and(String::is_empty) {
                    // The empty line before it came with it, and so did the one after it, unless
                    // that is the sums' own.
                    kept.pop();
                    if line_at(at).is_empty() && !line_at(at + 1).starts_with("/* size: ") {
                        at += 1;
                    }
                }
            }
        }
    }
    // After a type requested by name 1.30 leaves a line empty.
    if kept.ends_with(&[String::new(), String::new()]) {
        kept.pop();
    }
    kept.join("\n")
}

/// What 1.24 has of a line.
enum Remark {
    Old,
    /// A remark of which only this line is old.
    Shortened(String),
    /// A newer line among the sums at the end of a struct.
    OfSums,
    /// A newer line after a member.
    OfMember,
}

fn remark(line: &str) -> Remark {
    let text = line.trim_start_matches('\t');
    let inner = |start: &str| text.strip_prefix(start)?.strip_suffix(" */");
    if let Some(items) = inner("/* XXX last struct has ") {
        if !items.split(", ").all(is_of_embedded) {
            return Remark::Old;
        }
        let is_padding = |item: &&str| counts(item, "byte", " of padding");
        return items
            .split(", ")
            .find(is_padding)
            .map_or(Remark::OfMember, |padding| {
                let tabs = &line[..line.len() - text.len()];
                Remark::Shortened(format!("{tabs}/* XXX last struct has {padding} */"))
            });
    }
    let sums = inner("/* member types with ").or_else(|| inner("/* flexible array members: "));
    if sums.is_some_and(|items| items.split(", ").all(is_of_sums)) {
        return Remark::OfSums;
    }
    Remark::Old
}

/// What an embedded struct is said to have.
fn is_of_embedded(item: &str) -> bool {
    matches!(item, "a flexible array" | "embedded flexible array(s)")
        || counts(item, "byte", " of padding")
        || counts(item, "bit", " of padding")
        || counts(item, "hole", "")
        || counts(item, "bit hole", "")
}

/// What the sums count of embedded structs.
fn is_of_sums(item: &str) -> bool {
    let kinds = [
        "holes: ",
        "bit holes: ",
        "bit paddings: ",
        "total: ",
        "end: ",
        "middle: ",
    ];
    kinds.iter().any(|kind| {
        let count = item.strip_prefix(kind).unwrap_or_default();
        is_number(count) || counts(count, "bit", "")
    })
}

/// Whether `item` is a number of `things`: `1 hole`, `2 holes`, `3 bytes of padding`.
fn counts(item: &str, thing: &str, rest: &str) -> bool {
    let Some((number, things)) = item.split_once(' ') else {
        return false;
    };
    let Some(plural) = things
        .strip_suffix(rest)
        .and_then(|t| t.strip_prefix(thing))
    else {
        return false;
    };
    is_number(number) && plural == if number == "1" { "" } else { "s" }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
