//! How a recording was replayed.

use serde::{Deserialize, Serialize};

/// The last part of a recording's rounds, in which new lines count as late: a tenth.
const LATE: u64 = 10;

/// What filled the caches before counting began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarmUp {
    /// Lines touched or fetched.
    pub lines: u64,
    /// Of those, the ones that came in the last tenth of the recording's rounds. More than a
    /// twentieth of `lines`: the recording is short (docs/model/replay.md).
    pub late: u64,
}

impl WarmUp {
    /// Whether the recording still touched new lines at its end, at least half as many as if it had
    /// touched them evenly: what it would have touched after its end is missing, and a repetition
    /// treats as known what would be new. Half is a convention.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.late * 2 * LATE > self.lines
    }
}

/// What modified lines are counted between: the finest grouping of which a replay has at most 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MachinePlaces {
    /// Replayed CPUs, by their numbers.
    #[default]
    Cpu,
    /// Domains of last-level caches.
    Domain,
    /// Sockets of the machine.
    Socket,
}

/// Which other CPUs a CPU meets where it touches another one's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// Those of its own group, as recorded.
    Groups,
    /// Those of the machine's domains.
    #[default]
    Domains,
    /// All of the machine alike: one domain, as guests have it.
    Flat,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_even_growth_is_the_border() {
        let is_short = |lines, late| WarmUp { lines, late }.is_short();
        assert!(!is_short(1000, 50) && is_short(1000, 51));
        assert!(!is_short(800, 0) && !is_short(0, 0));
    }
}
