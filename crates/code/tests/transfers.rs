//! Which instructions call and return, by their bytes.

use linemate_code::{Transfer, transfers};
use linemate_recording::GuestAddr;
use linemate_types::kernel_image::CodeSection;

const START: u64 = 0xffff_ffff_8100_0000;

#[test]
fn calls_and_returns_are_identified_by_their_bytes() {
    let rows: &[(&[u8], Option<Transfer>)] = &[
        (&[0xe8, 0, 0, 0, 0], Some(Transfer::Call)), // call
        (&[0xff, 0xd0], Some(Transfer::Call)),       // call rax
        (&[0xff, 0x14, 0x25, 0, 0, 0, 0], Some(Transfer::Call)), // call [0]
        (&[0xc3], Some(Transfer::Return)),           // ret
        (&[0xc2, 8, 0], Some(Transfer::Return)),     // ret 8
        (&[0x2e, 0xe9, 0, 0, 0, 0], Some(Transfer::Return)), // jmp, which was patched
        (&[0x48, 0xcf], Some(Transfer::InterruptReturn)), // iretq
        (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], None),     // jmp [rax*8], a switch
        (&[0x48, 0x0f, 0x07], None),                 // sysretq
        (&[0x55], None),                             // push rbp
        (&[0x8b, 0x07], None),                       // mov eax, [rdi]
        (&[0x90], None),                             // nop
        (&[0x75, 0], None),                          // jne
    ];
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (code, transfer) in rows {
        expected.push((GuestAddr(START + bytes.len() as u64), *transfer));
        bytes.extend_from_slice(code);
    }
    let section = CodeSection {
        address: START,
        bytes,
    };
    let elsewhere = [GuestAddr(0), GuestAddr(START - 1), GuestAddr(u64::MAX)];
    let asked = expected.iter().map(|(at, _)| *at).chain(elsewhere);
    let found = transfers(&[section], asked);
    for (at, transfer) in expected {
        assert_eq!(found.of(at), transfer, "{at}");
    }
    assert_eq!(found.of(elsewhere[0]), None);
}
