//! Who uses an object, and how often.
//!
//! Only the CPUs that do are listed: a machine of hundreds has hundreds of thousands of objects,
//! and most of them are used by a few.

use linemate_recording::CpuId;
use serde::{Deserialize, Serialize};

/// The accesses of one CPU to one object. 32 bits keep this small; which CPU uses an object most
/// does not change beyond four billion uses.
type CpuUses = (CpuId, u32);

/// Accesses to an object, by CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// Ascending by CPU, each once.
    uses: Vec<CpuUses>,
}

/// The same while accesses are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserCounter {
    /// Each CPU once, the one that came last first: it mostly comes again.
    uses: Vec<CpuUses>,
}

impl UserCounter {
    #[inline]
    pub(crate) fn add(&mut self, cpu: CpuId) {
        let known = self.uses.iter().position(|(user, _)| *user == cpu);
        let at = known.unwrap_or_else(|| {
            self.uses.push((cpu, 0));
            self.uses.len() - 1
        });
        self.uses.swap(0, at);
        let count = &mut self.uses[0].1;
        *count = count.saturating_add(1);
    }

    pub(crate) fn finish(mut self) -> Users {
        self.uses.sort_unstable();
        self.uses.shrink_to_fit();
        Users { uses: self.uses }
    }
}

impl Users {
    /// Adds those of another part of the recording.
    pub(crate) fn merge(&mut self, other: &Users) {
        for (cpu, count) in &other.uses {
            match self.uses.binary_search_by_key(cpu, |(user, _)| *user) {
                Ok(at) => self.uses[at].1 = self.uses[at].1.saturating_add(*count),
                Err(at) => self.uses.insert(at, (*cpu, *count)),
            }
        }
    }

    /// Accesses of all CPUs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.uses.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Accesses of the CPU that makes most of them.
    #[must_use]
    pub fn most(&self) -> u64 {
        let counts = self.uses.iter().map(|(_, count)| u64::from(*count));
        counts.max().unwrap_or(0)
    }

    /// The CPU that makes more than half of the accesses, if any: at most one does.
    #[must_use]
    pub fn majority(&self) -> Option<CpuId> {
        let total = self.total();
        let mut uses = self.uses.iter();
        let most = uses.find(|(_, count)| 2 * u64::from(*count) > total)?;
        Some(most.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(accesses: &[u16]) -> Users {
        let mut counter = UserCounter::default();
        for cpu in accesses {
            counter.add(CpuId(*cpu));
        }
        counter.finish()
    }

    #[test]
    fn each_cpu_counts_once_and_in_order() {
        let found = users(&[239, 0, 239, 7, 239, 0]);
        assert_eq!(found.uses, [(CpuId(0), 2), (CpuId(7), 1), (CpuId(239), 3)]);
        assert_eq!((found.total(), found.most()), (6, 3));
    }

    #[test]
    fn a_majority_is_more_than_half() {
        assert_eq!(users(&[239, 0, 239]).majority(), Some(CpuId(239)));
        assert_eq!(users(&[239, 0]).majority(), None);
        assert_eq!(users(&[]).majority(), None);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut sum = users(&[3, 1, 3]);
        sum.merge(&users(&[2, 3, 0]));
        assert_eq!(sum, users(&[0, 1, 2, 3, 3, 3]));
        sum.merge(&users(&[]));
        assert_eq!(sum.total(), 6);
        let mut full = Users {
            uses: vec![(CpuId(1), u32::MAX)],
        };
        full.merge(&users(&[1]));
        assert_eq!(full.most(), u64::from(u32::MAX));
    }
}
