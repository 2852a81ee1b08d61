//! `linemate machines`: the computers that a recording can be replayed on, and checks of own descriptions.

use std::path::Path;

use anyhow::Context;
use linemate_machine::{Machine, find, shipped};
use linemate_report::MachinesDocument;

use crate::cli::Outcome;
use crate::output;

/// Where a running Linux shows its CPUs.
const SYSFS: &str = "/sys";

/// List the machines that a recording can be replayed on, or check descriptions of others
///
/// Without arguments: all that are known. Exit code 0: all are sound. 2: one is not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Names of known machines, `this` for the present computer, or files (a path with / or ending in .toml)
    #[arg(value_name = "MACHINE")]
    machines: Vec<String>,
    /// Print the description's text, comments with the sources of its figures included (known machines only)
    #[arg(long, conflicts_with = "json", requires = "machines")]
    text: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.text {
        let mut out = String::new();
        for name in &args.machines {
            find(name)?;
            let known = shipped().iter().find(|shipped| shipped.name == name);
            out.push_str(known.map_or("", |shipped| shipped.text));
        }
        output::text(&out)?;
        return Ok(Outcome::Fine);
    }
    let (machines, missing) = wanted(&args.machines)?;
    let document = MachinesDocument::new(&machines, missing);
    if args.json {
        output::json(&document)?;
    } else {
        output::text(&document.text())?;
    }
    Ok(Outcome::Fine)
}

/// The machines asked for; without names all known ones, and why `this` is not among them, if it is not.
fn wanted(names: &[String]) -> anyhow::Result<(Vec<Machine>, Option<String>)> {
    if !names.is_empty() {
        let machines: anyhow::Result<_> = names.iter().map(|name| resolve(name)).collect();
        return Ok((machines?, None));
    }
    let known: anyhow::Result<_> = shipped().iter().map(|known| resolve(known.name)).collect();
    let mut machines: Vec<Machine> = known?;
    match resolve("this") {
        Ok(this) => machines.push(this),
        Err(error) => return Ok((machines, Some(output::one_line(&error)))),
    }
    Ok((machines, None))
}

/// The machine that a `--machine` flag names: `this`, a file (a path with `/` or ending in `.toml`), or a
/// known one.
pub(crate) fn resolve(name: &str) -> anyhow::Result<Machine> {
    if name == "this" {
        let read = |path: &str| linemate_files::read_text(&Path::new(SYSFS).join(path)).ok();
        Machine::from_sysfs(read).context("this computer")
    } else if name.contains('/') || name.ends_with(".toml") {
        let text = linemate_files::read_text(Path::new(name))
            .with_context(|| format!("cannot read {name}"))?;
        Machine::from_toml(&text).with_context(|| name.to_owned())
    } else {
        Ok(find(name)?)
    }
}
