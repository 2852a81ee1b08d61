//! `linemate patch`: an edit as a patch of the sources, proven by compiling.

mod comments;
mod programs;
mod prove;
mod settle;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use linemate_answers::PatchEvidence;
use linemate_attribution::{Analysis, Directory};
use linemate_layout::plan::{resolve, subject_name};
use linemate_layout::{EditFile, EditSubject, Layouts, Plan, parse};
use linemate_source::excerpt::{excerpt, only};
use linemate_source::mail::{self, Mail};
use linemate_source::message::{self, SizeChange, TypeChange};
use linemate_source::tree::{FoundDefinition, SourceTree};
use linemate_source::{Idiom, Sought, Wanted, definition, diff, rewrite, summary, wanted};
use linemate_text::shown_lines;
use linemate_types::{KernelImage, LineSize, TypeId, TypeModel, btf, pahole};

use crate::files::{InFile, OtherPath, OutFile, SourceFolder, evidence_beside};
use crate::input::{self, Input};
use crate::outcome::Outcome;
use crate::output::tell;
use prove::{Means, Proof};

const TOOL: &str = concat!("linemate ", env!("CARGO_PKG_VERSION"));

/// Write an edit as a source patch for `git am`, proven by compiling (docs/guide/patch.md)
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A file of edits (docs/reference/edits.md)
    #[arg(long, value_name = "FILE")]
    edit: InFile,
    /// The source tree
    #[arg(long, value_name = "TREE")]
    source: SourceFolder,
    #[command(flatten)]
    input: Input,
    /// Take the types from this kernel image, ELF file or BTF blob instead of a recording
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["recording", "input"])]
    kernel: Option<InFile>,
    /// Prove with the config of this kernel build or headers folder (with include/generated). May be repeated; under
    /// further configs only the field groups are checked
    #[arg(long, value_name = "FOLDER")]
    config: Vec<SourceFolder>,
    /// Prove with this command, which compiles $LINEMATE_UNIT with debug information to $LINEMATE_OBJECT in
    /// $LINEMATE_TREE. May be repeated; with further commands only the field groups are checked
    #[arg(long, value_name = "COMMAND", conflicts_with = "config")]
    build: Vec<String>,
    /// Replace OLD by NEW in a comment that may contradict the new layout: `OLD=NEW`; without NEW the comment is
    /// removed. May be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = comments::rewording, allow_hyphen_values = true)]
    reword: Vec<String>,
    /// File of the definition, relative to the tree, if several match
    #[arg(long, value_name = "FILE")]
    file: Option<OtherPath>,
    /// The folder below arch/ to search in a kernel tree
    #[arg(long, value_name = "ARCH", default_value = "x86")]
    arch: String,
    /// Cache line size of the machine that the kernel is built for, in bytes: 64 or 128
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = input::LineSizes)]
    line: LineSize,
    /// Evidence for the change: a JSON file (docs/guide/patch.md) [default: the edit's name with .json, if `advise` wrote it]
    #[arg(long, value_name = "FILE")]
    evidence: Option<InFile>,
    /// `Name <address>` (default: the tree's git config)
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// RFC 2822 (default: that of the tree's last commit, else the start of 1970)
    #[arg(long, value_name = "DATE", value_parser = mail_date)]
    date: Option<String>,
    /// The subject, without `[PATCH]`
    #[arg(long, value_name = "TEXT", value_parser = subject_text)]
    subject: Option<String>,
    /// End the message with `Signed-off-by: AUTHOR`
    #[arg(long)]
    signoff: bool,
    /// Write the patch to this file (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<OutFile>,
}

/// `--date`
fn mail_date(text: &str) -> Result<String, mail::BadDate> {
    mail::check_date(text).map(|()| text.to_owned())
}

/// `--subject`
fn subject_text(text: &str) -> Result<String, &'static str> {
    match text.trim().is_empty() {
        true => {
            Err("a patch needs a subject: leave the option out for one made from folder and types")
        }
        false => Ok(text.to_owned()),
    }
}

/// What is asked of a type.
struct Wish {
    sought: Sought,
    id: TypeId,
    wanted: Wanted,
}

/// A type on its way into the patch.
struct Change {
    name: String,
    sought: Sought,
    id: TypeId,
    wanted: Wanted,
    path: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let output = args.output.as_ref().map(OutFile::output).transpose()?;
    let edits = read_edits(&args.edit)?;
    let model = types(args)?;
    programs::refuse(args, &model, &edits)?;
    let evidence = evidence(args, &edits)?;
    let tree = SourceTree::open(&args.source, &args.arch)?;
    let at_edit = || args.edit.display().to_string();
    let edits = settle::settle(args, &tree, &model, edits)?;
    let mut plan = planned(args, &model, &edits)?;
    let (mut changes, mut files) = (Vec::new(), BTreeMap::new());
    for subject in subjects(&edits) {
        let wish = wish(&model, &mut plan, &edits, subject).with_context(at_edit)?;
        let Some((id, wanted)) = wish else {
            continue;
        };
        let wish = Wish {
            sought: sought(&model, id, subject),
            id,
            wanted,
        };
        changes.extend(change(args, &tree, subject, wish, &evidence, &mut files)?);
    }
    files.retain(|_, (old, new)| old != new);
    if files.is_empty() {
        tell("the edit changes nothing: no patch is written");
        return Ok(Outcome::Fine);
    }
    changes.retain(|change: &Change| files.contains_key(&change.path));
    comments::check(args, &model, &mut plan, &changes, &mut files)?;
    let proofs = prove(args, &tree, &model, &mut plan, &changes, &files)?;
    let types = described(args, &model, &edits, &changes, &proofs)?;
    let text = patch(args, &tree, &types, &changes, &files, &evidence)?;
    match output {
        Some(output) => output.write(&text)?,
        None => io::stdout().lock().write_all(text.as_bytes())?,
    }
    Ok(Outcome::Fine)
}

fn planned<'m>(args: &Args, model: &'m TypeModel, edits: &EditFile) -> anyhow::Result<Plan<'m>> {
    Plan::new(model, args.line, edits, &BTreeMap::new())
        .map_err(|error| anyhow!("{}:{error}", args.edit.display()))
}

fn read_edits(path: &Path) -> anyhow::Result<EditFile> {
    let text = linemate_files::read_text(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let place = |error: &dyn std::fmt::Display| anyhow!("{}:{error}", path.display());
    let edits = parse(&text).map_err(|e| place(&e))?;
    wanted::check(&edits).map_err(|e| place(&e))?;
    if edits.is_empty() {
        bail!("{} has no edits", path.display());
    }
    Ok(edits)
}

fn types(args: &Args) -> anyhow::Result<TypeModel> {
    match &args.kernel {
        Some(path) => {
            let name = || path.display().to_string();
            let bytes = linemate_files::read_file(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            KernelImage::parse(&bytes)
                .with_context(name)?
                .types()
                .with_context(name)
        }
        None => {
            let name = || args.input.path().display().to_string();
            let recording = args.input.open()?;
            if recording.programs().files().is_empty() {
                return btf::parse(&recording.btf().with_context(name)?).with_context(name);
            }
            let analysis = Analysis::known(&recording, Directory::default()).with_context(name)?;
            Ok(analysis.model().clone())
        }
    }
}

/// The evidence that was named, else that beside the edit; it has to be this edit's.
fn evidence(args: &Args, edits: &EditFile) -> anyhow::Result<PatchEvidence> {
    let beside = evidence_beside(&args.edit);
    let path: &Path = match &args.evidence {
        Some(path) => path,
        None if beside.exists() => &beside,
        None => return Ok(PatchEvidence::default()),
    };
    let text = linemate_files::read_text(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let evidence: PatchEvidence =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    if let Some(edit) = &evidence.edit {
        let same = parse(edit).is_ok_and(|edit| edit.to_string() == edits.to_string());
        if !same {
            bail!(
                "{}: the evidence of another edit than {}: remove it, or name the right one with --evidence",
                path.display(),
                args.edit.display()
            );
        }
    }
    Ok(evidence)
}

/// The subjects of the edits' sections, each once.
fn subjects(edits: &EditFile) -> Vec<&EditSubject> {
    let mut found: Vec<&EditSubject> = Vec::new();
    for subject in edits.sections.iter().filter_map(|s| s.subject.as_ref()) {
        if !found.contains(&subject) {
            found.push(subject);
        }
    }
    found
}

/// What the plan wants of the subject; `None` when it leaves its members alone.
fn wish(
    model: &TypeModel,
    plan: &mut Plan<'_>,
    edits: &EditFile,
    subject: &EditSubject,
) -> anyhow::Result<Option<(TypeId, Wanted)>> {
    let ids = resolve(model, subject).map_err(|e| anyhow!("{}: {e}", subject_name(subject)))?;
    let Some(id) = ids.first().copied() else {
        return Ok(None);
    };
    let id = model.strip(id);
    Ok(Wanted::new(plan, id, edits)?.map(|wanted| (id, wanted)))
}

fn sought(model: &TypeModel, id: TypeId, subject: &EditSubject) -> Sought {
    let tag = model.composite(id).map_or("", |c| &*c.name);
    let tag = programs::tag(tag).to_owned();
    match subject {
        _ if !tag.is_empty() => Sought::Tag(tag),
        EditSubject::Named(name) => Sought::Typedef(name.clone()),
        EditSubject::With(members) => Sought::Members(members.clone()),
    }
}

/// Finds the definition and rewrites it in `files` (path → text before, text after).
fn change(
    args: &Args,
    tree: &SourceTree,
    subject: &EditSubject,
    wish: Wish,
    evidence: &PatchEvidence,
    files: &mut BTreeMap<String, (String, String)>,
) -> anyhow::Result<Option<Change>> {
    let Wish { sought, id, wanted } = wish;
    let FoundDefinition {
        path,
        text,
        definition,
    } = tree.find(&sought, &wanted, args.file.as_deref())?;
    let (_, current) = files
        .entry(path.clone())
        .or_insert_with(|| (text.clone(), text));
    // Another type of the same file may have been rewritten: its lines have moved, its number among those sought has not.
    let definition = definition::find(current, &sought)
        .into_iter()
        .find(|found| linemate_source::check(current, found, &wanted).is_ok())
        .unwrap_or(definition);
    let body = &current[definition.body.clone()];
    let idiom = Idiom::of(tree.is_kernel(), body, current, args.line.bytes());
    let intents = message::intents(evidence, &wanted);
    let new = rewrite(current, &definition, &wanted, &idiom, &intents)
        .map_err(|e| anyhow!("{path}:{e}"))?;
    if new == *current {
        return Ok(None);
    }
    *current = new;
    let name = match &sought {
        Sought::Tag(tag) => format!("struct {tag}"),
        Sought::Typedef(name) => name.clone(),
        Sought::Members(_) => definition
            .after
            .iter()
            .find(|word| !word.starts_with("__"))
            .cloned()
            .unwrap_or_else(|| subject_name(subject)),
    };
    Ok(Some(Change {
        name,
        sought,
        id,
        wanted,
        path,
    }))
}

/// What proves the patch, and the other configs that groups have to keep together under.
fn means(args: &Args, tree: &SourceTree) -> anyhow::Result<(Means, Vec<Means>)> {
    if let Some((first, others)) = args.build.split_first() {
        let others = others.iter().cloned().map(Means::Command);
        return Ok((Means::Command(first.clone()), others.collect()));
    }
    let Some((first, others)) = args.config.split_first() else {
        if tree.is_kernel() {
            bail!(
                "nothing to prove the patch with: give --config (a build or headers folder of that kernel) or --build"
            );
        }
        return Ok((Means::Compiler, Vec::new()));
    };
    if !tree.is_kernel() {
        bail!(
            "{} is not a Linux tree: prove with --build instead of --config",
            tree.root().display()
        );
    }
    let others = others
        .iter()
        .map(|folder| Means::kernel(folder, &args.arch));
    Ok((
        Means::kernel(first, &args.arch)?,
        others.collect::<anyhow::Result<_>>()?,
    ))
}

/// Compiles both sides of each change and compares them with what they have to be.
fn prove(
    args: &Args,
    tree: &SourceTree,
    model: &TypeModel,
    plan: &mut Plan<'_>,
    changes: &[Change],
    files: &BTreeMap<String, (String, String)>,
) -> anyhow::Result<Vec<Proof>> {
    let (means, others) = means(args, tree)?;
    let news: BTreeMap<&str, &str> = files
        .iter()
        .map(|(path, (_, new))| (path.as_str(), new.as_str()))
        .collect();
    let mut bench = prove::Bench::new(tree.root(), &news, means)?;
    let recorded = Layouts::new(model, args.line);
    let mut proofs = Vec::new();
    for change in changes {
        let before = Layouts::new(model, recorded.line()).of(change.id)?;
        let after = plan.layouts.of(change.id)?;
        let old_order: Vec<usize> = (0..change.wanted.members.len()).collect();
        let old = prove::Expected {
            sought: &change.sought,
            path: &change.path,
            model,
            layout: &before,
            order: &old_order,
        };
        let new = prove::Expected {
            layout: &after,
            order: &change.wanted.order,
            ..old
        };
        bench.check(tree.root(), &old).map_err(|error| {
            let what = "the unpatched tree is not the recorded kernel's, or its config is another";
            blamed(error, format!("{}: {what}", change.path))
        })?;
        let proof = bench.check(bench.patched(), &new).map_err(|error| {
            let (path, name) = (&change.path, &change.name);
            let what = "does not have the edit's layout; nothing is written";
            blamed(error, format!("{path}: the patched {name} {what}"))
        })?;
        proofs.push(proof);
    }
    for means in others {
        bench.compile_with(means);
        for (change, proof) in changes.iter().zip(&mut proofs) {
            let layout = plan.layouts.of(change.id)?;
            let groups = settle::groups(model, &change.wanted, &layout);
            let neighbours = settle::neighbours(model, &change.wanted, &layout);
            let under = bench
                .keeps_together(
                    &change.sought,
                    &change.path,
                    &groups,
                    &neighbours,
                    args.line.bytes(),
                )
                .with_context(|| format!("{}: {}", change.path, change.name))?;
            proof.also.push(under);
        }
    }
    Ok(proofs)
}

/// What a failed proof shows, unless it could not be made.
fn blamed(error: anyhow::Error, what: String) -> anyhow::Error {
    match error.is::<prove::MissingTool>() {
        true => error,
        false => error.context(what),
    }
}

/// What the message says of each type.
fn described(
    args: &Args,
    model: &TypeModel,
    edits: &EditFile,
    changes: &[Change],
    proofs: &[Proof],
) -> anyhow::Result<Vec<TypeChange>> {
    let mut types = Vec::new();
    for (change, proof) in changes.iter().zip(proofs) {
        let print = |model: &TypeModel, id| pahole::print(model, id, args.line).unwrap_or_default();
        let (before, after) = excerpt(
            &print(model, change.id),
            &print(&proof.model, proof.id),
            args.line.bytes(),
        );
        types.push(TypeChange {
            name: change.name.clone(),
            summary: summary::summary(&change.name, &change.wanted),
            moved: moved(&change.wanted, &print(&proof.model, proof.id)),
            sizes: sizes(model, edits, change.id)?,
            before,
            after,
            proof: proven(change, proof),
        });
    }
    Ok(types)
}

fn patch(
    args: &Args,
    tree: &SourceTree,
    types: &[TypeChange],
    changes: &[Change],
    files: &BTreeMap<String, (String, String)>,
    evidence: &PatchEvidence,
) -> anyhow::Result<String> {
    let diffs: Vec<diff::FileDiff> = files
        .iter()
        .filter_map(|(path, (old, new))| {
            let heading = changes
                .iter()
                .find(|c| c.path == *path)
                .map(|c| format!("{} {{", c.name));
            diff::file_diff(path, old, new, heading.as_deref().unwrap_or(""))
        })
        .collect();
    let named: Vec<(String, &Wanted)> = changes
        .iter()
        .map(|c| (c.name.clone(), &c.wanted))
        .collect();
    let path = changes.first().map_or("", |c| c.path.as_str());
    let subject = match &args.subject {
        Some(subject) => subject.clone(),
        None => message::subject(&named, path, tree.is_kernel()),
    };
    let mail = Mail {
        author: author(args)?,
        date: date(args),
        subject,
        body: shown_lines(&message::body(evidence, types, TOOL)).into_owned(),
        notes: shown_lines(&message::below(types)).into_owned(),
        signoff: args.signoff,
        tool: TOOL.to_owned(),
    };
    Ok(mail::write(&mail, &diffs))
}

/// What was compiled, in a sentence or two.
fn proven(change: &Change, proof: &Proof) -> String {
    let mut text = format!(
        "Compiled with {}: {} has exactly the layout that was predicted.",
        proof.means, change.name
    );
    for also in &proof.also {
        text.push_str(&format!(" Compiled with {}", also.name));
        text.push_str(match change.wanted.groups.is_empty() {
            true => ", too.",
            false => ": its field groups start cache lines and stay together.",
        });
        if also.neighbours > 0 {
            text.push_str(&format!(
                " Of {} pairs of members that it brings together on a cache line without a group, {} are on one there.",
                also.neighbours, also.on_one_line
            ));
        }
    }
    text
}

/// pahole's lines of the members that are moved or aligned.
fn moved(wanted: &Wanted, after: &str) -> String {
    let names: Vec<&str> = summary::changed(wanted)
        .into_iter()
        .filter_map(|member| wanted.members[member].names.first())
        .map(String::as_str)
        .collect();
    only(after, &names)
}

/// The type's size for lines of 64 and 128 bytes.
fn sizes(model: &TypeModel, edits: &EditFile, id: TypeId) -> anyhow::Result<Vec<SizeChange>> {
    let mut sizes = Vec::new();
    for line in [LineSize::B64, LineSize::B128] {
        let before = Layouts::new(model, line).of(id)?.size.0;
        let after = Plan::new(model, line, edits, &BTreeMap::new())?
            .layouts
            .of(id)?
            .size
            .0;
        sizes.push(SizeChange {
            line: line.bytes(),
            before,
            after,
        });
    }
    Ok(sizes)
}

/// What git says in the tree; `None` when it says nothing.
fn git(tree: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(tree)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn author(args: &Args) -> anyhow::Result<String> {
    if let Some(author) = &args.author {
        if !(author.contains(" <") && author.ends_with('>')) {
            bail!("{author:?} is not an author: write `Name <address>`");
        }
        return Ok(author.clone());
    }
    let name = git(&args.source, &["config", "user.name"]);
    let address = git(&args.source, &["config", "user.email"]);
    match (name, address) {
        (Some(name), Some(address)) => Ok(format!("{name} <{address}>")),
        _ => bail!(
            "who wrote the patch? git has no user.name and user.email for {}: give --author",
            args.source.display()
        ),
    }
}

/// The same for the same tree: there is no clock in a patch.
fn date(args: &Args) -> String {
    let same = |top: String| {
        let (top, tree) = (
            fs::canonicalize(top).ok()?,
            fs::canonicalize(&args.source).ok()?,
        );
        (top == tree).then_some(())
    };
    let top = git(&args.source, &["rev-parse", "--show-toplevel"]).and_then(same);
    let commit = top.and_then(|()| git(&args.source, &["log", "-1", "--format=%cD"]));
    let date = args.date.clone().or(commit);
    date.unwrap_or_else(|| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned())
}
