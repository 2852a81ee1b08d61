//! The files on the command line. The type of an argument says what a verb does with the file, so
//! every verb is checked, before it starts, for an output that would replace an input or another
//! output.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser, ValueParserFactory};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueHint};
use linemate_files::{Claims, FileError, Output};
use linemate_guest::ExtraFile;

use crate::number::option;
use crate::verbs::record::series;

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident: $refuse:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $name(PathBuf);

        impl Deref for $name {
            type Target = Path;

            fn deref(&self) -> &Path {
                &self.0
            }
        }

        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                &self.0
            }
        }

        impl ValueParserFactory for $name {
            type Parser = ValueParser;

            fn value_parser() -> ValueParser {
                ValueParser::new(PathBufValueParser::new().try_map(|path| $refuse(path).map($name)))
            }
        }
    )*};
}

paths! {
    /// A file that a verb reads.
    InFile: any;
    /// A file that a verb updates: it reads it, and may rewrite it.
    UpdatedFile: any;
    /// A folder or path that no output is compared with: a cache, or below a folder that is one.
    OtherPath: any;
    /// A folder with C sources that a verb reads.
    SourceFolder: any;
    /// A case's folder: its files are read, its results are written there.
    CaseFolder: any;
    /// A folder that a verb writes its own files into, none of which replaces another.
    OutFolder: folder;
    /// A file that a verb writes.
    OutFile: file;
    /// A file of edits that `advise` writes, with its evidence.
    OutEdit: file;
    /// A recording that a verb writes.
    OutRecording: recording;
}

/// A machine: a known one, `this`, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineName(String);

impl Deref for MachineName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Where `advise -o` writes the evidence of an edit.
pub(crate) fn evidence_beside(edit: &Path) -> PathBuf {
    let mut name = edit.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

fn any(path: PathBuf) -> Result<PathBuf, &'static str> {
    Ok(path)
}

fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    not_dash(
        path,
        "write ./- for a file of that name, /dev/stdout for standard output",
    )
}

fn recording(path: PathBuf) -> Result<PathBuf, &'static str> {
    not_dash(
        path,
        "a recording goes into a file: write ./- for one of that name",
    )
}

fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    not_dash(path, "write ./- for a folder of that name")
}

/// `-` is standard output to many programs and a name to others.
fn not_dash(path: PathBuf, remedy: &'static str) -> Result<PathBuf, &'static str> {
    match path.as_os_str() == OsStr::new("-") {
        true => Err(remedy),
        false => Ok(path),
    }
}

/// Marks the paths that a shell completes.
pub(crate) fn hinted(arg: Arg) -> Arg {
    let kind = arg.get_value_parser().type_id();
    let is = |types: &[TypeId]| types.iter().any(|one| kind == *one);
    if is(&[
        TypeId::of::<SourceFolder>(),
        TypeId::of::<CaseFolder>(),
        TypeId::of::<OutFolder>(),
    ]) {
        return arg.value_hint(ValueHint::DirPath);
    }
    let files = [
        TypeId::of::<InFile>(),
        TypeId::of::<UpdatedFile>(),
        TypeId::of::<OtherPath>(),
        TypeId::of::<OutFile>(),
        TypeId::of::<OutEdit>(),
        TypeId::of::<OutRecording>(),
    ];
    match is(&files) {
        true => arg.value_hint(ValueHint::AnyPath),
        false => arg,
    }
}

/// Refuses a command line with an output that would replace an input or another output.
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> Result<(), FileError> {
    if let Some((name, below)) = matches.subcommand() {
        let verb = command.find_subcommand(name);
        return verb.map_or(Ok(()), |verb| check(verb, below));
    }
    let mut claims = Claims::default();
    let line = ParsedLine { command, matches };
    for arg in command.get_arguments() {
        if line.counts(arg) {
            line.claim(arg, &mut claims);
        }
    }
    claims.check()
}

/// A verb with its arguments.
struct ParsedLine<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl ParsedLine<'_> {
    /// Whether the argument's value is used: a default is not if something that excludes it is
    /// given.
    fn counts(&self, arg: &Arg) -> bool {
        let source = |arg: &Arg| self.matches.value_source(arg.get_id().as_str());
        let excludes = |one: &Arg, other: &Arg| {
            let conflicts = self.command.get_arg_conflicts_with(one);
            conflicts.iter().any(|arg| arg.get_id() == other.get_id())
        };
        let is_given = |other: &&Arg| source(other) == Some(ValueSource::CommandLine);
        let mut given = self.command.get_arguments().filter(is_given);
        source(arg) != Some(ValueSource::DefaultValue)
            || !given.any(|other| excludes(other, arg) || excludes(arg, other))
    }

    /// The values of an argument, if they are of this type.
    fn values<T: Clone + Send + Sync + 'static>(&self, id: &str) -> Vec<&T> {
        let values = self.matches.try_get_many::<T>(id).ok().flatten();
        values.into_iter().flatten().collect()
    }

    fn claim(&self, arg: &Arg, claims: &mut Claims) {
        let id = arg.get_id().as_str();
        self.values::<InFile>(id)
            .into_iter()
            .for_each(|path| claims.read(path));
        let machines = self.values::<MachineName>(id);
        machines
            .iter()
            .filter_map(|name| name.file())
            .for_each(|path| claims.read(path));
        for file in self.values::<GuestFile>(id) {
            // Errors are reported where it is used.
            if let Ok(file) = ExtraFile::parse(&file.0) {
                claims.read(&file.host);
            }
        }
        self.values::<SourceFolder>(id)
            .into_iter()
            .for_each(|path| claims.read_sources(path));
        for folder in self.values::<CaseFolder>(id) {
            self.claim_case(folder, claims);
        }
        for path in self.outputs(id) {
            claims.write(format!("{} {}", option(arg), path.display()), &path);
        }
    }

    /// The files that an output of a verb is.
    fn outputs(&self, id: &str) -> Vec<PathBuf> {
        let files = self.values::<OutFile>(id).into_iter();
        let mut paths: Vec<PathBuf> = files.map(|path| path.0.clone()).collect();
        for edit in self.values::<OutEdit>(id) {
            paths.push(edit.0.clone());
            if self.values::<OutFile>("evidence").is_empty() {
                paths.push(evidence_beside(edit));
            }
        }
        for recording in self.values::<OutRecording>(id) {
            // A number that occurs twice is refused by its name.
            let series: BTreeSet<&u16> = self.values("series").into_iter().collect();
            match series.is_empty() {
                true => paths.push(recording.0.clone()),
                false => paths.extend(series.iter().map(|cpus| series::output(recording, **cpus))),
            }
        }
        paths
    }

    /// All files of a case's folder are read, except its results and pages.
    fn claim_case(&self, folder: &Path, claims: &mut Claims) {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in files.map(|entry| entry.path()) {
            let is_page = path.extension() == Some(OsStr::new("html"));
            let is_result = |name: &&str| path.file_name() == Some(OsStr::new(*name));
            if !is_page && !RESULTS.iter().any(is_result) {
                claims.read(&path);
            }
        }
        let output = self.values::<OutFolder>("output");
        let folder = output.first().map_or(folder, |folder| folder);
        for name in RESULTS {
            let path = folder.join(name);
            claims.write(path.display().to_string(), &path);
        }
    }
}

impl MachineName {
    /// The file that describes it, if it is not a known name.
    pub(crate) fn file(&self) -> Option<&Path> {
        let is_file = self.0.contains('/') || self.0.ends_with(".toml");
        is_file.then_some(Path::new(&self.0))
    }
}

impl From<String> for MachineName {
    fn from(name: String) -> Self {
        MachineName(name)
    }
}

/// A file for the guest: `HOST[:GUEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestFile(String);

impl From<String> for GuestFile {
    fn from(given: String) -> Self {
        GuestFile(given)
    }
}

impl Deref for GuestFile {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl OutFile {
    /// Checks that it can be written. Must be called before the work whose result it receives.
    pub(crate) fn output(&self) -> Result<Output, FileError> {
        Output::new(&self.0)
    }
}

impl OutEdit {
    /// Like [`OutFile::output`].
    pub(crate) fn output(&self) -> Result<Output, FileError> {
        Output::new(&self.0)
    }
}

/// The names of a case's results.
pub(crate) const RESULTS: [&str; 2] = ["results.md", "results.json"];
