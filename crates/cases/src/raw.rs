//! The text of `case.toml`, and its checks.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use linemate_stats::RUNS_MIN;
use serde::Deserialize;
use toml::Spanned;

use crate::case::{
    Build, Case, CaseEdit, CaseEvent, Check, FoundFigure, Guest, KernelSource, KernelTree,
    NarrowEnough, PredictedFigure, PredictedOf, Published, RunCount, Workload,
};
use crate::error::{CaseError, Reason};

/// The longest `case.toml` in bytes.
const BYTES_MAX: usize = 1 << 20;
/// The most recordings of a kernel.
const RUNS_MAX: u64 = 100;
/// The possible intervals, in per cent. A recorded change below the least is less than what two
/// kernels differ in anyway.
const INTERVALS: RangeInclusive<f64> = 0.1..=100.0;
/// The maximum number of CPUs of a guest here; `linemate record` has its own limit.
const CPUS_MAX: u64 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: Spanned<String>,
    summary: Spanned<String>,
    types: Spanned<Vec<Spanned<String>>>,
    machines: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    llc_share: bool,
    kernel: Spanned<RawKernel>,
    guest: RawGuest,
    workload: RawWorkload,
    event: Option<RawEvent>,
    build: Option<Spanned<RawBuild>>,
    #[serde(default)]
    edit: Vec<RawEdit>,
    #[serde(default)]
    check: Vec<RawCheck>,
    #[serde(default)]
    published: Vec<RawPublished>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKernel {
    series: Option<String>,
    image: Option<String>,
    #[serde(default)]
    built: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGuest {
    cpus: Spanned<u64>,
    memory: Option<String>,
    seed: Option<u32>,
    runs: Option<Spanned<RawRuns>>,
    numa: Option<Spanned<u64>>,
    append: Option<String>,
    #[serde(default)]
    user: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    expecting = "runs must be a number, or { until = PER_CENT, at_most = RUNS }"
)]
enum RawRuns {
    Fixed(u64),
    Until(RawUntil),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUntil {
    until: f64,
    at_most: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    setup: Option<String>,
    #[serde(default)]
    files: Vec<String>,
    command: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    function: Spanned<String>,
    name: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBuild {
    package: Option<String>,
    source: Option<String>,
    config: Spanned<OneOrMore>,
    script: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a string or a list of strings")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    name: Spanned<String>,
    #[serde(default)]
    files: Vec<String>,
    command: Spanned<Vec<String>>,
    memory: Option<String>,
    config: Option<Spanned<OneOrMore>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEdit {
    name: Spanned<String>,
    #[serde(default)]
    title: String,
    file: Spanned<String>,
    #[serde(default)]
    patches: Vec<String>,
    measure: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublished {
    key: Spanned<String>,
    value: Spanned<String>,
    source: Spanned<String>,
    found: Option<RawFound>,
    predicted: Option<RawPredicted>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFound {
    #[serde(rename = "type")]
    type_name: Option<Spanned<String>>,
    field: Option<Spanned<String>>,
    fields: Option<Spanned<Vec<Spanned<String>>>>,
    function: Option<Spanned<String>>,
    figure: Spanned<RawFigure>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawFigure {
    GroupShare,
    GroupLoadsPerStore,
    GroupLines,
    Rank,
    CyclesPerLoad,
    RankCorrelation,
    CycleShare,
    LoadsPerStore,
    Accesses,
    ShareUnder,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPredicted {
    edit: Spanned<String>,
    machine: Spanned<String>,
    function: Option<Spanned<String>>,
    figure: Option<Spanned<RawPredictedFigure>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawPredictedFigure {
    Cycles,
    Misses,
    LoadMisses,
    ShareUnder,
}

/// Reads a case.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str) -> Result<Case, CaseError> {
    let checker = Checker { text };
    if text.len() > BYTES_MAX {
        return Err(CaseError {
            line: 1,
            reason: Reason::TooLong {
                bytes: text.len(),
                limit: BYTES_MAX,
            },
        });
    }
    let raw: RawCase = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        checker.error(start, Reason::Syntax(one_line(error.message())))
    })?;
    checker.case(raw)
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn within(what: &'static str, value: u64, limits: RangeInclusive<u64>) -> Result<u16, Reason> {
    match u16::try_from(value) {
        Ok(fitting) if limits.contains(&value) => Ok(fitting),
        _ => Err(Reason::Range {
            what,
            value,
            least: *limits.start(),
            most: *limits.end(),
        }),
    }
}

fn run_count(raw: RawRuns) -> Result<RunCount, Reason> {
    let RawUntil { until, at_most } = match raw {
        RawRuns::Fixed(runs) => return within("runs", runs, 1..=RUNS_MAX).map(RunCount::Fixed),
        RawRuns::Until(until) => until,
    };
    // Not a number is in no range.
    if !INTERVALS.contains(&until) {
        let value = until.to_string();
        return Err(Reason::Interval { value });
    }
    Ok(RunCount::Until(NarrowEnough {
        percent: until,
        // Fewer runs have no interval.
        at_most: within("at_most", at_most, RUNS_MIN as u64..=RUNS_MAX)?,
    }))
}

/// The text, to compute lines from offsets.
struct Checker<'t> {
    text: &'t str,
}

impl Checker<'_> {
    fn error(&self, offset: usize, reason: Reason) -> CaseError {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        CaseError {
            line: 1 + before.iter().filter(|b| **b == b'\n').count(),
            reason,
        }
    }

    fn at<T>(&self, spanned: &Spanned<T>, reason: Reason) -> CaseError {
        self.error(spanned.span().start, reason)
    }

    fn said(&self, what: &'static str, text: Spanned<String>) -> Result<String, CaseError> {
        if text.get_ref().trim().is_empty() {
            return Err(self.at(&text, Reason::Empty(what)));
        }
        Ok(text.into_inner())
    }

    fn name(&self, what: &'static str, name: Spanned<String>) -> Result<String, CaseError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let value = name.get_ref().clone();
        if value.is_empty() {
            return Err(self.at(&name, Reason::Empty(what)));
        }
        if !value.chars().all(fits) || value.starts_with('.') {
            return Err(self.at(&name, Reason::Name { what, value }));
        }
        Ok(value)
    }

    /// A list of at least one string, each different.
    fn list(
        &self,
        what: &'static str,
        list: Spanned<Vec<Spanned<String>>>,
    ) -> Result<Vec<String>, CaseError> {
        if list.get_ref().is_empty() {
            return Err(self.at(&list, Reason::Empty(what)));
        }
        let mut names = Vec::new();
        for item in list.into_inner() {
            let (value, twice) = (item.get_ref().clone(), names.contains(item.get_ref()));
            if twice {
                return Err(self.at(&item, Reason::Twice { what, value }));
            }
            names.push(self.said(what, item)?);
        }
        Ok(names)
    }

    fn range(
        &self,
        what: &'static str,
        number: &Spanned<u64>,
        most: u64,
    ) -> Result<u16, CaseError> {
        within(what, *number.get_ref(), 1..=most).map_err(|reason| self.at(number, reason))
    }

    fn case(&self, raw: RawCase) -> Result<Case, CaseError> {
        let name = self.name("name", raw.name)?;
        let summary = self.said("summary", raw.summary)?;
        let types = self.list("type", raw.types)?;
        let machines = self.list("machine", raw.machines)?;
        let kernel = self.kernel(raw.kernel)?;
        let guest = self.guest(raw.guest)?;
        let workload = self.workload(raw.workload)?;
        let event = raw.event.map(|event| self.event(event)).transpose()?;
        let build = raw.build.map(|build| self.build(build)).transpose()?;
        if let (KernelSource::Built, None) = (&kernel.0, &build) {
            return Err(self.error(kernel.1, Reason::NotBuilt));
        }
        let checks = self.checks(raw.check)?;
        let edits = self.edits(raw.edit, build.is_some())?;
        let mut case = Case {
            name,
            summary,
            kernel: kernel.0,
            guest,
            workload,
            event,
            types,
            machines,
            llc_share: raw.llc_share,
            edits,
            build,
            checks,
            published: Vec::new(),
        };
        for figure in raw.published {
            let figure = self.published(figure, &case)?;
            case.published.push(figure);
        }
        Ok(case)
    }

    /// The kernel, and where the text speaks of it.
    fn kernel(&self, raw: Spanned<RawKernel>) -> Result<(KernelSource, usize), CaseError> {
        let start = raw.span().start;
        let kernel = match raw.into_inner() {
            RawKernel {
                series: Some(series),
                image: None,
                built: false,
            } => KernelSource::Series(series),
            RawKernel {
                series: None,
                image: Some(image),
                built: false,
            } => KernelSource::Image(image),
            RawKernel {
                series: None,
                image: None,
                built: true,
            } => KernelSource::Built,
            _ => {
                let reason = Reason::Either {
                    table: "[kernel]",
                    one: "series",
                    other: "image, or built = true",
                };
                return Err(self.error(start, reason));
            }
        };
        Ok((kernel, start))
    }

    fn guest(&self, raw: RawGuest) -> Result<Guest, CaseError> {
        let numa = raw.numa.map(|n| self.range("numa", &n, 64)).transpose()?;
        let runs = raw
            .runs
            .map(|runs| run_count(*runs.get_ref()).map_err(|reason| self.at(&runs, reason)));
        Ok(Guest {
            cpus: self.range("cpus", &raw.cpus, CPUS_MAX)?,
            memory: raw.memory.unwrap_or_else(|| "1G".to_owned()),
            seed: raw.seed.unwrap_or(42),
            runs: runs.transpose()?.unwrap_or(RunCount::Fixed(1)),
            numa: numa.unwrap_or(1),
            append: raw.append.unwrap_or_default(),
            user: raw.user,
        })
    }

    fn workload(&self, raw: RawWorkload) -> Result<Workload, CaseError> {
        Ok(Workload {
            setup: raw.setup,
            files: raw.files,
            command: self.command(raw.command)?,
        })
    }

    fn event(&self, raw: RawEvent) -> Result<CaseEvent, CaseError> {
        let function = raw.function.get_ref().clone();
        // What a C function can be called; a copy (`f.isra.0`) is counted with its function.
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !function.chars().all(fits) || function.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.at(&raw.function, Reason::Function(function)));
        }
        Ok(CaseEvent {
            function: self.said("function", raw.function)?,
            name: self.said("name", raw.name)?,
        })
    }

    fn command(&self, words: Spanned<Vec<String>>) -> Result<Vec<String>, CaseError> {
        if words.get_ref().first().is_none_or(String::is_empty) {
            return Err(self.at(&words, Reason::Empty("command")));
        }
        Ok(words.into_inner())
    }

    fn build(&self, raw: Spanned<RawBuild>) -> Result<Build, CaseError> {
        let reason = Reason::Either {
            table: "[build]",
            one: "package",
            other: "source",
        };
        let error = self.at(&raw, reason);
        let raw = raw.into_inner();
        let source = match (raw.package, raw.source) {
            (Some(package), None) => KernelTree::Package(package),
            (None, Some(folder)) => KernelTree::Folder(folder),
            _ => return Err(error),
        };
        Ok(Build {
            source,
            config: self.fragments(raw.config)?,
            script: raw.script,
        })
    }

    /// Fragments of a configuration: one at least.
    fn fragments(&self, raw: Spanned<OneOrMore>) -> Result<Vec<String>, CaseError> {
        let empty = self.at(&raw, Reason::Empty("config"));
        match raw.into_inner() {
            OneOrMore::One(fragment) => Ok(vec![fragment]),
            OneOrMore::More(fragments) if fragments.is_empty() => Err(empty),
            OneOrMore::More(fragments) => Ok(fragments),
        }
    }

    fn checks(&self, raw: Vec<RawCheck>) -> Result<Vec<Check>, CaseError> {
        let mut checks: Vec<Check> = Vec::new();
        for check in raw {
            let start = check.name.span().start;
            let name = self.name("check", check.name)?;
            if checks.iter().any(|known| known.name == name) {
                let reason = Reason::Twice {
                    what: "check",
                    value: name,
                };
                return Err(self.error(start, reason));
            }
            let config = check.config.map(|config| self.fragments(config));
            checks.push(Check {
                name,
                files: check.files,
                command: self.command(check.command)?,
                memory: check.memory,
                config: config.transpose()?.unwrap_or_default(),
            });
        }
        Ok(checks)
    }

    fn edits(&self, raw: Vec<RawEdit>, can_build: bool) -> Result<Vec<CaseEdit>, CaseError> {
        let mut edits = Vec::new();
        let mut names = BTreeSet::new();
        for edit in raw {
            let start = edit.name.span().start;
            let name = self.name("edit", edit.name)?;
            if !names.insert(name.clone()) {
                let reason = Reason::Twice {
                    what: "edit",
                    value: name,
                };
                return Err(self.error(start, reason));
            }
            if !edit.patches.is_empty() && !can_build {
                return Err(self.error(start, Reason::NoBuild(name)));
            }
            if !edit.patches.is_empty() && edit.measure.is_none() {
                return Err(self.error(start, Reason::NoMeasure(name)));
            }
            edits.push(CaseEdit {
                name,
                title: edit.title,
                file: self.said("file", edit.file)?,
                patches: edit.patches,
                measure: edit.measure,
            });
        }
        Ok(edits)
    }

    fn published(&self, raw: RawPublished, case: &Case) -> Result<Published, CaseError> {
        let found = raw.found.map(|found| self.found(found, case)).transpose()?;
        let predicted = match raw.predicted {
            None => None,
            Some(raw) => {
                let edits: Vec<String> = case.edits.iter().map(|e| e.name.clone()).collect();
                Some(PredictedOf {
                    edit: self.known("edit", raw.edit, &edits)?,
                    machine: self.known("machine", raw.machine, &case.machines)?,
                    of: self.predicted_figure(raw.function, raw.figure)?,
                })
            }
        };
        Ok(Published {
            key: self.said("key", raw.key)?,
            value: self.said("value", raw.value)?,
            source: self.said("source", raw.source)?,
            found,
            predicted,
        })
    }

    fn predicted_figure(
        &self,
        function: Option<Spanned<String>>,
        figure: Option<Spanned<RawPredictedFigure>>,
    ) -> Result<PredictedFigure, CaseError> {
        let asked = figure.as_ref().map(|figure| *figure.get_ref());
        match (function, asked.unwrap_or(RawPredictedFigure::Cycles)) {
            (None, RawPredictedFigure::ShareUnder) => {
                let key = "function";
                let start = figure.map_or(0, |figure| figure.span().start);
                Err(self.error(start, Reason::Needs { key }))
            }
            (Some(function), RawPredictedFigure::ShareUnder) => Ok(PredictedFigure::ShareUnder(
                self.said("function", function)?,
            )),
            (None, RawPredictedFigure::Cycles) => Ok(PredictedFigure::Types),
            (None, RawPredictedFigure::Misses) => Ok(PredictedFigure::Misses),
            (None, RawPredictedFigure::LoadMisses) => Ok(PredictedFigure::LoadMisses),
            (Some(function), RawPredictedFigure::Cycles) => {
                Ok(PredictedFigure::Function(self.said("function", function)?))
            }
            (Some(function), RawPredictedFigure::Misses | RawPredictedFigure::LoadMisses) => {
                Err(self.at(&function, Reason::MissesOfFunction))
            }
        }
    }

    fn found(&self, raw: RawFound, case: &Case) -> Result<FoundFigure, CaseError> {
        let type_name = match raw.type_name {
            Some(name) => self.known("type", name, &case.types)?,
            None => case.types.first().cloned().unwrap_or_default(),
        };
        let (figure, named, several) = (raw.figure, raw.field, raw.fields);
        let needs = |key| self.at(&figure, Reason::Needs { key });
        let field = || match named {
            Some(field) => self.said("field", field),
            None => Err(needs("field")),
        };
        let fields = || match several {
            Some(fields) => self.list("field", fields),
            None => Err(needs("fields")),
        };
        Ok(match figure.get_ref() {
            RawFigure::GroupShare => FoundFigure::GroupShare {
                type_name,
                field: field()?,
            },
            RawFigure::GroupLoadsPerStore => FoundFigure::GroupLoadsPerStore {
                type_name,
                field: field()?,
            },
            RawFigure::GroupLines => FoundFigure::GroupLines {
                type_name,
                field: field()?,
            },
            RawFigure::Rank => FoundFigure::Rank {
                type_name,
                field: field()?,
            },
            RawFigure::CyclesPerLoad => FoundFigure::CyclesPerLoad {
                type_name,
                field: field()?,
            },
            RawFigure::Accesses => FoundFigure::Accesses {
                type_name,
                field: field()?,
            },
            RawFigure::ShareUnder => FoundFigure::ShareUnder {
                function: match raw.function {
                    Some(function) => self.said("function", function)?,
                    None => return Err(needs("function")),
                },
            },
            RawFigure::CycleShare => FoundFigure::CycleShare {
                type_name,
                fields: fields()?,
            },
            RawFigure::LoadsPerStore => FoundFigure::LoadsPerStore {
                type_name,
                fields: fields()?,
            },
            RawFigure::RankCorrelation => {
                let fields = fields()?;
                if fields.len() < 2 {
                    return Err(self.at(&figure, Reason::NoOrder));
                }
                FoundFigure::RankCorrelation { type_name, fields }
            }
        })
    }

    fn known(
        &self,
        what: &'static str,
        name: Spanned<String>,
        known: &[String],
    ) -> Result<String, CaseError> {
        if known.contains(name.get_ref()) {
            return Ok(name.into_inner());
        }
        let (value, known) = (name.get_ref().clone(), known.join(", "));
        Err(self.at(&name, Reason::Unknown { what, value, known }))
    }
}
