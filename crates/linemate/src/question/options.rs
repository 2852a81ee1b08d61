//! Why a verb lacks an option that others have. A test checks that each verb has each option of the
//! question or one reason here, and generates docs/reference/cli.md from both.

#[cfg(test)]
mod reference;

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Options that verbs lack, by their long names.
pub(crate) struct Missing {
    pub(crate) verbs: &'static [&'static str],
    pub(crate) options: &'static [&'static str],
    pub(crate) why: &'static str,
}

/// How a replay is done.
const REPLAY: &[&str] = &[
    "cpus",
    "llc-share",
    "groups",
    "mechanisms",
    "exact",
    "cold",
    "interleavings",
    "all-interleavings",
];

/// Why `check` has none of it.
const DECLARED: &str = "Rules need no replay. Declared groups are ranked by one replay under default settings on gnr-2s-480; `report --machine` has what their types cost elsewhere.";

/// Each option of each verb at most once.
pub(crate) const MISSING: &[Missing] = &[
    Missing {
        verbs: &["record", "doctor"],
        options: &["input", "type", "machine", "line", "under"],
        why: "It records; questions are about what was recorded.",
    },
    Missing {
        verbs: &["machines"],
        options: &[
            "input", "type", "machine", "line", "under", "event", "kernel", "series",
        ],
        why: "It takes machines as arguments, and no recording.",
    },
    Missing {
        verbs: &["check"],
        options: &["input", "type", "event", "series"],
        why: "The rules name the types, or the recorded kernel declares them; its recording is `--recording`.",
    },
    Missing {
        verbs: &["case"],
        options: &[
            "input", "type", "machine", "under", "event", "kernel", "series",
        ],
        why: "`case.toml` sets it (docs/reference/cases.md).",
    },
    Missing {
        verbs: &["case"],
        options: &[
            "line",
            "groups",
            "exact",
            "seed",
            "interleavings",
            "all-interleavings",
        ],
        why: "A case compares predictions with measurements under fixed settings; for others, run `whatif` on its recordings.",
    },
    Missing {
        verbs: &["record", "layout", "verify", "machines", "patch", "doctor"],
        options: REPLAY,
        why: "It replays nothing.",
    },
    Missing {
        verbs: &["layout", "verify", "patch"],
        options: &["machine", "under"],
        why: "It replays nothing.",
    },
    Missing {
        verbs: &["check"],
        options: REPLAY,
        why: DECLARED,
    },
    Missing {
        verbs: &["check"],
        options: &["machine", "under", "seed"],
        why: DECLARED,
    },
    Missing {
        verbs: &["layout", "verify", "patch", "machines", "doctor"],
        options: &["seed"],
        why: "Nothing in it is random.",
    },
    Missing {
        verbs: &["growth"],
        options: &[
            "machine",
            "under",
            "llc-share",
            "groups",
            "mechanisms",
            "kernel",
            "exact",
            "cold",
            "seed",
            "interleavings",
            "all-interleavings",
        ],
        why: "It counts accesses, which depend on no machine: verbs that replay use its curves with `--series`.",
    },
    Missing {
        verbs: &["growth"],
        options: &["type", "line", "event"],
        why: "Rows are a function's accesses to a field, per CPU; `--json` has all of them, for you to filter.",
    },
    Missing {
        verbs: &["growth"],
        options: &["series"],
        why: "Its arguments are the series.",
    },
    Missing {
        verbs: &["report", "diff"],
        options: &["interleavings", "all-interleavings"],
        why: "Costs are those of one interleaving (`--seed`); confidence intervals belong to differences, which `whatif` and `advise` measure.",
    },
    Missing {
        verbs: &["export"],
        options: &["under", "event"],
        why: "The tables have no column for it: their rows add up to the run (docs/reference/tables.md).",
    },
    Missing {
        verbs: &["layout"],
        options: &["type"],
        why: "Its argument is the type.",
    },
    Missing {
        verbs: &["layout", "verify", "patch"],
        options: &["event", "series"],
        why: "It counts nothing to divide figures by or to extrapolate from.",
    },
    Missing {
        verbs: &["doctor"],
        options: &["event", "series"],
        why: "Its self-test is one recording of a known program.",
    },
    Missing {
        verbs: &["verify"],
        options: &["type", "line", "kernel"],
        why: "It checks the whole recording, not just the part a question needs.",
    },
    Missing {
        verbs: &["patch"],
        options: &["type"],
        why: "The edits name their types.",
    },
    Missing {
        verbs: &["record", "verify", "machines", "patch", "doctor"],
        options: &["no-cache", "verbose"],
        why: "It asks no question whose answer is cached.",
    },
    Missing {
        verbs: &["case"],
        options: &["no-cache", "verbose"],
        why: "Its steps are cached by their inputs, in the folder given with `--cache`.",
    },
    Missing {
        verbs: &["record", "export", "patch"],
        options: &["top", "explain", "json", "html", "open"],
        why: "Its result is a file: a recording, tables, a patch.",
    },
    Missing {
        verbs: &["layout", "verify", "machines", "case", "doctor"],
        options: &["top"],
        why: "It shows the whole answer.",
    },
    Missing {
        verbs: &["layout", "verify", "machines", "check", "case", "doctor"],
        options: &["explain"],
        why: "It prints no table whose columns need explaining.",
    },
    Missing {
        verbs: &["layout"],
        options: &["html", "open"],
        why: "`report --type T --html` shows the layout with its accesses.",
    },
    Missing {
        verbs: &["verify", "machines", "check", "doctor"],
        options: &["html", "open"],
        why: "A page shows recordings and answers about them.",
    },
    Missing {
        verbs: &["growth"],
        options: &["html", "open"],
        why: "A page shows one recording or two, not a series.",
    },
];

/// The error if a user gives `verb` an option that it lacks.
pub(crate) fn refusal(verb: &str, option: &str) -> Option<String> {
    let is_of =
        |missing: &&Missing| missing.verbs.contains(&verb) && missing.options.contains(&option);
    let missing = MISSING.iter().find(is_of)?;
    Some(format!(
        "{verb} has no --{option}: {}",
        lowered(missing.why)
    ))
}

/// A sentence as the end of another one.
fn lowered(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let (first, rest) = sentence.split_at(sentence.chars().next().map_or(0, char::len_utf8));
    first.to_lowercase() + rest
}

/// Refuses an option that a verb lacks although it is parsed: part of the question, but hidden.
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((name, below)) = matches.subcommand() else {
        return Ok(());
    };
    let Some(verb) = command.find_subcommand(name) else {
        return Ok(());
    };
    for arg in verb.get_arguments().filter(|arg| arg.is_hide_set()) {
        let id = arg.get_id().as_str();
        if below.value_source(id) == Some(ValueSource::CommandLine) {
            let option = arg.get_long().unwrap_or(id);
            let refusal = refusal(name, option);
            bail!(refusal.unwrap_or_else(|| format!("{name} has no --{option}")));
        }
    }
    Ok(())
}
