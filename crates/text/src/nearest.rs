//! Names that the user may have meant.

use std::collections::BTreeSet;

/// How many names an error offers.
const OFFERED: usize = 3;

/// Longer names are not compared: the time is the product of the lengths, and nobody misspells
/// names of that length.
const LONGEST: usize = 256;

/// From this length on, a name that contains the given text is offered too.
const PART: usize = 3;

/// At most three of `known` that are closest to `name`, best first: equal except for case, then
/// misspelt by at most a third of the name's letters (one, for short names), then names that
/// contain it, as `root_domain` does `domain`.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<String> {
    if name.is_empty() || name.len() > LONGEST {
        return Vec::new();
    }
    let length = name.chars().count();
    let limit = (length / 3).max(1);
    let mut found = BTreeSet::new();
    for candidate in known {
        if candidate.is_empty() || candidate.len() > LONGEST {
            continue;
        }
        let surplus = candidate.len().abs_diff(name.len());
        let distance = if candidate.eq_ignore_ascii_case(name) {
            0
        } else if length >= PART && candidate.contains(name) {
            surplus + 1
        } else if surplus <= 4 * limit {
            // Letters of several bytes: the lengths in bytes are only a bound.
            match strsim::damerau_levenshtein(candidate, name) {
                distance if distance <= limit => distance,
                _ => continue,
            }
        } else {
            continue;
        };
        found.insert((distance, candidate));
    }
    let best = found.into_iter().take(OFFERED);
    best.map(|(_, candidate)| candidate.to_owned()).collect()
}

/// `; the nearest: a, b` for the end of an error; nothing without names.
pub fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; the nearest: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [&str; 5] = ["task_struct", "task_group", "root_domain", "rq", "rb"];
    const MACHINES: [&str; 4] = ["gnr-2s-480", "hcc-2s-480", "power11", "turin-2s"];

    #[test]
    fn misspelt_names_find_their_neighbours() {
        assert_eq!(nearest("task_strcut", TYPES), ["task_struct"]);
        assert_eq!(nearest("rr", TYPES), ["rb", "rq"]);
        assert_eq!(nearest("power10", MACHINES), ["power11"]);
        assert_eq!(nearest("größe", ["grösse", "größer"]), ["größer"]);
    }

    #[test]
    fn case_and_parts_count() {
        assert_eq!(nearest("RQ", TYPES), ["rq"]);
        assert_eq!(nearest("Power11", MACHINES), ["power11"]);
        assert_eq!(nearest("domain", TYPES), ["root_domain"]);
        assert_eq!(nearest("2s-480", MACHINES), ["gnr-2s-480", "hcc-2s-480"]);
    }

    #[test]
    fn what_is_like_nothing_gets_no_name() {
        assert!(nearest("nope", MACHINES).is_empty());
        assert!(nearest("nothing_like_it", TYPES).is_empty());
        assert!(nearest("", TYPES).is_empty());
        assert!(nearest(&"a".repeat(1 << 20), TYPES).is_empty());
        let long = "rq".repeat(1 << 20);
        assert!(nearest("rq", [long.as_str()]).is_empty());
    }

    #[test]
    fn an_error_ends_with_the_names() {
        assert_eq!(suggestion(&[]), "");
        let names = ["rb".to_owned(), "rq".to_owned()];
        assert_eq!(suggestion(&names), "; the nearest: rb, rq");
    }
}
