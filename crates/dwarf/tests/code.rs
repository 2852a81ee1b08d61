//! What the code of compiled programs shows, compared with what the programs print about
//! themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroU32;
use std::process::Command;

use linemate_dwarf::{
    ElfAddr, FramePlace, ProgramCode, ProgramFiles, ProgramTypes, Register, Storage,
};
use linemate_types::ByteOffset;

const RDI: Register = Register(5);
const RSI: Register = Register(4);
const RDX: Register = Register(1);

/// A compiled program: its bytes, and its output, by the first word of the line.
struct Compiled {
    bytes: Vec<u8>,
    printed: String,
}

impl Compiled {
    fn new(source: &str, compiler: &str, flags: &[&str]) -> Compiled {
        let mut all = vec!["-g", "-no-pie"];
        all.extend(flags);
        let program = common::compile(compiler, &[source], &all);
        let output = Command::new(&program.path).output().unwrap();
        Compiled {
            bytes: std::fs::read(&program.path).unwrap(),
            printed: String::from_utf8(output.stdout).unwrap(),
        }
    }

    /// The numbers after that word.
    fn numbers(&self, word: &str) -> Vec<i64> {
        let line = self.printed.lines().find(|line| line.starts_with(word));
        let words = line.unwrap().split_whitespace().skip(1);
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
            None => word.parse().unwrap(),
        };
        words.map(number).collect()
    }
}

fn with_code(compiled: &Compiled, check: impl FnOnce(&ProgramCode<'_>, &ProgramTypes)) {
    let files = ProgramFiles::new(&compiled.bytes, None, None).unwrap();
    let types = ProgramTypes::read(&files).unwrap();
    let code = ProgramCode::read(&files, &types).unwrap();
    check(&code, &types);
}

fn address(number: i64) -> ElfAddr {
    ElfAddr(u64::try_from(number).unwrap())
}

const FLAGS: [&[&str]; 4] = [
    &["-O2", "-gdwarf-5"],
    &["-O2", "-gdwarf-4"],
    &["-O0", "-gdwarf-5"],
    &["-O3", "-gdwarf-5", "-ffunction-sections", "-gz"],
];

#[test]
fn globals_are_where_the_program_says() {
    for flags in FLAGS {
        let compiled = Compiled::new("code.c", "gcc", flags);
        let addresses = compiled.numbers("globals");
        with_code(&compiled, |code, types| {
            let names = ["shared_left", "hidden", "plain"];
            for (name, at) in names.into_iter().zip(addresses) {
                let global = code.globals().iter().find(|g| g.name == name).unwrap();
                assert_eq!(global.storage, Storage::Static(address(at)), "{name}");
                let (found, offset) = code
                    .global_at(Storage::Static(ElfAddr(address(at).0 + 3)))
                    .unwrap();
                assert_eq!((found, offset), (global, ByteOffset(3)));
            }
            let left = code
                .globals()
                .iter()
                .find(|g| g.name == "shared_left")
                .unwrap();
            assert_eq!(left.size, 48);
            assert_eq!(types.model().type_name(left.type_id), "struct left[3]");
            let declared = left.declared.as_ref().unwrap();
            assert!(
                declared.file.ends_with("tests/programs/code.c"),
                "{declared:?}"
            );
            assert_eq!(declared.line.map(NonZeroU32::get), Some(15));
            let of_thread = code
                .globals()
                .iter()
                .find(|g| g.name == "of_thread")
                .unwrap();
            assert_eq!(of_thread.storage, Storage::ThreadLocal(0));
            assert_eq!(of_thread.size, 24);
            let at = |byte| code.global_at(Storage::ThreadLocal(byte));
            assert_eq!(at(16), Some((of_thread, ByteOffset(16))));
            assert!(at(24).is_none_or(|(g, _)| g.name != "of_thread"));
            assert!(
                code.globals().iter().any(|g| g.name == "calls"),
                "static in a function"
            );
            let end = Storage::Static(ElfAddr(address(compiled.numbers("globals")[0]).0 + 48));
            assert!(
                code.global_at(end)
                    .is_none_or(|(g, _)| g.name != "shared_left")
            );
        });
    }
}

#[test]
fn functions_have_their_parameters() {
    for flags in FLAGS {
        let compiled = Compiled::new("code.c", "gcc", flags);
        let [both, outer, _] = compiled.numbers("code")[..] else {
            panic!("{}", compiled.printed)
        };
        with_code(&compiled, |code, types| {
            let function = code.function_at(address(both)).unwrap();
            assert_eq!(function.name, "both");
            let parameters: Vec<(String, String)> = function
                .parameters
                .iter()
                .map(|p| (p.name.to_string(), types.model().type_name(p.type_id)))
                .collect();
            let expected = [
                ("one", "struct left *"),
                ("two", "const struct right *"),
                ("three", "long int"),
            ];
            assert_eq!(
                parameters,
                expected.map(|(n, t)| (n.to_owned(), t.to_owned()))
            );
            assert_eq!(function.declared.as_ref().unwrap().line.unwrap().get(), 26);
            let last = ElfAddr(function.ranges[0].end.0 - 1);
            assert_eq!(code.function_at(last).unwrap().name, "both");
            assert_eq!(code.function_at(address(outer)).unwrap().name, "outer");
            assert_eq!(code.function_at(ElfAddr(8)), None);
        });
    }
}

#[test]
fn arguments_are_in_their_registers_when_a_function_starts() {
    for flags in FLAGS.into_iter().filter(|flags| flags[0] != "-O0") {
        let compiled = Compiled::new("code.c", "gcc", flags);
        let [both, outer, sum] = compiled.numbers("code")[..] else {
            panic!("{}", compiled.printed)
        };
        with_code(&compiled, |code, types| {
            let model = types.model();
            let name = |pc, register| {
                code.pointer_in(address(pc), register)
                    .map(|id| model.type_name(id))
            };
            assert_eq!(name(both, RDI).as_deref(), Some("struct left"));
            assert_eq!(name(both, RSI).as_deref(), Some("struct right"));
            assert_eq!(name(both, RDX), None, "a number");
            // A struct in two registers: the pointer in it, and the number.
            let scalar = |register| code.scalar_in(address(sum), register);
            let bytes = scalar(RDI).map(|id| model.type_name(id));
            assert_eq!(bytes.as_deref(), Some("char"));
            assert_eq!(scalar(RSI), None);
            assert_eq!(name(outer, RDI).as_deref(), Some("struct right"));
            // Where the inlined function starts, its own parameter is the innermost.
            let function = code.function_at(address(outer)).unwrap();
            let inlined = (function.ranges[0].start.0..function.ranges[0].end.0)
                .find(|pc| {
                    let pointers = code.pointers_in(ElfAddr(*pc), RDI);
                    let first = pointers.first();
                    let is_inlined = code.source(ElfAddr(*pc)).unwrap().len() == 2;
                    is_inlined && first.is_some_and(|p| p.variable.as_str() == "inlined")
                })
                .unwrap();
            let frames = code.source(ElfAddr(inlined)).unwrap();
            let names: Vec<Option<&str>> = frames.iter().map(|f| f.function.as_deref()).collect();
            assert_eq!(names, [Some("bump"), Some("outer")]);
            assert_eq!((frames[0].line, frames[1].line), (33, 41));
            assert!(frames[0].file.as_ref().unwrap().ends_with("code.c"));
            assert_eq!(
                name(i64::try_from(inlined).unwrap(), RDI).as_deref(),
                Some("struct right")
            );
        });
    }
}

#[test]
fn locals_are_where_the_program_says() {
    let compiled = Compiled::new("code.c", "gcc", &["-O0"]);
    check_locals(&compiled, Register::RBP);
    // Optimised code counts from the stack pointer, unless compiled with a frame pointer.
    let compiled = Compiled::new("code.c", "gcc", &["-O2", "-fno-omit-frame-pointer"]);
    check_locals(&compiled, Register::RBP);
}

fn check_locals(compiled: &Compiled, register: Register) {
    let [on_stack, numbers, pc] = compiled.numbers("frame")[..] else {
        panic!("{}", compiled.printed)
    };
    with_code(compiled, |code, types| {
        let at = |displacement| code.variable_at(address(pc), register, displacement);
        for (name, start, size) in [("on_stack", on_stack, 24), ("numbers", numbers, 32)] {
            for byte in 0..size {
                let found = at(start + byte).unwrap();
                assert_eq!(found.variable.as_str(), name);
                assert_eq!(found.offset.0, byte as u64);
            }
        }
        let found = at(numbers).unwrap();
        assert_eq!(types.model().size_of(found.type_id), Some(32));
        assert_eq!(at(4096), None);
        let all = code.frame_variables(address(pc));
        for (name, start, size) in [("on_stack", on_stack, 24), ("numbers", numbers, 32)] {
            let found = all.iter().find(|v| v.variable.as_str() == name).unwrap();
            // The frame address is above the return address and the saved `rbp`.
            assert_eq!(found.place, FramePlace::AboveFrameAddress(start - 16));
            assert_eq!(found.size, size);
        }
    });
}

#[test]
fn functions_inlined_at_an_instruction_have_their_type_parameters() {
    let flags = ["--edition", "2024", "-C", "opt-level=3", "-g"];
    let program = common::compile("rustc", &["instances.rs"], &flags);
    let compiled = Compiled {
        bytes: std::fs::read(&program.path).unwrap(),
        printed: String::new(),
    };
    with_code(&compiled, |code, types| {
        let outer = code.functions().iter().find(|f| f.name == "outer").unwrap();
        let range = outer.ranges[0].clone();
        let here = |at| {
            let entries = code.instances_at(ElfAddr(at)).into_iter();
            let instances = entries.map(|entry| code.instance(entry).unwrap().unwrap());
            let told = instances.map(|instance| {
                let types = instance.type_parameters.iter().map(|p| {
                    let name = types.model().type_name(p.type_id);
                    format!("{} = {name}", p.name)
                });
                let name = instance.name.rsplit("::").next().unwrap().to_owned();
                (name, types.collect::<Vec<_>>().join(", "))
            });
            told.collect::<Vec<_>>()
        };
        let found: Vec<_> = (range.start.0..range.end.0).map(here).collect();
        let pair = |name: &str, types: &str| (name.to_owned(), types.to_owned());
        let whole = [
            pair("of", "A = u32, Q = u8"),
            pair("twice", "T = u32"),
            pair("outer", ""),
        ];
        // The innermost inlined function is `black_box`, or a part of it.
        assert!(
            found.iter().any(|here| here.ends_with(&whole)),
            "{found:#?}"
        );
        assert!(
            found.iter().all(|here| here.ends_with(&whole[2..])),
            "{found:#?}"
        );
        assert!(
            found.iter().any(|here| !here.contains(&whole[0])),
            "{found:#?}"
        );
        assert_eq!(code.instances_at(ElfAddr(1)), []);
    });
}
