//! `linemate advise`: the layout that costs least, and why; without a type, the types where a
//! layout can win most. In both cases also remedies other than order.

mod evidence;
mod files;
mod rules;

use std::collections::BTreeMap;

use anyhow::bail;
use linemate_advise::{Advice, Choice, Request, advise};
use linemate_answers::{
    AdviceDocument, AdvisedRecording, EventCount, KeptLineStart, LayoutChange, Page, RemedyList,
    SurveyDocument, SurveyRow, Trial,
};
use linemate_documents::{advice_document, layout_changes, survey_document};
use linemate_experiment::{Cpus, Seed};
use linemate_layout::plan::resolve;
use linemate_layout::{EditSubject, Plan};
use linemate_machine::Machine;
use linemate_page::{Answered, Frame};
use linemate_patch::program_source;
use linemate_recording::Recording;
use linemate_remedies as remedies;
use linemate_report::{AdviceText, advice_text, survey_text};
use linemate_session::Session;
use linemate_types::{ByteSize, LineSize, TypeId, TypeModel};

use crate::files::{OutEdit, OutFile};
use crate::input;
use crate::next;
use crate::number::between;
use crate::outcome::Outcome;
use crate::page::{PageArgs, TOOL, about, frame};
use crate::question::{self, Question};
use crate::show::{self, Outputs, Showing};
use files::Files;

/// The maximum number of bytes that a type may be allowed to grow by.
const GROWTH_MAX: u64 = 1 << 20;
/// The maximum number of members of a type: BTF counts them in 16 bits.
const MEMBERS_MAX: u16 = u16::MAX;
/// More remedies than any recording has.
const TRIALS_MAX: usize = 1000;
/// How many types are searched to rank types.
const SEARCHED: usize = 10;

/// Find the cheapest layout of a type, confirmed by replay (docs/guide/advise.md)
#[derive(clap::Args, Debug)]
#[command(
    mut_arg("machines", question::always_on_a_machine),
    mut_arg("top", show::few)
)]
#[command(mut_arg("type_name", |arg| arg.help(TYPE)))]
#[command(mut_arg("under", |arg| arg.help(UNDER).requires("type_name")))]
pub(crate) struct Args {
    #[command(flatten)]
    question: Question,
    /// A member to leave in place, with all members before it; may be repeated
    #[arg(long = "pin", value_name = "F", requires = "type_name")]
    pins: Vec<String>,
    /// Bytes by which the type may grow beyond its present cache lines, 0 to 1048576
    #[arg(long, value_name = "BYTES", requires = "type_name", default_value_t = 0, value_parser = between(0, GROWTH_MAX))]
    max_growth: u64,
    /// Recommend the layout with the largest gain among those with at most N moves, 1 to 65535 (a
    /// move is a member that leaves its position, or a field group), instead of the one with the
    /// fewest moves that reaches 90 % of the best gain
    #[arg(long, value_name = "N", requires = "type_name", conflicts_with = "all", value_parser = between(1, MEMBERS_MAX))]
    moves: Option<u16>,
    /// Recommend the layout with the largest gain, whatever the number of moves
    #[arg(long, requires = "type_name")]
    all: bool,
    /// Write the edit to this file, for `whatif --edit` and `patch --edit`, and its evidence to
    /// EDITFILE.json
    #[arg(short, long, value_name = "EDITFILE", requires = "type_name")]
    output: Option<OutEdit>,
    /// Write the evidence for the edit to this file, for `patch --evidence`, instead of
    /// EDITFILE.json
    #[arg(long, value_name = "FILE", requires = "type_name")]
    evidence: Option<OutFile>,
    /// Write the edit's field groups to this file as rules for `check`
    #[arg(long, value_name = "FILE", requires = "type_name")]
    rules: Option<OutFile>,
    /// Number of remedies other than reordering to try by replay, 0 to 1000, on the first recording
    /// and machine [default: 2, and up to 6 that have 5 % of all cost at stake]
    /// (docs/model/remedies.md)
    #[arg(long, value_name = "N", value_parser = between(0, TRIALS_MAX))]
    trials: Option<usize>,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
}

const TYPE: &str = "The type; without it, rank the types by what a layout can gain";

const UNDER: &str = "Also show what each layout changes while kernel function F is on the stack, in it and its callees \
(docs/guide/under.md)";

impl Args {
    fn choice(&self) -> Choice {
        match (self.moves, self.all) {
            (Some(most), _) => Choice::Moves(most.into()),
            (None, true) => Choice::All,
            (None, false) => Choice::Fewest,
        }
    }

    fn request(&self, type_name: String, machines: Vec<Machine>) -> Request {
        let replaying = &self.question.replaying;
        Request {
            type_name,
            machines,
            pins: self.pins.clone(),
            max_growth: ByteSize(self.max_growth),
            conditions: replaying.conditions(),
            seed: Seed(replaying.seed),
            interleavings: replaying.interleavings,
            all_interleavings: replaying.all_interleavings,
            choice: self.choice(),
            under: self.question.under.clone(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let question = &args.question;
    let machines = question.machines()?;
    let files = Files::new(args)?;
    let outputs = args.showing.with_page(&args.page)?;
    let paths = question.paths();
    let recordings = paths.iter().map(|path| input::open(path));
    let recordings: Vec<Recording> = recordings.collect::<anyhow::Result<_>>()?;
    let asked = recordings.iter().zip(paths);
    let sessions = asked.map(|(recording, path)| question.ask(path, recording));
    let sessions: Vec<Session<'_>> = sessions.collect::<anyhow::Result<_>>()?;
    let sessions: Vec<&Session<'_>> = sessions.iter().collect();
    let counted = sessions.iter().zip(paths);
    let events = counted.map(|(session, path)| question.event(path, session));
    let advised = Advised {
        args,
        events: events.collect::<anyhow::Result<_>>()?,
        recordings: &recordings,
        sessions: &sessions,
        machines: &machines,
    };
    match question.subject(sessions[0]) {
        Some(type_name) => advised.layout(type_name, files, outputs)?,
        None => advised.survey(outputs)?,
    }
    Ok(Outcome::Fine)
}

/// The recordings of the advice.
struct Advised<'q> {
    args: &'q Args,
    recordings: &'q [Recording],
    sessions: &'q [&'q Session<'q>],
    machines: &'q [Machine],
    /// Of `--event`, by recording.
    events: Vec<Option<EventCount>>,
}

impl Advised<'_> {
    /// The layout of a type that costs least.
    fn layout(&self, type_name: String, files: Files, outputs: Outputs<'_>) -> anyhow::Result<()> {
        let args = self.args;
        let request = args.request(type_name, self.machines.to_vec());
        let advice = advise(self.sessions, &request)?;
        let remedies = self.remedies(Some(&request.type_name))?;
        files.write(&request, self.recordings, &advice)?;
        let model = self.sessions[0].analysis().model();
        let subject = EditSubject::Named(request.type_name.clone());
        let ids = resolve(model, &subject).unwrap_or_default();
        let mut document = AdviceDocument {
            source: ids.first().and_then(|id| program_source(model, *id)),
            line_starts: self.line_starts(model, &advice, &ids)?,
            ..advice_document(TOOL, &request, self.recordings, &advice, remedies)
        };
        self.complete(&mut document.recordings)?;
        let chosen_by = advice.choice.to_string();
        let text = || {
            let about = AdviceText {
                paths: &self.names(),
                chosen_by: &chosen_by,
            };
            advice_text(&document, &about)
        };
        let page = || self.page_of_advice(model, &advice, document.clone());
        let next = next_step(args, &document);
        outputs.show(&document, page, text, next)
    }

    /// Without a type: where a layout can win most.
    fn survey(&self, outputs: Outputs<'_>) -> anyhow::Result<()> {
        let question = &self.args.question;
        let remedies = self.remedies(None)?;
        let (conditions, seed, top) = (
            question.conditions(),
            question.seed(),
            self.args.showing.top,
        );
        let (sessions, machines) = (self.sessions, self.machines);
        let searched = SEARCHED.min(top);
        let mut rows =
            linemate_advise::survey::survey(sessions, machines, conditions, Seed(seed), searched)?;
        rows.truncate(top);
        let names = machines
            .iter()
            .map(|machine| machine.name.clone())
            .collect();
        let mut document = survey_document(TOOL, self.recordings, names, seed, rows, remedies);
        self.complete(&mut document.recordings)?;
        outputs.show(
            &document,
            || self.page_of_survey(document.clone()),
            || survey_text(&document, &self.names()),
            step_after_survey(self.args, &document),
        )
    }

    /// Notes how often the event happened in each recording, and how far predictions like these
    /// were off.
    fn complete(&self, recordings: &mut [AdvisedRecording]) -> anyhow::Result<()> {
        let wanted = self.args.question.conditions().cpus;
        let known = self.events.iter().zip(self.sessions);
        for (recording, (event, session)) in recordings.iter_mut().zip(known) {
            let cpus = Cpus::new(session.analysis(), wanted)?;
            recording.event.clone_from(event);
            recording.prediction_error = cpus.prediction_error(session);
        }
        Ok(())
    }

    /// The files as texts.
    fn names(&self) -> Vec<String> {
        let paths = self.args.question.paths().iter();
        paths.map(|path| path.display().to_string()).collect()
    }

    /// The line size of the first machine.
    fn line(&self) -> LineSize {
        self.machines
            .first()
            .map_or(LineSize::B64, |machine| machine.line)
    }

    /// The members of the type whose line start the recommended layout keeps or ends.
    fn line_starts(
        &self,
        model: &TypeModel,
        advice: &Advice,
        ids: &[TypeId],
    ) -> anyhow::Result<Vec<KeptLineStart>> {
        let (Some(best), Some(id)) = (advice.recommended(), ids.first()) else {
            return Ok(Vec::new());
        };
        let mut plan = Plan::new(model, self.line(), &best.edits, &BTreeMap::new())?;
        Ok(linemate_documents::line_starts(&mut plan, *id)?)
    }

    /// The advice other than reordering, from the first recording for the first machine.
    fn remedies(&self, focus: Option<&String>) -> anyhow::Result<RemedyList> {
        let (Some(session), Some(machine)) = (self.sessions.first(), self.machines.first()) else {
            bail!("a recording and a machine are needed");
        };
        let replaying = &self.args.question.replaying;
        let options = remedies::RemedyOptions {
            conditions: replaying.conditions(),
            interleavings: replaying.interleavings,
            all_interleavings: replaying.all_interleavings,
            seed: replaying.seed,
            trials: self.args.trials,
            focus: focus.cloned(),
            ..remedies::RemedyOptions::new(machine.clone())
        };
        Ok(remedies::find(session, &options)?)
    }

    /// The page of advice about a type: its layout now and as recommended.
    fn page_of_advice(
        &self,
        model: &TypeModel,
        advice: &Advice,
        document: AdviceDocument,
    ) -> anyhow::Result<Page> {
        let mut layouts: Vec<LayoutChange> = Vec::new();
        if let Some(best) = advice.recommended() {
            let mut plan = Plan::new(model, self.line(), &best.edits, &BTreeMap::new())?;
            layouts = layout_changes(&mut plan, self.line())?;
        }
        let asked = self.args.question.type_name.as_slice();
        let document = Box::new(document);
        self.page(asked, Answered::Advice { document, layouts })
    }

    fn page_of_survey(&self, document: SurveyDocument) -> anyhow::Result<Page> {
        let rows = document.types.iter();
        let names: Vec<String> = rows.map(|row| row.name.clone()).collect();
        self.page(&names, Answered::Survey(Box::new(document)))
    }

    /// The common part: the first recording's types, `names` first.
    fn page(&self, names: &[String], answered: Answered) -> anyhow::Result<Page> {
        let question = &self.args.question;
        let about = about(self.sessions[0], self.line(), None, names)?;
        let asked = question.type_name.as_ref();
        let first = asked.and(about.types.first());
        let subject = asked.map_or("survey", String::as_str);
        let files = self.names().join(", ");
        let mut frame = Frame {
            settings: question.settings(self.machines),
            type_name: first.map(|page| page.view.name.clone()),
            ..frame(format!("{subject}: advice from {files}"))
        };
        let interleavings = question.replaying.interleavings.to_string();
        frame.set("interleavings", interleavings);
        if let Some(trials) = self.args.trials {
            frame.set("trials", trials.to_string());
        }
        Ok(linemate_page::page(frame, Some(about), answered))
    }
}

/// The question about what gains most: a type's layout, or a remedy's edits.
fn step_after_survey(args: &Args, document: &SurveyDocument) -> Option<String> {
    let question = &args.question;
    let machines = next::machines(&question.machines);
    let estimate = |row: &SurveyRow| row.estimate.map(|estimate| estimate.gain);
    // A thousandth of all cost: less is not worth the question.
    let of_all = |row: &SurveyRow| row.estimate.map_or(0.0, |e| e.share * row.share);
    let layout = document.types.iter().find(|row| of_all(row) >= 0.001);
    let remedy = document.remedies.remedies.first();
    let trials = remedy.into_iter().flat_map(|remedy| &remedy.trials);
    let by_gain = |a: &&Trial, b: &&Trial| {
        let gain = |trial: &Trial| trial.effect.gain().unwrap_or(0.0);
        gain(a).total_cmp(&gain(b))
    };
    let trial = trials.max_by(by_gain);
    if let Some(trial) = trial.filter(|trial| trial.effect.gain() > layout.and_then(estimate)) {
        // Of the first recording, as the remedies are.
        let first = next::inputs(question.paths().get(..1)?);
        let edits = next::quoted(&trial.edits_in_a_line());
        return Some(next::step(
            "what the first one changes, by field and function",
            &format!("whatif{first}{machines} -e {edits}"),
        ));
    }
    let layout = layout?;
    let about = question.words(Some(layout.inside.as_ref().unwrap_or(&layout.name)));
    Some(next::step(
        "the layout that costs least",
        &format!("advise{about}{machines}"),
    ))
}

/// A recommendation becomes a patch, from a file. Without one a layout of another type may gain, or
/// of a struct inside this one.
fn next_step(args: &Args, document: &AdviceDocument) -> Option<String> {
    let question = &args.question;
    if document.recommended.is_none() {
        let about = question.words(None);
        let machines = next::machines(&question.machines);
        return Some(next::step(
            "where a layout can gain, structs inside types included",
            &format!("advise{about}{machines}"),
        ));
    }
    // One recording has the types of all.
    let first = next::inputs(question.paths().get(..1)?);
    let machines = next::machines(&question.machines);
    let Some(edit) = &args.output else {
        let about = question.words(Some(&document.type_name));
        let name = next::quoted(&document.type_name);
        return Some(next::step(
            "the edit as a file, for `whatif --edit` and `patch --edit`",
            &format!("advise{about}{machines} -o {name}.edit"),
        ));
    };
    let edit = next::quoted(&edit.to_string_lossy());
    Some(next::step(
        "a patch of a source tree",
        &format!("patch{first} --edit {edit} --source TREE"),
    ))
}
