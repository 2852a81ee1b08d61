//! Files generated from the types: `web/src/documents.ts`, `python/src/linemate/documents.py`,
//! docs/reference/json and docs/reference/columns.md. A test compares them with the types; with
//! `UPDATE` in the environment it writes them.

mod columns;
mod markdown;
mod python;
mod shape;
mod typescript;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use schemars::r#gen::{SchemaGenerator, SchemaSettings};

use self::shape::Declared;
use crate::{
    AdviceDocument, BaselineDocument, CaseResults, CheckDocument, CostsDocument, CoverageDocument,
    DeclaredDocument, DiffDocument, DoctorDocument, GrowthDocument, LayoutDocument,
    MachinesDocument, Page, PatchEvidence, Report, SurveyDocument, VerifyDocument, WhatIfDocument,
};

/// A document that a verb writes as JSON.
struct Root {
    /// Its page of docs/reference/json.
    page: &'static str,
    /// The command that writes it.
    command: &'static str,
    /// The name of the document's type.
    name: String,
    schema: &'static str,
}

/// The documents in the order of their pages, and every type that they consist of, by name.
struct Model {
    roots: Vec<Root>,
    types: BTreeMap<String, Declared>,
}

impl Model {
    /// Types belong to the page of the first document that has them.
    fn new() -> Model {
        let mut generator = SchemaSettings::draft07().into_generator();
        let mut roots = Vec::new();
        let mut add = |root: Root| roots.push(root);
        let made = &mut generator;
        add(root::<Report>(
            made,
            "report",
            "linemate report --json",
            Report::SCHEMA,
        ));
        add(root::<CostsDocument>(
            made,
            "costs",
            "linemate report --machine M --json",
            CostsDocument::SCHEMA,
        ));
        add(root::<WhatIfDocument>(
            made,
            "whatif",
            "linemate whatif --json",
            WhatIfDocument::SCHEMA,
        ));
        add(root::<CoverageDocument>(
            made,
            "whatif",
            "linemate whatif --coverage --json",
            CoverageDocument::SCHEMA,
        ));
        add(root::<DiffDocument>(
            made,
            "diff",
            "linemate diff --json",
            DiffDocument::SCHEMA,
        ));
        add(root::<AdviceDocument>(
            made,
            "advise",
            "linemate advise --type T --json",
            AdviceDocument::SCHEMA,
        ));
        add(root::<SurveyDocument>(
            made,
            "advise",
            "linemate advise --json",
            SurveyDocument::SCHEMA,
        ));
        add(root::<LayoutDocument>(
            made,
            "layout",
            "linemate layout --json",
            LayoutDocument::SCHEMA,
        ));
        add(root::<CheckDocument>(
            made,
            "check",
            "linemate check --json",
            CheckDocument::SCHEMA,
        ));
        add(root::<BaselineDocument>(
            made,
            "check",
            "linemate check --baseline",
            BaselineDocument::SCHEMA,
        ));
        add(root::<DeclaredDocument>(
            made,
            "check",
            "linemate check --recording --json",
            DeclaredDocument::SCHEMA,
        ));
        add(root::<GrowthDocument>(
            made,
            "growth",
            "linemate growth --json",
            GrowthDocument::SCHEMA,
        ));
        add(root::<CaseResults>(
            made,
            "case",
            "linemate case run --json",
            CaseResults::SCHEMA,
        ));
        add(root::<MachinesDocument>(
            made,
            "machines",
            "linemate machines --json",
            MachinesDocument::SCHEMA,
        ));
        add(root::<VerifyDocument>(
            made,
            "verify",
            "linemate verify --json",
            VerifyDocument::SCHEMA,
        ));
        add(root::<DoctorDocument>(
            made,
            "doctor",
            "linemate doctor --json",
            DoctorDocument::SCHEMA,
        ));
        add(root::<PatchEvidence>(
            made,
            "patch",
            "linemate patch --evidence",
            "without a version",
        ));
        add(root::<Page>(made, "page", "--html PAGE", Page::SCHEMA));
        let types = generator.definitions().iter();
        let types = types.map(|(name, schema)| (name.clone(), Declared::new(name, schema)));
        Model {
            roots,
            types: types.collect(),
        }
    }

    /// The types that `name` consists of, itself first, each after the first type that uses it and
    /// before that one's next.
    fn reach(&self, name: &str, reached: &mut Vec<String>) {
        if reached.iter().any(|known| known == name) {
            return;
        }
        reached.push(name.to_owned());
        if let Some(declared) = self.types.get(name) {
            for part in declared.parts() {
                self.reach(&part, reached);
            }
        }
    }
}

fn root<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    page: &'static str,
    command: &'static str,
    schema: &'static str,
) -> Root {
    generator.subschema_for::<T>();
    Root {
        page,
        command,
        name: T::schema_name(),
        schema,
    }
}

#[test]
fn what_is_made_of_the_types_is_what_they_give() {
    let model = Model::new();
    let mut files = markdown::pages(&model);
    files.push(columns::page());
    files.push((
        "web/src/documents.ts".to_owned(),
        typescript::declarations(&model),
    ));
    files.push((
        "python/src/linemate/documents.py".to_owned(),
        python::module(&model),
    ));
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, text) in files {
        let path = top.join(&name);
        if std::env::var_os("UPDATE").is_some() {
            assert!(std::fs::write(&path, &text).is_ok(), "cannot write {name}");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == text,
            "{name} is not what the types give: UPDATE=1 cargo test -p linemate-answers writes it"
        );
    }
}
