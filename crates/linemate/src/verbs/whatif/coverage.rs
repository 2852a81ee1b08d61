//! `linemate whatif --coverage`: what edits bring together, and which recordings exercise that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use linemate_answers::CoveredRecording;
use linemate_documents::{CoverageFacts, coverage_document, covered_members, covered_recording};
use linemate_experiment::Seed;
use linemate_layout::{EditFile, Plan};
use linemate_machine::Machine;
use linemate_patch::SourceTree;
use linemate_report::coverage_text;
use linemate_session::Session;
use linemate_study::{CoveredType, FieldUses, Study, field_uses};
use linemate_types::{Leaf, LineSize, TypeModel};

use super::Args;
use crate::input;
use crate::outcome::Outcome;
use crate::page::TOOL;

/// The folder below arch/ of a kernel tree: recordings are of x86-64.
const ARCH: &str = "x86";

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let question = &args.question;
    let machines = question.machines()?;
    let asked = AskedAbout {
        args,
        line: one_line(&machines)?,
        machines,
    };
    let mut answers: Vec<Answer> = Vec::new();
    for path in question.paths() {
        let answer = asked.answer(path)?;
        if let Some(first) = answers.first() {
            same_kernel(&first.recording, &answer.recording)?;
            same_fields(first, &answer)?;
        }
        answers.push(answer);
    }
    let Some(first) = answers.first() else {
        bail!("a recording is needed");
    };
    let source = asked.source(&first.types)?;
    let each = answers.iter();
    let recordings = each.clone().map(|of| of.recording.clone()).collect();
    let facts = CoverageFacts {
        edits: first.edits.to_string(),
        line: asked.line,
        types: &first.types,
        source: &source,
        uses: each.map(|of| of.uses.as_slice()).collect(),
    };
    let document = coverage_document(TOOL, recordings, facts);
    let text = || coverage_text(&document, args.showing.top);
    args.showing.show(&document, text, None)?;
    Ok(Outcome::Fine)
}

/// The lines of all machines: a type has one layout in the answer.
fn one_line(machines: &[Machine]) -> anyhow::Result<LineSize> {
    let lines: BTreeSet<u64> = machines.iter().map(|of| of.line.bytes()).collect();
    match machines.first() {
        Some(first) if lines.len() == 1 => Ok(first.line),
        _ => bail!(
            "--coverage is about lines of one size: name machines with the same, or give --line"
        ),
    }
}

fn same_kernel(first: &CoveredRecording, other: &CoveredRecording) -> anyhow::Result<()> {
    let of = |recording: &CoveredRecording, key| recording.recording.get(key).cloned();
    let is_same = |key| of(first, key) == of(other, key);
    if is_same("kernel") && is_same("kernel.sha256") {
        return Ok(());
    }
    let kernel = |recording| of(recording, "kernel").unwrap_or_else(|| "?".to_owned());
    bail!(
        "{}: recorded on Linux {}, but {} on a different image, Linux {}: --coverage takes recordings of one kernel",
        other.path,
        kernel(other),
        first.path,
        kernel(first)
    )
}

/// Fields of all recordings are counted by their number: programs of different builds can differ in
/// these.
fn same_fields(first: &Answer, other: &Answer) -> anyhow::Result<()> {
    let mut types = first.types.iter().zip(&other.types);
    if let Some(what) = types.find_map(|(first, other)| difference(first, other)) {
        bail!(
            "{}: {what} differs from {}: --coverage takes recordings of one build; run it on each",
            other.recording.path,
            first.recording.path
        );
    }
    Ok(())
}

/// The first field that a type does not have in the same place in both, or the type.
fn difference(first: &CoveredType, other: &CoveredType) -> Option<String> {
    let (a, b) = (&first.neighbours, &other.neighbours);
    let place = |of: &Leaf| {
        (
            of.path.clone(),
            of.offset,
            of.size,
            of.bits,
            of.arrays.clone(),
        )
    };
    let mut both = a.flat.leaves().iter().zip(b.flat.leaves());
    if let Some((field, _)) = both.find(|(a, b)| place(a) != place(b)) {
        return Some(format!("{}.{}", first.name, field.path));
    }
    let is_same = first.name == other.name
        && a.flat.leaves().len() == b.flat.leaves().len()
        && (&a.before, &a.after) == (&b.before, &b.after);
    (!is_same).then(|| first.name.clone())
}

/// What a recording says.
struct Answer {
    edits: EditFile,
    types: Vec<CoveredType>,
    recording: CoveredRecording,
    uses: Vec<FieldUses>,
}

/// The question.
struct AskedAbout<'a> {
    args: &'a Args,
    machines: Vec<Machine>,
    line: LineSize,
}

impl AskedAbout<'_> {
    /// Recordings are opened one after the other: each takes hundreds of megabytes.
    fn answer(&self, path: &Path) -> anyhow::Result<Answer> {
        let args = self.args;
        let place = || path.display().to_string();
        let recording = input::open(path)?;
        let session = args.question.ask(path, &recording)?;
        let subject = args.question.subject(&session);
        let edits = args.edits.edits(args.question.type_name.as_deref())?;
        let images = args.edits.images(&edits)?;
        let edits = args.edits.meant(edits, subject.as_deref())?;
        let model = session.analysis().model();
        let edits = args.edits.as_declared(edits, model, &images)?;
        let located = |error| args.edits.located(&edits, error);
        let study = Study::new(&session, &edits, &images, &[]);
        let study = study.map_err(located).with_context(place)?;
        let types = self.types(&session, &edits, &images)?;
        let mut results = Vec::new();
        for machine in &self.machines {
            results.push(study.run(&args.on(machine.clone())).map_err(located)?);
        }
        let seed = Seed(args.question.replaying.seed);
        let uses = field_uses(study.scene(), self.line, seed, &types).with_context(place)?;
        Ok(Answer {
            recording: covered_recording(&place(), &recording, &results, &uses),
            edits,
            types,
            uses,
        })
    }

    /// The edited types, with what the edits do to their fields' neighbourhoods.
    fn types(
        &self,
        session: &Session<'_>,
        edits: &EditFile,
        images: &BTreeMap<String, TypeModel>,
    ) -> anyhow::Result<Vec<CoveredType>> {
        let mut plan = Plan::new(session.analysis().model(), self.line, edits, images)?;
        let types = CoveredType::all(&mut plan)?;
        let is_unchanged = |of: &CoveredType| of.neighbours.concerned().is_empty();
        if types.iter().all(is_unchanged) {
            bail!(
                "the edits give no field a new neighbour and change no accesses: --coverage has nothing to list, omit it"
            );
        }
        Ok(types)
    }

    /// By member, the functions that use it in the source, if there is one.
    fn source(&self, types: &[CoveredType]) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
        let Some(root) = &self.args.source else {
            return Ok(BTreeMap::new());
        };
        let members = covered_members(types);
        let members = members.iter().map(String::as_str).collect();
        Ok(SourceTree::open(root, ARCH)?.uses(&members)?)
    }
}
