//! What a program's code shows about its accesses: functions, globals, source lines, and which
//! struct a register points to.

mod facts;
mod frames;
mod functions;
mod instances;
mod lines;
mod place;
mod variables;

use std::ops::Range;
use std::sync::OnceLock;

use linemate_types::{ByteOffset, ElfAddr, Type, TypeId, TypeModel};

use self::frames::FrameTable;
use self::instances::Inlined;
use self::place::Where;
use self::variables::Interval;
use crate::units::Units;
use crate::{DieKey, DwarfError, ProgramFiles, ProgramTypes};

pub use self::facts::{
    FramePlace, FrameVariable, Function, FunctionParameter, Global, PointedTo, Register, Storage,
    VariableAt,
};
pub use self::instances::{FunctionInstance, TypeParameter};
pub use self::lines::{SourceFrame, SourceLines};

/// A program's code. The variables of a function are read at the first lookup.
pub struct ProgramCode<'d> {
    units: Units<'d>,
    types: &'d ProgramTypes,
    functions: Vec<Function>,
    /// By function: the position of its entry.
    entries: Vec<functions::EntryPlace>,
    /// All ranges of functions by start, with their function. They do not overlap.
    ranges: Vec<(Range<ElfAddr>, usize)>,
    globals: Vec<Global>,
    frames: FrameTable<'d>,
    lines: SourceLines<'d>,
    variables: Vec<OnceLock<Box<[Interval]>>>,
    inlined: Vec<OnceLock<Box<[Inlined]>>>,
}

impl<'d> ProgramCode<'d> {
    /// Reads the functions and globals of all units of `files`, whose types are `types`.
    ///
    /// # Errors
    /// If the debug information is split, or broken: see [`DwarfError`].
    pub fn read(
        files: &'d ProgramFiles<'_>,
        types: &'d ProgramTypes,
    ) -> Result<ProgramCode<'d>, DwarfError> {
        let units = Units::new(files)?;
        let found = functions::read(&units, types)?;
        let (functions, entries): (Vec<Function>, Vec<_>) = found.functions.into_iter().unzip();
        // Read on demand: most functions of a program are never looked up, and several threads look
        // up.
        let variables = functions.iter().map(|_| OnceLock::new()).collect();
        let inlined = functions.iter().map(|_| OnceLock::new()).collect();
        Ok(ProgramCode {
            ranges: functions::by_address(&functions),
            functions,
            entries,
            globals: found.globals,
            frames: FrameTable::new(files),
            lines: SourceLines::read(files)?,
            variables,
            inlined,
            units,
            types,
        })
    }

    /// The variables with static storage, by where they are.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// The variable with static storage that the byte at `byte` belongs to, and which of its bytes
    /// that is.
    pub fn global_at(&self, byte: Storage) -> Option<(&Global, ByteOffset)> {
        // `Static` sorts before `ThreadLocal`, so thread-local variables come after every address.
        let is_before = |global: &Global| global.storage <= byte;
        let index = self.globals.partition_point(is_before).checked_sub(1)?;
        let global = self.globals.get(index)?;
        let offset = match (byte, global.storage) {
            (Storage::Static(byte), Storage::Static(start)) => byte.0 - start.0,
            (Storage::ThreadLocal(byte), Storage::ThreadLocal(start)) => byte - start,
            _ => return None,
        };
        (offset < global.size).then_some((global, ByteOffset(offset)))
    }

    /// The functions with code, by their first address.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function that contains the code at `pc`; not one that is inlined there.
    pub fn function_at(&self, pc: ElfAddr) -> Option<&Function> {
        self.functions.get(self.function_index(pc)?)
    }

    fn function_index(&self, pc: ElfAddr) -> Option<usize> {
        let index = self.ranges.partition_point(|(range, _)| range.start <= pc);
        let (range, function) = self.ranges.get(index.checked_sub(1)?)?;
        range.contains(&pc).then_some(*function)
    }

    /// Where the instruction at `pc` is in the source: [`SourceLines::source`].
    ///
    /// # Errors
    /// If the line table of its unit is broken.
    pub fn source(&self, pc: ElfAddr) -> Result<Vec<SourceFrame>, DwarfError> {
        self.lines.source(pc)
    }

    /// The functions whose code is at `pc`, for [`ProgramCode::instance`]: innermost inlined one
    /// first, and last the one that contains the code. Empty if no function is known.
    pub fn instances_at(&self, pc: ElfAddr) -> Vec<DieKey> {
        let Some(function) = self.function_index(pc) else {
            return Vec::new();
        };
        let entry = &self.entries[function];
        // If one function is broken, only what is known about that function is lost.
        let inlined = self.inlined[function]
            .get_or_init(|| instances::read(&self.units, entry).unwrap_or_default());
        let mut found = instances::at(inlined, pc);
        found.push(instances::key(&self.units, entry));
        found
    }

    /// The function at an entry from [`ProgramCode::instances_at`].
    ///
    /// # Errors
    /// If the entry, or one that it refers to, is broken.
    pub fn instance(&self, entry: DieKey) -> Result<Option<FunctionInstance>, DwarfError> {
        instances::instance(&self.units, self.types, entry)
    }

    /// The variables with a known location when the instruction at `pc` starts.
    fn variables_at(&self, pc: ElfAddr) -> impl Iterator<Item = &Interval> {
        let known = self.function_index(pc).map(|function| {
            self.variables[function].get_or_init(|| {
                // If one function is broken, only what is known about that function is lost.
                variables::read(&self.units, self.types, &self.entries[function])
                    .unwrap_or_default()
            })
        });
        let all = known.map_or(&[][..], |known| known);
        all.iter()
            .filter(move |interval| interval.range.contains(&pc))
    }

    /// All structs that `register` points to or into when the instruction at `pc` starts, according
    /// to the variables in it: innermost scope first.
    pub fn pointers_in(&self, pc: ElfAddr, register: Register) -> Vec<PointedTo> {
        let model = self.types.model();
        let found = self.variables_at(pc).filter_map(|interval| {
            let (type_id, offset) = match interval.place {
                Where::Register(r) if r == register => (pointed_to(model, interval.type_id)?, 0),
                // The variable is the register plus an offset: the register is that far before the
                // object.
                Where::Sum(r, more) if r == register => {
                    (pointed_to(model, interval.type_id)?, more.checked_neg()?)
                }
                // The object itself is there, not a pointer to it.
                Where::Based(r, more) if r == register => {
                    (composite(model, interval.type_id)?, more.checked_neg()?)
                }
                _ => return None,
            };
            Some(PointedTo {
                type_id,
                offset,
                variable: interval.name.clone(),
                depth: interval.depth,
            })
        });
        let mut found: Vec<PointedTo> = found.collect();
        found.sort_by_key(|pointer| std::cmp::Reverse(pointer.depth));
        found
    }

    /// The struct, union or class whose start `register` points to when the instruction at `pc`
    /// starts, according to the variable in the innermost scope. `None` if there is no such
    /// variable, or several of one scope disagree.
    pub fn pointer_in(&self, pc: ElfAddr, register: Register) -> Option<TypeId> {
        let mut all = self.pointers_in(pc, register);
        // At other offsets, the type at the register is a member's, if any.
        all.retain(|pointer| pointer.offset == 0);
        let first = all.first()?;
        let mut others = all.iter().take_while(|other| other.depth == first.depth);
        others
            .all(|other| other.type_id == first.type_id)
            .then_some(first.type_id)
    }

    /// The number, enum or pointer that `register` points to when the instruction at `pc` starts,
    /// or to another element of its array: the declared target of the variable in the innermost
    /// scope. `None` if that is a struct or unknown, or several of one scope disagree.
    pub fn scalar_in(&self, pc: ElfAddr, register: Register) -> Option<TypeId> {
        let model = self.types.model();
        let pointers = self
            .variables_at(pc)
            .filter(|interval| match interval.place {
                // An unrolled loop advances its pointer once for many elements.
                Where::Register(r) | Where::Sum(r, _) => r == register,
                _ => false,
            })
            .filter_map(|interval| Some((interval.depth, model.pointer_target(interval.type_id)?)));
        let mut innermost: Option<(u32, Option<TypeId>)> = None;
        for (depth, target) in pointers {
            innermost = match innermost {
                Some((deepest, _)) if deepest > depth => innermost,
                // Two in one scope must agree; otherwise nothing is known for this depth.
                Some((deepest, known)) if deepest == depth => {
                    Some((depth, known.filter(|known| *known == target)))
                }
                _ => Some((depth, Some(target))),
            };
        }
        let target = innermost?.1.map(|target| model.scalar_of_rows(target));
        target.filter(|target| model.is_scalar(*target))
    }

    /// The variable that the byte at `register` + `displacement` belongs to when the instruction at
    /// `pc` starts: one on the stack, found by the call frame information, or one whose location is
    /// relative to the register.
    pub fn variable_at(
        &self,
        pc: ElfAddr,
        register: Register,
        displacement: i64,
    ) -> Option<VariableAt> {
        let model = self.types.model();
        let frame = self.frames.cfa(pc);
        let mut best: Option<(u32, VariableAt)> = None;
        for interval in self.variables_at(pc) {
            let start = match (interval.place, frame) {
                (Where::Based(r, start), _) if r == register => start,
                (Where::Cfa(start), Some((r, cfa))) if r == register => cfa.checked_add(start)?,
                _ => continue,
            };
            // A variable without a size has no bytes.
            let size = model.size_of(interval.type_id).unwrap_or(0);
            let offset = displacement.checked_sub(start);
            let offset = offset.and_then(|offset| u64::try_from(offset).ok());
            let Some(offset) = offset.filter(|offset| *offset < size) else {
                continue;
            };
            // Stack slots are reused: the innermost live variable is the one of this code.
            if best
                .as_ref()
                .is_none_or(|(depth, _)| *depth < interval.depth)
            {
                let found = VariableAt {
                    variable: interval.name.clone(),
                    type_id: interval.type_id,
                    offset: ByteOffset(offset),
                };
                best = Some((interval.depth, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The variables in memory in the frame of the function at `pc` when the instruction there
    /// starts, those of inlined functions included: innermost scope first. Stack slots are reused,
    /// so two may be in one place.
    pub fn frame_variables(&self, pc: ElfAddr) -> Vec<FrameVariable> {
        let model = self.types.model();
        let frame = self.frames.cfa(pc);
        let found = self.variables_at(pc).filter_map(|interval| {
            let place = in_frame(interval.place, frame)?;
            let size = model.size_of(interval.type_id).filter(|size| *size > 0)?;
            let variable = FrameVariable {
                variable: interval.name.clone(),
                type_id: interval.type_id,
                size,
                place,
            };
            Some((interval.depth, variable))
        });
        let mut found: Vec<(u32, FrameVariable)> = found.collect();
        found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        found.into_iter().map(|(_, variable)| variable).collect()
    }

    /// The canonical frame address when the instruction at `pc` starts: a register and an offset.
    /// `None` if the call frame information does not have it, or has it as an expression.
    pub fn cfa(&self, pc: ElfAddr) -> Option<(Register, i64)> {
        self.frames.cfa(pc)
    }
}

/// Where a variable is from the stack pointer where that is known, else from the canonical frame
/// address. `None` if it is not in the frame.
fn in_frame(place: Where, frame: Option<(Register, i64)>) -> Option<FramePlace> {
    match (place, frame) {
        (Where::Based(Register::RSP, at), _) => Some(FramePlace::AboveStackPointer(at)),
        (Where::Cfa(at), Some((Register::RSP, cfa))) => {
            Some(FramePlace::AboveStackPointer(cfa.checked_add(at)?))
        }
        (Where::Cfa(at), Some((Register::RBP, _))) => Some(FramePlace::AboveFrameAddress(at)),
        // `rbp` may be a general register, unless frame addresses are relative to it.
        (Where::Based(Register::RBP, at), Some((Register::RBP, cfa))) => {
            Some(FramePlace::AboveFrameAddress(at.checked_sub(cfa)?))
        }
        _ => None,
    }
}

/// The struct that a pointer or reference points to, through typedefs and qualifiers on both sides.
fn pointed_to(model: &TypeModel, id: TypeId) -> Option<TypeId> {
    model.pointer_to_composite(id)
}

fn composite(model: &TypeModel, id: TypeId) -> Option<TypeId> {
    let id = model.strip(id);
    matches!(model.get(id), Some(Type::Composite(_))).then_some(id)
}
