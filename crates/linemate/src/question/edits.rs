//! The edits that several verbs accept.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use linemate_experiment::variant::VariantError;
use linemate_layout::{Edit, EditFile, EditSubject, Plan, parse, parse_flags};
use linemate_study::WhatIfError;
use linemate_types::{KernelImage, LineSize, TypeModel};

use crate::files::InFile;
use crate::program;

/// The edited type. The type that `-e` and `--layout-from` edit, and that is reported, is the
/// question's.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EditArgs {
    /// A file of edits (docs/reference/edits.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["statements", "layout_from"])]
    pub(crate) edit: Option<InFile>,
    /// An edit, such as 'isolate __lock'; may be repeated
    #[arg(short = 'e', value_name = "EDIT", conflicts_with = "layout_from")]
    statements: Vec<String>,
    /// Take the type's layout from this other kernel
    #[arg(long, value_name = "IMAGE")]
    layout_from: Option<InFile>,
    /// Debug information of the recorded kernel (vmlinux, or a program that has its types, with
    /// DWARF): edited members keep the alignments that are declared there, instead of inferred ones
    #[arg(long, value_name = "FILE")]
    debuginfo: Option<InFile>,
}

impl EditArgs {
    /// Whether there are any.
    pub(crate) fn are_given(&self) -> bool {
        self.edit.is_some() || !self.statements.is_empty() || self.layout_from.is_some()
    }

    /// The edits: of the type `subject`, if they do not name one.
    pub(crate) fn edits(&self, subject: Option<&str>) -> anyhow::Result<EditFile> {
        if let Some(path) = &self.edit {
            let name = path.display().to_string();
            let text =
                linemate_files::read_text(path).with_context(|| format!("cannot read {name}"))?;
            let edits = parse(&text).map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
            if edits.is_empty() {
                bail!("{name}: it has no edits (docs/reference/edits.md)");
            }
            return Ok(edits);
        }
        let mut flags = self.statements.clone();
        if let Some(image) = &self.layout_from {
            flags.push(Edit::LayoutFrom(image.display().to_string()).to_string());
        }
        let edits = match subject {
            Some(name) => parse_flags(EditSubject::Named(name.to_owned()), &flags),
            None => parse(&flags.join("\n")),
        };
        let edits = edits.map_err(|error| anyhow::anyhow!("-e {error}"))?;
        if edits.is_empty() {
            bail!(
                "nothing to compare: give edits with --edit FILE, -e EDIT or --layout-from IMAGE"
            );
        }
        Ok(edits)
    }

    /// The edits with the type as the recording calls it: those of a file name their types
    /// themselves.
    pub(crate) fn meant(&self, edits: EditFile, subject: Option<&str>) -> anyhow::Result<EditFile> {
        match (&self.edit, subject) {
            (None, Some(_)) => self.edits(subject),
            _ => Ok(edits),
        }
    }

    /// The edits, and the alignments that `--debuginfo` declares for the edited members of `model`.
    pub(crate) fn as_declared(
        &self,
        mut edits: EditFile,
        model: &TypeModel,
        images: &BTreeMap<String, TypeModel>,
    ) -> anyhow::Result<EditFile> {
        let Some(path) = &self.debuginfo else {
            return Ok(edits);
        };
        let plan = Plan::new(model, LineSize::B64, &edits, images);
        let mut plan = plan.map_err(|error| self.located(&edits, WhatIfError::Plan(error)))?;
        let declared = linemate_layout::declared(&mut plan, &program::model(path)?);
        let declared = declared.with_context(|| path.display().to_string())?;
        edits.sections.extend(declared.sections);
        Ok(edits)
    }

    /// The prefix of errors about that place in the edits.
    fn origin(&self) -> String {
        match &self.edit {
            Some(path) => format!("{}:", path.display()),
            None => "-e ".to_owned(),
        }
    }

    /// An error with the place of its statement, if it has one.
    pub(crate) fn located(&self, edits: &EditFile, error: WhatIfError) -> anyhow::Error {
        let origin = self.origin();
        match error {
            WhatIfError::Plan(error) => anyhow::anyhow!("{origin}{error}"),
            WhatIfError::Variant(VariantError::NoFunction { ref name, .. }) => {
                let names =
                    |edit: &Edit| matches!(edit, Edit::Reuse { function, .. } if function == name);
                match edits.statements().find(|(_, s)| names(&s.edit)) {
                    Some((_, statement)) => anyhow::anyhow!("{origin}{}: {error}", statement.at),
                    None => error.into(),
                }
            }
            error => error.into(),
        }
    }

    /// The types of the kernels that the edits name.
    pub(crate) fn images(&self, edits: &EditFile) -> anyhow::Result<BTreeMap<String, TypeModel>> {
        let mut images = BTreeMap::new();
        for (_, statement) in edits.statements() {
            let Edit::LayoutFrom(path) = &statement.edit else {
                continue;
            };
            if !images.contains_key(path) {
                let place = || match self.layout_from {
                    Some(_) => path.clone(),
                    None => format!("{}{}: {path}", self.origin(), statement.at),
                };
                let bytes = linemate_files::read_file(path.as_ref()).with_context(place)?;
                let image = KernelImage::parse(&bytes).with_context(place)?;
                images.insert(path.clone(), image.types().with_context(place)?);
            }
        }
        Ok(images)
    }
}
