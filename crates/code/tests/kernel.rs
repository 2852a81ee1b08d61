//! What a kernel's image says about the instructions of a recording, and about a whole kernel.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use linemate_code::dependences;
use linemate_recording::GuestAddr;
use linemate_types::kernel_image::CodeSection;
use linemate_types::{KernelImage, Symbols};

const START: u64 = 0xffff_ffff_8100_0000;

/// Two functions: `a` loads from its argument and from what it loaded, `b` from a variable.
fn image() -> (Vec<CodeSection>, Symbols) {
    let code = [
        0x48, 0x8b, 0x47, 0x08, //       0 a: mov rax, [rdi+8]
        0x8b, 0x00, //                   4    mov eax, [rax]
        0xc3, //                         6    ret
        0xcc, //                         7
        0x48, 0x8b, 0x05, 0, 0, 0, 0,    // 8 b: mov rax, [rip]
        0xc3, //                         f    ret
    ];
    let section = CodeSection {
        address: START,
        bytes: code.to_vec(),
    };
    let text = "ffffffff81000000 T a\nffffffff81000008 T b\nffffffff81000010 T _etext\n\
                ffffffff82000000 T elsewhere\nffffffff82000010 T end\n";
    (vec![section], Symbols::parse_kallsyms(text).unwrap())
}

#[test]
fn instructions_are_found_by_their_function() {
    let (sections, symbols) = image();
    let at = |offset| GuestAddr(START + offset);
    let found = dependences(&sections, &symbols, [at(4)]);
    let a = found.of(at(0)).unwrap();
    assert_eq!(*a.loads, [at(0), at(4)], "the result may come back");
    assert_eq!(a.not_in, Some(at(0)..at(8)));
    let a = found.of(at(4)).unwrap();
    assert_eq!(*a.loads, [at(0), at(4)]);
    assert_eq!(a.not_in, Some(at(0)..at(8)));
    assert_eq!(found.of(at(8)), None, "nobody asked for b");
    let found = dependences(&sections, &symbols, [at(8)]);
    let b = found.of(at(8)).unwrap();
    assert_eq!((&*b.loads, &b.not_in), (&[][..], &None));
}

#[test]
fn what_is_in_no_section_is_not_known() {
    let (sections, symbols) = image();
    for address in [0, START - 1, 0xffff_ffff_8200_0000, u64::MAX] {
        assert!(dependences(&sections, &symbols, [GuestAddr(address)]).is_empty());
    }
}

#[test]
fn an_image_without_code_says_so() {
    let error = KernelImage::code(&[0x9f, 0xeb, 1, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it has no machine code: a vmlinuz or a vmlinux is needed"
    );
}
