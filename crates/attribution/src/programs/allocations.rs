//! What a call allocates, according to the functions inlined there.
//!
//! Containers of the standard libraries request memory in functions that have the element type as a
//! parameter. If such a function is inlined into the code that calls the allocator, the debug
//! information says what the block holds, whether anything typed ever reaches it or not; so blocks
//! that only `memmove` and the kernel fill are known, too.
//!
//! A function that is itself an instance of a generic one says nothing: compilers merge identical
//! copies (`-fipa-icf` of GCC, LLVM's MergeFunctions), and the debug information is that of the
//! surviving one.

use std::collections::{BTreeMap, BTreeSet};

use linemate_dwarf::{DieKey, FunctionInstance, ProgramCode};
use linemate_programs::ElfAddr;
use linemate_types::{Language, Member, Type, TypeId, TypeModel};
use rustc_hash::FxHashMap;

use super::library::{LetsGrow, cpp_elements};

/// Rust's containers whose methods request memory for their parameter `T`; the others contain one
/// of these. A hash table's does not count, because its block has more than elements.
const RUST_CONTAINERS: [&str; 2] = ["alloc::raw_vec::RawVec<", "alloc::boxed::Box<"];

/// Those that have a vector of their `T`: what they call to let it grow is for elements.
const RUST_VECTORS: [&str; 2] = [
    "alloc::vec::Vec<",
    "alloc::collections::vec_deque::VecDeque<",
];

/// The classes of C++'s standard libraries whose `allocate` returns memory for the target type.
const CPP_ALLOCATORS: [&str; 2] = ["new_allocator<", "std::allocator<"];

/// Rust's wrapper types, which are what they hold.
const WRAPPERS: [&str; 3] = [
    "core::mem::maybe_uninit::MaybeUninit<",
    "core::mem::manually_drop::ManuallyDrop<",
    "core::mem::maybe_dangling::MaybeDangling<",
];

/// The elements that calls allocate, by call instruction, for those of `calls` made by a container.
/// `for_growth`: those of them that let a vector grow.
pub(super) fn allocations(
    code: &ProgramCode<'_>,
    model: &TypeModel,
    calls: &BTreeSet<ElfAddr>,
    for_growth: &BTreeMap<ElfAddr, LetsGrow>,
) -> Vec<(ElfAddr, TypeId)> {
    let mut known: FxHashMap<DieKey, AllocatingFunction> = FxHashMap::default();
    let mut about = |entry: DieKey| {
        *known.entry(entry).or_insert_with(|| {
            let instance = code.instance(entry).ok().flatten();
            instance.map_or(AllocatingFunction::default(), |i| {
                AllocatingFunction::of(model, &i)
            })
        })
    };
    let mut found = Vec::new();
    for call in calls {
        let here = code.instances_at(*call);
        // From the innermost inlined function to the one that contains the code.
        let Some((outer, inlined)) = here.split_last() else {
            continue;
        };
        // Also a generic function's inlined ones: the code is that of one instance, shared by
        // several.
        if inlined.is_empty() || about(*outer).generic {
            continue;
        }
        let grows = for_growth.get(call);
        let element = inlined.iter().find_map(|entry| {
            let AllocatingFunction {
                element, of_vector, ..
            } = about(*entry);
            // An element that is itself a vector may grow where its vector's method is inlined.
            let own = |grows: &LetsGrow| grows.callee.is_none_or(|of| Some(of) == of_vector);
            element.or(of_vector.filter(|_| grows.is_some_and(own)))
        });
        found.extend(element.map(|element| (*call, element)));
    }
    found
}

/// What is known about a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AllocatingFunction {
    /// The type of the elements that it requests memory for.
    element: Option<TypeId>,
    /// The type of the elements of the vector that it is a method of.
    of_vector: Option<TypeId>,
    /// Whether it is an instance of a generic function.
    generic: bool,
}

impl AllocatingFunction {
    fn of(model: &TypeModel, instance: &FunctionInstance) -> AllocatingFunction {
        let name = &*instance.name;
        let of_rust = |containers: &[&str]| {
            let name = name.strip_prefix('<').unwrap_or(name);
            let mut containers = containers.iter();
            containers
                .any(|start| name.starts_with(start))
                .then_some(())?;
            let mut parameters = instance.type_parameters.iter();
            Some(parameters.find(|p| &*p.name == "T")?.type_id)
        };
        let of_cpp = || {
            let class = name.strip_suffix("::allocate")?;
            let mut classes = CPP_ALLOCATORS.iter();
            classes.any(|word| class.contains(word)).then_some(())?;
            model.pointer_target(instance.result)
        };
        let sized = |id: TypeId| {
            let id = unwrapped(model, id);
            (model.size_of(id)? > 0).then_some(id)
        };
        let element = of_rust(&RUST_CONTAINERS).or_else(of_cpp);
        // In C++ the parameters of a method's class are not among its own.
        let in_name = instance.language != Some(Language::Rust) && name.contains('<');
        AllocatingFunction {
            element: element.and_then(sized),
            of_vector: of_rust(&RUST_VECTORS)
                .and_then(sized)
                .or_else(|| cpp_elements(model, name)),
            generic: in_name || !instance.type_parameters.is_empty(),
        }
    }
}

/// What a wrapper holds; anything else is itself.
fn unwrapped(model: &TypeModel, id: TypeId) -> TypeId {
    let mut id = model.strip(id);
    // As deep as a model's types may nest.
    for _ in 0..linemate_types::MAX_DEPTH {
        let Some(Type::Composite(composite)) = model.get(id) else {
            return id;
        };
        let is_wrapper = WRAPPERS.iter().any(|w| composite.name.starts_with(w));
        let mut members = composite.members.iter();
        let whole = |m: &&Member| model.size_of(m.type_id) == model.size_of(id);
        let inner = members.find(whole).filter(|_| is_wrapper);
        match inner {
            Some(inner) => id = model.strip(inner.type_id),
            None => return id,
        }
    }
    id
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::process::Command;

    use linemate_dwarf::{ProgramFiles, ProgramTypes};
    use linemate_insn::x86_64::{Flow, Instruction};
    use linemate_programs::Image;

    use super::*;

    /// What the calls of the function `fill` allocate.
    fn of_fill(source: &str, name: &str, compiler: &str, options: &[&str]) -> BTreeSet<String> {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join(name), folder.path().join("program"));
        fs::write(&text, source).unwrap();
        let mut compiler = Command::new(compiler);
        let compiler = compiler.args(options).args(["-g", "-o"]);
        let compiled = compiler.args([&program, &text]).status().unwrap();
        assert!(compiled.success());
        let bytes = fs::read(&program).unwrap();
        let image = Image::read("program", &bytes, None).unwrap();
        let files = ProgramFiles::new(&bytes, None, None).unwrap();
        let types = ProgramTypes::read(&files).unwrap();
        let code = ProgramCode::read(&files, &types).unwrap();
        let named = |f: &&linemate_dwarf::Function| {
            let name = f.name.rsplit("::").next();
            name.is_some_and(|name| name.contains("fill"))
        };
        let functions = code.functions().iter().filter(named);
        let ranges = functions.flat_map(|f| f.ranges.iter().cloned());
        let mut calls = BTreeSet::new();
        for range in ranges {
            let offset = image.offset_of(range.start).unwrap() as usize;
            let body = &bytes[offset..][..(range.end.0 - range.start.0) as usize];
            let all = Instruction::all(body, range.start);
            let instructions = all.filter(|instruction| instruction.flow() == Flow::Call);
            calls.extend(instructions.map(|instruction| instruction.address()));
        }
        assert!(!calls.is_empty());
        let found = allocations(&code, types.model(), &calls, &BTreeMap::new());
        let names = found.iter().map(|(_, id)| types.model().type_name(*id));
        names.collect()
    }

    const RUST: &str = "
use std::hint::black_box;
use std::mem::MaybeUninit;
pub struct Conn { pub id: u64, pub by: u32 }
#[inline(never)]
pub fn fill(count: usize) {
    let bytes: Vec<u8> = Vec::with_capacity(count);
    let conns: Vec<Conn> = Vec::with_capacity(count);
    let pointers: Vec<&Conn> = Vec::with_capacity(count);
    let unset: Vec<MaybeUninit<u16>> = Vec::with_capacity(count);
    let boxed = Box::new((count as u32, count as i64));
    black_box((bytes, conns, pointers, unset, boxed));
}
fn main() { fill(black_box(7)) }
";

    #[test]
    fn rusts_containers_ask_for_their_elements() {
        let options = ["--edition", "2024", "-C", "opt-level=3"];
        let found = of_fill(RUST, "fill.rs", "rustc", &options);
        let expected = [
            "struct (u32, i64)",
            "struct fill::Conn",
            "struct fill::Conn *",
            "u16",
            "u8",
        ];
        assert_eq!(found, expected.map(str::to_owned).into());
    }

    #[test]
    fn an_instance_of_a_generic_function_is_not_believed() {
        let generic = RUST
            .replace("fill(count: usize)", "fill<T>(count: usize, more: T)")
            .replace("black_box((bytes", "black_box((more, bytes")
            .replace("fill(black_box(7))", "fill(black_box(7), 8u8)");
        let options = ["--edition", "2024", "-C", "opt-level=3"];
        let found = of_fill(&generic, "fill.rs", "rustc", &options);
        assert_eq!(found, BTreeSet::new());
        let generic = CPP
            .replace("void fill(", "void fill(T, ")
            .replace("__attr", "template <class T> __attr")
            .replace("fill(count);", "fill(1, count);");
        let found = of_fill(&generic, "fill.cpp", "c++", &["-O2"]);
        assert_eq!(found, BTreeSet::new());
    }

    const CPP: &str = "
#include <vector>
struct Conn { long id; int by; };
std::vector<Conn> conns;
std::vector<short> numbers;
__attribute__((noinline)) void fill(int count)
{
    std::vector<Conn>(count).swap(conns);
    std::vector<short>(count).swap(numbers);
}
int main(int count, char **) { fill(count); }
";

    #[test]
    fn cpps_allocators_give_what_they_point_to() {
        let found = of_fill(CPP, "fill.cpp", "c++", &["-O2"]);
        let expected = ["short int", "struct Conn"];
        assert_eq!(found, expected.map(str::to_owned).into());
    }

    #[test]
    fn where_nothing_is_inlined_nothing_is_declared() {
        assert_eq!(of_fill(CPP, "fill.cpp", "c++", &["-O0"]), BTreeSet::new());
    }
}
