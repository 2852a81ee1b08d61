//! `--under` of the verbs that tell what a function costs.

use anyhow::Context;
use linemate_study::{Session, Under};

use crate::input;

/// Which function is asked about.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct UnderArgs {
    /// Tell what happens while this function of the kernel is on the stack: what it and all that it calls cost, and their share of all
    /// cycles (docs/guide/under.md)
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
