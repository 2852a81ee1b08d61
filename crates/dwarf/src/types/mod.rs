//! The types of a program.

mod bases;
mod digest;
mod emit;
mod node;
mod read;

use linemate_types::{TypeId, TypeModel};
use rustc_hash::FxHashMap;

use crate::units::Units;
use crate::{DieKey, DwarfError, ProgramFiles};

/// All types of a program, each once.
#[derive(Debug)]
pub struct ProgramTypes {
    model: TypeModel,
    ids: FxHashMap<DieKey, TypeId>,
    left_out: usize,
}

impl ProgramTypes {
    /// Reads the types of all units.
    ///
    /// A struct that several units describe is one type if its name, size and the names and offsets
    /// of its members are equal. A declaration is the type it declares, if the program has exactly
    /// one of that name.
    ///
    /// # Errors
    /// If the debug information is split, or broken: see [`DwarfError`].
    pub fn read(files: &ProgramFiles<'_>) -> Result<ProgramTypes, DwarfError> {
        ProgramTypes::of_units(&Units::new(files)?)
    }

    pub(crate) fn of_units(units: &Units<'_>) -> Result<ProgramTypes, DwarfError> {
        let nodes = read::read(units)?;
        // Every unit that includes a header describes its types: the digest merges them.
        let digested = digest::digest(&nodes, units.pointer_size())?;
        let emitted = emit::emit(&nodes, &digested)?;
        Ok(ProgramTypes {
            model: TypeModel::with_alignments(emitted.types, units.pointer_size())?,
            ids: emitted.ids,
            left_out: emitted.left_out,
        })
    }

    pub fn model(&self) -> &TypeModel {
        &self.model
    }

    pub fn into_model(self) -> TypeModel {
        self.model
    }

    /// The type that an entry describes; `None` if it describes none.
    pub fn type_of(&self, key: DieKey) -> Option<TypeId> {
        self.ids.get(&key).copied()
    }

    /// How many members the model leaves out: they do not fit into their type, or are nested too
    /// deeply.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}
