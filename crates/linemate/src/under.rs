//! `--under` of the verbs that show what a function costs.

use anyhow::Context;
use linemate_study::{Session, Under};

use crate::input;

/// The function whose inclusive cost is shown.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct UnderArgs {
    /// Inclusive cost of kernel function F and its callees, as `perf report --children` (docs/guide/under.md)
    #[arg(long = "under", value_name = "F", value_parser = input::function_name)]
    pub(crate) function: Option<String>,
}

impl UnderArgs {
    /// When that function is on a stack; `None` if none was asked for.
    pub(crate) fn find(&self, session: &Session<'_>) -> anyhow::Result<Option<Under>> {
        let under = self.function.as_ref();
        let under = under.map(|function| Under::new(session, function));
        under.transpose().context("--under")
    }
}
