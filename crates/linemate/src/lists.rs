//! Options whose value is a list of words, some of which exclude each other.

use std::str::FromStr;

use linemate_experiment::{Groups, Mixing};
use linemate_machine::Mechanism;

/// What excludes all other words.
const NONE: &str = "none";

/// The words of `--groups`.
const GROUPS: [&str; 5] = ["phases", "locks", "domains", "flat", NONE];

/// The value of `--groups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupWords(Vec<String>);

impl GroupWords {
    /// Their meaning for a replay.
    pub(crate) fn groups(&self) -> Groups {
        let has = |word: &str| self.0.iter().any(|given| given == word);
        Groups {
            phases: has("phases"),
            locks: has("locks"),
            mixing: match (has("domains"), has("flat")) {
                (true, _) => Mixing::Domains,
                (_, true) => Mixing::Flat,
                _ => Mixing::Groups,
            },
        }
    }

    /// As it was given.
    pub(crate) fn text(&self) -> String {
        self.0.join(",")
    }
}

impl FromStr for GroupWords {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = words(text, &GROUPS)?;
        if ["flat", "domains"].iter().all(|word| words.contains(word)) {
            return Err("flat and domains exclude each other: leave one out".to_owned());
        }
        Ok(GroupWords(words.into_iter().map(str::to_owned).collect()))
    }
}

/// The value of `--mechanisms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MechanismWords(Vec<Mechanism>);

impl MechanismWords {
    /// Whether this one was requested.
    pub(crate) fn contains(&self, mechanism: Mechanism) -> bool {
        self.0.contains(&mechanism)
    }

    /// The requested ones, in the order given.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Mechanism> {
        self.0.iter().copied()
    }

    /// Their names; `none` without any.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.iter().map(Mechanism::key).collect();
        match names.is_empty() {
            true => NONE.to_owned(),
            false => names.join(", "),
        }
    }
}

impl FromStr for MechanismWords {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = Mechanism::ALL.map(Mechanism::key).to_vec();
        known.push(NONE);
        let words = words(text, &known)?;
        let mechanisms = words.iter().filter_map(|word| {
            let mut all = Mechanism::ALL.into_iter();
            all.find(|one| one.key() == *word)
        });
        Ok(MechanismWords(mechanisms.collect()))
    }
}

/// The words between commas. `none` comes alone.
fn words<'t>(text: &'t str, known: &[&str]) -> Result<Vec<&'t str>, String> {
    let words: Vec<&str> = text.split(',').collect();
    if let Some(word) = words.iter().find(|word| !known.contains(word)) {
        return Err(format!("`{word}` is not one of {}", known.join(", ")));
    }
    if words.contains(&NONE) && words.len() > 1 {
        return Err("`none` excludes the others: leave it or them out".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_exclude_each_other_are_refused() {
        let groups = |text: &str| text.parse::<GroupWords>();
        let mechanisms = |text: &str| text.parse::<MechanismWords>();
        for error in [
            groups("flat,domains").unwrap_err(),
            groups("phases,domains,flat").unwrap_err(),
        ] {
            assert!(error.contains("exclude each other"), "{error}");
        }
        for error in [
            groups("none,phases").unwrap_err(),
            mechanisms("none,adjacent_line_pairs").unwrap_err(),
            mechanisms("overlap,none").unwrap_err(),
        ] {
            assert!(error.starts_with("`none` excludes the others"), "{error}");
        }
        for error in [groups("").unwrap_err(), groups("phases,").unwrap_err()] {
            assert!(
                error.starts_with("`` is not one of phases, locks"),
                "{error}"
            );
        }
        let error = mechanisms("pairs").unwrap_err();
        assert!(error.ends_with(", none"), "{error}");
    }

    #[test]
    fn words_are_what_they_say() {
        let groups: GroupWords = "phases,flat".parse().unwrap();
        assert_eq!(groups.text(), "phases,flat");
        let meant = groups.groups();
        assert!(meant.phases && !meant.locks && meant.mixing == Mixing::Flat);
        let none: MechanismWords = "none".parse().unwrap();
        assert_eq!((none.iter().count(), none.names().as_str()), (0, "none"));
        for mechanism in Mechanism::ALL {
            let words: MechanismWords = mechanism.key().parse().unwrap();
            assert!(words.contains(mechanism) && words.names() == mechanism.key());
        }
    }
}
