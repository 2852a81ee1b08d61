//! The table on hand-made types and symbols.

use super::*;
use linemate_types::{Composite, CompositeKind, IntEncoding, Linkage, Name};

const TASK: TypeId = TypeId(3);
pub(super) const TASK_POINTER: TypeId = TypeId(4);
const CACHE: TypeId = TypeId(5);
const CACHE_POINTER: TypeId = TypeId(6);
const VOID_POINTER: TypeId = TypeId(7);
const VOID_ARRAY: TypeId = TypeId(8);
const PAIR: TypeId = TypeId(9);
const BIG: TypeId = TypeId(10);
const PAGE: TypeId = TypeId(11);
const PAGE_POINTER: TypeId = TypeId(12);
const UNION_POINTER: TypeId = TypeId(14);
pub(super) const LONG: TypeId = TypeId(1);
pub(super) const INT: TypeId = TypeId(2);

fn int(name: &str, size: u32) -> Type {
    let name = Name::from(name);
    Type::Int {
        name,
        size,
        bits: (size * 8) as u8,
        bit_offset: 0,
        encoding: IntEncoding::Unsigned,
    }
}

fn composite(name: &str, kind: CompositeKind, size: u32) -> Type {
    Type::Composite(Composite::new(kind, Name::from(name), size, Vec::new()))
}

/// Names and types of parameters.
pub(super) type Named<'a> = &'a [(&'a str, TypeId)];

/// Name, result and parameters; role, whether it returns, and what is read.
type Case<'a> = (&'a str, TypeId, Named<'a>, Role, bool, &'a [Parameter]);

/// A model of the types above and these functions.
pub(super) fn model(functions: &[(&str, TypeId, Named<'_>)]) -> TypeModel {
    let pointer = |target| Type::Pointer { target };
    let structure = |name, size| composite(name, CompositeKind::Struct, size);
    let mut types = vec![
        Type::Void,
        int("unsigned long", 8),
        int("unsigned int", 4),
        structure("task_struct", 64),
        pointer(TASK),
        structure("kmem_cache", 64),
        pointer(CACHE),
        pointer(TypeId::VOID),
        pointer(VOID_POINTER),
        structure("pair", 16),
        structure("big", 24),
        structure("page", 64),
        pointer(PAGE),
        composite("choice", CompositeKind::Union, 8),
        pointer(TypeId(13)),
    ];
    for (name, result, parameters) in functions {
        let prototype = TypeId(types.len() as u32);
        let parameters = parameters
            .iter()
            .map(|(name, id)| linemate_types::Parameter {
                name: Name::from(*name),
                type_id: *id,
            })
            .collect();
        types.push(Type::Prototype(Prototype {
            result: *result,
            parameters,
            variadic: false,
        }));
        types.push(Type::Function {
            name: Name::from(*name),
            prototype,
            linkage: Linkage::Global,
        });
    }
    TypeModel::new(types, 8).unwrap()
}

pub(super) fn symbols(text: &str) -> Symbols {
    Symbols::parse_kallsyms(text).unwrap()
}

fn sighting(register: Register, id: TypeId) -> Parameter {
    Parameter {
        register,
        meaning: Meaning::StructPointer(id.0),
    }
}

fn at(register: Register, meaning: Meaning) -> Parameter {
    Parameter { register, meaning }
}

fn only(list: &WatchList) -> &Function {
    assert_eq!(list.table.functions.len(), 1, "{list:?}");
    &list.table.functions[0]
}

#[test]
fn struct_pointers_are_sightings_in_their_registers() {
    let types = model(&[(
        "f",
        INT,
        &[
            ("n", INT),
            ("p", PAIR),
            ("t", TASK_POINTER),
            ("b", BIG),
            ("u", UNION_POINTER),
            ("last", TASK_POINTER),
            ("stack", TASK_POINTER),
        ],
    )]);
    let list = watch_list(
        &types,
        &symbols("ffffffff81000010 T f\nffffffff81000050 T g\n"),
    );
    let function = only(&list);
    assert_eq!(
        (function.entry, function.size),
        (GuestAddr(0xffff_ffff_8100_0010), 0x40)
    );
    // n: rdi, p: rsi and rdx, t: rcx, b: memory, u: r8, last: r9, stack: memory.
    let expected = [sighting(Register::Rcx, TASK), sighting(Register::R9, TASK)];
    assert_eq!(function.parameters, expected);
    assert_eq!((function.role, function.returns), (Role::Plain, false));
}

#[test]
fn a_large_result_takes_the_first_register() {
    let types = model(&[("f", BIG, &[("t", TASK_POINTER)])]);
    let list = watch_list(&types, &symbols("ffffffff81000010 T f\n"));
    assert_eq!(only(&list).parameters, [sighting(Register::Rsi, TASK)]);
}

#[test]
fn allocators_of_old_and_new_kernels() {
    use Register::{Rcx, Rdi, Rdx, Rsi};
    let cases: [Case<'_>; 9] = [
        (
            "kmem_cache_alloc",
            VOID_POINTER,
            &[("s", CACHE_POINTER), ("gfpflags", INT)],
            Role::HeapAlloc,
            true,
            &[at(Rdi, Meaning::Cache)],
        ),
        (
            "__kmalloc_cache_noprof",
            VOID_POINTER,
            &[("s", CACHE_POINTER), ("gfpflags", INT), ("size", LONG)],
            Role::HeapAlloc,
            true,
            &[at(Rdi, Meaning::Cache), at(Rdx, Meaning::Size)],
        ),
        (
            "kmem_cache_alloc_bulk_noprof",
            INT,
            &[
                ("s", CACHE_POINTER),
                ("flags", INT),
                ("size", LONG),
                ("p", VOID_ARRAY),
            ],
            Role::HeapAlloc,
            true,
            &[
                at(Rdi, Meaning::Cache),
                at(Rdx, Meaning::Count),
                at(Rcx, Meaning::ObjectArray),
            ],
        ),
        (
            "kfree",
            TypeId::VOID,
            &[("object", VOID_POINTER)],
            Role::HeapFree,
            false,
            &[at(Rdi, Meaning::Object)],
        ),
        (
            "kmem_cache_free_bulk",
            TypeId::VOID,
            &[("s", CACHE_POINTER), ("size", LONG), ("p", VOID_ARRAY)],
            Role::HeapFree,
            false,
            &[
                at(Rdi, Meaning::Cache),
                at(Rsi, Meaning::Count),
                at(Rdx, Meaning::ObjectArray),
            ],
        ),
        (
            "pcpu_alloc_noprof",
            VOID_POINTER,
            &[("size", LONG), ("align", LONG)],
            Role::PercpuAlloc,
            true,
            &[at(Rdi, Meaning::Size)],
        ),
        (
            "__alloc_pages_noprof",
            PAGE_POINTER,
            &[("gfp", INT), ("order", INT)],
            Role::PageAlloc,
            true,
            &[at(Rsi, Meaning::Order)],
        ),
        (
            "free_pages_prepare",
            INT,
            &[("page", PAGE_POINTER), ("order", INT)],
            Role::PageFree,
            false,
            &[at(Rdi, Meaning::Object), at(Rsi, Meaning::Order)],
        ),
        (
            "__vmalloc_node_range",
            VOID_POINTER,
            &[("size", LONG), ("align", LONG)],
            Role::VirtualAlloc,
            true,
            &[at(Rdi, Meaning::Size)],
        ),
    ];
    for (name, result, parameters, role, returns, expected) in cases {
        let types = model(&[(name, result, parameters)]);
        let list = watch_list(&types, &symbols(&format!("ffffffff81000010 T {name}\n")));
        let function = only(&list);
        assert_eq!((function.role, function.returns), (role, returns), "{name}");
        assert_eq!(function.parameters, expected, "{name}");
    }
}

#[test]
fn only_the_innermost_of_an_allocators_functions_is_special() {
    let types = model(&[
        ("pcpu_alloc", VOID_POINTER, &[("size", LONG)]),
        ("__alloc_percpu", VOID_POINTER, &[("size", LONG)]),
    ]);
    let outer = "ffffffff81000010 T __alloc_percpu\n";
    let inner = "ffffffff81000050 t pcpu_alloc\n";
    assert_eq!(
        only(&watch_list(&types, &symbols(outer))).name,
        "__alloc_percpu"
    );
    let both = watch_list(&types, &symbols(&format!("{outer}{inner}")));
    assert_eq!(only(&both).name, "pcpu_alloc");
}

#[test]
fn a_name_of_several_functions_is_left_out_unless_all_prototypes_are_there_and_agree() {
    let f: (&str, TypeId, Named<'_>) = ("f", INT, &[("t", TASK_POINTER)]);
    let other: (&str, TypeId, Named<'_>) = ("f", INT, &[("p", PAGE_POINTER)]);
    let two = symbols("ffffffff81000010 t f\nffffffff81000050 t f\n");
    let left_out = |types: &TypeModel| watch_list(types, &two).ambiguous == ["f"];
    assert!(left_out(&model(&[f])));
    assert!(left_out(&model(&[f, other])));
    let agreed = watch_list(&model(&[f, f]), &two);
    assert_eq!(
        (agreed.table.functions.len(), agreed.ambiguous.len()),
        (2, 0)
    );
}

#[test]
fn switches_interrupts_modules_and_clones() {
    let types = model(&[
        (
            "__switch_to",
            TASK_POINTER,
            &[("prev_p", TASK_POINTER), ("next_p", TASK_POINTER)],
        ),
        ("g", INT, &[("t", TASK_POINTER)]),
    ]);
    let list = watch_list(
        &types,
        &symbols(
            "ffffffff81000010 T __switch_to\nffffffff81000020 T asm_sysvec_reboot\n\
             ffffffff81000030 T asm_exc_page_fault\nffffffff81000040 t g.isra.0\n\
             ffffffffc0000000 t g\t[mod]\nffffffff82000000 D asm_exc_data\n",
        ),
    );
    let found: Vec<(&str, Role)> = list
        .table
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.role))
        .collect();
    let expected = [
        ("__switch_to", Role::ContextSwitch),
        ("asm_sysvec_reboot", Role::Interrupt),
        ("asm_exc_page_fault", Role::Interrupt),
    ];
    assert_eq!(found, expected);
}

#[test]
fn of_functions_at_one_address_the_one_that_shows_more_stays() {
    let types = model(&[
        ("a", INT, &[("t", TASK_POINTER)]),
        ("kfree", TypeId::VOID, &[("object", VOID_POINTER)]),
    ]);
    let list = watch_list(
        &types,
        &symbols("ffffffff81000010 T a\nffffffff81000010 T kfree\n"),
    );
    assert_eq!(only(&list).name, "kfree");
}

#[test]
fn pages_are_freed_where_every_path_comes_by() {
    let freeing: Named<'_> = &[("page", PAGE_POINTER), ("order", INT)];
    let names = [
        "free_unref_page",
        "__free_pages_ok",
        "free_pcp_prepare",
        "free_pages_prepare",
    ];
    let types = model(&names.map(|name| (name, INT, freeing)));
    let special = |count: usize| {
        let lines: String = names[..count]
            .iter()
            .enumerate()
            .map(|(i, name)| format!("ffffffff8100{i:02}00 t {name}\n"))
            .collect();
        let list = watch_list(&types, &symbols(&lines));
        let freed = list
            .table
            .functions
            .into_iter()
            .filter(|f| f.role == Role::PageFree);
        freed.map(|f| f.name).collect::<Vec<_>>()
    };
    assert_eq!(special(2), ["free_unref_page", "__free_pages_ok"]);
    assert_eq!(special(3), ["__free_pages_ok", "free_pcp_prepare"]);
    assert_eq!(special(4), ["free_pages_prepare"]);
}

#[test]
fn a_kernel_without_names_is_watched_for_its_call_stacks_and_page_tables_alone() {
    let list = nameless_watch_list(&symbols(
        "ffffffff81000010 T kfree\nffffffff81000020 T setup_new_exec\n\
         ffffffff81000030 T __switch_to\nffffffff81000040 t setup_new_exec\t[module]\n\
         ffffffff81000050 T asm_exc_page_fault\nffffffff81000060 T __switch_to_asm\n\
         ffffffff81000070 D __switch_to\n\
         ffffffff81000080 T do_syscall_64\nffffffff81000090 T wake_up_new_task\n",
    ));
    let row = |f: &Function| (f.name.clone(), f.role, f.parameters.len(), f.returns);
    let rows: Vec<_> = list.table.functions.iter().map(row).collect();
    let expected = [
        ("setup_new_exec", Role::Plain, 0),
        ("__switch_to", Role::ContextSwitch, 2),
        ("asm_exc_page_fault", Role::Interrupt, 0),
        ("do_syscall_64", Role::Plain, 0),
        ("wake_up_new_task", Role::Plain, 1),
    ];
    let expected = expected.map(|(name, role, n)| (name.to_owned(), role, n, false));
    assert_eq!(rows, expected);
    // Who runs before and after a switch, of no type.
    let tasks = [Register::Rdi, Register::Rsi].map(|register| Parameter {
        register,
        meaning: Meaning::StructPointer(0),
    });
    assert_eq!(list.table.functions[1].parameters, tasks);
}
