//! Known and accepted findings, so that an old tree can adopt rules and only get better.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{BaselineDocument, BaselineEntry};
use linemate_types::LineSize;

use crate::finding::Finding;

/// Where a finding was made: versions and configurations of one architecture count as one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Where {
    /// As printed by `uname -m`; `any` if the image does not say.
    pub arch: String,
    /// The size of a line.
    pub line: LineSize,
}

/// Why a text is not a baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not this kind of JSON.
    #[error("not a baseline: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of another kind or version.
    #[error("schema {0:?} is not {expected:?}", expected = BaselineDocument::SCHEMA)]
    Schema(String),
    /// A line size that does not exist.
    #[error("{0} is not a line size: must be 64 or 128")]
    Line(u64),
    #[error("{subject}, {rule} ({arch}, {line} bytes) is listed twice")]
    Twice {
        subject: String,
        rule: String,
        arch: String,
        /// Bytes of a line.
        line: u64,
    },
}

/// What identifies a finding: place, type, rule.
type FindingKey = (Where, String, String);

/// How bad a finding was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    measure: u64,
    members: BTreeSet<String>,
}

/// What a baseline says about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A new finding, not in it.
    New,
    /// Known, but now worse.
    Worse,
    /// Known, and no worse.
    Accepted,
}

/// A known finding that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    pub place: Where,
    pub subject: String,
    pub rule: String,
}

/// Known and accepted findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    known: BTreeMap<FindingKey, Known>,
}

impl Baseline {
    /// Reads what [`Baseline::to_json`] wrote.
    ///
    /// # Errors
    /// [`BaselineError`] for anything else.
    pub fn from_json(text: &str) -> Result<Baseline, BaselineError> {
        let document: BaselineDocument = serde_json::from_str(text)?;
        if document.schema != BaselineDocument::SCHEMA {
            return Err(BaselineError::Schema(document.schema));
        }
        let mut baseline = Baseline::default();
        for entry in document.findings {
            let line = LineSize::new(entry.line).map_err(|error| BaselineError::Line(error.0))?;
            let arch = entry.arch.clone();
            let place = Where { arch, line };
            let known = Known {
                measure: entry.measure,
                members: entry.members.into_iter().collect(),
            };
            let key = (place, entry.subject.clone(), entry.rule.clone());
            if baseline.known.insert(key, known).is_some() {
                return Err(BaselineError::Twice {
                    subject: entry.subject,
                    rule: entry.rule,
                    arch: entry.arch,
                    line: entry.line,
                });
            }
        }
        Ok(baseline)
    }

    /// The baseline as JSON, with a final newline; the same findings give the same bytes.
    pub fn to_json(&self) -> String {
        let entry = |((place, subject, rule), known): (&FindingKey, &Known)| BaselineEntry {
            arch: place.arch.clone(),
            line: place.line.bytes(),
            subject: subject.clone(),
            rule: rule.clone(),
            measure: known.measure,
            members: known.members.iter().cloned().collect(),
        };
        let document = BaselineDocument {
            schema: BaselineDocument::SCHEMA.to_owned(),
            findings: self.known.iter().map(entry).collect(),
        };
        // Only strings and numbers: writing cannot fail.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// How many findings are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Adds a finding. Of several for one rule at one place the worst counts, with the members of
    /// all of them.
    pub fn add(&mut self, place: &Where, finding: &Finding) {
        let known = self.known.entry(key(place, finding)).or_default();
        known.measure = known.measure.max(finding.measure());
        known.members.extend(finding.members());
    }

    /// What it says about a finding.
    pub fn verdict(&self, place: &Where, finding: &Finding) -> Verdict {
        match self.known.get(&key(place, finding)) {
            None => Verdict::New,
            Some(known)
                if finding.measure() > known.measure
                    || !finding.members().is_subset(&known.members) =>
            {
                Verdict::Worse
            }
            Some(_) => Verdict::Accepted,
        }
    }

    /// Known findings at these places that are not in `found`: fixed, or no longer a rule.
    pub fn gone(&self, places: &BTreeSet<Where>, found: &Baseline) -> Vec<Gone> {
        let looked_at =
            |key: &&FindingKey| places.contains(&key.0) && !found.known.contains_key(*key);
        let gone = self.known.keys().filter(looked_at);
        gone.map(|(place, subject, rule)| Gone {
            place: place.clone(),
            subject: subject.clone(),
            rule: rule.clone(),
        })
        .collect()
    }

    /// The baseline to continue with: at `places` what was found, as far as it was known and is no
    /// worse; elsewhere what was known.
    #[must_use]
    pub fn tightened(&self, places: &BTreeSet<Where>, found: &Baseline) -> Baseline {
        let mut known = BTreeMap::new();
        for (key, old) in &self.known {
            match found.known.get(key) {
                _ if !places.contains(&key.0) => {
                    known.insert(key.clone(), old.clone());
                }
                Some(new) => {
                    let both = Known {
                        measure: old.measure.min(new.measure),
                        members: old.members.intersection(&new.members).cloned().collect(),
                    };
                    known.insert(key.clone(), both);
                }
                None => {}
            }
        }
        Baseline { known }
    }
}

fn key(place: &Where, finding: &Finding) -> FindingKey {
    (place.clone(), finding.subject.clone(), finding.rule.clone())
}
