//! Calls by which a standard library's vectors get memory: whose memory it is, their callers say.
//!
//! A vector grows in functions that are rarely inlined, and that several types of elements share:
//!
//! ```text
//! build ─ inlined Vec<Slot>::push ─► RawVec<Slot>::grow_one ─► RawVecInner::finish_grow ─► realloc
//! fill ─ inlined vector<Slot>::push_back ─► vector<Slot>::_M_realloc_insert ─► operator new
//! ```
//!
//! So the site of such a block is the call that enters the first of them. Where on the stack that
//! is follows from the functions' frames. Of C++'s libraries only libstdc++ is known.

use std::collections::BTreeMap;

use linemate_dwarf::{ProgramCode, Register};
use linemate_insn::x86_64::{Flow, Instruction, Move};
use linemate_programs::{Base, CodePlace, ElfAddr, Programs};
use linemate_types::{ByteSize, TypeId, TypeModel};

use super::elements::Elements;
use super::flow::pointer_at;

/// What the paths of standard libraries' source files contain: Rust's as it is built (by Debian in
/// /usr/src/rustc-VERSION) and as it is installed, C++'s, the C library's inline functions, GCC's
/// own.
const SOURCES: [&[&str]; 5] = [
    &["/rustc", "/library/"],
    &["/rustlib/src/rust/library/"],
    &["/include", "/c++/"],
    &["/include", "/bits/"],
    &["/lib/gcc/", "/include/"],
];

/// Whether a source file is a standard library's.
pub(crate) fn is_standard(file: &str) -> bool {
    let has = |parts: &&[&str]| {
        let mut rest = file;
        parts.iter().all(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    };
    SOURCES.iter().any(has)
}

/// How the names of the functions begin by which Rust's vectors get memory; the last one was no
/// method up to Rust 1.85.
const RUST_GROWTH: [&str; 2] = ["alloc::raw_vec::RawVec", "alloc::raw_vec::finish_grow"];

/// How the names of the functions begin that collect an iterator's elements in a vector or a boxed
/// slice. Code of the program is inlined there, which may ask for memory for elements.
const RUST_COLLECTS: [&str; 3] = [
    "alloc::vec::Vec<T> as alloc::vec::spec_from_iter",
    "alloc::vec::Vec<T> as core::iter::traits::collect::FromIterator",
    "alloc::boxed::iter::<impl core::iter::traits::collect::FromIterator",
];

/// How the names of libstdc++'s vectors begin.
const CPP_VECTOR: &str = "std::vector<";

/// Whether a function is one of those by which vectors get memory, by its name.
fn grows_vector(function: &str) -> bool {
    let name = function.strip_prefix('<').unwrap_or(function);
    let grows = RUST_GROWTH.iter().any(|start| name.starts_with(start));
    grows || collects(function) || cpp_class(function).is_some()
}

/// Whether a function collects an iterator's elements, by its name.
fn collects(function: &str) -> bool {
    let name = function.strip_prefix('<').unwrap_or(function);
    RUST_COLLECTS.iter().any(|start| name.starts_with(start))
}

/// The class of libstdc++'s vectors that a function is a method of.
fn cpp_class(function: &str) -> Option<&str> {
    let parameters = function.strip_prefix(CPP_VECTOR)?;
    let mut open = 1u32;
    let mut after = ' ';
    for (at, letter) in parameters.char_indices() {
        match letter {
            '<' => open += 1,
            // `->` closes nothing.
            '>' if after != '-' => open -= 1,
            _ => {}
        }
        after = letter;
        if open == 0 {
            let (class, method) = function.split_at(CPP_VECTOR.len() + at + 1);
            return method.starts_with("::").then_some(class);
        }
    }
    None
}

/// The elements of the vector that a function of libstdc++ is a method of: what the vector's first
/// member, the start of its elements, points to.
pub(super) fn cpp_elements(model: &TypeModel, function: &str) -> Option<TypeId> {
    let class = model.struct_named(cpp_class(function)?)?;
    pointer_at(model, &Elements::default(), class, 0)
}

/// A call inside a function by which vectors get memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrowthCall {
    /// The function's first instruction.
    pub(super) entry: ElfAddr,
    /// From where this call's return address is to where the function's own is.
    pub(super) frame: ByteSize,
}

/// A call that lets a vector grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LetsGrow {
    /// The elements of the vector that the called function is a method of, in C++.
    pub(super) callee: Option<TypeId>,
}

/// The calls of a file by which vectors get memory.
#[derive(Debug, Default)]
pub(super) struct VectorGrowth {
    /// Inside such functions, ascending.
    pub(super) inside: Vec<(ElfAddr, GrowthCall)>,
    /// Into such functions from outside.
    pub(super) from: BTreeMap<ElfAddr, LetsGrow>,
}

impl VectorGrowth {
    /// Of a file's `calls`.
    pub(super) fn of<'c>(
        programs: &Programs,
        file: u32,
        code: &ProgramCode<'_>,
        model: &TypeModel,
        calls: impl IntoIterator<Item = &'c ElfAddr>,
    ) -> VectorGrowth {
        let mut found = VectorGrowth::default();
        for call in calls {
            let address = *call;
            let target = programs.instruction(CodePlace { file, address }).target;
            let callee = target.and_then(|target| code.function_at(target));
            let callee = callee
                .map(|callee| &*callee.name)
                .filter(|n| grows_vector(n));
            let Some(caller) = code.function_at(address) else {
                continue;
            };
            if !grows_vector(&caller.name) {
                if let Some(callee) = callee {
                    let callee = cpp_elements(model, callee);
                    found.from.insert(address, LetsGrow { callee });
                }
                continue;
            }
            let class = cpp_class(&caller.name);
            let same = class.is_some() && callee.and_then(cpp_class) == class;
            let grows_only = class.is_none() && !collects(&caller.name);
            let own = grows_only || same || asks(code, address);
            let Some(range) = caller.ranges.first().filter(|_| own) else {
                continue;
            };
            // A call stores its return address 8 bytes below the stack pointer, and the function's
            // own is 8 bytes below the frame's address.
            let frame = match code.cfa(address) {
                Some((Register::RSP, frame)) => u64::try_from(frame).ok(),
                Some((Register::RBP, frame)) => {
                    let before = programs.code_in(file, &(range.start..address));
                    let below = below_frame_pointer(before, range.start);
                    below.and_then(|below| below.checked_add_signed(frame))
                }
                _ => None,
            };
            if let Some(frame) = frame {
                let call = GrowthCall {
                    entry: range.start,
                    frame: ByteSize(frame),
                };
                found.inside.push((address, call));
            }
        }
        found
    }
}

/// How far the stack pointer is below `rbp` once a function's prologue is over; `code` is the
/// function's from its `entry` on. A function that moves the stack pointer later gets a wrong
/// answer, which leads to no call that enters it.
fn below_frame_pointer(code: &[u8], entry: ElfAddr) -> Option<u64> {
    let mut instructions = Instruction::all(code, entry);
    let sets = Move::Copy {
        from: Base::STACK,
        to: Base::FRAME,
    };
    instructions.find(|instruction| instruction.moved() == Some(sets))?;
    let prologue = instructions.take_while(|instruction| instruction.flow() == Flow::Next);
    Some(prologue.fold(0, |below: u64, i| below.saturating_add(i.grows_stack())))
}

/// Whether a call in a method of libstdc++'s vectors, or where Rust collects elements, asks for
/// memory for the vector's elements: an element that is made there may ask for some, too.
fn asks(code: &ProgramCode<'_>, call: ElfAddr) -> bool {
    let asks = |name: &str| {
        let cpp = name.starts_with("std::_Vector_base<") && name.ends_with("_M_allocate");
        cpp || name.starts_with("alloc::raw_vec::RawVec")
    };
    // A closure that makes an element asks for the element's own vector.
    let mut asked = false;
    for entry in code.instances_at(call) {
        let instance = code.instance(entry).ok().flatten();
        let Some(name) = instance.map(|instance| instance.name) else {
            continue;
        };
        asked |= asks(&name);
        if name.contains("{closure") {
            return false;
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_libraries_are_known_by_their_paths() {
        for file in [
            "/rustc/59807616e1/library/core/src/sync/atomic.rs",
            "/usr/src/rustc-1.85.0/library/alloc/src/vec/mod.rs",
            "/opt/rust/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs",
            "/usr/include/c++/12/bits/vector.tcc",
            "/usr/lib/llvm-14/include/c++/v1/vector",
            "/usr/include/x86_64-linux-gnu/bits/string_fortified.h",
            "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h",
        ] {
            assert!(is_standard(file), "{file}");
        }
        for file in [
            "/src/app/library/src/queue.rs",
            "/usr/include/boost/lockfree/queue.hpp",
            "/src/app/bits/queue.h",
            "/opt/cargo/registry/src/index/crossbeam-0.8/src/lib.rs",
            "server.c",
        ] {
            assert!(!is_standard(file), "{file}");
        }
    }

    #[test]
    fn a_prologue_says_how_far_the_stack_is_below_the_frame_pointer() {
        // push rbp; mov rbp,rsp; push r15; push rbx; sub rsp,0x38; mov rbx,rsi; je; push rax
        let code = b"\x55\x48\x89\xe5\x41\x57\x53\x48\x83\xec\x38\x48\x89\xf3\x74\x10\x50";
        assert_eq!(below_frame_pointer(code, ElfAddr(0x1000)), Some(0x48));
        assert_eq!(below_frame_pointer(&code[4..], ElfAddr(0x1000)), None);
    }

    #[test]
    fn functions_that_grow_vectors_are_known_by_their_names() {
        for name in [
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::raw_vec::RawVec<alloc::vec::Vec<u8>>>::grow_one",
            "alloc::raw_vec::RawVecInner<A>::finish_grow",
            "alloc::raw_vec::finish_grow<alloc::alloc::Global>",
        ] {
            assert!(grows_vector(name), "{name}");
        }
        assert!(grows_vector(
            "std::vector<int, std::allocator<int> >::reserve"
        ));
        let collect =
            "<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter";
        assert!(grows_vector(collect) && collects(collect));
        assert!(!grows_vector("alloc::vec::Vec<T,A>::push"));
        assert!(!grows_vector("app::alloc::raw_vec::RawVec::new"));
        assert!(!grows_vector("std::vector_like::reserve"));
    }

    #[test]
    fn a_method_of_a_vector_has_its_class() {
        let of_vectors = "std::vector<std::vector<int> >::_M_realloc_insert<std::vector<int> >";
        assert_eq!(
            cpp_class(of_vectors),
            Some("std::vector<std::vector<int> >")
        );
        assert_eq!(cpp_class("std::vector<int>"), None);
        assert_eq!(cpp_class("std::vector<int"), None);
        let of_function = "std::vector<auto () -> int>::reserve";
        assert_eq!(cpp_class(of_function), Some("std::vector<auto () -> int>"));
    }
}
