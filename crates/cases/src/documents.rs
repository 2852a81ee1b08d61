//! What the steps leave, read as what the verbs that made it wrote.

use std::collections::BTreeMap;

use linemate_answers::{
    Costs, CostsDocument, EventCount, Inputs, LedgerView, Report, TypeView, View, WhatIf,
    WhatIfDocument,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{StepId, Work};

/// The JSON that steps left.
pub type Outputs = BTreeMap<StepId, Value>;

/// A step's output that is not what its schema says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output of {step:?} is not what its schema says: {reason}")]
pub struct OutputError {
    pub step: String,
    pub reason: String,
}

/// What a check leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDocument {
    /// The last line that it printed.
    pub said: String,
}

/// The output of a step.
pub(crate) enum StepDocument {
    Report(Box<TypeReport>),
    Costs(Box<Costs>),
    WhatIf(Box<WhatIf>, Option<EventCount>),
    Check(CheckDocument),
}

/// A report on a type.
pub(crate) struct TypeReport {
    pub(crate) inputs: Inputs,
    pub(crate) ledger: LedgerView,
    pub(crate) of: TypeView,
}

impl StepDocument {
    /// Reads what `work` left; `None` for work that leaves no JSON.
    pub(crate) fn read(work: &Work, value: &Value) -> Result<Option<StepDocument>, String> {
        Ok(Some(match work {
            Work::Report { .. } => {
                let report = of_schema::<Report>(value, Report::SCHEMA)?;
                let View::Type(of) = report.view else {
                    return Err("it is not a report on a type".to_owned());
                };
                let (inputs, ledger) = (report.inputs, report.ledger);
                StepDocument::Report(Box::new(TypeReport {
                    inputs,
                    ledger,
                    of: *of,
                }))
            }
            Work::Costs { .. } | Work::Under { .. } => {
                let document = of_schema::<CostsDocument>(value, CostsDocument::SCHEMA)?;
                StepDocument::Costs(Box::new(document.costs))
            }
            Work::WhatIf { .. } | Work::Measure { .. } | Work::WhatIfUnder { .. } => {
                let document = of_schema::<WhatIfDocument>(value, WhatIfDocument::SCHEMA)?;
                let first = document.results.into_iter().next();
                let first = first.ok_or("it holds no result")?;
                StepDocument::WhatIf(Box::new(first), document.event)
            }
            Work::Check { .. } => StepDocument::Check(read_as(value)?),
            Work::Record { .. } | Work::Build { .. } => return Ok(None),
        }))
    }
}

/// Reads a document that says of which schema it is.
fn of_schema<'v, T: Deserialize<'v>>(value: &'v Value, schema: &str) -> Result<T, String> {
    match value.get("schema").and_then(Value::as_str) {
        Some(name) if name == schema => read_as(value),
        Some(name) => Err(format!("it is {name:?}, not {schema:?}")),
        None => Err(format!("it does not say that it is {schema:?}")),
    }
}

fn read_as<'v, T: Deserialize<'v>>(value: &'v Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}
