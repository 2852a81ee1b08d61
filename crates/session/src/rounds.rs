//! The steps of a recording, cut into rounds, without those that no replay needs.

use linemate_recording::{AccessKind, Accesses, CpuId, VirtualTime};
use linemate_replay::{
    AccessPlace, Begins, Cut, Fate, Filter, Kept, KeyId, L1s, Later, ReplayError, Seen, SiteId,
    SliceHead, Slicer, TIE_MAX, Turned,
};

use crate::step::{Slice, Step};
use crate::steps::{Block, Turn};

/// Whole rounds, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    pub steps: Vec<Step>,
    /// Each slice, and the number of steps up to its end.
    pub slices: Vec<(SliceHead, u32)>,
    /// The number of slices up to each round's end.
    pub rounds: Vec<u32>,
    /// When each round begins.
    pub starts: Vec<VirtualTime>,
}

impl Rounds {
    /// How large it is, in steps and slices.
    #[inline]
    pub fn size(&self) -> usize {
        self.steps.len().max(self.slices.len())
    }

    pub fn clear(&mut self) {
        self.steps.clear();
        self.slices.clear();
        self.rounds.clear();
        self.starts.clear();
    }

    /// The same rounds and slices with the steps alone that are followed, into `out`, which is
    /// emptied first.
    pub fn followed(&self, out: &mut Rounds) {
        out.clear();
        let mut first = 0;
        for (head, end) in &self.slices {
            let steps = &self.steps[first as usize..*end as usize];
            out.steps.extend(steps.iter().filter(|step| step.followed));
            out.slices.push((*head, out.steps.len() as u32));
            first = *end;
        }
        out.rounds.extend_from_slice(&self.rounds);
        out.starts.extend_from_slice(&self.starts);
    }

    /// Each round as its slices.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Slice<'_>>> {
        let mut first = 0;
        self.rounds.iter().map(move |end| {
            let begin = std::mem::replace(&mut first, *end as usize);
            (begin..*end as usize).map(|slice| {
                let before = slice
                    .checked_sub(1)
                    .map_or(0, |before| self.slices[before].1);
                let (head, end) = self.slices[slice];
                (head, &self.steps[before as usize..end as usize])
            })
        })
    }
}

/// Hands over the rounds that `read` puts into its argument, until it gives `false`; the next ones
/// are read while `each` has them.
///
/// # Errors
/// What `read` or `each` gives.
pub fn read_ahead<E: Send>(
    mut read: impl FnMut(&mut Rounds) -> Result<bool, E> + Send,
    mut each: impl FnMut(&mut Rounds) -> Result<(), E> + Send,
) -> Result<(), E> {
    let (mut now, mut next) = (Rounds::default(), Rounds::default());
    let mut more = read(&mut now)?;
    while more {
        // Reading is one thread's work: each step of a stream is guessed from the ones before it.
        let (done, read) = rayon::join(|| each(&mut now), || read(&mut next));
        done?;
        more = read?;
        std::mem::swap(&mut now, &mut next);
    }
    Ok(())
}

/// Accesses that were left out.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// By key. All of them hit in L1.
    pub keys: Hits,
    /// The same by site.
    pub sites: Hits,
    /// Accesses to device registers, which no cache holds.
    pub uncached: Accesses,
}

impl LeftOut {
    pub fn add(&mut self, key: KeyId, site: SiteId, kind: AccessKind, count: Accesses) {
        self.keys.add(key.0, kind, count);
        self.sites.add(site.0, kind, count);
    }

    /// The keys that have hits, with them.
    #[inline]
    pub fn by_key(&self) -> impl Iterator<Item = (KeyId, [Accesses; 3])> {
        self.keys.iter().map(|(key, kinds)| (KeyId(key), kinds))
    }

    /// The sites that have hits, with them.
    #[inline]
    pub fn by_site(&self) -> impl Iterator<Item = (SiteId, [Accesses; 3])> {
        self.sites.iter().map(|(site, kinds)| (SiteId(site), kinds))
    }
}

/// Loads, stores and RMWs by number.
#[derive(Clone, Debug, Default)]
pub struct Hits(Vec<[Accesses; 3]>);

impl Hits {
    fn add(&mut self, number: u32, kind: AccessKind, count: Accesses) {
        let number = number as usize;
        if number >= self.0.len() {
            self.0.resize(number + 1, [Accesses::ZERO; 3]);
        }
        self.0[number][kind as usize] += count;
    }

    /// The numbers that have any.
    fn iter(&self) -> impl Iterator<Item = (u32, [Accesses; 3])> {
        let all = (0u32..).zip(self.0.iter().copied());
        all.filter(|(_, kinds)| *kinds != [Accesses::ZERO; 3])
    }
}

/// Numbers a recording's rounds, slices and accesses. Pass every step and every turn, in order.
#[derive(Clone, Debug)]
pub struct AccessPlaces {
    recorded: usize,
    slicer: Slicer,
    /// Rounds that are over.
    rounds: u32,
    /// Slices of the current round.
    slices: u32,
    /// Offset and tie of the slice's last access that goes through the caches.
    before: Option<(u32, u16)>,
}

impl AccessPlaces {
    /// For a recording with that many CPUs.
    #[must_use]
    pub fn new(recorded: usize) -> AccessPlaces {
        AccessPlaces {
            recorded,
            slicer: Slicer::new(recorded),
            rounds: 0,
            slices: 0,
            before: None,
        }
    }

    /// A CPU's turn begins.
    ///
    /// # Errors
    /// A CPU beyond those announced.
    pub fn turn(&mut self, turn: Turn) -> Result<Turned, ReplayError> {
        self.known(turn.cpu)?;
        let turned = self.slicer.turn(turn.cpu, turn.time);
        self.begin_slice(turned.begins);
        Ok(turned)
    }

    /// What begins with the step, and where it is, if it goes through the caches.
    ///
    /// # Errors
    /// As [`AccessPlaces::turn`].
    #[inline]
    pub fn step(&mut self, step: &Step) -> Result<(Cut, Option<AccessPlace>), ReplayError> {
        let cpu = step.access.cpu;
        self.known(cpu)?;
        let cached = step.fate == Fate::Cached;
        let cut = self.slicer.cut(cpu, step.access.time, cached);
        if cut.begins != Begins::Nothing {
            self.begin_slice(cut.begins);
        }
        let place = cached.then(|| {
            let tie = match self.before {
                Some((offset, tie)) if offset == cut.offset => tie.saturating_add(1).min(TIE_MAX),
                _ => 0,
            };
            self.before = Some((cut.offset, tie));
            AccessPlace {
                round: self.rounds,
                slice: self.slices.saturating_sub(1),
                offset: cut.offset,
                tie,
            }
        });
        Ok((cut, place))
    }

    fn begin_slice(&mut self, begins: Begins) {
        if begins == Begins::Round && self.slices > 0 {
            self.rounds += 1;
            self.slices = 0;
        }
        self.slices += 1;
        self.before = None;
    }

    #[inline]
    fn known(&self, cpu: CpuId) -> Result<(), ReplayError> {
        let recorded = self.recorded;
        match usize::from(cpu.0) < recorded {
            true => Ok(()),
            false => Err(ReplayError::Cpu { cpu, recorded }),
        }
    }
}

/// Cuts a recording's steps.
pub struct Cutter<'s> {
    places: AccessPlaces,
    filter: Option<Filter>,
    /// By subject: whether all of its accesses stay, because some variant moves them.
    stays: &'s [bool],
    left_out: LeftOut,
    /// When the round begins that is not complete yet.
    start: VirtualTime,
    /// The round that is not complete yet.
    slices: Vec<(SliceHead, u32)>,
    steps: Vec<Step>,
    seen: Vec<Seen>,
    kept: Vec<Kept>,
}

impl<'s> Cutter<'s> {
    /// For a recording with that many CPUs. With `filter`, it leaves out what always hits in these
    /// L1s, except for the subjects in `stays`.
    pub fn new(recorded: usize, filter: Option<L1s>, stays: &'s [bool]) -> Cutter<'s> {
        let filter = filter.map(Filter::new);
        Cutter {
            places: AccessPlaces::new(recorded),
            filter,
            stays,
            left_out: LeftOut::default(),
            start: VirtualTime(0),
            slices: Vec::new(),
            steps: Vec::new(),
            seen: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// The next steps and turns of the recording; rounds that are complete go into `out`.
    ///
    /// # Errors
    /// A CPU beyond those announced.
    pub fn take(&mut self, block: &Block, out: &mut Rounds) -> Result<(), ReplayError> {
        for (turn, steps) in block.parts() {
            if let Some(turn) = turn {
                self.turn(turn, out)?;
            }
            self.steps(steps, out)?;
        }
        Ok(())
    }

    fn turn(&mut self, turn: Turn, out: &mut Rounds) -> Result<(), ReplayError> {
        let turned = self.places.turn(turn)?;
        if let (Some((head, _)), Some(span)) = (self.slices.last_mut(), turned.ended) {
            head.end(span);
        }
        if turned.begins == Begins::Round {
            self.end_round(out);
            self.start = turn.time;
        }
        self.slices
            .push((SliceHead::new(turn.cpu), self.steps.len() as u32));
        Ok(())
    }

    fn steps(&mut self, steps: &[Step], out: &mut Rounds) -> Result<(), ReplayError> {
        for step in steps {
            let (cut, place) = self.places.step(step)?;
            if cut.begins == Begins::Round {
                self.end_round(out);
                self.start = step.access.time;
            }
            if cut.begins != Begins::Nothing {
                self.slices
                    .push((SliceHead::new(step.access.cpu), self.steps.len() as u32));
            }
            let Some((head, end)) = self.slices.last_mut() else {
                continue;
            };
            head.extend(cut.offset, place.is_some());
            let Some(place) = place else {
                // It takes part in its slice's time (`extend` above) and in nothing else.
                self.left_out.uncached += Accesses::ONE;
                continue;
            };
            *end += 1;
            self.steps.push(Step {
                at: place.offset,
                tie: place.tie,
                ..*step
            });
        }
        Ok(())
    }

    /// The last round, and what was left out in all.
    pub fn finish(mut self, out: &mut Rounds) -> LeftOut {
        self.end_round(out);
        self.left_out
    }

    fn end_round(&mut self, out: &mut Rounds) {
        if self.slices.is_empty() {
            return;
        }
        if self.filter.is_some() {
            self.end_filtered(out);
        } else {
            let before = out.steps.len() as u32;
            out.steps.extend_from_slice(&self.steps);
            let slices = self.slices.iter();
            out.slices
                .extend(slices.map(|(head, end)| (*head, before + end)));
        }
        out.rounds.push(out.slices.len() as u32);
        out.starts.push(self.start);
        self.slices.clear();
        self.steps.clear();
    }

    fn end_filtered(&mut self, out: &mut Rounds) {
        let seen = self.steps.iter().map(|step| Seen {
            cpu: step.access.cpu,
            addr: step.access.addr,
            size: step.access.size,
            kind: step.access.kind,
            sharing: step.sharing,
        });
        self.seen.clear();
        self.seen.extend(seen);
        if let Some(filter) = &mut self.filter {
            filter.round(&self.seen, &mut self.kept);
        }
        let mut kept = self.kept.iter().peekable();
        let mut first = 0;
        for (head, end) in &self.slices {
            for (index, step) in (first..*end).zip(&self.steps[first as usize..*end as usize]) {
                let kept = kept.next_if(|kept| kept.index == index);
                if kept.is_none() && !self.stays[step.subject.0 as usize] {
                    // Counted when it is dropped, because replays need the sums of the question's
                    // keys, not the accesses.
                    let kind = step.access.kind;
                    self.left_out.add(step.key, step.site, kind, Accesses::ONE);
                    continue;
                }
                out.steps.push(Step {
                    // Steps that stay for an edit alone are not needed by a replay that moves
                    // nothing: one stream serves both.
                    needed: kept.is_some(),
                    later: kept.map_or(Later::default(), |kept| kept.later),
                    ..*step
                });
            }
            out.slices.push((*head, out.steps.len() as u32));
            first = *end;
        }
    }
}

#[cfg(test)]
mod tests {
    use linemate_attribution::SubjectId;
    use linemate_recording::{Access, GuestAddr};

    use super::*;

    fn step(cpu: u16, time: u64, fate: Fate) -> Step {
        let access = Access {
            time: VirtualTime(time),
            cpu: CpuId(cpu),
            pc: GuestAddr(0),
            addr: GuestAddr(64),
            size: 8,
            kind: AccessKind::Load,
            silent: false,
            user_mapping: false,
        };
        Step {
            fate,
            ..Step::new(&access, SubjectId(0), 0)
        }
    }

    /// Several accesses of one instruction differ by their tie, within a slice, if they go through
    /// the caches; the cut has them at the same places.
    #[test]
    fn accesses_have_places_of_their_own() {
        use Fate::{Cached, Uncached};
        let steps = [
            (0, 10, Some([0, 0, 0, 0])),
            (0, 10, Some([0, 0, 0, 1])),
            (0, 10, Some([0, 0, 0, 2])),
            (0, 12, Some([0, 0, 2, 0])),
            // To a device: where it is, no miss can be.
            (0, 12, None),
            (0, 12, Some([0, 0, 2, 1])),
            (1, 20, Some([0, 1, 0, 0])),
            (1, 20, Some([0, 1, 0, 1])),
            (0, 30, Some([1, 0, 0, 0])),
        ];
        let mut places = AccessPlaces::new(2);
        let mut cutter = Cutter::new(2, None, &[true]);
        let mut rounds = Rounds::default();
        for (cpu, time, expected) in steps {
            let fate = expected.map_or(Uncached, |_| Cached);
            let step = step(cpu, time, fate);
            let (_, at) = places.step(&step).unwrap();
            let found = at.map(|at| [at.round, at.slice, at.offset, at.tie.into()]);
            assert_eq!(found, expected, "{time}");
            cutter.steps(&[step], &mut rounds).unwrap();
        }
        assert_eq!(cutter.finish(&mut rounds).uncached, Accesses::ONE);
        let mut cut = Vec::new();
        for (round, slices) in rounds.iter().enumerate() {
            for (slice, (_, steps)) in slices.enumerate() {
                cut.extend(
                    steps
                        .iter()
                        .map(|s| [round as u32, slice as u32, s.at, s.tie.into()]),
                );
            }
        }
        let expected: Vec<[u32; 4]> = steps.iter().filter_map(|(.., at)| *at).collect();
        assert_eq!(cut, expected);
        assert!(places.step(&step(2, 40, Cached)).is_err(), "no such CPU");
    }
}
