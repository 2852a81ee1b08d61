//! What is on programs' stacks, by the instruction that accesses it.
//!
//! An object on a stack has no allocation and no end that is told, so nothing is concluded from one access for another. An instruction that
//! reaches its own function's frame says by the debug information which variable it means; one that reaches it by a pointer to a struct says
//! which struct. All else on a stack has no name.

use std::collections::BTreeSet;

use linemate_dwarf::{ElfAddr as DwarfAddr, ProgramCode, Register};
use linemate_programs::{Base, CodePlace, ElfAddr, Operand, Programs};
use linemate_recording::{Access, GuestAddr};
use linemate_types::{Type, TypeId, TypeModel};
use rustc_hash::FxHashMap;

use super::code::Code;
use super::debug::{DebugInformation, Pointee, element};
use super::names::{InProgram, of_program};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// Most bytes that a compiler leaves between two variables of a frame because of their alignment.
const GAP_MAX: i64 = 16;

/// What of its own function's frame an instruction reaches. `T`: how types are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFrame<T> {
    /// `FUNCTION: VARIABLE`.
    pub(crate) name: String,
    /// The struct that the variable or its element is; `None` for numbers, pointers and arrays of such.
    pub(crate) ty: Option<T>,
    /// Which byte of the struct, or of the variable.
    pub(crate) offset: u64,
    /// Whether an index is added, so that only the variable is known.
    pub(crate) indexed: bool,
}

impl<T> InFrame<T> {
    /// The same with its type as `convert` gives it; `None` if it has one that that gives none for.
    pub(super) fn with_type<U>(self, convert: impl Fn(T) -> Option<U>) -> Option<InFrame<U>> {
        let ty = match self.ty {
            Some(ty) => Some(convert(ty)?),
            None => None,
        };
        Some(InFrame {
            name: self.name,
            ty,
            offset: self.offset,
            indexed: self.indexed,
        })
    }
}

/// What the instructions of a file at `places` reach of their functions' frames.
pub(super) fn in_frames(
    programs: &Programs,
    file: u32,
    (code, model): (&ProgramCode<'_>, &TypeModel),
    places: &BTreeSet<(ElfAddr, Base)>,
) -> Vec<(ElfAddr, InFrame<TypeId>)> {
    let image = programs.image(file).map_or("", |image| image.name());
    let own = places
        .iter()
        .filter(|(_, base)| matches!(*base, Base::STACK | Base::FRAME));
    let found = own.filter_map(|(address, _)| {
        let place = CodePlace {
            file,
            address: *address,
        };
        let instruction = programs.instruction(place);
        let (false, Operand::Based { base, .. }) = (instruction.uses_stack, instruction.operand)
        else {
            return None;
        };
        let pc = DwarfAddr(address.0);
        // `rbp` is a register like others where it does not lead to the frame.
        let framed = || code.cfa(pc).is_some_and(|(r, _)| r == register(base));
        if base != Base::STACK && !framed() {
            return None;
        }
        let mut found = in_frame((code, model), pc, instruction.operand, instruction.bytes)?;
        found.name = format!("{} ({image})", found.name);
        Some((*address, found))
    });
    found.collect()
}

fn register(base: Base) -> Register {
    Register(u16::from(base.0))
}

fn in_frame(
    (code, model): (&ProgramCode<'_>, &TypeModel),
    pc: DwarfAddr,
    operand: Operand,
    bytes: u16,
) -> Option<InFrame<TypeId>> {
    let Operand::Based {
        base,
        displacement,
        indexed,
    } = operand
    else {
        return None;
    };
    let at = |displacement| code.variable_at(pc, register(base), displacement);
    let found = at(displacement)?;
    let ty = element(model, found.type_id);
    let mut offset = found.offset.0;
    if indexed {
        // Loops over another array may count from outside of it: what begins here must be this one.
        let before = |gap| at(displacement.checked_sub(gap)?);
        let ends_here =
            |gap| before(gap).is_some_and(|v| array_element(model, v.type_id).is_some());
        let own = array_element(model, found.type_id) == Some(u64::from(bytes));
        if offset != 0 || ty.is_some() || !own || (1..=GAP_MAX).any(ends_here) {
            return None;
        }
    }
    if let Some(size) = ty.and_then(|ty| model.size_of(ty)) {
        offset = offset.checked_rem(size)?;
    }
    let function = code.function_at(pc)?;
    (!found.variable.is_empty()).then(|| InFrame {
        name: format!("{}: {}", function.name, found.variable),
        ty,
        offset,
        indexed,
    })
}

/// Bytes of an element, if the type is an array of several.
fn array_element(model: &TypeModel, id: TypeId) -> Option<u64> {
    match model.get(model.strip(id))? {
        Type::Array { element, count, .. } if *count > 1 => model.size_of(*element),
        _ => None,
    }
}

/// What an instruction reaches if that is on a stack.
#[derive(Clone, Copy, Debug)]
struct OnStack {
    subject: SubjectId,
    offset: u32,
    /// Bytes of its operand. An access to fewer is a part of it, nobody knows which.
    bytes: u16,
    object: bool,
}

/// Answers what instructions reach on stacks.
#[derive(Debug, Default)]
pub(super) struct StackNames(FxHashMap<GuestAddr, OnStack>);

impl StackNames {
    /// Of the instructions that reached a stack.
    pub(super) fn new(
        reached: impl Iterator<Item = GuestAddr>,
        (code, debug): (&Code, &DebugInformation),
        schema: &Schema,
        subjects: &mut Subjects,
    ) -> StackNames {
        let mut known: Vec<(GuestAddr, OnStack)> = Vec::new();
        for pc in reached.collect::<BTreeSet<_>>() {
            let Some(about) = code.at(pc) else { continue };
            let frame = debug.in_frame(about.place);
            // A call by a pointer in a struct: the load is from the struct, the return address goes to the stack.
            let pushes = about.instruction.uses_stack;
            let found = frame.map(|frame| of_frame(subjects, frame)).or_else(|| {
                let operand = Some(about.instruction.operand).filter(|_| !pushes)?;
                let (ty, offset) = pointed(operand, about.points_to, schema)?;
                Some((typed(subjects, ty), offset, true))
            });
            if let Some((subject, offset, object)) = found {
                let found = OnStack {
                    subject,
                    offset: clip(offset),
                    bytes: about.instruction.bytes,
                    object,
                };
                known.push((pc, found));
            }
        }
        StackNames(known.into_iter().collect())
    }

    /// What an access to a stack reached.
    pub(super) fn at(&self, access: &Access) -> Option<InProgram> {
        let found = self.0.get(&access.pc)?;
        (u16::from(access.size) == found.bytes).then_some(InProgram {
            subject: found.subject,
            offset: found.offset,
            object: found.object,
        })
    }
}

fn of_frame(subjects: &mut Subjects, frame: &InFrame<TypeIndex>) -> (SubjectId, u64, bool) {
    match frame.ty {
        Some(ty) => (typed(subjects, ty), frame.offset, true),
        None => {
            let named = subjects.number(Subject {
                label: frame.name.clone(),
                ..of_program(Bucket::StackNamed)
            });
            (named, frame.offset, !frame.indexed)
        }
    }
}

/// The struct that an instruction reaches by a pointer, and which byte of it.
fn pointed(
    operand: Operand,
    points_to: Option<Pointee>,
    schema: &Schema,
) -> Option<(TypeIndex, u64)> {
    match (operand, points_to) {
        (
            Operand::Based {
                displacement,
                indexed: false,
                ..
            },
            Some(Pointee::Struct(ty)),
        ) => {
            let offset = u64::try_from(displacement).ok()?;
            (offset < schema.size(ty)).then_some((ty, offset))
        }
        _ => None,
    }
}

fn typed(subjects: &mut Subjects, ty: TypeIndex) -> SubjectId {
    subjects.number(Subject {
        ty: Some(ty),
        ..of_program(Bucket::StackTyped)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::process::Command;

    use iced_x86::{Decoder, DecoderOptions};
    use linemate_dwarf::{ProgramFiles, ProgramTypes};
    use linemate_programs::{Image, operand_of};

    use super::*;
    use crate::schema::tests::sample;

    const SOURCE: &str = "
struct pair { int first, second; };
int main(int count, char **words)
{
    long index = count;
    volatile long lower[4], upper[4];
    struct pair pair;
    pair.second = count;
    lower[index] = 1;
    upper[index] = 2;
    return pair.second + lower[0] + upper[0] + (words == 0);
}";

    /// What the instructions of `main` reach of its frame: name, whether a struct, which byte, whether by an index.
    fn of_main() -> BTreeSet<(String, bool, u64, bool)> {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("frame.c"), folder.path().join("frame"));
        fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(["-O0", "-g", "-fno-stack-protector", "-o"]);
        let compiled = compiler.args([&program, &source]).status().unwrap();
        assert!(compiled.success());
        let bytes = fs::read(&program).unwrap();
        let image = Image::read("frame", &bytes, None).unwrap();
        let files = ProgramFiles::new(&bytes, None, None).unwrap();
        let types = ProgramTypes::read(&files).unwrap();
        let code = ProgramCode::read(&files, &types).unwrap();
        let main = image.functions.iter().find(|f| f.name == "main").unwrap();
        let offset = image.offset_of(main.address).unwrap() as usize;
        let body = &bytes[offset..][..main.size as usize];
        let mut decoder = Decoder::with_ip(64, body, main.address.0, DecoderOptions::NONE);
        let found = decoder.iter().filter_map(|instruction| {
            let bytes = instruction.memory_size().size() as u16;
            let operand = operand_of(&instruction);
            let parts = (&code, types.model());
            in_frame(parts, DwarfAddr(instruction.ip()), operand, bytes)
        });
        let found = found.map(|f| (f.name, f.ty.is_some(), f.offset, f.indexed));
        found.collect()
    }

    #[test]
    fn variables_of_the_frame_are_told_and_what_an_index_makes_doubtful_is_not() {
        let found = of_main();
        let has = |name: &str, typed, offset, indexed| {
            found.contains(&(format!("main: {name}"), typed, offset, indexed))
        };
        assert!(has("count", false, 0, false), "{found:?}");
        assert!(has("pair", true, 4, false), "{found:?}");
        // One of the two begins where the other ends.
        let indexed = ["lower", "upper"].map(|name| has(name, false, 0, true));
        assert!(indexed[0] != indexed[1], "{found:?}");
        assert!(has("lower", false, 0, false) && has("upper", false, 0, false));
    }

    #[test]
    fn a_pointer_leads_into_its_struct_alone() {
        let schema = sample();
        let (entity, size) = (TypeIndex(1), schema.size(TypeIndex(1)) as i64);
        let of = |displacement, indexed| {
            let operand = Operand::Based {
                base: Base(3),
                displacement,
                indexed,
            };
            pointed(operand, Some(Pointee::Struct(entity)), &schema)
        };
        assert_eq!(of(16, false), Some((entity, 16)));
        assert_eq!(of(size, false), None);
        assert_eq!(of(-8, false), None);
        assert_eq!(of(16, true), None);
    }
}
