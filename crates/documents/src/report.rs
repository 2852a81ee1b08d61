//! Makes a [`Report`] of an analysed recording. What is counted and how it is grouped is the
//! attribution crate's; here are sums.

mod member_uses;
mod parts;
mod resolve;
mod sums;
mod times;
mod type_view;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use linemate_answers::{
    By, CpuRow, FieldRow, FunctionRow, Inputs, LedgerBucket, LedgerGroup, LedgerView, LineRow,
    ProgramsShare, Report, SourceRow, TypePlace, TypeRow, View, is_large, share,
};
use linemate_attribution::naming::{Inside, NamedType};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{Count, Key};
use linemate_attribution::{
    Analysis, Bucket, Counted, Group, Ledger, SourcePlace, Subject, SubjectId,
};
use linemate_recording::GuestAddr;
use linemate_types::LineSize;

pub use self::member_uses::{TypeUses, type_uses};
pub(crate) use self::member_uses::{UsedMember, member_of};
use self::parts::{LineParts, Parts, field_row};
use self::resolve::{FieldName, Resolver};
pub(crate) use self::sums::{Sum, largest};
use crate::error::UnknownType;
use crate::replayed::checksum;

/// Which figures a report has, and how many rows.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// What rows are, if no type is chosen.
    pub by: By,
    /// The type to show everything of.
    pub type_name: Option<String>,
    /// Whether rows are also of what cannot be laid out: stacks, pages, memory without a type.
    pub all: bool,
    /// The most rows of a table.
    pub top: usize,
    /// The size of a line.
    pub line: LineSize,
}

/// Makes the report from what the recording counts.
///
/// # Errors
/// An unknown type.
pub fn report_document(
    analysis: &Analysis<'_>,
    counted: &Counted,
    options: &ReportOptions,
) -> Result<Report, UnknownType> {
    let mut resolver = Resolver::new(analysis);
    let rows = counted.tally.rows();
    let line = options.line;
    let view = match (&options.type_name, options.by) {
        (Some(name), By::Type) => View::Type(Box::new(type_view::build(
            analysis,
            counted,
            &rows,
            &mut resolver,
            name,
            line,
        )?)),
        (name, by) => {
            let only = name.as_deref().map(|name| only(analysis, counted, name));
            let mut build = Builder::new(analysis, counted, resolver, &rows, only.transpose()?);
            let mut view = match by {
                By::Type => View::Types(build.types(options.all)),
                By::Field => View::Fields(build.fields(line)),
                By::Line => View::Lines(build.lines(line)),
                By::Function => View::Functions(build.functions()),
                By::Source => View::Sources(build.sources()),
                By::Cpu => View::Cpus(match &build.only {
                    Some(only) => times::cpus(analysis, counted, only.ty),
                    None => cpus(counted),
                }),
            };
            truncate(&mut view, options.top);
            view
        }
    };
    Ok(Report {
        schema: Report::SCHEMA.into(),
        inputs: inputs(analysis),
        ledger: ledger(analysis, counted),
        event: None,
        view,
    })
}

fn truncate(view: &mut View, top: usize) {
    match view {
        View::Types(rows) => rows.truncate(top),
        View::Fields(rows) => rows.truncate(top),
        View::Lines(rows) => rows.truncate(top),
        View::Functions(rows) => rows.truncate(top),
        View::Sources(rows) => rows.truncate(top),
        View::Cpus(_) | View::Type(_) => {}
    }
}

fn inputs(analysis: &Analysis<'_>) -> Inputs {
    let recording = analysis.recording();
    Inputs {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        recorded_by: recording.tool().to_owned(),
        recording: recording.metadata().clone(),
        checksum: checksum(recording),
        cut: recording.cut().map(|cut| cut.to_string()),
    }
}

fn ledger(analysis: &Analysis<'_>, counted: &Counted) -> LedgerView {
    let ledger = counted.tally.ledger();
    let total = ledger.total();
    // Of other recordings the line says nothing.
    let unnamed = analysis.recording().description().kernel_unnamed;
    let group = |group: Group| {
        let buckets = Bucket::ALL
            .iter()
            .filter(|b| b.group() == group && ledger.of(**b) > 0);
        let bucket = |b: &Bucket| LedgerBucket {
            name: b.name().into(),
            accesses: ledger.of(*b),
            share: share(ledger.of(*b), total),
        };
        let accesses = ledger.of_group(group);
        LedgerGroup {
            name: group.name().into(),
            accesses,
            share: share(accesses, total),
            buckets: buckets.map(bucket).collect(),
        }
    };
    LedgerView {
        recorded: analysis.recording().totals().accesses(),
        total,
        typed_share: share(ledger.typed(), ledger.typable()),
        programs: programs_share(&ledger.of_programs()),
        unknown_share: share(ledger.of_group(Group::Unknown), total),
        groups: Group::ALL
            .into_iter()
            .filter(|g| match g {
                Group::Unnamed => unnamed,
                // Only programs have allocators of their own.
                Group::Allocator => ledger.of_group(*g) > 0,
                _ => true,
            })
            .map(group)
            .collect(),
    }
}

fn programs_share(ledger: &Ledger) -> Option<ProgramsShare> {
    let accesses = ledger.typable();
    (accesses > 0).then(|| ProgramsShare {
        accesses,
        typed_share: share(ledger.typed(), accesses),
    })
}

fn cpus(counted: &Counted) -> Vec<CpuRow> {
    let row = |(cpu, c): (u32, &linemate_attribution::tally::CpuCount)| {
        let accesses = c.loads + c.stores + c.rmws;
        let remote_share = Some(share(c.remote, accesses));
        CpuRow {
            cpu,
            last: cpu,
            accesses,
            loads: c.loads,
            stores: c.stores,
            rmws: c.rmws,
            remote_share,
        }
    };
    (0u32..).zip(counted.tally.per_cpu()).map(row).collect()
}

/// The one type that rows are of.
struct Only {
    ty: TypeIndex,
    name: String,
}

fn only(analysis: &Analysis<'_>, counted: &Counted, name: &str) -> Result<Only, UnknownType> {
    let NamedType { ty, name, .. } = type_view::find_type(analysis, counted, name)?;
    Ok(Only { ty, name })
}

struct Builder<'a> {
    analysis: &'a Analysis<'a>,
    counted: &'a Counted,
    resolver: Resolver<'a>,
    /// Of one type alone: offsets are from its start, also where it is inside another.
    rows: Vec<(Key, &'a Count)>,
    only: Option<Only>,
}

impl<'a> Builder<'a> {
    fn new(
        analysis: &'a Analysis<'a>,
        counted: &'a Counted,
        resolver: Resolver<'a>,
        rows: &[(Key, &'a Count)],
        only: Option<Only>,
    ) -> Builder<'a> {
        let one = only.as_ref().map(|only| only.ty);
        let mut inside = one.map(|ty| Inside::new(analysis.schema(), ty));
        let mut kept = |(key, count): &(Key, &'a Count)| match &mut inside {
            None => Some((*key, *count)),
            Some(inside) => {
                let outer = analysis.subjects()[key.subject.0 as usize].ty?;
                let offset = inside.at(outer, key.offset)?.offset;
                Some((Key { offset, ..*key }, *count))
            }
        };
        Builder {
            analysis,
            counted,
            resolver,
            rows: rows.iter().filter_map(&mut kept).collect(),
            only,
        }
    }

    fn subject(&self, key: &Key) -> &Subject {
        &self.analysis.subjects()[key.subject.0 as usize]
    }

    /// The type that a row of the tally is counted for.
    fn type_of(&self, subject: &Subject) -> Option<TypeIndex> {
        self.only.as_ref().map(|only| only.ty).or(subject.ty)
    }

    fn name_of(&self, subject: &Subject) -> String {
        match &self.only {
            Some(only) => only.name.clone(),
            None => self.resolver.subject(subject),
        }
    }

    /// Types by what of them comes from other CPUs. Other memory is in the list where a layout or
    /// an allocation can change it and that is much; with `all` everything is, what none can change
    /// (stacks, contents of pages) after the rest.
    fn types(&mut self, all: bool) -> Vec<TypeRow> {
        let mut sums: BTreeMap<RowOf<'_>, RowParts<'_>> = BTreeMap::new();
        for (key, counts) in &self.rows {
            let subject = &self.analysis.subjects()[key.subject.index()];
            let function = self.resolver.function(key.pc);
            let row = sums.entry(RowOf::new(self.analysis, subject)).or_default();
            row.parts.add(key, counts, subject.percpu, function);
            *row.subjects.entry((subject, key.subject)).or_default() += counts.count;
        }
        let handed = sums.values().map(|row| row.parts.sum.handed()).sum();
        let (mut rows, mut rest) = (Vec::new(), Vec::new());
        for row in sums.values() {
            let mut types = row.subjects.keys().filter_map(|(subject, _)| subject.ty);
            let has_fields = types.any(|ty| self.resolver.has_fields(ty));
            let changeable = has_fields || row.is_placed_by_programmers();
            if all || has_fields || changeable && is_large(row.parts.sum.handed(), handed) {
                let mut row = self.type_row(row);
                if changeable {
                    rows.push(row);
                } else {
                    // No figure, so that no headline calls it the most shared: neither a layout nor
                    // an allocation changes it.
                    row.shared = None;
                    rest.push(row);
                }
            }
        }
        sort_by_shared(&mut rows);
        sort_by_shared(&mut rest);
        rows.append(&mut rest);
        rows
    }

    fn type_row(&mut self, row: &RowParts<'_>) -> TypeRow {
        let place = |((subject, _), accesses): (&(&Subject, SubjectId), &u64)| TypePlace {
            kind: subject.bucket.group().name().into(),
            place: self.resolver.place(subject),
            accesses: *accesses,
        };
        let mut places: Vec<TypePlace> = row.subjects.iter().map(place).collect();
        places.sort_by_key(|place| Reverse(place.accesses));
        // No row is of no subject.
        let first = places.first().cloned();
        let (kind, place) = first.map_or_else(Default::default, |of| (of.kind, of.place));
        if places.len() == 1 {
            places.clear();
        }
        let subjects = row.subjects.keys();
        let on_heap =
            |(of, _): &&(&Subject, SubjectId)| of.ty.is_some() && of.bucket == Bucket::Field;
        let heap = subjects.clone().filter(on_heap);
        let objects = heap.filter_map(|(_, id)| self.counted.objects.get(id.index()));
        let objects = objects.map(|known| known.len() as u64);
        let ty = subjects.clone().find_map(|(of, _)| of.ty);
        let name = subjects.clone().next();
        TypeRow {
            name: name.map_or_else(String::new, |(of, _)| self.resolver.subject(of)),
            kind,
            place,
            places,
            size: ty.map(|ty| self.analysis.schema().size(ty)),
            objects: objects.reduce(|sum, part| sum + part),
            shared: self.analysis.knows_order().then(|| row.parts.sum.handed()),
            figures: row.parts.sum.figures(),
            functions: largest(&row.parts.parts),
        }
    }

    /// Only what has fields or is a variable: whole buckets have no lines and fields.
    fn is_named(subject: &Subject) -> bool {
        subject.ty.is_some() || !subject.label.is_empty()
    }

    fn fields(&mut self, line: LineSize) -> Vec<FieldRow> {
        let mut sums: BTreeMap<(String, FieldName), Parts> = BTreeMap::new();
        for (key, counts) in &self.rows {
            let subject = self.subject(key).clone();
            if !Self::is_named(&subject) {
                continue;
            }
            let field = match self.type_of(&subject) {
                Some(ty) => self.resolver.field(ty, key.offset, key.size),
                None => FieldName {
                    offset: 0,
                    path: "(all)".to_owned(),
                    size: 0,
                    aliases: Vec::new(),
                },
            };
            let name = self.name_of(&subject);
            let function = self.resolver.function(key.pc);
            sums.entry((name, field))
                .or_default()
                .add(key, counts, subject.percpu, function);
        }
        let mut rows: Vec<FieldRow> = sums
            .into_iter()
            .map(|((name, field), parts)| field_row(&name, &field, &parts, line))
            .collect();
        rows.sort_by(|a, b| {
            let key = |r: &FieldRow| (r.type_name.clone(), r.offset, r.field.clone());
            b.figures
                .accesses
                .cmp(&a.figures.accesses)
                .then_with(|| key(a).cmp(&key(b)))
        });
        rows
    }

    fn lines(&mut self, line: LineSize) -> Vec<LineRow> {
        // A variable without a type may have a type's name.
        let mut sums: BTreeMap<(String, u64, bool), LineParts> = BTreeMap::new();
        for (key, counts) in &self.rows {
            let subject = self.subject(key).clone();
            if !Self::is_named(&subject) {
                continue;
            }
            let field = self
                .type_of(&subject)
                .map(|ty| self.resolver.field(ty, key.offset, key.size));
            let name = self.name_of(&subject);
            let number = u64::from(key.offset) / line.bytes();
            let typed = field.is_some();
            sums.entry((name, number, typed)).or_default().add(
                key,
                counts,
                subject.percpu,
                field.as_ref(),
            );
        }
        let mut rows: Vec<LineRow> = sums
            .into_iter()
            .map(|((type_name, line, _), parts)| parts.row(&type_name, line))
            .collect();
        rows.sort_by(|a, b| {
            let key = |r: &LineRow| (r.type_name.clone(), r.line);
            b.figures
                .accesses
                .cmp(&a.figures.accesses)
                .then_with(|| key(a).cmp(&key(b)))
        });
        rows
    }

    fn functions(&mut self) -> Vec<FunctionRow> {
        let rows = self.by_code(|resolver, pc| resolver.function(pc).to_owned());
        let row = |(name, parts): (String, Parts)| FunctionRow {
            name,
            figures: parts.sum.figures(),
            types: largest(&parts.parts),
        };
        rows.into_iter().map(row).collect()
    }

    fn sources(&mut self) -> Vec<SourceRow> {
        let places = self.analysis.source_places();
        let rows = self.by_code(|resolver, pc| match places.at(pc) {
            Some(place) => CodeRow::Line(place),
            None => CodeRow::Function(resolver.function(pc).to_owned()),
        });
        rows.into_iter()
            .map(|(code, parts)| code.row(&parts))
            .collect()
    }

    /// Sums by what `code` says of an instruction, most accesses first, then in its order.
    fn by_code<C: Ord>(
        &mut self,
        mut code: impl FnMut(&mut Resolver<'a>, GuestAddr) -> C,
    ) -> Vec<(C, Parts)> {
        let mut sums: BTreeMap<C, Parts> = BTreeMap::new();
        for (key, counts) in &self.rows {
            let subject = self.subject(key).clone();
            let part = match &self.only {
                Some(only) => self.resolver.field(only.ty, key.offset, key.size).path,
                None => self.resolver.subject(&subject),
            };
            let code = code(&mut self.resolver, key.pc);
            sums.entry(code)
                .or_default()
                .add(key, counts, subject.percpu, &part);
        }
        let mut rows: Vec<(C, Parts)> = sums.into_iter().collect();
        rows.sort_by_key(|(_, parts)| Reverse(parts.sum.accesses()));
        rows
    }
}

/// What a row of `--by type` is of.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum RowOf<'s> {
    /// A type, by its name: all objects of it, wherever they are.
    Type(&'s str),
    /// A variable of a struct without a tag, or something without a type.
    Other(&'s Subject),
}

impl<'s> RowOf<'s> {
    fn new(analysis: &'s Analysis<'_>, subject: &'s Subject) -> RowOf<'s> {
        let about = subject.ty.and_then(|ty| analysis.schema().get(ty));
        match about.filter(|about| !about.name.is_empty()) {
            Some(about) => RowOf::Type(&about.name),
            None => RowOf::Other(subject),
        }
    }
}

/// The sums of a row of `--by type`, and how often each subject of it is accessed.
#[derive(Default)]
struct RowParts<'s> {
    parts: Parts,
    subjects: BTreeMap<(&'s Subject, SubjectId), u64>,
}

impl RowParts<'_> {
    /// Is it a variable or a heap block? Stacks, page tables and contents of pages are where the
    /// kernel puts them.
    fn is_placed_by_programmers(&self) -> bool {
        let mut groups = self.subjects.keys().map(|(of, _)| of.bucket.group());
        groups.any(|group| matches!(group, Group::Percpu | Group::Global | Group::Heap))
    }
}

/// Most accesses to what comes from other CPUs first.
fn sort_by_shared(rows: &mut [TypeRow]) {
    rows.sort_by(|a, b| {
        let key = |r: &TypeRow| (r.name.clone(), r.kind.clone(), r.place.clone());
        b.shared
            .cmp(&a.shared)
            .then(b.figures.accesses.cmp(&a.figures.accesses))
            .then_with(|| key(a).cmp(&key(b)))
    });
}

/// What a row of `--by source` is of.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum CodeRow<'p> {
    Line(&'p SourcePlace),
    /// Of code of which no lines are known.
    Function(String),
}

impl CodeRow<'_> {
    fn row(self, parts: &Parts) -> SourceRow {
        let (figures, types) = (parts.sum.figures(), largest(&parts.parts));
        match self {
            CodeRow::Line(place) => SourceRow {
                name: place.to_string(),
                file: Some(place.file.clone()),
                line: Some(place.line),
                functions: place.functions.clone(),
                figures,
                types,
            },
            CodeRow::Function(name) => SourceRow {
                name: name.clone(),
                file: None,
                line: None,
                functions: vec![name],
                figures,
                types,
            },
        }
    }
}
