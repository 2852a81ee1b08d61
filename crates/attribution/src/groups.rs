//! Groups of fields that are used together.
//!
//! Works on counts alone, without knowing any type:
//!
//! 1. A field that receives a good part of its writes as atomic read-modify-writes (a lock, a
//!    contended counter) needs its line exclusively at each use: [`RMW_SHARE`].
//! 2. A field of a per-CPU object is *read by others* if other CPUs' loads are a larger share of
//!    its accesses than other CPUs' accesses are of all of the type's. The line with such fields
//!    moves between CPUs; that of the rest need not. There is no constant in this: a field is
//!    compared with its own type.
//! 3. A field of objects without an owner is *shared* if it moves from one CPU to another in at
//!    least one access out of [`USES_PER_HANDOVER`].
//! 4. Within each of these four classes fields are joined bottom up, the pair of groups with the
//!    strongest tie first, as long as the tie is at least [`TIE_MIN`]. The tie of two fields is how
//!    often they are used together (see [`crate::couse`]), as a share of the uses of the less used
//!    one; of two groups, the average over their pairs, each weighted by the uses of its less used
//!    field. Fields that are read by others are tied by the others' uses, the rest by the owner's.
//!
//! Average linkage, because single linkage chains half of a large struct together through the few
//! fields that everybody uses.

use std::collections::BTreeMap;

use crate::couse::{By, CoUse};

/// Accesses to a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    pub loads: u64,
    pub stores: u64,
    pub rmws: u64,
}

/// How a field is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldUse {
    /// By the object's owner, or by anyone if objects have no owner.
    pub owner: Uses,
    /// By CPUs other than the owner.
    pub others: Uses,
    /// Of all: bytes that came from another CPU ([`crate::tally::Count::handed`]).
    pub handed: u64,
}

impl Uses {
    fn total(self) -> u64 {
        self.loads + self.stores + self.rmws
    }
}

impl FieldUse {
    fn total(self) -> u64 {
        self.owner.total() + self.others.total()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Changed by atomic read-modify-writes.
    Atomic,
    /// Read by CPUs other than the owner more than the type is on average.
    ReadByOthers,
    /// Of objects without an owner: moves from CPU to CPU.
    Shared,
    Own,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldGroup {
    pub class: Class,
    /// Fields by number, most used first.
    pub fields: Vec<usize>,
}

/// A field with this share of its writes as RMWs is a lock or the like. A spinlock is taken by an
/// RMW and released by a store, so its share is one half; a counter that is mostly set plainly and
/// rarely changed atomically stays below.
pub const RMW_SHARE: f64 = 0.25;

/// What one CPU sets up and another one uses is handed over once in an object's life: a shared
/// field is handed over more often than in one of this many accesses.
pub const USES_PER_HANDOVER: u64 = 100;

/// The weakest tie that joins two groups. On `struct rq` any value from 0.1 to 0.3 gives the same
/// groups of its hot fields.
pub const TIE_MIN: f64 = 0.25;

/// The groups, in the order of their most used field.
#[must_use]
pub fn find(co_use: &CoUse, uses: &BTreeMap<usize, FieldUse>) -> Vec<FieldGroup> {
    let all: u64 = uses.values().map(|u| u.total()).sum();
    let by_others: u64 = uses.values().map(|u| u.others.total()).sum();
    let mut groups = Vec::new();
    for class in [
        Class::Atomic,
        Class::ReadByOthers,
        Class::Shared,
        Class::Own,
    ] {
        let fields: Vec<(usize, FieldUse)> = uses
            .iter()
            .filter(|(_, u)| class_of(u, all, by_others) == class)
            .map(|(f, u)| (*f, *u))
            .collect();
        groups.extend(
            cluster(co_use, &fields, class)
                .into_iter()
                .map(|fields| FieldGroup { class, fields }),
        );
    }
    let total = |f: &usize| uses.get(f).map_or(0, |u| u.total());
    for group in &mut groups {
        group
            .fields
            .sort_by_key(|f| (std::cmp::Reverse(total(f)), *f));
    }
    groups.sort_by_key(|g| g.fields.first().map(|f| (std::cmp::Reverse(total(f)), *f)));
    groups
}

fn class_of(field: &FieldUse, all: u64, by_others: u64) -> Class {
    let rmws = field.owner.rmws + field.others.rmws;
    let writes = rmws + field.owner.stores + field.others.stores;
    if rmws > 0 && rmws as f64 >= RMW_SHARE * writes as f64 {
        Class::Atomic
    // Products, not quotients: equal shares must compare equal.
    } else if u128::from(field.others.loads) * u128::from(all)
        > u128::from(by_others) * u128::from(field.total())
    {
        Class::ReadByOthers
    } else if by_others == 0
        && field.handed.saturating_mul(USES_PER_HANDOVER) >= field.total().max(1)
    {
        Class::Shared
    } else {
        Class::Own
    }
}

fn cluster(co_use: &CoUse, fields: &[(usize, FieldUse)], class: Class) -> Vec<Vec<usize>> {
    let weight = |u: FieldUse| match class {
        Class::Atomic => u.total(),
        Class::ReadByOthers => u.others.total(),
        Class::Shared | Class::Own => u.owner.total(),
    };
    let together = |a: usize, b: usize| match class {
        Class::Atomic => co_use.together(By::Owner, a, b) + co_use.together(By::Others, a, b),
        Class::ReadByOthers => co_use.together(By::Others, a, b),
        Class::Shared | Class::Own => co_use.together(By::Owner, a, b),
    };
    let count = fields.len();
    // (uses together, uses of the less used) of each pair of groups: joining adds them.
    let mut ties = vec![(0u64, 0u64); count * count];
    for i in 0..count {
        for j in 0..count {
            let (a, b) = (fields[i], fields[j]);
            let less = weight(a.1).min(weight(b.1));
            // At most once per use of the less used one: a loop that touches one field often around
            // one use of another would otherwise tie them more than fully.
            ties[i * count + j] = (together(a.0, b.0).min(less), less);
        }
    }
    let mut groups: Vec<Vec<usize>> = fields.iter().map(|f| vec![f.0]).collect();
    let mut alive: Vec<usize> = (0..count).collect();
    while let Some((i, j)) = strongest(&alive, &ties, count) {
        let moved = std::mem::take(&mut groups[j]);
        groups[i].extend(moved);
        alive.retain(|k| *k != j);
        for &k in &alive {
            let (a, b) = (ties[i * count + k], ties[j * count + k]);
            let sum = (a.0 + b.0, a.1 + b.1);
            ties[i * count + k] = sum;
            ties[k * count + i] = sum;
        }
    }
    groups.retain(|g| !g.is_empty());
    groups
}

/// The two groups with the strongest tie of at least [`TIE_MIN`]; the first of equals.
fn strongest(alive: &[usize], ties: &[(u64, u64)], count: usize) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (at, &i) in alive.iter().enumerate() {
        for &j in &alive[at + 1..] {
            let (tied, less) = ties[i * count + j];
            let tie = if less > 0 {
                tied as f64 / less as f64
            } else {
                0.0
            };
            if tie >= TIE_MIN && best.is_none_or(|(b, ..)| tie > b) {
                best = Some((tie, i, j));
            }
        }
    }
    best.map(|(_, i, j)| (i, j))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(loads: u64, stores: u64, rmws: u64) -> Uses {
        Uses {
            loads,
            stores,
            rmws,
        }
    }

    fn own(loads: u64, stores: u64) -> FieldUse {
        FieldUse {
            owner: uses(loads, stores, 0),
            others: Uses::default(),
            handed: 0,
        }
    }

    fn groups(pairs: &[(By, usize, usize, u32)], fields: &[FieldUse]) -> Vec<(Class, Vec<usize>)> {
        let mut co_use = CoUse::default();
        for &(by, a, b, count) in pairs {
            co_use.add(by, a, b, count);
        }
        let uses = fields.iter().copied().enumerate().collect();
        find(&co_use, &uses)
            .into_iter()
            .map(|g| (g.class, g.fields))
            .collect()
    }

    #[test]
    fn fields_that_are_used_together_are_a_group() {
        let fields = [own(100, 0), own(90, 10), own(50, 0), own(60, 5)];
        let pairs = [
            (By::Owner, 0, 1, 80),
            (By::Owner, 3, 2, 40),
            (By::Owner, 1, 2, 5),
        ];
        assert_eq!(
            groups(&pairs, &fields),
            [(Class::Own, vec![0, 1]), (Class::Own, vec![3, 2])]
        );
    }

    #[test]
    fn one_field_that_everybody_uses_does_not_chain_the_others_together() {
        // 0 is used with 1 to 4, which are never used with one another.
        let fields = [
            own(400, 0),
            own(100, 0),
            own(100, 0),
            own(100, 0),
            own(100, 0),
        ];
        let pairs: Vec<_> = (1..5).map(|i| (By::Owner, 0, i, 60)).collect();
        let found = groups(&pairs, &fields);
        assert_eq!(
            found[0],
            (Class::Own, vec![0, 1, 2]),
            "60 % with 1; then 30 % on average with 2; then 20 % with 3"
        );
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn locks_stay_alone_however_often_they_are_used_with_others() {
        let lock = FieldUse {
            owner: uses(5, 50, 50),
            others: Uses::default(),
            handed: 0,
        };
        let found = groups(&[(By::Owner, 0, 1, 100)], &[lock, own(100, 0)]);
        assert_eq!(found, [(Class::Atomic, vec![0]), (Class::Own, vec![1])]);
    }

    #[test]
    fn what_others_read_is_apart_from_what_the_owner_uses() {
        let read = FieldUse {
            owner: uses(50, 10, 0),
            others: uses(40, 0, 0),
            handed: 0,
        };
        let fields = [read, own(300, 50), read];
        // The owner uses all three together, but others only 0 and 2.
        let pairs = [
            (By::Owner, 0, 1, 60),
            (By::Owner, 0, 2, 60),
            (By::Owner, 1, 2, 60),
            (By::Others, 0, 2, 40),
        ];
        assert_eq!(
            groups(&pairs, &fields),
            [(Class::Own, vec![1]), (Class::ReadByOthers, vec![0, 2])]
        );
    }

    #[test]
    fn what_goes_from_cpu_to_cpu_is_not_own() {
        let passed = FieldUse {
            handed: 1,
            ..own(60, 40)
        };
        let set_up = FieldUse {
            handed: 1,
            ..own(61, 40)
        };
        let found = groups(&[], &[passed, set_up]);
        assert_eq!(found, [(Class::Own, vec![1]), (Class::Shared, vec![0])]);
    }
}
