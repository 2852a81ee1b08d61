//! `linemate patch`: an edit as a patch of the sources, proven by compiling.

use std::io::{self, Write};

use anyhow::Context;
use linemate_answers::PatchEvidence;
use linemate_attribution::{Analysis, Directory};
use linemate_layout::EditFile;
use linemate_patch::{Draft, Letter, Request, SourceTree, Toolchain};
use linemate_types::{LineSize, TypeModel, btf};

use crate::files::{InFile, OtherPath, OutFile, SourceFolder, evidence_beside};
use crate::input::{self, Input};
use crate::named_kernel;
use crate::outcome::Outcome;
use crate::output;
use crate::program;

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
    /// Take the types from this kernel image, ELF file or BTF blob, or from a name such as
    /// debian:6.12, instead of a recording
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["recording", "input"])]
    kernel: Option<InFile>,
    /// Take the types from this program's debug information
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recording", "input", "kernel"])]
    program: Option<InFile>,
    /// Prove with the config of this kernel build or headers folder (with include/generated). May
    /// be repeated, also for other architectures; under further configs only the field groups are
    /// checked, and the patch has a table of where members are under each
    #[arg(long, value_name = "FOLDER")]
    config: Vec<SourceFolder>,
    /// Prove with this command, which compiles $LINEMATE_UNIT with debug information to
    /// $LINEMATE_OBJECT in $LINEMATE_TREE. May be repeated; with further commands only the field
    /// groups are checked
    #[arg(long, value_name = "COMMAND", conflicts_with = "config")]
    build: Vec<String>,
    /// Replace OLD with NEW in a comment that may contradict the new layout: `OLD=NEW`; without NEW
    /// the comment is removed. May be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = linemate_patch::rewording, allow_hyphen_values = true)]
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
    /// Evidence for the change: a JSON file (docs/guide/patch.md) [default: the edit's name with
    /// .json, if `advise` wrote it]
    #[arg(long, value_name = "FILE")]
    evidence: Option<InFile>,
    /// `Name <address>` (default: the tree's git config)
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// RFC 2822 (default: that of the tree's last commit, else the start of 1970)
    #[arg(long, value_name = "DATE", value_parser = linemate_patch::date)]
    date: Option<String>,
    /// The subject, without `[PATCH]`
    #[arg(long, value_name = "TEXT", value_parser = linemate_patch::subject)]
    subject: Option<String>,
    /// End the message with `Signed-off-by: AUTHOR`
    #[arg(long)]
    signoff: bool,
    /// Write the patch to this file (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<OutFile>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let file = args.output.as_ref().map(OutFile::output).transpose()?;
    let edits = linemate_patch::read_edits(&args.edit)?;
    let model = types(args)?;
    let request = Request {
        edit: &args.edit.display().to_string(),
        model: &model,
        evidence: &evidence(args, &edits)?,
        tree: &SourceTree::open(&args.source, &args.arch)?,
        file: args.file.as_deref(),
        line: args.line,
        rewordings: &args.reword,
    };
    let Some(draft) = Draft::new(request, edits, &mut |note| output::to_stderr(note))? else {
        output::to_stderr("the edit changes nothing: no patch is written");
        return Ok(Outcome::Fine);
    };
    let compilers = Toolchain::all(request.tree, &args.arch, &args.build, &args.config)?;
    let proven = draft.prove(&compilers)?;
    let text = proven.mail(&Letter {
        author: args.author.as_deref(),
        date: args.date.as_deref(),
        subject: args.subject.as_deref(),
        signoff: args.signoff,
        tool: concat!("linemate ", env!("CARGO_PKG_VERSION")),
    })?;
    match file {
        Some(file) => file.write(&text)?,
        None => io::stdout().lock().write_all(text.as_bytes())?,
    }
    Ok(Outcome::Fine)
}

fn types(args: &Args) -> anyhow::Result<TypeModel> {
    if let Some(path) = &args.kernel {
        let image = named_kernel::image(path)?;
        let types = named_kernel::parse(&image)?.types();
        return types.with_context(|| image.display().to_string());
    }
    if let Some(path) = &args.program {
        return program::model(path);
    }
    let name = || args.input.path().display().to_string();
    let recording = args.input.open()?;
    // BTF has the kernel's types alone. Those of programs are joined to it by the analysis.
    if recording.programs().files().is_empty() {
        return btf::parse(&recording.btf().with_context(name)?).with_context(name);
    }
    let analysis = Analysis::known(&recording, Directory::default()).with_context(name)?;
    Ok(analysis.model().clone())
}

/// The named evidence, else that next to the edit.
fn evidence(args: &Args, edits: &EditFile) -> anyhow::Result<PatchEvidence> {
    let beside = evidence_beside(&args.edit);
    let named = args.evidence.as_deref();
    match named.or_else(|| beside.exists().then_some(&*beside)) {
        Some(path) => Ok(linemate_patch::read_evidence(path, &args.edit, edits)?),
        None => Ok(PatchEvidence::default()),
    }
}
