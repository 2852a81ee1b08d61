use linemate_dwarf::{ProgramFiles, ProgramTypes};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_testkit::elf;

use super::*;

/// Which instructions reach what, by address, in code that is entered with a `node` in `rdi`:
///
/// ```c
/// struct node { struct node *next; struct leaf *leaf; };
/// ```
fn reached(bytes: &[u8]) -> Vec<(u64, &'static str)> {
    let mut types = TypeList::default();
    let leaf = types.structure("leaf", 64, &[]);
    let to_leaf = types.pointer(leaf);
    let node = TypeId(to_leaf.0 + 2);
    let next = types.pointer(node);
    let members = [member("next", next, 0), member("leaf", to_leaf, 8)];
    assert_eq!(types.structure("node", 16, &members), node);
    let model = TypeModel::new(types.types, 8).unwrap();
    let program = elf::undescribed();
    let files = ProgramFiles::new(&program, None, None).unwrap();
    let read = ProgramTypes::read(&files).unwrap();
    let code = ProgramCode::read(&files, &read).unwrap();
    let instructions: Vec<Instruction> = Instruction::all(bytes, ElfAddr(0)).collect();
    let targets = instructions.iter().filter_map(Instruction::target);
    let mut entered = [None; 16];
    entered[usize::from(RDI)] = Some(Pointed::exact(node));
    let body = Body {
        instructions: &instructions,
        targets: &targets.collect(),
        entered,
    };
    let mut found = Vec::new();
    let mut flow = Flow::new(&code, &model, None);
    flow.walk(&body, &Slots::default(), |flow, instruction, registers| {
        if let Some((_, Pointed { ty, is_indexed })) = flow.reaches(instruction, registers) {
            let name = match (ty == node, is_indexed) {
                (true, false) => "node",
                (true, true) => "a node",
                (false, false) => "leaf",
                (false, true) => "a leaf",
            };
            let is_pointer = ty == to_leaf;
            assert!(ty == node || ty == leaf || is_pointer, "{ty:?}");
            let name = if is_pointer { "pointer" } else { name };
            found.push((instruction.address().0, name));
        }
    });
    found
}

#[test]
fn a_pointer_to_a_row_of_numbers_is_one_to_its_first() {
    let mut types = TypeList::default();
    let int = types.int("int", 4);
    let row = types.array(int, 10);
    let rows = types.array(row, 4);
    let leaf = types.structure("leaf", 64, &[]);
    let leaves = types.array(leaf, 4);
    let [row, rows, leaves] = [row, rows, leaves].map(|ty| types.pointer(ty));
    let model = TypeModel::new(types.types, 8).unwrap();
    let of = |id| pointer_at(&model, &Elements::new(&model), id, 0);
    assert_eq!([row, rows, leaves].map(of), [Some(int), Some(int), None]);
}

/// `rdi` by DWARF's numbers.
const RDI: u8 = 5;

#[test]
fn a_pointer_that_all_paths_load_is_known_where_they_join() {
    // 0: test esi,esi; je 9; 4: mov rax,[rdi]; jmp c; 9: mov rax,[rdi]; c: mov ecx,[rax]
    let same = b"\x85\xf6\x74\x05\x48\x8b\x07\xeb\x03\x48\x8b\x07\x8b\x08";
    assert_eq!(reached(same), [(4, "node"), (9, "node"), (12, "node")]);
}

#[test]
fn where_paths_differ_nothing_is_known_but_what_they_leave() {
    // 0: test esi,esi; je 9; 4: mov rax,[rdi]; jmp d; 9: mov rax,[rdi+8]; d: mov ecx,[rax];
    // f: mov ecx,[rdi]
    let different = b"\x85\xf6\x74\x05\x48\x8b\x07\xeb\x04\x48\x8b\x47\x08\x8b\x08\x8b\x0f";
    assert_eq!(reached(different), [(4, "node"), (9, "node"), (15, "node")]);
    // 0: xor eax,eax; test esi,esi; je 9; 6: mov rax,[rdi]; 9: mov ecx,[rax]
    let one_alone = b"\x31\xc0\x85\xf6\x74\x03\x48\x8b\x07\x8b\x08";
    assert_eq!(reached(one_alone), [(6, "node")]);
}

#[test]
fn what_follows_a_jump_or_a_return_is_not_entered_from_it() {
    // 0: mov rax,[rdi]; test esi,esi; je d; 7: mov rax,[rdi+8]; jmp f; d: mov ecx,[rax];
    // f: ret; 10: mov ecx,[rdi]
    let code = b"\x48\x8b\x07\x85\xf6\x74\x06\x48\x8b\x47\x08\xeb\x02\x8b\x08\xc3\x8b\x0f";
    assert_eq!(reached(code), [(0, "node"), (7, "node"), (13, "node")]);
}

#[test]
fn a_pointer_that_a_loop_passes_on_is_known_in_it() {
    // 0: mov rax,[rdi]; 3: mov ecx,[rax+0x10]; 6: mov rax,[rax]; test rax,rax; jne 3
    let list = b"\x48\x8b\x07\x8b\x48\x10\x48\x8b\x00\x48\x85\xc0\x75\xf5";
    assert_eq!(reached(list), [(0, "node"), (3, "node"), (6, "node")]);
}

/// A `node` has 16 bytes.
#[test]
fn what_is_added_to_a_pointer_leads_into_an_array() {
    // 0: mov rax,[rdi]; add rsi,rax; 6: mov ecx,[rsi+8]; 9: add rax,0x20; d: mov ecx,[rax];
    // f: add rax,8, where a node has a pointer; 13: mov ecx,[rax]; 15: lea rdx,[rdi+rdx*8];
    // 19: mov ecx,[rdx]
    let sums =
        b"\x48\x8b\x07\x48\x01\xc6\x8b\x4e\x08\x48\x83\xc0\x20\x8b\x08\x48\x83\xc0\x08\x8b\x08\
        \x48\x8d\x14\xd7\x8b\x0a";
    let expected = [
        (0, "node"),
        (6, "a node"),
        (13, "node"),
        (19, "pointer"),
        (25, "a node"),
    ];
    assert_eq!(reached(sums), expected);
    // 0: add rdx,[rdi]; 3: mov ecx,[rdx]; 5: mov rsi,[rdi]; 8: add rsi,rdi; b: mov ecx,[rsi]
    let others = b"\x48\x03\x17\x8b\x0a\x48\x8b\x37\x48\x01\xfe\x8b\x0e";
    assert_eq!(reached(others), [(0, "node"), (3, "a node"), (5, "node")]);
}

#[test]
fn a_loop_that_is_entered_at_its_end_has_what_was_known_before_it() {
    // 0: mov rax,[rdi]; jmp b; 5: nop; nop; 7: mov edx,edx; mov ecx,[rax]; b: test esi,esi;
    // jne 7
    let entered = b"\x48\x8b\x07\xeb\x06\x90\x90\x89\xd2\x8b\x08\x85\xf6\x75\xf8";
    assert_eq!(reached(entered), [(0, "node"), (9, "node")]);
    // The same if something else than padding, which may be entered, leads into it.
    // 5: xor eax,eax
    let otherwise = b"\x48\x8b\x07\xeb\x06\x31\xc0\x89\xd2\x8b\x08\x85\xf6\x75\xf8";
    assert_eq!(reached(otherwise), [(0, "node")]);
}

#[test]
fn a_register_that_a_loop_changes_is_unknown_in_it_and_known_after_it() {
    // 0: mov rax,[rdi]; 3: mov ecx,[rax]; 5: mov rax,[rdi+8]; test rax,rax; jne 3;
    // e: mov ecx,[rax]
    let changed = b"\x48\x8b\x07\x8b\x08\x48\x8b\x47\x08\x48\x85\xc0\x75\xf5\x8b\x08";
    assert_eq!(reached(changed), [(0, "node"), (5, "node"), (14, "leaf")]);
}

/// Each pass through a loop shows one more register of a chain of copies to have changed.
#[test]
fn loops_are_gone_through_until_nothing_changes() {
    // 0: mov rax,rdi; mov rbx,rdi; mov r12,rdi; 9: mov ecx,[rax]; mov rax,rbx; mov rbx,r12;
    // 11: mov r12,[rdi+8]; test esi,esi; jne 9; 19: mov ecx,[rdi]
    let three = b"\x48\x89\xf8\x48\x89\xfb\x49\x89\xfc\x8b\x08\x48\x89\xd8\x4c\x89\xe3\
        \x4c\x8b\x67\x08\x85\xf6\x75\xf0\x8b\x0f";
    assert_eq!(reached(three), [(17, "node"), (25, "node")]);
}

#[test]
fn a_loop_that_is_not_settled_leaves_nothing_known() {
    // The same with a chain of ten: 0: mov rax,rdi; … 1e: mov ecx,[rax]; mov rax,rbx; …
    // 3b: mov r14,[rdi+8]; test esi,esi; jne 1e
    let ten = b"\x48\x89\xf8\x48\x89\xfb\x48\x89\xfa\x49\x89\xf8\x49\x89\xf9\x49\x89\xfa\
        \x49\x89\xfb\x49\x89\xfc\x49\x89\xfd\x49\x89\xfe\x8b\x08\x48\x89\xd8\x48\x89\xd3\
        \x4c\x89\xc2\x4d\x89\xc8\x4d\x89\xd1\x4d\x89\xda\x4d\x89\xe3\x4d\x89\xec\x4d\x89\xf5\
        \x4c\x8b\x77\x08\x85\xf6\x75\xdb";
    // Not even `rdi`, which nothing changes, at 3b.
    assert_eq!(reached(ten), []);
}

#[test]
fn a_call_leaves_only_what_callees_preserve() {
    // 0: mov rbx,rdi; 3: mov rax,[rdi]; call 100; b: mov ecx,[rbx]; mov ecx,[rax];
    // mov ecx,[rdi]
    let call = b"\x48\x89\xfb\x48\x8b\x07\xe8\xf5\x00\x00\x00\x8b\x0b\x8b\x08\x8b\x0f";
    assert_eq!(reached(call), [(3, "node"), (11, "node")]);
}

#[test]
fn where_calls_and_indirect_jumps_land_nothing_is_known() {
    // 0: mov rbx,rdi; call 0; 8: mov ecx,[rbx]
    assert_eq!(reached(b"\x48\x89\xfb\xe8\xf8\xff\xff\xff\x8b\x0b"), []);
    // 0: mov rbx,rdi; test esi,esi; je b; 7: mov ecx,[rbx]; jmp rdx; b: mov ecx,[rbx]
    let indirect = b"\x48\x89\xfb\x85\xf6\x74\x04\x8b\x0b\xff\xe2\x8b\x0b";
    assert_eq!(reached(indirect), [(7, "node")]);
}
