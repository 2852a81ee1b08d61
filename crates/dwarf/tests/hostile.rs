//! Broken debug information: an error or something sensible, never a panic, and quickly.
//!
//! The programs are the fuzzer's seeds, so nothing has to be compiled.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use linemate_dwarf::{
    Companions, DwarfError, ElfAddr, ProgramCode, ProgramFiles, ProgramTypes, Register, relocated,
    skeletons, split_ids,
};
use linemate_testkit::numbers::Numbers;
use linemate_types::{FlatType, Layout, LineSize, Type, pahole};

fn seed(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/dwarf");
    std::fs::read(folder.join(name)).unwrap()
}

/// Reads everything that can be read.
fn read(bytes: &[u8]) -> Result<usize, DwarfError> {
    let _ = Companions::of(bytes);
    if let Ok(skeletons) = skeletons(bytes) {
        let ids: BTreeSet<u64> = skeletons.iter().map(|skeleton| skeleton.id).collect();
        let _ = split_ids(bytes, &ids);
    }
    // The seeds of split programs have the split units, too.
    let files = ProgramFiles::new(bytes, None, None)?.with_split(&[bytes])?;
    let types = ProgramTypes::read(&files)?;
    let model = types.model();
    for (id, t) in model.iter() {
        if let Type::Composite(_) = t {
            Layout::new(model, id, LineSize::B64).unwrap();
            pahole::print(model, id, LineSize::B64).unwrap();
            let _ = FlatType::new(model, id);
        }
    }
    let code = ProgramCode::read(&files, &types)?;
    for function in code.functions() {
        let start = function.ranges[0].start;
        for pc in [start, ElfAddr(start.0 + 4)] {
            let _ = code.source(pc);
            let _ = code.frame_variables(pc);
            for register in 0..17 {
                code.pointer_in(pc, Register(register));
                code.variable_at(pc, Register(register), -16);
            }
        }
    }
    Ok(model.len())
}

const SEEDS: [&str; 7] = [
    "c-dwarf5",
    "c-split5",
    "c-split4-types",
    "c-package5-types",
    "c-dwarf4-compressed",
    "c-dwarf4-types",
    "cpp-dwarf5",
];

#[test]
fn changed_bytes_do_no_harm() {
    let mut numbers = Numbers(7);
    let (mut fine, mut refused) = (0, 0);
    for name in SEEDS {
        let whole = seed(name);
        assert!(read(&whole).unwrap() >= 8, "{name}");
        for _ in 0..1500 {
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.below(4) {
                let at = numbers.below(bytes.len());
                bytes[at] = match numbers.below(4) {
                    0 => 0,
                    1 => 0xff,
                    _ => u8::try_from(numbers.below(256)).unwrap(),
                };
            }
            let begun = Instant::now();
            match read(&bytes) {
                Ok(_) => fine += 1,
                Err(_) => refused += 1,
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        }
    }
    assert!(
        fine > 500 && refused > 500,
        "{fine} fine, {refused} refused"
    );
}

#[test]
fn what_the_fuzzer_found_does_no_harm() {
    let _ = read(&seed("range-that-overflows"));
}

#[test]
fn cut_files_are_refused() {
    for name in SEEDS {
        let whole = seed(name);
        for end in (0..whole.len()).step_by(97) {
            assert!(read(&whole[..end]).is_err(), "{name}: {end} bytes");
        }
    }
}

#[test]
fn what_is_not_read_is_reported() {
    let text = |result: Result<usize, DwarfError>| result.unwrap_err().to_string();
    let split = text(read(&seed("c-split")));
    assert!(
        split.contains("none of its 1 split units was found") && split.ends_with(".dwo"),
        "{split}"
    );
    assert!(text(read(b"#!/bin/sh\n")).starts_with("not an ELF program"));
    let mut object = seed("c-dwarf5");
    object[16] = 1; // e_type: ET_REL
    assert!(text(read(&object)).contains("not linked"));
}

#[test]
fn the_holes_of_an_object_are_filled() {
    let folder = std::env::temp_dir();
    let object = folder.join(format!("linemate-relocated-{}.o", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-g", "-c", "-x", "c", "-", "-o"]).arg(&object);
    let mut child = cc.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let source = b"struct first { int a; } x; struct second { struct first b; } y;";
    child.stdin.take().unwrap().write_all(source).unwrap();
    assert!(child.wait().unwrap().success());
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    assert!(read(&bytes).unwrap_err().to_string().contains("not linked"));
    let filled = relocated(bytes.clone()).unwrap();
    let types = ProgramTypes::read(&ProgramFiles::new(&filled, None, None).unwrap()).unwrap();
    let names: Vec<bool> = ["first", "second"]
        .map(|name| types.model().struct_named(name).is_some())
        .to_vec();
    assert_eq!(names, [true, true], "the names are in another section");
    for end in (0..bytes.len()).step_by(61) {
        let _ = relocated(bytes[..end].to_vec()).map(|cut| read(&cut).is_ok());
    }
    for at in (0..bytes.len()).step_by(7) {
        let mut broken = bytes.clone();
        broken[at] ^= 0xff;
        let _ = relocated(broken).map(|broken| read(&broken).is_ok());
    }
    let program = seed("c-dwarf5");
    assert_eq!(relocated(program.clone()).unwrap(), program);
}

#[test]
fn without_build_ids_any_debug_file_is_taken() {
    let (program, other) = (seed("c-dwarf5"), seed("cpp-dwarf5"));
    // There is nothing to compare.
    let files = ProgramFiles::new(&program, Some(&other), None).unwrap();
    assert!(ProgramTypes::read(&files).is_ok());
}

#[test]
fn packed_sections_are_unpacked_to_what_they_announce() {
    let whole = seed("c-dwarf5");
    let plain = scratch("plain");
    std::fs::write(&plain, &whole).unwrap();
    for kind in ["zlib", "zstd", "zlib-gnu"] {
        let packed = scratch(kind);
        let status = Command::new("objcopy")
            .arg(format!("--compress-debug-sections={kind}"))
            .arg(&plain)
            .arg(&packed)
            .status()
            .unwrap();
        assert!(status.success());
        let mut bytes = std::fs::read(&packed).unwrap();
        let _ = std::fs::remove_file(packed);
        let types = read(&bytes).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(types, read(&whole).unwrap(), "{kind}");
        // The size in the header of the first compressed section (Elf64_Chdr: ch_type, ch_reserved,
        // ch_size).
        let header: &[u8] = match kind {
            "zlib" => &[1, 0, 0, 0, 0, 0, 0, 0],
            "zstd" => &[2, 0, 0, 0, 0, 0, 0, 0],
            _ => continue,
        };
        let found = bytes.windows(8).enumerate().filter(|(_, w)| *w == header);
        let starts: Vec<usize> = found.map(|(at, _)| at + 8).collect();
        for size in [u64::MAX, 1 << 40, 1] {
            for at in &starts {
                bytes[*at..at + 8].copy_from_slice(&size.to_le_bytes());
            }
            assert!(read(&bytes).is_err(), "{kind}, {size} bytes");
        }
    }
    let _ = std::fs::remove_file(plain);
}

fn scratch(name: &str) -> std::path::PathBuf {
    let name = format!("hostile-{name}-{}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
