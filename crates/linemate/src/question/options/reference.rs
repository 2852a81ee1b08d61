//! docs/reference/cli.md, generated from the command's definition and the reasons.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Args, Command};

use super::{MISSING, Missing};
use crate::page::PageArgs;
use crate::question::Question;
use crate::show::Showing;

/// Prose is wrapped there.
const COLUMNS: usize = 100;

const HEAD: &str = "\
# The command line

What `linemate VERB --help` says, as tables. `UPDATE=1 cargo test -p linemate --lib` makes this page
from the command's definition and the reasons in `crates/linemate/src/question/options.rs`.

## Which verb has which option of a question

A number is that of the reason below why a verb is without an option. In `record`, `layout`,
`patch`, `check` and `doctor`, which replay nothing, an option of the same name says what is
recorded or read.
";

/// The verbs in the order of `linemate --help`.
fn verbs() -> Vec<Command> {
    let command = crate::command();
    let verbs = command.get_subcommands();
    verbs
        .filter(|verb| verb.get_name() != "help")
        .cloned()
        .collect()
}

/// The visible options of a verb; for `case` those of `case run`.
fn options(verb: &Command) -> Vec<&Arg> {
    let below = verb.get_subcommands().find(|one| one.get_name() != "help");
    let arguments = below.unwrap_or(verb).get_arguments();
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    arguments.filter(shown).collect()
}

fn has(verb: &Command, option: &str) -> bool {
    options(verb)
        .iter()
        .any(|arg| arg.get_long() == Some(option))
}

/// The long names of a question's options, and the ways to show its answer.
fn shared() -> Vec<String> {
    let parts = [
        Question::augment_args(Command::new("question")),
        Showing::augment_args(Command::new("showing")),
        PageArgs::augment_args(Command::new("page")),
    ];
    let names = parts.iter().flat_map(Command::get_arguments);
    let names = names.filter_map(Arg::get_long);
    names.map(str::to_owned).collect()
}

/// Why a verb lacks an option: exactly one reason, unless [`MISSING`] is wrong.
fn reasons(verb: &str, option: &str) -> Vec<&'static str> {
    let is_of =
        |missing: &&Missing| missing.verbs.contains(&verb) && missing.options.contains(&option);
    let of = MISSING.iter().filter(is_of);
    of.map(|missing| missing.why).collect()
}

#[test]
fn every_verb_has_each_option_of_a_question_or_one_reason() {
    let (verbs, shared) = (verbs(), shared());
    for verb in &verbs {
        for option in &shared {
            let reasons = reasons(verb.get_name(), option).len();
            assert_eq!(
                usize::from(has(verb, option)) + reasons,
                1,
                "{} --{option}: has it: {}, {reasons} reasons: see MISSING",
                verb.get_name(),
                has(verb, option)
            );
        }
    }
    for Missing {
        verbs: of,
        options,
        why,
    } in MISSING
    {
        for name in *of {
            assert!(
                verbs.iter().any(|verb| verb.get_name() == *name),
                "{name}: {why}"
            );
        }
        for option in *options {
            assert!(shared.iter().any(|one| one == option), "--{option}: {why}");
        }
    }
}

#[test]
fn every_verb_with_a_machine_takes_several() {
    for verb in verbs() {
        let machine = options(&verb)
            .into_iter()
            .find(|arg| arg.get_long() == Some("machine"));
        let Some(machine) = machine else { continue };
        let several = matches!(machine.get_action(), clap::ArgAction::Append);
        let help = machine.get_help().unwrap().to_string();
        assert!(
            several && help.ends_with("may be repeated"),
            "{}: {help}",
            verb.get_name()
        );
    }
}

/// What a user writes: `-i, --input FILE`.
fn written(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<&str> = values.iter().map(|name| name.as_str()).collect();
    let takes = arg.get_action().takes_values();
    let value = if takes {
        values.join(" ")
    } else {
        String::new()
    };
    let names = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (None, None) => value,
    };
    format!("`{}`", names.trim_end().replace('|', "\\|"))
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = help.replace('|', "\\|");
    let words = arg.get_possible_values();
    let words = words.iter().filter(|word| !word.is_hide_set());
    let words: Vec<String> = words.map(|word| format!("`{}`", word.get_name())).collect();
    if !words.is_empty() && arg.get_action().takes_values() {
        // Writing to a String does not fail.
        let _ = write!(text, ": {}", words.join(", "));
    }
    let defaults = arg.get_default_values();
    let defaults: Vec<_> = defaults
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let default = defaults.join(" ");
    if !default.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " [default: {default}]");
    }
    text
}

fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().unwrap();
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > COLUMNS {
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join(&format!("\n{indent}"))
}

/// Options with what they mean, as they are written.
fn rows<'a>(arguments: impl Iterator<Item = &'a Arg>) -> Vec<(String, String)> {
    arguments.map(|arg| (written(arg), meaning(arg))).collect()
}

fn table(text: &mut String, rows: &[(String, String)]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n| option | meaning |\n|---|---|");
    for (option, meaning) in rows {
        let _ = writeln!(text, "| {option} | {meaning} |");
    }
}

/// The verbs × the options of a question, and the reasons by number, in reading order.
fn matrix(text: &mut String, verbs: &[Command]) {
    let names = verbs.iter().map(|verb| format!("`{}`", verb.get_name()));
    let names: Vec<String> = names.collect();
    let _ = writeln!(text, "\n| | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    let mut met: Vec<&str> = Vec::new();
    for option in shared() {
        let mut cells = Vec::new();
        for verb in verbs {
            let reason = reasons(verb.get_name(), &option).into_iter().next();
            cells.push(match reason {
                None => "yes".to_owned(),
                Some(why) => number(&mut met, why).to_string(),
            });
        }
        let _ = writeln!(text, "| `--{option}` | {} |", cells.join(" | "));
    }
    let _ = writeln!(text);
    for (number, why) in (1..).zip(met) {
        let mark = format!("{number}. ");
        let _ = writeln!(text, "{mark}{}", wrapped(why, &" ".repeat(mark.len())));
    }
}

/// The number of a reason, the next one if it is met for the first time.
fn number(met: &mut Vec<&'static str>, why: &'static str) -> usize {
    let known = met.iter().position(|one| *one == why);
    known.unwrap_or_else(|| {
        met.push(why);
        met.len() - 1
    }) + 1
}

fn page() -> String {
    let verbs = verbs();
    let mut text = HEAD.to_owned();
    matrix(&mut text, &verbs);
    let question = Question::augment_args(Command::new("question"));
    let showing = Showing::augment_args(PageArgs::augment_args(Command::new("showing")));
    let general = rows(question.get_arguments().chain(showing.get_arguments()));
    let _ = writeln!(text, "\n## The options of a question");
    table(&mut text, &general);
    for verb in &verbs {
        let about = verb.get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        let about = wrapped(&format!("{}.", about.trim_end_matches('.')), "");
        let _ = writeln!(text, "\n## `linemate {}`\n\n{about}", verb.get_name());
        // The meaning of an option that only this verb has, or that differs from other verbs.
        let mut own = rows(options(verb).into_iter());
        own.retain(|row| !general.contains(row));
        table(&mut text, &own);
    }
    text
}

#[test]
fn the_page_is_what_the_definition_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let made = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == made,
        "docs/reference/cli.md is not what the definition gives: UPDATE=1 cargo test -p linemate --lib writes it"
    );
}
