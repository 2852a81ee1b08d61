//! Which accesses of a replay left their core, why, and for how long: one by one, where counts are
//! sums.
//!
//! With them a reader of the recording charges a miss to what only the recorded order shows, and
//! needs no replay.

use std::num::NonZeroU32;

use linemate_recording::cursor::{Cursor, put_varint};
use linemate_units::Cycles;
use serde::{Deserialize, Serialize};

use crate::accounts::counts::Cause;
use crate::cache::stamp::TIE_MAX;
use crate::rounds::error::ReplayError;

/// What [`Cursor`] calls the bytes, in errors that become [`ReplayError::Misses`].
const WHAT: &str = "misses";

/// Where an access is in the rounds of a replay, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessPlace {
    /// The number of its round, from 0.
    pub round: u32,
    /// The number of its slice in the round.
    pub slice: u32,
    /// Instructions from its slice's start.
    pub offset: u32,
    /// As [`crate::Item::tie`].
    pub tie: u16,
}

/// An access that left its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Why.
    pub cause: Cause,
    /// What it cost, as counted for its cause.
    pub cycles: Cycles,
}

/// The number of a miss in the list of its replay, plus 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissNumber(NonZeroU32);

#[derive(Clone, Copy, Debug)]
struct LoggedMiss {
    at: AccessPlace,
    /// Sharing is decided only when the core is done with the line.
    cause: Option<Cause>,
    cycles: Cycles,
}

/// Lists the misses of a replay while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissLog {
    /// In the order in which the replay made them.
    misses: Vec<LoggedMiss>,
    /// Rounds begun.
    rounds: u32,
    /// The current access.
    at: AccessPlace,
}

impl MissLog {
    pub(crate) fn begin_round(&mut self) {
        self.at.round = self.rounds;
        self.rounds += 1;
    }

    /// The next access of the round is this one.
    #[inline]
    pub(crate) fn begin_access(&mut self, slice: usize, offset: u32, tie: u16) {
        self.at = AccessPlace {
            round: self.at.round,
            slice: slice as u32,
            offset,
            tie,
        };
    }

    /// The current access left its core.
    pub(crate) fn add(&mut self, cycles: Cycles) -> MissNumber {
        self.misses.push(LoggedMiss {
            at: self.at,
            cause: None,
            cycles,
        });
        let number = u32::try_from(self.misses.len()).ok();
        let number = number.and_then(NonZeroU32::new);
        MissNumber(number.expect("as many misses as 32 bits number do not fit in memory"))
    }

    pub(crate) fn decide(&mut self, miss: MissNumber, cause: Cause) {
        self.misses[miss.0.get() as usize - 1].cause = Some(cause);
    }

    /// The list; causes must have been decided.
    pub(crate) fn finish(mut self) -> Misses {
        // Stable: places beyond the largest tie are equal.
        self.misses.sort_by_key(|miss| miss.at);
        let mut packed = Vec::new();
        let mut before = AccessPlace::default();
        for LoggedMiss { at, cause, cycles } in self.misses {
            // As the sums, which would lack it: an undecided miss is a wrong figure.
            let cause = cause.expect("all lifetimes have ended");
            pack(&mut packed, before, at);
            let causes = Cause::ALL.len() as u64;
            put_varint(&mut packed, cycles.0 * causes + cause as u64);
            before = at;
        }
        Misses(packed.into_boxed_slice())
    }
}

/// A place that is not before `before`, as differences from it: a number equal to the one before
/// takes a byte.
fn pack(packed: &mut Vec<u8>, before: AccessPlace, at: AccessPlace) {
    let mut known = before;
    put_varint(packed, u64::from(at.round - known.round));
    if at.round > known.round {
        (known.slice, known.offset) = (0, 0);
    }
    put_varint(packed, u64::from(at.slice - known.slice));
    if at.slice > known.slice {
        known.offset = 0;
    }
    put_varint(packed, u64::from(at.offset - known.offset));
    put_varint(packed, u64::from(at.tie));
}

/// The misses of a replay, in the order of their places; a few bytes for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misses(Box<[u8]>);

impl Misses {
    /// How many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// A reader for a caller that passes all accesses of the replay, in the order of their places.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn read(&self) -> Result<MissReader<'_>, ReplayError> {
        let mut reader = MissReader {
            packed: Cursor::new(&self.0, WHAT),
            next: None,
            before: AccessPlace::default(),
        };
        reader.advance()?;
        Ok(reader)
    }
}

/// Reads [`Misses`].
#[derive(Clone, Debug)]
pub struct MissReader<'m> {
    packed: Cursor<'m>,
    next: Option<(AccessPlace, Miss)>,
    before: AccessPlace,
}

impl MissReader<'_> {
    /// The miss of the access there, if it left its core. Of several accesses at one place, all
    /// beyond [`TIE_MAX`], the first ones get the misses.
    ///
    /// # Errors
    /// Damaged bytes, or misses of another replay: at a place that has no access.
    #[inline]
    pub fn at(&mut self, place: AccessPlace) -> Result<Option<Miss>, ReplayError> {
        match self.next {
            Some((next, miss)) if next <= place => {
                if next < place {
                    return Err(ReplayError::Misses);
                }
                self.advance()?;
                Ok(Some(miss))
            }
            _ => Ok(None),
        }
    }

    /// All accesses have been passed.
    ///
    /// # Errors
    /// Misses of another replay: some are left.
    pub fn finish(&self) -> Result<(), ReplayError> {
        match self.next {
            Some(_) => Err(ReplayError::Misses),
            None => Ok(()),
        }
    }

    fn advance(&mut self) -> Result<(), ReplayError> {
        self.next = match self.packed.left() {
            0 => None,
            _ => Some(self.unpack().ok_or(ReplayError::Misses)?),
        };
        Ok(())
    }

    fn unpack(&mut self) -> Option<(AccessPlace, Miss)> {
        let mut at = self.before;
        let mut later = || self.packed.varint_u32().ok();
        let (rounds, slices) = (later()?, later()?);
        if rounds > 0 {
            (at.slice, at.offset) = (0, 0);
        }
        if slices > 0 {
            at.offset = 0;
        }
        at.round = at.round.checked_add(rounds)?;
        at.slice = at.slice.checked_add(slices)?;
        at.offset = at.offset.checked_add(later()?)?;
        at.tie = u16::try_from(later()?).ok().filter(|tie| *tie <= TIE_MAX)?;
        let cost = self.packed.varint().ok()?;
        let causes = Cause::ALL.len() as u64;
        let miss = Miss {
            cause: Cause::ALL[(cost % causes) as usize],
            cycles: Cycles(cost / causes),
        };
        self.before = at;
        Some((at, miss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(round: u32, slice: u32, offset: u32, tie: u16) -> AccessPlace {
        AccessPlace {
            round,
            slice,
            offset,
            tie,
        }
    }

    /// A log of accesses in the order in which their CPUs make them, which is not that of places.
    fn log(of: &[(AccessPlace, Cause, u64)]) -> Misses {
        let mut log = MissLog::default();
        let mut numbers = Vec::new();
        for (at, _, cycles) in of {
            while log.rounds <= at.round {
                log.begin_round();
            }
            log.begin_access(at.slice as usize, at.offset, at.tie);
            numbers.push(log.add(Cycles(*cycles)));
        }
        // Later ones are decided first.
        for (number, (_, cause, _)) in numbers.iter().zip(of).rev() {
            log.decide(*number, *cause);
        }
        log.finish()
    }

    #[test]
    fn misses_come_at_their_places_and_nowhere_else() {
        let made = [
            (place(0, 1, 7, 0), Cause::FalseSharing, 400),
            (place(0, 0, 7, 2), Cause::TrueSharing, 90),
            (place(0, 1, 9, 1), Cause::Cold, 1 << 40),
            (place(2, 1, 0, 0), Cause::Unshared, 60),
            (place(2, 0, u32::MAX, TIE_MAX), Cause::Capacity, 0),
        ];
        let misses = log(&made);
        let mut reader = misses.read().unwrap();
        let mut sorted = made;
        sorted.sort_by_key(|(at, ..)| *at);
        assert_eq!(reader.at(place(0, 0, 7, 1)), Ok(None));
        for (at, cause, cycles) in sorted {
            let cycles = Cycles(cycles);
            assert_eq!(reader.at(at), Ok(Some(Miss { cause, cycles })), "{at:?}");
        }
        assert_eq!(reader.at(place(3, 0, 0, 0)), Ok(None));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn misses_of_another_replay_are_refused() {
        let misses = log(&[(place(0, 1, 7, 0), Cause::Cold, 400)]);
        let mut reader = misses.read().unwrap();
        assert_eq!(reader.at(place(0, 1, 8, 0)), Err(ReplayError::Misses));
        assert_eq!(
            misses.read().unwrap().finish(),
            Err(ReplayError::Misses),
            "one is left"
        );
        for bytes in [&[0u8, 0][..], &[0, 0, 0xff], &[0, 0, 0, 0xff, 0xff, 3, 0]] {
            let damaged = Misses(bytes.into());
            assert!(damaged.read().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn places_beyond_the_largest_tie_keep_their_order() {
        let at = place(0, 0, 7, TIE_MAX);
        let misses = log(&[(at, Cause::Cold, 1), (at, Cause::Capacity, 2)]);
        let mut reader = misses.read().unwrap();
        let causes = [(); 3].map(|()| reader.at(at).unwrap().map(|miss| miss.cause));
        assert_eq!(causes, [Some(Cause::Cold), Some(Cause::Capacity), None]);
    }
}
