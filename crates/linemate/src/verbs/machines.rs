//! `linemate machines`: the computers that a recording can be replayed on, and checks of users'
//! descriptions.

use std::path::Path;

use anyhow::Context;
use linemate_documents::machines_document;
use linemate_machine::{Machine, described, find, shipped};
use linemate_report::machines_text;

use crate::files::MachineName;
use crate::outcome::Outcome;
use crate::output;

/// Where a running Linux lists its CPUs.
const SYSFS: &str = "/sys";

/// List the machines that a recording can be replayed on, or check machine descriptions
///
/// Without arguments: all known machines. Exit code 0: all descriptions are valid; 2: one is not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Names of known machines, `this` for this computer, or files (a path with / or ending in
    /// .toml)
    #[arg(value_name = "MACHINE")]
    machines: Vec<MachineName>,
    /// Print the description's text, with the sources of its figures as comments (known machines
    /// only)
    #[arg(long, conflicts_with = "json", requires = "machines")]
    text: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.text {
        let mut out = String::new();
        for name in &args.machines {
            find(name)?;
            let known = shipped().iter().find(|shipped| shipped.name == &**name);
            out.push_str(known.map_or("", |shipped| shipped.text));
        }
        output::text(&out)?;
        return Ok(Outcome::Fine);
    }
    let (machines, missing) = wanted(&args.machines)?;
    let document = machines_document(&machines, missing);
    if args.json {
        output::json(&document)?;
    } else {
        output::text(&machines_text(&document))?;
    }
    Ok(Outcome::Fine)
}

/// The requested machines; without names all known ones, and why `this` is missing, if it is.
fn wanted(names: &[MachineName]) -> anyhow::Result<(Vec<Machine>, Option<String>)> {
    if !names.is_empty() {
        let machines: anyhow::Result<_> = names.iter().map(resolve).collect();
        return Ok((machines?, None));
    }
    let known: anyhow::Result<_> = shipped()
        .iter()
        .map(|known| Ok(find(known.name)?))
        .collect();
    let mut machines: Vec<Machine> = known?;
    match this() {
        Ok(this) => machines.push(this),
        Err(error) => return Ok((machines, Some(output::one_line(&error)))),
    }
    Ok((machines, None))
}

/// The machine that a `--machine` flag names: `this`, a file, or a known one.
pub(crate) fn resolve(name: &MachineName) -> anyhow::Result<Machine> {
    match name.file() {
        _ if &**name == "this" => this(),
        Some(path) => of_file(path).with_context(|| path.display().to_string()),
        None => Ok(find(name)?),
    }
}

/// The computer that this runs on.
fn this() -> anyhow::Result<Machine> {
    let read = |path: &str| linemate_files::read_text(&Path::new(SYSFS).join(path)).ok();
    Machine::from_sysfs(read).context("this computer")
}

/// The machine of a file.
fn of_file(path: &Path) -> anyhow::Result<Machine> {
    let text = linemate_files::read_text(path).context("cannot read it")?;
    Ok(described(&text)?)
}
