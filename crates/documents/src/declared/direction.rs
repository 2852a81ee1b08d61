//! Whether a member of a group for one direction of packets is used by code of the other one.
//!
//! Which direction a function is of is taken from the groups themselves: one that uses members of
//! receive groups nearly alone is a receiving one. The member in question has no vote.

use std::collections::BTreeMap;

use super::gathered::{GroupedType, Member};

/// The least share of a member's accesses that counts as most of them.
const MOST: f64 = 0.5;
/// A function is of a direction if that one has this share of what it accesses in groups of either:
/// nine of ten, because most functions touch something of both.
const ONE_SIDED: f64 = 0.9;

/// A direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Transmit,
    Receive,
}

/// What a group's name says of its members, in the words that the kernel uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purpose {
    pub(super) read: bool,
    /// One direction alone; none for `txrx`, and for names without.
    pub(super) direction: Option<Direction>,
}

impl Purpose {
    pub(super) fn of(name: &str) -> Purpose {
        let has = |word| name.split('_').any(|part| part == word);
        Purpose {
            read: has("read"),
            direction: match (has("tx"), has("rx")) {
                (true, false) => Some(Direction::Transmit),
                (false, true) => Some(Direction::Receive),
                _ => None,
            },
        }
    }
}

/// A function's accesses to groups of each direction.
#[derive(Clone, Copy, Debug, Default)]
struct ByDirection {
    transmit: u64,
    receive: u64,
}

impl ByDirection {
    fn of(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::Transmit => &mut self.transmit,
            Direction::Receive => &mut self.receive,
        }
    }

    /// The direction of nearly all of them.
    fn direction(self) -> Option<Direction> {
        let all = (self.transmit + self.receive) as f64;
        let most = |of: u64| all > 0.0 && of as f64 >= ONE_SIDED * all;
        match (most(self.transmit), most(self.receive)) {
            (true, _) => Some(Direction::Transmit),
            (_, true) => Some(Direction::Receive),
            _ => None,
        }
    }
}

/// Which groups functions use.
pub(super) struct Directions<'g> {
    votes: BTreeMap<&'g str, ByDirection>,
}

impl<'g> Directions<'g> {
    pub(super) fn new(types: &'g [GroupedType<'_>]) -> Directions<'g> {
        let mut votes: BTreeMap<&str, ByDirection> = BTreeMap::new();
        for of in types {
            for member in of.members.values() {
                let purpose = of.purpose(member);
                let Some(direction) = purpose.and_then(|purpose| purpose.direction) else {
                    continue;
                };
                for (function, accesses) in &member.functions {
                    *votes.entry(function).or_default().of(direction) += accesses;
                }
            }
        }
        Directions { votes }
    }

    /// Whether most accesses to a member of a `declared` group are by functions that otherwise use
    /// the other direction's.
    pub(super) fn are_other(&self, member: &Member, declared: Direction) -> bool {
        let is_other = |(function, own): &(&String, &u64)| {
            let votes = self.votes.get(function.as_str());
            let mut votes = votes.copied().unwrap_or_default();
            *votes.of(declared) -= (**own).min(*votes.of(declared));
            let direction = votes.direction();
            direction.is_some_and(|direction| direction != declared)
        };
        let others = member.functions.iter().filter(is_other);
        let others: u64 = others.map(|(_, accesses)| accesses).sum();
        others as f64 > MOST * member.accesses() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_name_says_what_it_is_for() {
        let of = |read, direction| Purpose { read, direction };
        let (tx, rx) = (Some(Direction::Transmit), Some(Direction::Receive));
        for (name, purpose) in [
            ("sock_read_rx", of(true, rx)),
            ("tcp_sock_write_tx", of(false, tx)),
            ("tcp_sock_read_txrx", of(true, None)),
            ("Qdisc_read_mostly", of(true, None)),
            ("icmp", of(false, None)),
            ("thread_rxtx", of(false, None)),
        ] {
            assert_eq!(Purpose::of(name), purpose, "{name}");
        }
    }

    #[test]
    fn a_function_of_both_directions_is_of_none() {
        let votes = |transmit, receive| ByDirection { transmit, receive }.direction();
        assert_eq!(votes(0, 0), None);
        assert_eq!(votes(89, 11), None);
        assert_eq!(votes(90, 10), Some(Direction::Transmit));
        assert_eq!(votes(1, 10), Some(Direction::Receive));
    }
}
