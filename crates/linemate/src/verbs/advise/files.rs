//! The files that `linemate advise` writes: the edit, its evidence, its rules.

use linemate_advise::{Advice, Request};
use linemate_files::Output;
use linemate_recording::Recording;

use super::{Args, evidence, rules};
use crate::files::{OutEdit, OutFile};

/// The files that advice is written to.
pub(super) struct Files {
    edit: Option<Output>,
    evidence: Option<Output>,
    rules: Option<Output>,
}

impl Files {
    /// Before the search: it takes minutes.
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        let evidence = match (&args.evidence, &args.output) {
            (Some(given), _) => Some(given.output()?),
            (None, Some(edit)) => Some(Output::new(&evidence::beside(edit)?)?),
            (None, None) => None,
        };
        Ok(Files {
            edit: args.output.as_ref().map(OutEdit::output).transpose()?,
            evidence,
            rules: args.rules.as_ref().map(OutFile::output).transpose()?,
        })
    }

    /// Writes them, when there is something to recommend.
    pub(super) fn write(
        self,
        request: &Request,
        recordings: &[Recording],
        advice: &Advice,
    ) -> anyhow::Result<()> {
        let Some(best) = advice.recommended() else {
            return Ok(());
        };
        if let Some(output) = self.evidence {
            let evidence = evidence::of(request, recordings, advice, best);
            output.write(&(serde_json::to_string_pretty(&evidence)? + "\n"))?;
        }
        if let Some(output) = self.rules {
            let names = advice.shape.names.iter().flatten();
            let names: Vec<&str> = names.map(String::as_str).collect();
            output.write(&rules::of(&request.type_name, &names, best).to_string())?;
        }
        if let Some(output) = self.edit {
            output.write(&best.edits.to_string())?;
        }
        Ok(())
    }
}
