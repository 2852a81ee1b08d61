//! Which fields are parts of locks.
//!
//! A lock's word is exchanged because that is its purpose: it is not a counter to split, its value
//! must be read afresh, and an object whose lock is taken is shared on purpose. Locks are
//! recognised by the names of their types (include/linux, libraries of C, C++ and Rust), which are
//! stable over many versions. A missing name costs advice that a reader will smile at, or a claim
//! that what a lock guards should leave its line.

use linemate_attribution::Analysis;
use linemate_types::{Type, TypeId, TypeModel};

use super::fields::{Field, Home, types_on};

const LOCKS: [&str; 16] = [
    "raw_spinlock",
    "qspinlock",
    "spinlock",
    "qrwlock",
    "mcs_spinlock",
    "optimistic_spin_queue",
    "mutex",
    "rw_semaphore",
    "semaphore",
    "percpu_rw_semaphore",
    "rt_mutex_base",
    "seqcount",
    "seqcount_spinlock",
    "seqcount_raw_spinlock",
    "lockref",
    "vma_lock",
];

/// Locks of programs, without the namespace or module: POSIX, the C++ library, oneTBB and Abseil,
/// Rust's standard library, parking_lot and spin.
const PROGRAM_LOCKS: [&str; 17] = [
    "pthread_mutex_t",
    "pthread_rwlock_t",
    "__pthread_mutex_s",
    "__pthread_rwlock_arch_t",
    "mutex",
    "recursive_mutex",
    "timed_mutex",
    "shared_mutex",
    "shared_timed_mutex",
    "spin_mutex",
    "spin_rw_mutex",
    "Mutex",
    "RwLock",
    "RawMutex",
    "RawRwLock",
    "SpinMutex",
    "SpinLock",
];

/// Whether a path from a type leads into a member that is a lock. A lock that holds what it guards
/// (`Mutex<T>`) is none: the lock is a member of it.
pub(crate) fn is_in_lock(model: &TypeModel, outer: TypeId, path: &str) -> bool {
    types_on(model, outer, path).any(|id| is_lock_type(model, id))
}

/// Whether a field is a lock or part of one.
pub(crate) fn is_lock(analysis: &Analysis<'_>, field: &Field) -> bool {
    let model = analysis.model();
    let of_home = match &field.home {
        Some(Home {
            subject: linemate_layout::EditSubject::Named(name),
            ..
        }) => LOCKS.contains(&name.as_str()),
        _ => false,
    };
    let outer = field.outer.and_then(|ty| analysis.schema().get(ty));
    let inside = outer.zip(field.leaf.as_ref());
    of_home
        || inside.is_some_and(|(outer, leaf)| {
            is_lock_type(model, outer.id)
                || is_in_lock(model, outer.id, &leaf.path)
                || is_lock_type(model, leaf.type_id)
        })
}

fn is_lock_type(model: &TypeModel, id: TypeId) -> bool {
    match model.get(model.strip(id)) {
        Some(Type::Composite(composite)) => {
            let last = composite.name.rsplit("::").next().unwrap_or_default();
            LOCKS.contains(&&*composite.name) || PROGRAM_LOCKS.contains(&last)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
    use linemate_types::btf;

    use super::*;

    #[test]
    fn a_lock_is_what_has_its_name_and_not_what_it_guards() {
        let mut t = TypeList::default();
        let long = t.int("long", 8);
        let lock = t.structure(
            "std::sys::sync::mutex::futex::Mutex",
            8,
            &[member("futex", long, 0)],
        );
        let members = [member("inner", lock, 0), member("data", long, 8)];
        let guarded = t.structure("std::sync::poison::mutex::Mutex<u64>", 16, &members);
        let outer = t.structure(
            "pool",
            24,
            &[member("all", guarded, 0), member("n", long, 16)],
        );
        let model = btf::parse(&write(&t.types, Endian::Little).unwrap()).unwrap();
        let is = |path| is_in_lock(&model, outer, path);
        let found = ["all.inner.futex", "all.inner", "all.data", "n"].map(is);
        assert_eq!(found, [true, true, false, false]);
    }
}
