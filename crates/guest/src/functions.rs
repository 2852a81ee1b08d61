//! The function table: which kernel functions the recorder watches, from BTF prototypes and the
//! booted kernel's symbols.
//!
//! * Every function that takes a pointer to a struct in a register: each such argument is a
//!   sighting.
//! * The allocators, by name; the names and types of their parameters show what these mean, so the
//!   kernel version need not be known.
//! * `__switch_to`, and the entries of interrupts and exceptions (assembly, so without prototypes).
//!
//! Not watched: functions without a prototype, and static functions that share their name with
//! others: a prototype has no address, and the wrong one would give wrong sightings. Clones
//! (`.isra.0`, `.part.0`, `.constprop.0`, `.cold`) have other parameters than their original's
//! prototype, and other symbols, so they never match. Functions that the user wants counted are
//! always watched: see [`events`].

mod events;
#[cfg(test)]
mod events_tests;

use std::collections::BTreeMap;

pub use self::events::EventRefusal;

use linemate_recording::{
    Function, FunctionTable, GuestAddr, MAX_PARAMETERS, Meaning, Parameter, Register, Role,
};
use linemate_types::{Prototype, Symbol, Symbols, Type, TypeId, TypeModel};

/// Allocators that are watched if they exist. Each name also matches with `_noprof` after it, as in
/// Linux 6.10 and later. Some call others for large objects: then the same object is reported
/// twice, the outermost call's return last, whose caller is the allocation site.
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

/// From each row, the first group whose first function exists: the innermost ones, which all others
/// call. Bulk allocations of pages (`alloc_pages_bulk`, for network drivers) are not seen.
const FIRST_OF: &[(Role, &[&[&str]])] = &[
    (
        Role::PercpuAlloc,
        &[&["pcpu_alloc"], &["__alloc_percpu", "__alloc_percpu_gfp"]],
    ),
    (
        Role::PageAlloc,
        &[&["__alloc_frozen_pages"], &["__alloc_pages"]],
    ),
    (
        Role::PageFree,
        &[
            &["__free_pages_prepare"],
            &["free_pages_prepare"],
            // Before Linux 6.6 that function is inlined; this one is called for each page that goes
            // to a CPU's list.
            &["free_pcp_prepare", "__free_pages_ok"],
            &["free_unref_page_prepare", "__free_pages_ok"],
            &["free_unref_page", "__free_pages_ok"],
        ],
    ),
    (Role::VirtualAlloc, &[&["__vmalloc_node_range"]]),
];

/// Interrupt and exception entries start like this.
const INTERRUPT_PREFIXES: [&str; 4] = [
    "asm_sysvec_",
    "asm_exc_",
    "asm_common_interrupt",
    "asm_spurious_interrupt",
];

/// The table, and what had to be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    /// The functions to watch.
    pub table: FunctionTable,
    /// Functions with struct pointers that share their name with others, so that prototypes cannot
    /// be matched with addresses.
    pub ambiguous: Vec<String>,
}

impl WatchList {
    /// Also watches functions of programs. Their addresses are below all of the kernel's, and
    /// sorted.
    pub(crate) fn add(&mut self, programs: &[Function]) {
        // The recording's table is sorted by entry.
        self.table.functions.splice(0..0, programs.iter().cloned());
    }
}

/// Makes the table of a kernel whose memory is not named. It does not depend on the kernel's types:
///
/// * `__switch_to` and the interrupts, which separate call stacks;
/// * `wake_up_new_task`, by which a fork is known;
/// * `do_syscall_64`, through which programs enter the kernel, and `setup_new_exec`, which a
///   process calls when it has new page tables, before it touches the new program's memory: a CPU's
///   page tables are read when a watched function is entered.
#[must_use]
pub fn nameless_watch_list(symbols: &Symbols) -> WatchList {
    let task = |register| Parameter {
        register,
        meaning: Meaning::StructPointer(0),
    };
    let tasks = vec![task(Register::Rdi), task(Register::Rsi)];
    let mut by_entry: BTreeMap<u64, Function> = BTreeMap::new();
    for symbol in symbols.all().iter().filter(|s| is_kernel_code(s)) {
        let (role, parameters) = match symbol.name.as_str() {
            "__switch_to" => (Role::ContextSwitch, tasks.clone()),
            "wake_up_new_task" => (Role::Plain, vec![task(Register::Rdi)]),
            "do_syscall_64" | "setup_new_exec" => (Role::Plain, Vec::new()),
            name if is_interrupt(name) => (Role::Interrupt, Vec::new()),
            _ => continue,
        };
        insert(&mut by_entry, symbols, symbol, role, parameters);
    }
    WatchList {
        table: FunctionTable {
            functions: by_entry.into_values().collect(),
        },
        ambiguous: Vec::new(),
    }
}

/// Makes the table of a kernel.
#[must_use]
pub fn watch_list(types: &TypeModel, symbols: &Symbols) -> WatchList {
    let roles = roles(symbols);
    let mut by_entry: BTreeMap<u64, Function> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for (name, prototypes) in prototypes(types) {
        // By prototypes, not by symbols: without a prototype it is unknown what the registers hold.
        let role = roles.get(name).copied().unwrap_or(Role::Plain);
        let mut wanted = prototypes
            .iter()
            .map(|prototype| parameters(types, prototype, role));
        let Some(parameters) = wanted.next() else {
            continue;
        };
        // Nothing to learn, and each watched function costs time in the guest.
        if role == Role::Plain && parameters.is_empty() {
            continue;
        }
        let agreed = wanted.all(|other| other == parameters);
        let places: Vec<&Symbol> = symbols.named(name).filter(|s| is_kernel_code(s)).collect();
        // Several addresses need several prototypes that agree: one may describe all of them.
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
    for symbol in symbols
        .all()
        .iter()
        .filter(|s| is_kernel_code(s) && is_interrupt(&s.name))
    {
        insert(&mut by_entry, symbols, symbol, Role::Interrupt, Vec::new());
    }
    WatchList {
        table: FunctionTable {
            functions: by_entry.into_values().collect(),
        },
        ambiguous,
    }
}

fn is_kernel_code(symbol: &Symbol) -> bool {
    // A module's prototypes are in its own BTF, which is not read.
    symbol.module.is_none() && matches!(symbol.letter, 't' | 'T' | 'w' | 'W')
}

fn is_interrupt(name: &str) -> bool {
    INTERRUPT_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
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
    // By what exists, not by the kernel's version: distributions backport code.
    for (role, groups) in FIRST_OF {
        let there = |group: &&&[&str]| group.first().is_some_and(|name| !present(name).is_empty());
        let names = groups
            .iter()
            .find(there)
            .into_iter()
            .flat_map(|group| group.iter());
        roles.extend(
            names
                .flat_map(|name| present(name))
                .map(|name| (name, *role)),
        );
    }
    roles.insert("__switch_to".to_owned(), Role::ContextSwitch);
    roles
}

/// The parameters to read at entry.
fn parameters(types: &TypeModel, prototype: &Prototype, role: Role) -> Vec<Parameter> {
    let mut found = Vec::new();
    // A large struct is returned through a pointer that the caller passes first.
    let mut next = usize::from(registers_of(types, prototype.result).is_none());
    // A pointer to a pointer is an array of objects, and changes what a number means.
    let bulk = prototype
        .parameters
        .iter()
        .any(|p| is_pointer_to_void_pointer(types, p.type_id));
    for parameter in &prototype.parameters {
        let Some(count) = registers_of(types, parameter.type_id) else {
            continue;
        };
        if next + count > Register::ALL.len() {
            // On the stack; a later, smaller one may still get a register.
            continue;
        }
        // A struct of two words takes two registers; only the first is read.
        let register = Register::ALL.get(next).copied();
        next += count;
        let meaning = meaning(
            types,
            parameter.name.as_str(),
            parameter.type_id,
            role,
            bulk,
        );
        if let (Some(register), Some(meaning)) = (register, meaning) {
            if found.len() < MAX_PARAMETERS {
                found.push(Parameter { register, meaning });
            }
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
    let tag = structure
        .and_then(|id| types.composite(id))
        .map_or("", |c| c.name.as_str());
    let number = matches!(types.get(types.strip(type_id)), Some(Type::Int { .. }));
    // In other functions a parameter's name is not evidence of what it counts.
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
    // A union pointer says too little: the prototype does not show which member is meant.
    let is_struct = structure
        .and_then(|id| types.composite(id))
        .is_some_and(|c| c.kind == linemate_types::CompositeKind::Struct && c.size > 0);
    special.or_else(|| {
        structure
            .filter(|_| is_struct)
            .map(|id| Meaning::StructPointer(id.0))
    })
}

fn is_pointer_to_void(types: &TypeModel, id: TypeId) -> bool {
    let Some(Type::Pointer { target }) = types.get(types.strip(id)) else {
        return false;
    };
    matches!(types.get(types.strip(*target)), Some(Type::Void))
}

fn is_pointer_to_void_pointer(types: &TypeModel, id: TypeId) -> bool {
    let Some(Type::Pointer { target }) = types.get(types.strip(id)) else {
        return false;
    };
    is_pointer_to_void(types, *target)
}

/// How many integer registers a value takes; `None` if it is passed in memory. Void takes one here,
/// which is right for results and cannot be a parameter. The kernel has no floating-point
/// parameters.
fn registers_of(types: &TypeModel, id: TypeId) -> Option<usize> {
    match types.size_of(types.strip(id)) {
        None | Some(0..=8) => Some(1),
        Some(9..=16) => Some(2),
        Some(_) => None,
    }
}

/// Adds a function. Of several at one address the one that records more stays, of equals the first
/// by name.
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
    // Aliases, and functions that the compiler merged as identical.
    let known = by_entry.get(&symbol.address);
    if known.is_none_or(|known| weight(&function) > weight(known)) {
        by_entry.insert(symbol.address, function);
    }
}

#[cfg(test)]
mod tests;
