//! Synthetic functions with obvious answers.

use std::collections::BTreeMap;

use linemate_code::{AddressSources, address_sources};

const START: u64 = 0xffff_ffff_8100_0000;

/// By instruction's offset: offsets of the loads, and whether from outside.
fn sources(code: &[u8]) -> BTreeMap<u64, (Vec<u64>, bool)> {
    let found = address_sources(code, START);
    let relative = |(at, AddressSources { loads, outside }): (u64, AddressSources)| {
        let loads = loads.iter().map(|load| load - START).collect();
        (at - START, (loads, outside))
    };
    found.into_iter().map(relative).collect()
}

fn expected(rows: &[(u64, &[u64], bool)]) -> BTreeMap<u64, (Vec<u64>, bool)> {
    let row = |(at, loads, outside): &(u64, &[u64], bool)| (*at, (loads.to_vec(), *outside));
    rows.iter().map(row).collect()
}

#[test]
fn a_chain_comes_from_all_loads_before_it() {
    let code = [
        0x48, 0x8b, 0x05, 0x00, 0x10, 0x00, 0x00, //  0 mov rax, [rip+0x1000]
        0x48, 0x8b, 0x40, 0x10, //                    7 mov rax, [rax+16]
        0x48, 0x8d, 0x58, 0x08, //                    b lea rbx, [rax+8]
        0x48, 0x89, 0x0b, //                          f mov [rbx], rcx
        0x65, 0x48, 0x8b, 0x14, 0x25, 0, 0, 0, 0,    // 12 mov rdx, gs:[0]
        0xc3, //                                     1b ret
    ];
    let expected = expected(&[
        (0x00, &[], false),
        (0x07, &[0x00], false),
        (0x0f, &[0x00, 0x07], false),
        (0x12, &[], false),
        (0x1b, &[], false),
    ]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn a_loop_over_a_list_comes_from_itself_and_its_argument() {
    let code = [
        0x48, 0x8b, 0x3f, // 0 mov rdi, [rdi]
        0x8b, 0x47, 0x08, // 3 mov eax, [rdi+8]
        0x48, 0x85, 0xff, // 6 test rdi, rdi
        0x75, 0xf5, //       9 jne 0
        0x31, 0xc0, //       b xor eax, eax
        0xc3, //             d ret
    ];
    // Nothing is handed out: the result is a constant.
    let expected = expected(&[(0x0, &[0x0], true), (0x3, &[0x0], true), (0xd, &[], false)]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn what_is_returned_may_come_back_as_an_argument() {
    let code = [
        0x48, 0x8b, 0x47, 0x08, // 0 mov rax, [rdi+8]
        0xc3, //                   4 ret
    ];
    let expected = expected(&[(0x0, &[0x0], true), (0x4, &[], false)]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn calls_change_what_they_may_change() {
    let code = [
        0x48, 0x8b, 0x1d, 0, 0, 0, 0, //  0 mov rbx, [rip]
        0x48, 0x8b, 0x0d, 0, 0, 0, 0, //  7 mov rcx, [rip]
        0x31, 0xff, //                    e xor edi, edi
        0x31, 0xf6, //                   10 xor esi, esi
        0x31, 0xd2, //                   12 xor edx, edx
        0x31, 0xc0, //                   14 xor eax, eax
        0x45, 0x31, 0xc0, //             16 xor r8d, r8d
        0x45, 0x31, 0xc9, //             19 xor r9d, r9d
        0xe8, 0x00, 0x10, 0x00, 0x00, // 1c call elsewhere
        0x8b, 0x13, //                   21 mov edx, [rbx]
        0x8b, 0x10, //                   23 mov edx, [rax]
        0x31, 0xc0, //                   25 xor eax, eax
        0x31, 0xd2, //                   27 xor edx, edx
        0xc3, //                         29 ret
    ];
    let expected = expected(&[
        (0x00, &[], false),
        (0x07, &[], false),
        (0x1c, &[], false),
        // rbx is preserved by the called function; rax is its result, which may come from what rcx
        // passed out.
        (0x21, &[0x00], false),
        (0x23, &[0x07], true),
        (0x29, &[], false),
    ]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn both_ways_of_a_branch_meet() {
    let code = [
        0x48, 0x8b, 0x05, 0, 0, 0, 0, // 0 mov rax, [rip]
        0x85, 0xff, //                   7 test edi, edi
        0x74, 0x07, //                   9 je 12
        0x48, 0x8b, 0x05, 0, 0, 0, 0, // b mov rax, [rip]
        0x8b, 0x00, //                  12 mov eax, [rax]
        0x31, 0xc0, //                  14 xor eax, eax
        0x31, 0xd2, //                  16 xor edx, edx
        0xc3, //                        18 ret
    ];
    let expected = expected(&[
        (0x00, &[], false),
        (0x0b, &[], false),
        (0x12, &[0x00, 0x0b], false),
        (0x18, &[], false),
    ]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn a_choice_comes_from_what_it_compares() {
    let code = [
        0x48, 0x8b, 0x05, 0, 0, 0, 0, //       0 mov rax, [rip]
        0x48, 0x83, 0x3d, 0, 0, 0, 0, 0x00, // 7 cmp qword [rip], 0
        0x48, 0x0f, 0x44, 0xc4, //             f cmove rax, rsp
        0x8b, 0x00, //                        13 mov eax, [rax]
        0x31, 0xc0, //                        15 xor eax, eax
        0x31, 0xd2, //                        17 xor edx, edx
        0xc3, //                              19 ret
    ];
    let expected = expected(&[
        (0x00, &[], false),
        (0x07, &[], false),
        (0x13, &[0x00, 0x07], false),
        (0x19, &[], false),
    ]);
    assert_eq!(sources(&code), expected);
}

#[test]
fn what_no_path_leads_to_is_left_out() {
    let code = [
        0xff, 0xe0, // 0 jmp rax
        0x8b, 0x00, // 2 mov eax, [rax]
        0xc3, //       4 ret
    ];
    assert_eq!(sources(&code), expected(&[]));
}

/// Terminates on any bytes.
#[test]
fn bytes_that_are_no_code_end() {
    let mut state = 1u64;
    for length in 0..300usize {
        let code: Vec<u8> = (0..length)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for at in address_sources(&code, u64::MAX - 200).keys() {
            assert!(*at >= u64::MAX - 200 || length > 200);
        }
    }
}
