//! What a patch does to a definition, in numbers: members moved, groups made, lines started.

use crate::wanted::{Align, Wanted};

/// What a patch does to the definition of `name`, in a sentence or two.
pub fn summary(name: &str, wanted: &Wanted) -> String {
    let count = |number: usize, what: &str| match number {
        1 => format!("one {what}"),
        several => format!("{several} {what}s"),
    };
    let mut sentences = Vec::new();
    match wanted.groups.as_slice() {
        [] => {}
        [one] => {
            let called = one
                .name
                .as_ref()
                .map_or(String::new(), |n| format!(" ({n})"));
            let members = wanted.members.iter().filter(|m| m.group.is_some()).count();
            let own = if members == 1 { "its" } else { "their" };
            sentences.push(format!(
                "Put {} of {name} on cache lines of {own} own{called}.",
                count(members, "member")
            ));
        }
        groups => {
            let names = groups.iter().filter_map(|g| g.name.as_deref());
            let names: Vec<&str> = names.collect();
            let called = match names.is_empty() {
                true => String::new(),
                false => format!(": {}", names.join(", ")),
            };
            sentences.push(format!(
                "Put {} of members of {name} on cache lines of their own{called}.",
                count(groups.len(), "group")
            ));
        }
    }
    let aligned = aligned_alone(wanted);
    if aligned > 0 {
        let starts = if aligned == 1 { "starts" } else { "start" };
        sentences.push(format!(
            "{} of {name} {starts} a cache line.",
            capital(&count(aligned, "member"))
        ));
    }
    let grouped = wanted.members.iter().filter(|m| m.group.is_some()).count();
    let moved = moved(wanted).len();
    if moved > 0 {
        let of = if grouped > 0 { "in all" } else { name };
        sentences.push(match grouped {
            0 => format!("Move {} of {of}.", count(moved, "member")),
            _ => {
                let s = if moved == 1 { "s" } else { "" };
                format!("{} move{s} {of}.", capital(&count(moved, "member")))
            }
        });
    }
    sentences.join(" ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// How many members start a line, without being in a group or merely after one.
fn aligned_alone(wanted: &Wanted) -> usize {
    let (mut previous, mut aligned) = (None, 0);
    for member in wanted.order.iter().filter_map(|m| wanted.members.get(*m)) {
        let asks = member.align == Some(Align::Line) && member.group.is_none();
        aligned += usize::from(asks && previous.is_none());
        previous = member.group;
    }
    aligned
}

/// The members that leave their order, as few as explain it, in the wanted order.
fn moved(wanted: &Wanted) -> Vec<usize> {
    let order = &wanted.order;
    // By place: the longest run that rises to it, and the previous place in it.
    let mut runs: Vec<(usize, Option<usize>)> = Vec::with_capacity(order.len());
    for (place, member) in order.iter().enumerate() {
        let before = (0..place).filter(|p| order[*p] < *member);
        let best = before.max_by_key(|p| (runs[*p].0, std::cmp::Reverse(*p)));
        runs.push((1 + best.map_or(0, |p| runs[p].0), best));
    }
    let mut stays = vec![false; order.len()];
    let mut next = (0..order.len()).max_by_key(|p| (runs[*p].0, std::cmp::Reverse(*p)));
    while let Some(place) = next {
        stays[place] = true;
        next = runs[place].1;
    }
    let moved = order.iter().zip(stays).filter(|(_, stays)| !stays);
    moved.map(|(member, _)| *member).collect()
}

/// The members that a patch moves or aligns, in the wanted order.
pub fn changed(wanted: &Wanted) -> Vec<usize> {
    let moved = moved(wanted);
    let aligned = |member: &usize| {
        wanted
            .members
            .get(*member)
            .is_some_and(|m| !matches!(m.align, None | Some(Align::Own(_))))
    };
    let order = wanted.order.iter().copied();
    order
        .filter(|member| moved.contains(member) || aligned(member))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::Recorded;
    use linemate_types::LineSize;

    fn member(name: &str, align: Option<Align>, group: Option<usize>) -> Recorded {
        Recorded {
            names: vec![name.to_owned()],
            align,
            group,
            unit: 0,
            is_inherited: false,
        }
    }

    #[test]
    fn a_summary_says_what_is_done() {
        let mut wanted = Wanted {
            members: vec![
                member("a", Some(Align::Line), Some(0)),
                member("b", None, Some(0)),
                member("c", Some(Align::Line), None),
                member("d", None, None),
                member("e", Some(Align::Line), None),
            ],
            order: vec![0, 1, 2, 3, 4],
            groups: vec![crate::Group {
                name: Some("hot".to_owned()),
            }],
            line: LineSize::B64,
        };
        assert_eq!(
            summary("struct t", &wanted),
            "Put 2 members of struct t on cache lines of their own (hot). One member of struct t starts a cache line."
        );
        assert_eq!(changed(&wanted), [0, 2, 4]);
        wanted.order = vec![0, 1, 2, 4, 3];
        wanted.groups.clear();
        for member in &mut wanted.members {
            (member.align, member.group) = (None, None);
        }
        assert_eq!(summary("struct t", &wanted), "Move one member of struct t.");
        assert_eq!(changed(&wanted).len(), 1);
        for member in [1, 3] {
            wanted.members[member].align = Some(Align::Line);
        }
        assert_eq!(
            summary("struct t", &wanted),
            "2 members of struct t start a cache line. Move one member of struct t."
        );
    }
}
