//! Sums over the rows of a tally.

use std::collections::BTreeMap;

use linemate_answers::{Figures, Share, share};
use linemate_attribution::groups::{FieldUse, Uses};
use linemate_attribution::tally::{Count, CpuSet};
use linemate_recording::AccessKind;

/// How many functions, fields or types a row names.
const NAMED: usize = 3;

/// A sum of accesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    loads: u64,
    stores: u64,
    rmws: u64,
    silent: u64,
    remote: u64,
    owned: u64,
    handed: u64,
    /// Of loads, stores and RMWs: those by other CPUs than the owner.
    by_others: [u64; 3],
    readers: CpuSet,
    writers: CpuSet,
}

impl Sum {
    /// Adds a row. `owned`: its objects belong to one CPU each.
    pub(crate) fn add(&mut self, kind: AccessKind, count: &Count, owned: bool) {
        match kind {
            AccessKind::Load => self.loads += count.count,
            AccessKind::Store => self.stores += count.count,
            AccessKind::Rmw => self.rmws += count.count,
        }
        self.silent += count.silent;
        self.remote += count.remote;
        self.handed += count.handed;
        self.by_others[kind as usize] += count.remote;
        if owned {
            self.owned += count.count;
        }
        if kind != AccessKind::Store {
            self.readers.merge(&count.cpus);
        }
        if kind != AccessKind::Load {
            self.writers.merge(&count.cpus);
        }
    }

    pub(crate) fn merge(&mut self, other: &Sum) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.rmws += other.rmws;
        self.silent += other.silent;
        self.remote += other.remote;
        self.owned += other.owned;
        self.handed += other.handed;
        for (sum, part) in self.by_others.iter_mut().zip(other.by_others) {
            *sum += part;
        }
        self.readers.merge(&other.readers);
        self.writers.merge(&other.writers);
    }

    /// Accesses to bytes that came from another CPU.
    pub(crate) fn handed(&self) -> u64 {
        self.handed
    }

    pub(crate) fn accesses(&self) -> u64 {
        self.loads + self.stores + self.rmws
    }

    /// How a field with this sum is used.
    pub(crate) fn uses(&self) -> FieldUse {
        let [loads, stores, rmws] = self.by_others;
        let owner = Uses {
            loads: self.loads - loads,
            stores: self.stores - stores,
            rmws: self.rmws - rmws,
        };
        FieldUse {
            owner,
            others: Uses {
                loads,
                stores,
                rmws,
            },
            handed: self.handed,
        }
    }

    pub(crate) fn loads_per_store(&self) -> Option<f64> {
        let stores = self.stores + self.rmws;
        (stores > 0).then(|| (self.loads + self.rmws) as f64 / stores as f64)
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            accesses: self.accesses(),
            loads: self.loads,
            stores: self.stores,
            rmws: self.rmws,
            silent: self.silent,
            remote_share: (self.owned > 0).then(|| share(self.remote, self.owned)),
            readers: self.readers.len(),
            writers: self.writers.len(),
        }
    }
}

/// The largest parts, by accesses, then by name.
pub(crate) fn largest(parts: &BTreeMap<String, u64>) -> Vec<Share> {
    let mut all: Vec<Share> = parts
        .iter()
        .map(|(name, accesses)| Share {
            name: name.clone(),
            accesses: *accesses,
        })
        .collect();
    all.sort_by(|a, b| {
        b.accesses
            .cmp(&a.accesses)
            .then_with(|| a.name.cmp(&b.name))
    });
    all.truncate(NAMED);
    all
}
