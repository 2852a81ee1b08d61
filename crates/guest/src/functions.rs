//! The function table: which kernel functions the recorder watches, from BTF prototypes and the booted kernel's symbols.
//!
//! * Every function that takes a pointer to a struct in a register: each such argument is a sighting.
//! * The allocators, by name; what their parameters mean is told by the parameters' names and types, so that a
//!   kernel version need not be known.
//! * `__switch_to`, and the entries of interrupts and exceptions (assembly, so without prototypes).
//!
//! Not watched: functions without a prototype, and static functions that share their name with others: a prototype
//! tells no address, and the wrong one would make wrong sightings. Clones (`.isra.0`, `.part.0`, `.constprop.0`, `.cold`) have other
//! parameters than the prototype of their original says, and other symbols, so they are never matched.

use std::collections::BTreeMap;

use linemate_recording::{
    Function, FunctionTable, GuestAddr, MAX_PARAMETERS, Meaning, Parameter, Register, Role,
};
use linemate_types::{Prototype, Symbol, Symbols, Type, TypeId, TypeModel};

/// Integer argument registers in the order of the System V ABI.
const REGISTERS: [Register; 6] = [
    Register::Rdi,
    Register::Rsi,
    Register::Rdx,
    Register::Rcx,
    Register::R8,
    Register::R9,
];

/// Allocators that are watched whenever they are there. Each name also stands for itself with `_noprof` behind it, as
/// Linux 6.10 and later have it. None of them calls another one for the same object.
const ALWAYS: &[(&str, Role)] = &[
    ("kmem_cache_alloc", Role::HeapAlloc),
    ("kmem_cache_alloc_lru", Role::HeapAlloc),
    ("kmem_cache_alloc_node", Role::HeapAlloc),
    ("kmem_cache_alloc_bulk", Role::HeapAlloc),
    ("__kmalloc", Role::HeapAlloc),
    ("__kmalloc_node", Role::HeapAlloc),
    ("__kmalloc_node_track_caller", Role::HeapAlloc),
    ("__kmalloc_cache", Role::HeapAlloc),
    ("__kmalloc_cache_node", Role::HeapAlloc),
    ("__kmalloc_large", Role::HeapAlloc),
    ("__kmalloc_large_node", Role::HeapAlloc),
    ("kmalloc_trace", Role::HeapAlloc),
    ("kmalloc_node_trace", Role::HeapAlloc),
    ("kmalloc_large", Role::HeapAlloc),
    ("kmalloc_large_node", Role::HeapAlloc),
    ("kfree", Role::HeapFree),
    ("kmem_cache_free", Role::HeapFree),
    ("kmem_cache_free_bulk", Role::HeapFree),
    ("free_percpu", Role::PercpuFree),
    ("vfree", Role::VirtualFree),
];

/// Of each row, the first group of which something is there: the innermost functions, which all others call.
const FIRST_OF: &[(Role, &[&[&str]])] = &[
    (Role::PercpuAlloc, &[&["pcpu_alloc"], &["__alloc_percpu", "__alloc_percpu_gfp"]]),
    (Role::PageAlloc, &[&["__alloc_frozen_pages"], &["__alloc_pages"]]),
    (
        Role::PageFree,
        &[
            &["__free_pages_prepare"],
            &["free_pages_prepare"],
            &["free_unref_page_prepare", "__free_pages_ok"],
            &["free_unref_page", "__free_pages_ok"],
        ],
    ),
    (Role::VirtualAlloc, &[&["__vmalloc_node_range"]]),
];

/// Interrupt and exception entries start like this.
const INTERRUPT_PREFIXES: [&str; 4] =
    ["asm_sysvec_", "asm_exc_", "asm_common_interrupt", "asm_spurious_interrupt"];

/// The table, and what had to be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    /// The functions to watch.
    pub table: FunctionTable,
    /// Functions with struct pointers that share their name with others, so that prototype and address
    /// cannot be brought together.
    pub ambiguous: Vec<String>,
}

/// Makes the table of a kernel.
#[must_use]
pub fn watch_list(types: &TypeModel, symbols: &Symbols) -> WatchList {
    let roles = roles(symbols);
    let mut by_entry: BTreeMap<u64, Function> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for (name, prototypes) in prototypes(types) {
        let role = roles.get(name).copied().unwrap_or(Role::Plain);
        let mut wanted = prototypes.iter().map(|prototype| parameters(types, prototype, role));
        let Some(parameters) = wanted.next() else { continue };
        if role == Role::Plain && parameters.is_empty() {
            continue;
        }
        let agreed = wanted.all(|other| other == parameters);
        let places: Vec<&Symbol> = symbols.named(name).filter(|s| is_kernel_code(s)).collect();
        // Several addresses need several prototypes that agree: one may have been told for all.
        if !agreed || places.len() > prototypes.len() {
            if !places.is_empty() {
                ambiguous.push(name.to_owned());
            }
            continue;
        }
        for place in places {
            insert(&mut by_entry, symbols, place, role, parameters.clone());
        }
    }
    for symbol in symbols.all().iter().filter(|s| is_kernel_code(s) && is_interrupt(&s.name)) {
        insert(&mut by_entry, symbols, symbol, Role::Interrupt, Vec::new());
    }
    WatchList { table: FunctionTable { functions: by_entry.into_values().collect() }, ambiguous }
}

fn is_kernel_code(symbol: &Symbol) -> bool {
    symbol.module.is_none() && matches!(symbol.letter, 't' | 'T' | 'w' | 'W')
}

fn is_interrupt(name: &str) -> bool {
    INTERRUPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Prototypes by name, each name's in the order of their ids.
fn prototypes(types: &TypeModel) -> BTreeMap<&str, Vec<&Prototype>> {
    let mut found: BTreeMap<&str, Vec<&Prototype>> = BTreeMap::new();
    for (_, name, prototype) in types.functions() {
        found.entry(name.as_str()).or_default().push(prototype);
    }
    found
}

/// Special functions of this kernel, by their symbols.
fn roles(symbols: &Symbols) -> BTreeMap<String, Role> {
    let variants = |name: &str| [name.to_owned(), format!("{name}_noprof")];
    let present = |name: &str| -> Vec<String> {
        let there = |name: &String| symbols.named(name).any(is_kernel_code);
        variants(name).into_iter().filter(there).collect()
    };
    let mut roles = BTreeMap::new();
    for (name, role) in ALWAYS {
        roles.extend(present(name).into_iter().map(|name| (name, *role)));
    }
    for (role, groups) in FIRST_OF {
        let found = groups.iter().map(|group| group.iter().flat_map(|n| present(n)).collect());
        let first: Option<Vec<String>> = found.into_iter().find(|names: &Vec<String>| !names.is_empty());
        roles.extend(first.into_iter().flatten().map(|name| (name, *role)));
    }
    roles.insert("__switch_to".to_owned(), Role::ContextSwitch);
    roles
}

/// What is to be read at entry.
fn parameters(types: &TypeModel, prototype: &Prototype, role: Role) -> Vec<Parameter> {
    let mut found = Vec::new();
    // A large struct is returned through a pointer that the caller passes first.
    let mut next = usize::from(registers_of(types, prototype.result).is_none());
    let bulk = prototype.parameters.iter().any(|p| is_pointer_to_void_pointer(types, p.type_id));
    for parameter in &prototype.parameters {
        let Some(count) = registers_of(types, parameter.type_id) else { continue };
        if next + count > REGISTERS.len() {
            // On the stack; a later, smaller one may still get a register.
            continue;
        }
        let register = REGISTERS.get(next).copied();
        next += count;
        let meaning = meaning(types, parameter.name.as_str(), parameter.type_id, role, bulk);
        if let (Some(register), Some(meaning)) = (register, meaning)
            && found.len() < MAX_PARAMETERS
        {
            found.push(Parameter { register, meaning });
        }
    }
    found
}

fn meaning(
    types: &TypeModel,
    name: &str,
    type_id: TypeId,
    role: Role,
    bulk: bool,
) -> Option<Meaning> {
    let structure = types.pointer_to_composite(type_id);
    let tag = structure.and_then(|id| types.composite(id)).map_or("", |c| c.name.as_str());
    let number = matches!(types.get(types.strip(type_id)), Some(Type::Int { .. }));
    let allocator = !matches!(role, Role::Plain | Role::ContextSwitch | Role::Interrupt);
    let special = match role {
        Role::HeapAlloc | Role::HeapFree if tag == "kmem_cache" => Some(Meaning::Cache),
        Role::HeapAlloc | Role::HeapFree if is_pointer_to_void_pointer(types, type_id) => {
            Some(Meaning::ObjectArray)
        }
        _ if allocator && number && bulk && matches!(name, "size" | "nr" | "count" | "nents") => {
            Some(Meaning::Count)
        }
        _ if allocator && number && matches!(name, "size" | "bytes") => Some(Meaning::Size),
        Role::PageAlloc | Role::PageFree if number && name == "order" => Some(Meaning::Order),
        Role::PageFree if tag == "page" => Some(Meaning::Object),
        Role::HeapFree | Role::PercpuFree | Role::VirtualFree
            if !bulk && is_pointer_to_void(types, type_id) =>
        {
            Some(Meaning::Object)
        }
        _ => None,
    };
    // A union pointer says too little: which member is meant, the prototype does not tell.
    let is_struct = structure.and_then(|id| types.composite(id)).is_some_and(|c| {
        c.kind == linemate_types::CompositeKind::Struct && c.size > 0
    });
    special.or_else(|| {
        structure.filter(|_| is_struct).map(|id| Meaning::StructPointer(id.0))
    })
}

fn is_pointer_to_void(types: &TypeModel, id: TypeId) -> bool {
    let Some(Type::Pointer { target }) = types.get(types.strip(id)) else { return false };
    matches!(types.get(types.strip(*target)), Some(Type::Void))
}

fn is_pointer_to_void_pointer(types: &TypeModel, id: TypeId) -> bool {
    let Some(Type::Pointer { target }) = types.get(types.strip(id)) else { return false };
    is_pointer_to_void(types, *target)
}

/// How many integer registers a value takes; `None` for what is passed in memory. Void takes one here, which
/// is right for results and cannot be a parameter. The kernel has no floating-point parameters.
fn registers_of(types: &TypeModel, id: TypeId) -> Option<usize> {
    match types.size_of(types.strip(id)) {
        None | Some(0..=8) => Some(1),
        Some(9..=16) => Some(2),
        Some(_) => None,
    }
}

/// Adds a function. Of several at one address the one that tells more stays, of equals the first by name.
fn insert(
    by_entry: &mut BTreeMap<u64, Function>,
    symbols: &Symbols,
    symbol: &Symbol,
    role: Role,
    parameters: Vec<Parameter>,
) {
    let size = symbols.size_estimate(symbol).unwrap_or(0);
    let function = Function {
        entry: GuestAddr(symbol.address),
        size: u32::try_from(size).unwrap_or(u32::MAX),
        name: symbol.name.clone(),
        role,
        returns: matches!(
            role,
            Role::HeapAlloc | Role::PercpuAlloc | Role::PageAlloc | Role::VirtualAlloc
        ),
        parameters,
    };
    let weight = |f: &Function| (f.role != Role::Plain, f.parameters.len());
    let known = by_entry.get(&symbol.address);
    if known.is_none_or(|known| weight(&function) > weight(known)) {
        by_entry.insert(symbol.address, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linemate_types::{Composite, CompositeKind, IntEncoding, Linkage, Name};

    const TASK: TypeId = TypeId(3);
    const TASK_POINTER: TypeId = TypeId(4);
    const CACHE: TypeId = TypeId(5);
    const CACHE_POINTER: TypeId = TypeId(6);
    const VOID_POINTER: TypeId = TypeId(7);
    const VOID_ARRAY: TypeId = TypeId(8);
    const PAIR: TypeId = TypeId(9);
    const BIG: TypeId = TypeId(10);
    const PAGE: TypeId = TypeId(11);
    const PAGE_POINTER: TypeId = TypeId(12);
    const UNION_POINTER: TypeId = TypeId(14);
    const LONG: TypeId = TypeId(1);
    const INT: TypeId = TypeId(2);

    fn int(name: &str, size: u32) -> Type {
        let name = Name::from(name);
        Type::Int { name, size, bits: (size * 8) as u8, bit_offset: 0, encoding: IntEncoding::Unsigned }
    }

    fn composite(name: &str, kind: CompositeKind, size: u32) -> Type {
        Type::Composite(Composite { kind, name: Name::from(name), size, members: Vec::new() })
    }

    /// A model of the types above and these functions.
    fn model(functions: &[(&str, TypeId, &[(&str, TypeId)])]) -> TypeModel {
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
                .map(|(name, id)| linemate_types::Parameter { name: Name::from(*name), type_id: *id })
                .collect();
            types.push(Type::Prototype(Prototype { result: *result, parameters, variadic: false }));
            types.push(Type::Function { name: Name::from(*name), prototype, linkage: Linkage::Global });
        }
        TypeModel::new(types, 8).unwrap()
    }

    fn symbols(text: &str) -> Symbols {
        Symbols::parse_kallsyms(text).unwrap()
    }

    fn sighting(register: Register, id: TypeId) -> Parameter {
        Parameter { register, meaning: Meaning::StructPointer(id.0) }
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
        let list = watch_list(&types, &symbols("ffffffff81000010 T f\nffffffff81000050 T g\n"));
        let function = only(&list);
        assert_eq!((function.entry, function.size), (GuestAddr(0xffff_ffff_8100_0010), 0x40));
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
        let cases: [(&str, TypeId, &[(&str, TypeId)], Role, bool, &[Parameter]); 9] = [
            ("kmem_cache_alloc", VOID_POINTER, &[("s", CACHE_POINTER), ("gfpflags", INT)],
             Role::HeapAlloc, true, &[at(Rdi, Meaning::Cache)]),
            ("__kmalloc_cache_noprof", VOID_POINTER, &[("s", CACHE_POINTER), ("gfpflags", INT), ("size", LONG)],
             Role::HeapAlloc, true, &[at(Rdi, Meaning::Cache), at(Rdx, Meaning::Size)]),
            ("kmem_cache_alloc_bulk_noprof", INT,
             &[("s", CACHE_POINTER), ("flags", INT), ("size", LONG), ("p", VOID_ARRAY)],
             Role::HeapAlloc, true,
             &[at(Rdi, Meaning::Cache), at(Rdx, Meaning::Count), at(Rcx, Meaning::ObjectArray)]),
            ("kfree", TypeId::VOID, &[("object", VOID_POINTER)],
             Role::HeapFree, false, &[at(Rdi, Meaning::Object)]),
            ("kmem_cache_free_bulk", TypeId::VOID, &[("s", CACHE_POINTER), ("size", LONG), ("p", VOID_ARRAY)],
             Role::HeapFree, false,
             &[at(Rdi, Meaning::Cache), at(Rsi, Meaning::Count), at(Rdx, Meaning::ObjectArray)]),
            ("pcpu_alloc_noprof", VOID_POINTER, &[("size", LONG), ("align", LONG)],
             Role::PercpuAlloc, true, &[at(Rdi, Meaning::Size)]),
            ("__alloc_pages_noprof", PAGE_POINTER, &[("gfp", INT), ("order", INT)],
             Role::PageAlloc, true, &[at(Rsi, Meaning::Order)]),
            ("free_pages_prepare", INT, &[("page", PAGE_POINTER), ("order", INT)],
             Role::PageFree, false, &[at(Rdi, Meaning::Object), at(Rsi, Meaning::Order)]),
            ("__vmalloc_node_range", VOID_POINTER, &[("size", LONG), ("align", LONG)],
             Role::VirtualAlloc, true, &[at(Rdi, Meaning::Size)]),
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
        assert_eq!(only(&watch_list(&types, &symbols(outer))).name, "__alloc_percpu");
        let both = watch_list(&types, &symbols(&format!("{outer}{inner}")));
        assert_eq!(only(&both).name, "pcpu_alloc");
    }

    #[test]
    fn a_name_of_several_functions_is_left_out_unless_all_prototypes_are_there_and_agree() {
        let f: (&str, TypeId, &[(&str, TypeId)]) = ("f", INT, &[("t", TASK_POINTER)]);
        let other: (&str, TypeId, &[(&str, TypeId)]) = ("f", INT, &[("p", PAGE_POINTER)]);
        let two = symbols("ffffffff81000010 t f\nffffffff81000050 t f\n");
        let left_out = |types: &TypeModel| watch_list(types, &two).ambiguous == ["f"];
        assert!(left_out(&model(&[f])));
        assert!(left_out(&model(&[f, other])));
        let agreed = watch_list(&model(&[f, f]), &two);
        assert_eq!((agreed.table.functions.len(), agreed.ambiguous.len()), (2, 0));
    }

    #[test]
    fn switches_interrupts_modules_and_clones() {
        let types = model(&[
            ("__switch_to", TASK_POINTER, &[("prev_p", TASK_POINTER), ("next_p", TASK_POINTER)]),
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
        let found: Vec<(&str, Role)> =
            list.table.functions.iter().map(|f| (f.name.as_str(), f.role)).collect();
        let expected = [
            ("__switch_to", Role::ContextSwitch),
            ("asm_sysvec_reboot", Role::Interrupt),
            ("asm_exc_page_fault", Role::Interrupt),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn of_functions_at_one_address_the_one_that_tells_more_stays() {
        let types = model(&[
            ("a", INT, &[("t", TASK_POINTER)]),
            ("kfree", TypeId::VOID, &[("object", VOID_POINTER)]),
        ]);
        let list = watch_list(&types, &symbols("ffffffff81000010 T a\nffffffff81000010 T kfree\n"));
        assert_eq!(only(&list).name, "kfree");
    }
}
