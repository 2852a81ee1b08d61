//! `linemate advise`: the layout that costs least, and why; without a type, the types where a layout can win most. And, either way, what
//! is not a matter of order.

mod evidence;
mod page;
mod rules;

use std::collections::BTreeMap;

use anyhow::bail;
use linemate_advise::{Advice, Choice, Request, advise};
use linemate_answers::{AdviceDocument, KeptLineStart, RemedyList};
use linemate_files::Output;
use linemate_layout::plan::resolve;
use linemate_layout::{EditSubject, Plan};
use linemate_machine::Machine;
use linemate_patch::{is_patched, program_source};
use linemate_recording::Recording;
use linemate_remedies as remedies;
use linemate_report::{AdviceText, advice_document, advice_text, survey_document, survey_text};
use linemate_study::Session;
use linemate_study::experiment::line_of;
use linemate_types::{LineSize, TypeId, TypeModel};

use crate::files::{InFile, MachineName, OutEdit, OutFile};
use crate::input;
use crate::kept::Keeping;
use crate::next;
use crate::number::{INTERLEAVINGS_MAX, INTERLEAVINGS_MIN, ROWS_MAX, between};
use crate::outcome::Outcome;
use crate::output;
use crate::page::{PageArgs, PageOutput};
use crate::replaying::Replaying;
use crate::showing::Showing;

const TOOL: &str = env!("CARGO_PKG_VERSION");
/// The most bytes that a type may be allowed to grow by.
const GROWTH_MAX: u64 = 1 << 20;
/// The most members of a type: BTF counts them in 16 bits.
const MEMBERS_MAX: u16 = u16::MAX;
/// More remedies than any recording has.
const TRIALS_MAX: usize = 1000;
/// How many types a survey searches.
const SEARCHED: usize = 10;

/// Find the cheapest layout of a type, confirmed by replay (docs/guide/advise.md)
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The type; without it, rank the types by what a layout can gain
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// The recordings
    #[arg(value_name = "FILE", conflicts_with = "inputs", default_value = input::DEFAULT)]
    recordings: Vec<InFile>,
    /// A recording, as an option; may be repeated
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    inputs: Vec<InFile>,
    /// The machine to replay on: a name (see `linemate machines`), a TOML file, or `this`; may be repeated
    #[arg(long = "machine", value_name = "M", default_value = input::DEFAULT_MACHINE)]
    machines: Vec<MachineName>,
    /// A member to leave in place, with all members before it; may be repeated
    #[arg(long = "pin", value_name = "F", requires = "type_name")]
    pins: Vec<String>,
    /// Bytes by which the type may grow beyond its present cache lines, 0 to 1048576
    #[arg(long, value_name = "BYTES", requires = "type_name", default_value_t = 0, value_parser = between(0, GROWTH_MAX))]
    max_growth: u64,
    /// Recommend the layout with the largest gain among those with at most N moves, 1 to 65535 (a move is a member
    /// that leaves its order, or a field group), instead of the one with the fewest moves that reaches 90 % of the
    /// best gain
    #[arg(long, value_name = "N", requires = "type_name", conflicts_with = "all", value_parser = between(1, MEMBERS_MAX))]
    moves: Option<u16>,
    /// Recommend the layout with the largest gain, whatever the number of moves
    #[arg(long, requires = "type_name")]
    all: bool,
    /// Cache line size of the machines, in bytes: 64 or 128
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes)]
    line: Option<LineSize>,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Maximum interleavings per candidate, 8 to 1024; stops after 4 if the confidence intervals are already narrow
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = between(INTERLEAVINGS_MIN, INTERLEAVINGS_MAX))]
    interleavings: usize,
    /// Write the edit to this file, for `whatif --edit` and `patch --edit`, and its evidence to EDITFILE.json
    #[arg(short, long, value_name = "EDITFILE", requires = "type_name")]
    output: Option<OutEdit>,
    /// Write the evidence for the edit to this file, for `patch --evidence`, instead of EDITFILE.json
    #[arg(long, value_name = "FILE", requires = "type_name")]
    evidence: Option<OutFile>,
    /// Write the edit's field groups to this file as rules for `check`
    #[arg(long, value_name = "FILE", requires = "type_name")]
    rules: Option<OutFile>,
    /// Number of remedies other than reordering to try by replay, 0 to 1000, on the first recording and machine
    /// (docs/model/remedies.md)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = between(0, TRIALS_MAX))]
    trials: usize,
    /// Maximum number of rows in a table, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = between(0, ROWS_MAX))]
    top: usize,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
    /// Write JSON (docs/reference/json/advise.md)
    #[arg(long)]
    json: bool,
}

impl Args {
    fn choice(&self) -> Choice {
        match (self.moves, self.all) {
            (Some(most), _) => Choice::Moves(most.into()),
            (None, true) => Choice::All,
            (None, false) => Choice::Fewest,
        }
    }

    fn paths(&self) -> &[InFile] {
        match self.inputs.is_empty() {
            true => &self.recordings,
            false => &self.inputs,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let machines = args
        .machines
        .iter()
        .map(|name| args.replaying.machine(name, args.line))
        .collect::<anyhow::Result<Vec<Machine>>>()?;
    let outputs = Outputs::new(args)?;
    let page_output = args.page.output()?;
    let paths = args.paths();
    let recordings = paths
        .iter()
        .map(|path| input::open(path))
        .collect::<anyhow::Result<Vec<Recording>>>()?;
    let analyses = recordings
        .iter()
        .zip(paths)
        .map(|(recording, path)| args.replaying.ask(path, recording, args.keeping))
        .collect::<anyhow::Result<Vec<Session<'_>>>>()?;
    let analyses: Vec<&Session<'_>> = analyses.iter().collect();
    let Some(type_name) = &args.type_name else {
        let remedies = remedies(args, None, &analyses, &machines)?;
        return survey(
            args,
            &recordings,
            &analyses,
            &machines,
            remedies,
            page_output,
        );
    };
    let request = Request {
        type_name: input::meant(analyses[0], type_name),
        machines: machines.clone(),
        pins: args.pins.clone(),
        max_growth: args.max_growth,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
        interleavings: args.interleavings,
        choice: args.choice(),
    };
    let advice = advise(&analyses, &request)?;
    let remedies = remedies(args, Some(&request.type_name), &analyses, &machines)?;
    outputs.write(&request, &recordings, &advice)?;
    let model = analyses[0].analysis().model();
    let ids = resolve(model, &EditSubject::Named(request.type_name.clone())).unwrap_or_default();
    let document = AdviceDocument {
        source: ids.first().and_then(|id| program_source(model, *id)),
        line_starts: line_starts(model, &machines, &advice, &ids)?,
        ..advice_document(TOOL, &request, &recordings, &advice, remedies)
    };
    page_output.write(|| page::of_advice(args, analyses[0], &machines, &advice, &document))?;
    if args.json {
        output::json(&document)?;
    } else {
        let text = advice_text(
            &document,
            &AdviceText {
                paths: &names(paths),
                choice: advice.choice,
            },
        );
        args.showing.print(text, next_step(args, &document))?;
    }
    Ok(Outcome::Fine)
}

/// The members of the type whose line start the recommended layout takes for granted, or ends.
fn line_starts(
    model: &TypeModel,
    machines: &[Machine],
    advice: &Advice,
    ids: &[TypeId],
) -> anyhow::Result<Vec<KeptLineStart>> {
    let (Some(best), Some(id)) = (advice.recommended(), ids.first()) else {
        return Ok(Vec::new());
    };
    let line = machines.first().map_or(LineSize::B64, line_of);
    let mut plan = Plan::new(model, line, &best.edits, &BTreeMap::new())?;
    Ok(linemate_report::line_starts(&mut plan, *id)?)
}

/// What is recommended becomes a patch, from a file.
fn next_step(args: &Args, document: &AdviceDocument) -> Option<String> {
    document.recommended.as_ref()?;
    let name = next::quoted(&document.type_name);
    // One recording has the types of all.
    let first = args
        .paths()
        .first()
        .map_or(String::new(), |path| next::input(path));
    let machines = next::machines(&args.machines);
    let is_patched = document.source.as_ref().is_none_or(is_patched);
    Some(match &args.output {
        Some(edit) if !is_patched => next::step(
            "its figures in full",
            &format!(
                "whatif{first} --edit {}{machines}",
                next::quoted(&edit.to_string_lossy())
            ),
        ),
        Some(edit) => next::step(
            "a patch of a source tree",
            &format!(
                "patch{first} --edit {} --source TREE",
                next::quoted(&edit.to_string_lossy())
            ),
        ),
        None => next::step(
            "the edit as a file, for `whatif --edit` and `patch --edit`",
            &format!(
                "advise{} --type {name}{machines} -o {name}.edit",
                inputs(args)
            ),
        ),
    })
}

/// The options that name the recordings.
fn inputs(args: &Args) -> String {
    args.paths().iter().map(|path| next::input(path)).collect()
}

/// Without a type: where a layout can win most.
fn survey(
    args: &Args,
    recordings: &[Recording],
    analyses: &[&Session<'_>],
    machines: &[Machine],
    remedies: RemedyList,
    page: PageOutput<'_>,
) -> anyhow::Result<Outcome> {
    let (conditions, seed) = (args.replaying.conditions(), args.replaying.seed);
    let searched = SEARCHED.min(args.top);
    let mut rows = linemate_advise::survey::survey(analyses, machines, conditions, seed, searched)?;
    rows.truncate(args.top);
    let names_of_machines = machines.iter().map(|m| m.name.clone()).collect();
    let document = survey_document(TOOL, recordings, names_of_machines, seed, rows, remedies);
    page.write(|| page::of_survey(args, analyses[0], machines, &document.types, &document))?;
    if args.json {
        output::json(&document)?;
    } else {
        let text = survey_text(&document, &names(args.paths()));
        let searched = document.types.iter().find(|row| row.why_not.is_none());
        let next = searched.map(|row| {
            let (inputs, name) = (inputs(args), next::quoted(&row.name));
            let machines = next::machines(&args.machines);
            next::step(
                "the layout that costs least",
                &format!("advise{inputs} --type {name}{machines}"),
            )
        });
        args.showing.print(text, next)?;
    }
    Ok(Outcome::Fine)
}

/// The files as texts.
fn names(paths: &[InFile]) -> Vec<String> {
    let names = paths.iter().map(|path| path.display().to_string());
    names.collect()
}

/// The advice other than reordering, from the first recording for the first machine.
fn remedies(
    args: &Args,
    focus: Option<&String>,
    analyses: &[&Session<'_>],
    machines: &[Machine],
) -> anyhow::Result<RemedyList> {
    let (Some(analysis), Some(machine)) = (analyses.first(), machines.first()) else {
        bail!("a recording and a machine are needed");
    };
    let mut options = remedies::RemedyOptions::new(machine.clone());
    options.conditions = args.replaying.conditions();
    options.interleavings = args.interleavings;
    options.seed = args.replaying.seed;
    options.trials = args.trials;
    options.focus = focus.cloned();
    Ok(remedies::find(analysis, &options)?)
}

/// Where the edit, its evidence and its rules go.
struct Outputs {
    edit: Option<Output>,
    evidence: Option<Output>,
    rules: Option<Output>,
}

impl Outputs {
    /// Before the search: it takes minutes.
    fn new(args: &Args) -> anyhow::Result<Self> {
        let evidence = match (&args.evidence, &args.output) {
            (Some(given), _) => Some(given.output()?),
            (None, Some(edit)) => Some(Output::new(&evidence::beside(edit)?)?),
            (None, None) => None,
        };
        Ok(Outputs {
            edit: args.output.as_ref().map(OutEdit::output).transpose()?,
            evidence,
            rules: args.rules.as_ref().map(OutFile::output).transpose()?,
        })
    }

    /// Writes them, when there is something to recommend.
    fn write(
        self,
        request: &Request,
        recordings: &[Recording],
        advice: &Advice,
    ) -> anyhow::Result<()> {
        let Some(best) = advice.recommended() else {
            return Ok(());
        };
        if let Some(output) = self.evidence {
            let evidence = evidence::of(request, recordings, advice, best);
            output.write(&(serde_json::to_string_pretty(&evidence)? + "\n"))?;
        }
        if let Some(output) = self.rules {
            let names = advice.shape.names.iter().flatten();
            let names: Vec<&str> = names.map(String::as_str).collect();
            output.write(&rules::of(&request.type_name, &names, best).to_string())?;
        }
        if let Some(output) = self.edit {
            output.write(&best.edits.to_string())?;
        }
        Ok(())
    }
}
