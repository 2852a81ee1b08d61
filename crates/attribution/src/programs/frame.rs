//! What instructions access in their own functions' frames, according to the debug information.

use std::collections::{BTreeMap, BTreeSet};

use linemate_dwarf::{FramePlace, ProgramCode, Register};
use linemate_programs::{Base, CodePlace, ElfAddr, Operand, Programs};
use linemate_types::{Name, Type, TypeId, TypeModel};

use super::atomics::atomic;

/// The maximum gap in bytes that a compiler leaves between two variables of a frame for alignment.
const GAP_MAX: i64 = 16;

/// What an instruction accesses in its own function's frame. `T`: the representation of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFrame<T> {
    /// Its name in tables, `FUNCTION: VARIABLE`.
    pub(crate) name: String,
    /// The struct that the variable or its element is; `None` for numbers, pointers and arrays of
    /// such.
    pub(crate) ty: Option<T>,
    /// Which byte of the struct, or of the variable.
    pub(crate) offset: u64,
    /// Whether an index is added, so that only the variable is known.
    pub(crate) indexed: bool,
}

impl<T> InFrame<T> {
    /// The same with its type as `convert` gives it; `None` if `convert` gives none.
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

/// What the instructions of a file at `places` access in their functions' frames.
pub(super) fn in_frames(
    programs: &Programs,
    file: u32,
    code: &ProgramCode<'_>,
    model: &TypeModel,
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
        let pc = *address;
        // `rbp` is a general register if it does not point to the frame.
        let framed = || code.cfa(pc).is_some_and(|(r, _)| r == register(base));
        if base != Base::STACK && !framed() {
            return None;
        }
        let mut found = in_frame(code, model, pc, instruction.operand, instruction.bytes)?;
        found.name = format!("{} ({image})", found.name);
        Some((*address, found))
    });
    found.collect()
}

fn register(base: Base) -> Register {
    Register(u16::from(base.0))
}

fn in_frame(
    code: &ProgramCode<'_>,
    model: &TypeModel,
    pc: ElfAddr,
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
        // A loop over another array may count from outside it: an access at the start must be to
        // this one.
        let before = |gap| at(displacement.checked_sub(gap)?);
        let ends_here =
            |gap| before(gap).is_some_and(|v| array_element(model, v.type_id).is_some());
        // An element's size as well: a loop over bytes that happens to start at an array of structs
        // is a copy.
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

/// A variable in the frame of a function that is in a call. `T`: the representation of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldVariable<T> {
    /// Its name in tables, `FUNCTION: VARIABLE`.
    pub(crate) name: Name,
    /// The struct that it or its element is; `None` for numbers, pointers and arrays of such.
    pub(crate) ty: Option<T>,
    pub(crate) size: u64,
    pub(crate) place: FramePlace,
}

impl<T> HeldVariable<T> {
    /// The same with its type as `convert` gives it; `None` if `convert` gives none.
    pub(super) fn with_type<U>(self, convert: impl Fn(T) -> Option<U>) -> Option<HeldVariable<U>> {
        let ty = match self.ty {
            Some(ty) => Some(convert(ty)?),
            None => None,
        };
        Some(HeldVariable {
            name: self.name,
            ty,
            size: self.size,
            place: self.place,
        })
    }
}

/// The variables in the frames of the functions that make `calls`, by calling instruction.
pub(super) fn held_in_calls(
    programs: &Programs,
    file: u32,
    code: &ProgramCode<'_>,
    model: &TypeModel,
    calls: &BTreeSet<ElfAddr>,
) -> Vec<(ElfAddr, Vec<HeldVariable<TypeId>>)> {
    let image = programs.image(file).map_or("", |image| image.name());
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    let mut all = Vec::new();
    for pc in calls {
        let Some(function) = code.function_at(*pc) else {
            continue;
        };
        let held = code.frame_variables(*pc).into_iter();
        let held = held.filter(|found| !found.variable.is_empty());
        let held = held.map(|found| {
            let name = format!("{}: {} ({image})", function.name, found.variable);
            // A function makes many calls: one copy of each name.
            let shared = names
                .entry(name)
                .or_insert_with_key(|n| Name::from(n.as_str()));
            HeldVariable {
                name: shared.clone(),
                ty: element(model, found.type_id),
                size: found.size,
                place: found.place,
            }
        });
        let held: Vec<HeldVariable<TypeId>> = held.collect();
        if !held.is_empty() {
            all.push((*pc, held));
        }
    }
    all
}

/// Bytes of an element, if the type is an array of several.
fn array_element(model: &TypeModel, id: TypeId) -> Option<u64> {
    match model.get(model.strip(id))? {
        Type::Array { element, count, .. } if *count > 1 => model.size_of(*element),
        _ => None,
    }
}

/// The struct that a type is, or that the elements of the array are; `None` for numbers.
pub(super) fn element(model: &TypeModel, id: TypeId) -> Option<TypeId> {
    let mut id = model.strip(id);
    // As deep as a model's types may nest.
    for _ in 0..linemate_types::MAX_DEPTH {
        match model.get(id)? {
            Type::Composite(_) => return atomic(model, id).is_none().then_some(id),
            Type::Array { element, .. } => id = model.strip(*element),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::process::Command;

    use linemate_dwarf::{ProgramFiles, ProgramTypes};
    use linemate_insn::x86_64::Instruction;
    use linemate_programs::Image;

    use super::*;

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

    /// What the instructions of `main` access in its frame: name, whether a struct, which byte,
    /// whether by an index.
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
        let found = Instruction::all(body, main.address).filter_map(|instruction| {
            let bytes = instruction.operand_bytes() as u16;
            let (pc, operand) = (instruction.address(), instruction.operand());
            in_frame(&code, types.model(), pc, operand, bytes)
        });
        let found = found.map(|f| (f.name, f.ty.is_some(), f.offset, f.indexed));
        found.collect()
    }

    #[test]
    fn variables_of_the_frame_are_reported_and_what_an_index_makes_doubtful_is_not() {
        let found = of_main();
        let has = |name: &str, typed, offset, indexed| {
            found.contains(&(format!("main: {name}"), typed, offset, indexed))
        };
        assert!(has("count", false, 0, false), "{found:?}");
        assert!(has("pair", true, 4, false), "{found:?}");
        // One of the two starts where the other ends.
        let indexed = ["lower", "upper"].map(|name| has(name, false, 0, true));
        assert!(indexed[0] != indexed[1], "{found:?}");
        assert!(has("lower", false, 0, false) && has("upper", false, 0, false));
    }
}
