//! The message of a patch: why, from the known facts. Unknown parts are left out.

use std::fmt::Write as _;

use linemate_answers::{GroupEvidence, PatchEvidence};

use crate::rewrite::wrap;
use crate::wanted::{Recorded, Wanted};

/// The width of running text in a commit message.
const WIDTH: usize = 72;

/// What the patch does to one type's layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeChange {
    /// `struct rq`
    pub name: String,
    /// What is done to it: see [`crate::summary`].
    pub summary: String,
    /// For each line size: bytes of a line, then size and lines before and after.
    pub sizes: Vec<SizeChange>,
    /// pahole's lines of what is moved or aligned, after the patch.
    pub moved: String,
    /// pahole's listing before, shortened for a message (see [`crate::excerpt`]); empty if unknown.
    pub before: String,
    pub after: String,
    /// What was compiled to prove the layout; empty if nothing was.
    pub proof: String,
    /// Where its changed members are under several configs; empty if there is one.
    pub configs: Vec<ConfigPlaces>,
}

/// The size of a type before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeChange {
    /// Bytes of a line.
    pub line: u64,
    /// The size before, in bytes.
    pub before: u64,
    /// The size after, in bytes.
    pub after: u64,
}

/// Where the members that are moved or aligned are under one config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPlaces {
    /// The config's name.
    pub config: String,
    pub size: SizeChange,
    pub neighbours: PairsTogether,
    /// The same members under each config.
    pub members: Vec<MemberPlaces>,
}

/// Pairs of members that an edit puts next to each other on one line, without a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairsTogether {
    /// Those of which the config has both members.
    pub pairs: usize,
    /// Those of them that share a line there.
    pub on_one_line: usize,
}

/// The lines that a member starts on, counted from the struct's first, which is 0; `None` under a
/// config that has no bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlaces {
    /// The member's name; of an anonymous one the first inside.
    pub name: String,
    pub before: Option<u64>,
    pub after: Option<u64>,
}

pub fn body(evidence: &PatchEvidence, types: &[TypeChange], tool: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(paragraph(evidence.problem.as_deref().unwrap_or("")));
    parts.extend(types.iter().flat_map(|change| paragraph(&change.summary)));
    parts.extend(uses(&evidence.groups));
    for group in &evidence.groups {
        let reasons: Vec<String> = group.reasons.iter().flat_map(|r| listed(r)).collect();
        if !reasons.is_empty() {
            parts.push(format!("{}:\n\n{}", group.name, reasons.join("\n")));
        }
    }
    let recorded = recorded(evidence);
    if !recorded.is_empty() {
        parts.push(recorded);
    }
    if !evidence.effect.is_empty() {
        let rows: Vec<Vec<&str>> = evidence
            .effect
            .iter()
            .map(|e| vec![e.metric.as_str(), &e.before, &e.after, &e.change])
            .collect();
        parts.push(format!(
            "Predicted effect (± is the 95 % confidence interval):\n\n{}",
            table(&["", "before", "after", "change"], &rows)
        ));
    }
    if !evidence.ablation.is_empty() {
        let rows: Vec<Vec<&str>> = evidence
            .ablation
            .iter()
            .map(|a| vec![a.part.as_str(), &a.alone, &a.without])
            .collect();
        parts.push(format!(
            "Part by part:\n\n{}",
            table(&["", "alone", "all but this"], &rows)
        ));
    }
    for note in &evidence.notes {
        parts.extend(paragraph(note));
    }
    for change in types {
        parts.extend(type_change(change));
    }
    parts.push(format!("Written by {tool}."));
    parts.join("\n\n") + "\n"
}

/// What reviewers may look at but no commit has to keep: lines under each config, and pahole's
/// listings before and after.
pub fn below(types: &[TypeChange]) -> String {
    let mut parts = Vec::new();
    for change in types {
        parts.extend(configs(change));
        for (title, text) in [("before", &change.before), ("after", &change.after)] {
            if !text.trim().is_empty() {
                parts.push(format!(
                    "pahole, {}, {title}:\n\n{}",
                    change.name,
                    text.trim_end()
                ));
            }
        }
    }
    parts.join("\n\n")
}

/// What a change does under each config.
fn configs(change: &TypeChange) -> Option<String> {
    let first = change.configs.first()?;
    let has_pairs = change.configs.iter().any(|c| c.neighbours.pairs > 0);
    let neighbours = match has_pairs {
        true => {
            ". Neighbours: of the pairs of members that the edit brings together without a group, how many share a line."
        }
        false => ":",
    };
    let lead = format!("{} by config, before -> after{neighbours}", change.name);
    Some(format!(
        "{}\n\n{}\n\nLines on which members start, from 0:\n\n{}",
        wrap(&lead, WIDTH).join("\n"),
        sizes_by_config(&change.configs),
        lines_by_config(&change.configs, &first.members)
    ))
}

fn sizes_by_config(configs: &[ConfigPlaces]) -> String {
    let row = |(places, number): (&ConfigPlaces, usize)| {
        let PairsTogether { pairs, on_one_line } = places.neighbours;
        vec![
            format!("{number} {}", places.config),
            places.size.line.to_string(),
            changed(Some(places.size.before), Some(places.size.after)),
            match pairs {
                0 => String::new(),
                _ => format!("{on_one_line} of {pairs}"),
            },
        ]
    };
    let rows: Vec<Vec<String>> = configs.iter().zip(1..).map(row).collect();
    table(&["config", "line size", "bytes", "neighbours"], &rows)
}

/// A row for each member, because there can be forty, and a column for each config.
fn lines_by_config(configs: &[ConfigPlaces], members: &[MemberPlaces]) -> String {
    let row = |(member, places): (usize, &MemberPlaces)| {
        let lines = configs.iter().filter_map(|config| {
            let places = config.members.get(member)?;
            Some(changed(places.before, places.after))
        });
        std::iter::once(places.name.clone()).chain(lines).collect()
    };
    let rows: Vec<Vec<String>> = members.iter().enumerate().map(row).collect();
    let numbers: Vec<String> = (1..=configs.len()).map(|n| n.to_string()).collect();
    let mut head = vec!["member"];
    head.extend(numbers.iter().map(String::as_str));
    table(&head, &rows)
}

/// `1 -> 2`, `1` where it stays, `-` where it is unknown on both sides.
fn changed(before: Option<u64>, after: Option<u64>) -> String {
    let shown = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    match before == after {
        true => shown(before),
        false => format!("{} -> {}", shown(before), shown(after)),
    }
}

/// A reason as lines of a list.
fn listed(reason: &str) -> Vec<String> {
    let lines = wrap(reason, WIDTH - 4).into_iter().enumerate();
    lines
        .map(|(i, line)| format!("  {} {line}", if i == 0 { "-" } else { " " }))
        .collect()
}

/// Who reads and who writes each group, as a table.
fn uses(groups: &[GroupEvidence]) -> Option<String> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for group in groups {
        let kinds = [("read", &group.read), ("written", &group.written)];
        let used = kinds.into_iter().filter_map(|(kind, used)| {
            let used = used.as_ref().filter(|used| used.accesses > 0)?;
            let by: Vec<&str> = used.by.iter().take(2).map(String::as_str).collect();
            Some((kind, used.accesses.to_string(), by.join(", ")))
        });
        for (number, (kind, accesses, by)) in used.enumerate() {
            let name = if number == 0 { group.name.as_str() } else { "" };
            rows.push([name.to_owned(), kind.to_owned(), accesses, by]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (names, kinds, accesses) = (width(0)?, width(1)?, width(2)?);
    let room = WIDTH.saturating_sub(names + kinds + accesses + 8).max(20);
    let mut text = "Recorded accesses, and where most of them are made:\n".to_owned();
    for [name, kind, count, by] in &rows {
        for (number, by) in wrap(by, room).iter().enumerate() {
            let cells = if number == 0 {
                format!("  {name:names$}  {kind:kinds$}  {count:>accesses$}  {by}")
            } else {
                format!("{:blank$}{by}", "", blank = names + kinds + accesses + 8)
            };
            text.push_str(&format!("\n{}", cells.trim_end()));
        }
    }
    Some(text)
}

fn paragraph(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| wrap(text, WIDTH).join("\n"))
}

fn recorded(evidence: &PatchEvidence) -> String {
    let lines = [
        ("Kernel", &evidence.kernel),
        ("Workload", &evidence.workload),
        ("Machine", &evidence.machine),
        ("Seed", &evidence.seed),
    ];
    let known = lines
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let lines: Vec<String> = known
        .flat_map(|(name, value)| {
            let parts = wrap(value, WIDTH - 12);
            parts.into_iter().enumerate().map(move |(i, part)| {
                let name = if i == 0 {
                    format!("{name}:")
                } else {
                    String::new()
                };
                format!("  {name:10}{part}")
            })
        })
        .collect();
    lines.join("\n")
}

/// The sentence for each group's comment in the source: the evidence's, else the edit's own.
pub fn intents(evidence: &PatchEvidence, wanted: &Wanted) -> Vec<String> {
    let numbered = wanted.groups.iter().enumerate();
    numbered
        .map(|(number, group)| {
            let members: Vec<&Recorded> = wanted
                .order
                .iter()
                .map(|m| &wanted.members[*m])
                .filter(|m| m.group == Some(number))
                .collect();
            let about = |g: &&GroupEvidence| match &group.name {
                Some(name) => g.name == *name,
                None => members.iter().any(|m| m.names.contains(&g.name)),
            };
            let told = evidence
                .groups
                .iter()
                .find(about)
                .and_then(|g| g.intent.clone());
            told.unwrap_or_else(|| match (&group.name, members.len()) {
                (Some(name), _) => {
                    format!(
                        "{}: used together, on cache lines of their own",
                        name.replace('_', " ")
                    )
                }
                (None, 1) => "On cache lines of its own".to_owned(),
                (None, _) => "Used together, on cache lines of their own".to_owned(),
            })
        })
        .collect()
}

/// The subject of a patch of these types, in the tree's style:
/// `sched: Group members of struct rq by use`.
pub fn subject(types: &[(String, &Wanted)], path: &str, is_kernel: bool) -> String {
    let names: Vec<&str> = types.iter().map(|(name, _)| name.as_str()).collect();
    let moved = |w: &Wanted| !w.order.iter().copied().eq(0..w.members.len());
    let what = if types.iter().any(|(_, w)| !w.groups.is_empty()) {
        "Group members of {} by use"
    } else if types.iter().any(|(_, w)| moved(w)) {
        "Reorder members of {}"
    } else {
        "Align members of {}"
    };
    let what = what.replace("{}", &names.join(" and "));
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    // In Linux the folder shows the subsystem, except for the common headers.
    let area = match folder.rsplit('/').next().unwrap_or("") {
        "linux" | "net" | "asm" | "include" | "" => stem,
        last if is_kernel => last,
        _ => stem,
    };
    format!("{area}: {what}")
}

/// Columns as wide as their widest cell, the first to the left, the others to the right.
fn table<T: AsRef<str>>(head: &[&str], rows: &[Vec<T>]) -> String {
    let rows: Vec<Vec<&str>> = rows
        .iter()
        .map(|row| row.iter().map(AsRef::as_ref).collect())
        .collect();
    let used = |column: usize| {
        rows.iter()
            .any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()))
    };
    let columns: Vec<usize> = (0..head.len()).filter(|c| *c == 0 || used(*c)).collect();
    let cell = |row: &[&str], column: usize| row.get(column).copied().unwrap_or("").to_owned();
    let width = |column: usize| {
        let cells = rows
            .iter()
            .map(|row| cell(row, column))
            .chain([cell(head, column)]);
        cells.map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let others: usize = columns[1..].iter().map(|c| width(*c) + 2).sum();
    // Names that leave no room for figures take several lines.
    let first = width(0).min(WIDTH.saturating_sub(others + 2).max(20));
    let lines = |row: &[&str]| {
        let mut names = wrap(&cell(row, 0), first);
        let mut last = format!("  {:first$}", names.pop().unwrap_or_default());
        for column in &columns[1..] {
            let (cell, width) = (cell(row, *column), width(*column));
            // Writing to a String does not fail.
            let _ = write!(last, "  {cell:>width$}");
        }
        let mut lines: Vec<String> = names.iter().map(|name| format!("  {name}")).collect();
        lines.push(last.trim_end().to_owned());
        lines
    };
    let lines: Vec<String> = lines(head)
        .into_iter()
        .chain(rows.iter().flat_map(|row| lines(row)))
        .collect();
    lines.join("\n")
}

fn type_change(change: &TypeChange) -> Vec<String> {
    let mut parts = Vec::new();
    let cells: Vec<Vec<String>> = change
        .sizes
        .iter()
        .map(|s| {
            let cell = |size: u64| match size.div_ceil(s.line.max(1)) {
                1 => format!("{size} bytes, 1 line"),
                lines => format!("{size} bytes, {lines} lines"),
            };
            vec![
                format!("{}-byte lines", s.line),
                cell(s.before),
                cell(s.after),
            ]
        })
        .collect();
    if !cells.is_empty() {
        parts.push(format!(
            "Size of {}:\n\n{}",
            change.name,
            table(&["", "before", "after"], &cells)
        ));
    }
    if !change.proof.is_empty() {
        parts.push(wrap(&change.proof, WIDTH).join("\n"));
    }
    if !change.moved.trim().is_empty() {
        parts.push(format!(
            "pahole, what is moved or aligned:\n\n{}",
            change.moved.trim_end()
        ));
    }
    parts
}

#[cfg(test)]
mod tests {
    use linemate_answers::AccessSummary;

    use super::*;
    #[test]
    fn names_that_are_too_wide_for_a_table_are_wrapped() {
        let name = "cycles of everything that leaves its core on a machine with a long name";
        let table = table(
            &["", "before", "after"],
            &[vec![name, "1", "22"], vec!["short", "333", "4"]],
        );
        assert_eq!(
            table,
            "                                                           before  after\n\
             \x20 cycles of everything that leaves its core on a machine\n\
             \x20 with a long name                                              1     22\n\
             \x20 short                                                       333      4"
        );
    }

    #[test]
    fn members_have_a_row_and_configs_a_column() {
        let config = |name: &str, size, pairs, b: Option<u64>| ConfigPlaces {
            config: name.to_owned(),
            size,
            neighbours: PairsTogether {
                pairs,
                on_one_line: 1,
            },
            members: [("vm_refcnt", Some(2), Some(3)), ("b", b, b)]
                .map(|(name, before, after)| MemberPlaces {
                    name: name.to_owned(),
                    before,
                    after,
                })
                .into(),
        };
        let size = |line, after| SizeChange {
            line,
            before: 192,
            after,
        };
        let change = TypeChange {
            name: "struct vm_area_struct".to_owned(),
            configs: vec![
                config("7.3.4 (rt)", size(64, 256), 2, Some(10)),
                config("7.3.4 (s390)", size(256, 192), 0, None),
            ],
            ..TypeChange::default()
        };
        assert_eq!(
            below(&[change]),
            "struct vm_area_struct by config, before -> after. Neighbours: of the\n\
             pairs of members that the edit brings together without a group, how many\n\
             share a line.\n\n\
             \x20 config          line size       bytes  neighbours\n\
             \x20 1 7.3.4 (rt)           64  192 -> 256      1 of 2\n\
             \x20 2 7.3.4 (s390)        256         192\n\n\
             Lines on which members start, from 0:\n\n\
             \x20 member          1       2\n\
             \x20 vm_refcnt  2 -> 3  2 -> 3\n\
             \x20 b              10       -"
        );
        assert_eq!(below(&[TypeChange::default()]), "");
    }

    #[test]
    fn what_was_recorded_is_after_its_name() {
        let evidence = PatchEvidence {
            workload: Some("word ".repeat(20)),
            seed: Some("42".to_owned()),
            ..PatchEvidence::default()
        };
        let line = ["word"; 12].join(" ");
        assert_eq!(
            recorded(&evidence),
            format!(
                "  Workload: {line}\n            {}\n  Seed:     42",
                ["word"; 8].join(" ")
            )
        );
    }

    #[test]
    fn who_reads_and_writes_is_a_table() {
        let used = |accesses, by: &[&str]| {
            let by = by.iter().map(|name| (*name).to_owned()).collect();
            Some(AccessSummary { accesses, by })
        };
        let groups = [
            GroupEvidence {
                name: "schedule".to_owned(),
                read: used(82125, &["__schedule", "idle_cpu", "third"]),
                written: used(8307, &["__schedule"]),
                ..GroupEvidence::default()
            },
            GroupEvidence {
                name: "idle".to_owned(),
                read: used(12, &["idle_cpu"]),
                written: used(0, &[]),
                ..GroupEvidence::default()
            },
        ];
        assert_eq!(
            uses(&groups).unwrap(),
            "Recorded accesses, and where most of them are made:\n\n\
             \x20 schedule  read     82125  __schedule, idle_cpu\n\
             \x20           written   8307  __schedule\n\
             \x20 idle      read        12  idle_cpu"
        );
        assert_eq!(uses(&[]), None);
    }
}
