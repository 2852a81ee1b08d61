//! Which fields are parts of locks.
//!
//! A lock's word is exchanged because that is its purpose: it is not a counter to split, its value
//! must be read afresh, and an object whose lock is taken is shared on purpose. Locks are
//! recognised by the names of their types (include/linux), which are stable over many versions; a
//! missing name costs a piece of advice that a reader will smile at, nothing else.

use linemate_types::{Type, TypeId, TypeModel};

use super::fields::{Field, Home};

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

/// Whether a field is a lock or part of one.
pub(crate) fn is_lock(model: &TypeModel, field: &Field) -> bool {
    let of_home = match &field.home {
        Some(Home {
            subject: linemate_layout::EditSubject::Named(name),
            ..
        }) => LOCKS.contains(&name.as_str()),
        _ => false,
    };
    of_home
        || field
            .leaf
            .as_ref()
            .is_some_and(|leaf| is_lock_type(model, leaf.type_id))
}

fn is_lock_type(model: &TypeModel, id: TypeId) -> bool {
    match model.get(model.strip(id)) {
        Some(Type::Composite(composite)) => LOCKS.contains(&&*composite.name),
        _ => false,
    }
}
