//! Where a register's value comes from.

/// The maximum number of loads that are distinguished: a value that comes from more comes from any.
const LOADS_MAX: usize = 16;

/// The loads that a value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Addresses of instructions, ascending.
    loads: Vec<u64>,
    /// Also loads outside the function.
    pub(crate) outside: bool,
    pub(crate) any: bool,
}

impl Sources {
    pub(crate) fn outside() -> Sources {
        Sources {
            outside: true,
            ..Sources::default()
        }
    }

    pub(crate) fn loads(&self) -> &[u64] {
        &self.loads
    }

    pub(crate) fn add_load(&mut self, load: u64) {
        if self.any {
            return;
        }
        let Err(at) = self.loads.binary_search(&load) else {
            return;
        };
        // Unknown from here on: what is unknown overlaps with nothing. 16 is a guess.
        if self.loads.len() == LOADS_MAX {
            self.any = true;
            self.loads.clear();
        } else {
            self.loads.insert(at, load);
        }
    }

    /// Adds another source. Returns whether that is new.
    pub(crate) fn add(&mut self, other: &Sources) -> bool {
        let before = (self.loads.len(), self.outside, self.any);
        self.outside |= other.outside;
        if other.any && !self.any {
            self.any = true;
            self.loads.clear();
        }
        for load in &other.loads {
            self.add_load(*load);
        }
        // Sets only grow, so comparing their lengths shows a change.
        before != (self.loads.len(), self.outside, self.any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_sets_and_too_many_are_any() {
        let mut sources = Sources::default();
        for load in [3, 1, 3, 2] {
            sources.add_load(load);
        }
        assert_eq!(sources.loads(), [1, 2, 3]);
        assert!(!sources.clone().add(&sources));
        assert!(sources.add(&Sources::outside()));
        assert!(sources.outside && !sources.any);
        for load in 0..17 {
            sources.add_load(load);
        }
        assert!(sources.any && sources.loads().is_empty());
        assert!(!sources.add(&Sources {
            loads: vec![99],
            ..Sources::default()
        }));
    }
}
