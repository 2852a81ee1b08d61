//! `linemate growth`: how accesses per CPU grow with the number of CPUs.

use clap::ValueEnum;
use linemate_answers::GrowthBy;
use linemate_documents::{growth_document, held_out_check};
use linemate_report::growth_text;

use crate::files::InFile;
use crate::kept::Keeping;
use crate::number::{CPUS_MAX, between};
use crate::outcome::Outcome;
use crate::page::TOOL;
use crate::question::recordings::{self, Recordings};
use crate::series;
use crate::show::Showing;

/// What rows are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GrowthRows {
    /// A function's accesses to a field
    Access,
    /// Fields of all types, and variables
    Field,
    /// Functions
    Function,
}

impl From<GrowthRows> for GrowthBy {
    fn from(rows: GrowthRows) -> GrowthBy {
        match rows {
            GrowthRows::Access => GrowthBy::Access,
            GrowthRows::Field => GrowthBy::Field,
            GrowthRows::Function => GrowthBy::Function,
        }
    }
}

/// Show how accesses per CPU grow with the number of CPUs, and predict them for more CPUs than were
/// recorded
///
/// Reads a series: three or more recordings of one workload on different numbers of CPUs
/// (`record --series`). docs/guide/many-cpus.md describes how to use it, docs/model/scaling.md the
/// curves and intervals.
#[derive(clap::Args, Debug)]
#[command(mut_arg("recordings", recordings::series))]
pub(crate) struct Args {
    #[command(flatten)]
    recordings: Recordings,
    /// Predict for this many CPUs, 1 to 8192
    #[arg(long, value_name = "N", default_value_t = 480, value_parser = between(1, CPUS_MAX))]
    cpus: usize,
    /// What the rows are
    #[arg(long, value_enum, default_value = "access")]
    by: GrowthRows,
    /// Check the predictions against this recording, which must not be one of the series
    #[arg(long, value_name = "FILE")]
    against: Option<InFile>,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    showing: Showing,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let growth = series::load(args.recordings.paths(), args.keeping)?;
    let by = args.by.into();
    let mut document = growth_document(TOOL, &growth, by, args.cpus);
    if let Some(path) = &args.against {
        let other = series::counts(path, args.keeping)?;
        document.against = Some(held_out_check(&growth, &other, by)?);
    }
    let text = || growth_text(&document, args.showing.top);
    args.showing.show(&document, text, None)?;
    Ok(Outcome::Fine)
}
