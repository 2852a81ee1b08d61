//! What functions and fields are called in all recordings of a series.

use linemate_attribution::{FieldRef, FunctionName, SubjectId};
use linemate_recording::GuestAddr;
use linemate_session::Session;

use crate::error::ExperimentError;
use crate::scene::Scene;
use crate::watch::Watch;

/// The names of one recording's functions and fields, as a [`Growth`](linemate_growth::Growth)
/// knows them.
#[derive(Debug)]
pub(crate) struct FieldNames<'a> {
    scene: Scene<'a>,
}

impl<'a> FieldNames<'a> {
    /// Of a recording.
    ///
    /// # Errors
    /// A recording without its number of CPUs.
    pub(crate) fn new(session: &'a Session<'a>) -> Result<FieldNames<'a>, ExperimentError> {
        let watch = Watch {
            every: true,
            ..Watch::default()
        };
        Ok(FieldNames {
            scene: Scene::new(session, &watch)?,
        })
    }

    /// The function of an instruction.
    pub(crate) fn function(&self, pc: GuestAddr) -> &'a str {
        FunctionName::at(self.scene.session.analysis().symbols(), pc).as_str()
    }

    /// `TYPE.PATH`; a variable, or what else it is, where there is no type.
    pub(crate) fn field(&self, field: FieldRef) -> &str {
        let typed = self.scene.types[field.subject.index()].is_some();
        let offset = if typed { field.offset } else { 0 };
        let key = self.scene.key(FieldRef { offset, ..field });
        &self.scene.keys[key.0 as usize].path
    }

    /// The type, or other name of the subject: accesses are counted for it where fields are not
    /// distinguished.
    pub(crate) fn subject(&self, subject: SubjectId) -> Option<&str> {
        let key = self.scene.subject_key(subject)?;
        Some(&self.scene.keys[key.0 as usize].path)
    }
}
