//! Figures out of the JSON that the steps leave (docs/schema-report.md, schema-costs.md, schema-whatif.md).

use serde_json::Value;

use crate::results::Measured;

/// A step's output that lacks what its schema promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output of {step:?} has no {pointer}")]
pub struct FigureError {
    /// The step's title.
    pub step: String,
    /// What is missing, as a JSON pointer.
    pub pointer: String,
}

/// The JSON of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output<'o> {
    pub(crate) step: &'o str,
    pub(crate) value: &'o Value,
}

impl<'o> Output<'o> {
    fn missing(&self, pointer: &str) -> FigureError {
        FigureError {
            step: self.step.to_owned(),
            pointer: pointer.to_owned(),
        }
    }

    pub(crate) fn at(self, pointer: &str) -> Result<Output<'o>, FigureError> {
        let value = self
            .value
            .pointer(pointer)
            .ok_or_else(|| self.missing(pointer))?;
        Ok(Output { value, ..self })
    }

    pub(crate) fn items(
        self,
        pointer: &str,
    ) -> Result<impl Iterator<Item = Output<'o>>, FigureError> {
        let items = self
            .at(pointer)?
            .value
            .as_array()
            .ok_or_else(|| self.missing(pointer))?;
        Ok(items.iter().map(move |value| Output { value, ..self }))
    }

    pub(crate) fn text(self, pointer: &str) -> Result<&'o str, FigureError> {
        let value = self.at(pointer)?.value;
        value.as_str().ok_or_else(|| self.missing(pointer))
    }

    pub(crate) fn number(self, pointer: &str) -> Result<f64, FigureError> {
        let value = self.at(pointer)?.value;
        value.as_f64().ok_or_else(|| self.missing(pointer))
    }

    pub(crate) fn count(self, pointer: &str) -> Result<u64, FigureError> {
        let value = self.at(pointer)?.value;
        value.as_u64().ok_or_else(|| self.missing(pointer))
    }

    pub(crate) fn texts(self, pointer: &str) -> Result<Vec<String>, FigureError> {
        let items = self.items(pointer)?;
        items.map(|item| item.text("").map(str::to_owned)).collect()
    }

    pub(crate) fn counts(self, pointer: &str) -> Result<Vec<u64>, FigureError> {
        let items = self.items(pointer)?;
        items.map(|item| item.count("")).collect()
    }

    /// A measure of a what-if.
    pub(crate) fn measured(self, pointer: &str) -> Result<Measured, FigureError> {
        let measure = self.at(pointer)?;
        Ok(Measured {
            without: measure.number("/without")?,
            with: measure.number("/with")?,
            difference: measure.number("/difference")?,
            bar: measure.number("/bar")?,
        })
    }
}
