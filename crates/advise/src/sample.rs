//! The part of a long trace that layouts are rated on.
//!
//! A search rates more than a hundred thousand sets of members, each on all events of the trace.
//! Recordings of many CPUs have tens of times as many events as those of eight, of the same
//! functions. Replay, which decides, always has all of them.

use std::borrow::Cow;

use linemate_replay::mix;

use crate::trace::{Event, ObjectTrace, Trace};

/// About how many events layouts are rated on at most. A choice: evidence/benchmarks.md has what a
/// search gains with that many and with all.
const RATED_MAX: usize = 512 << 10;
/// How many successive events of an object are in a sample, or not in it, together. Not single
/// ones, because what an event costs depends on those before it: an object with few events, which
/// is set up, used and freed, is in it from first to last, or not at all. Stretches eight times as
/// long are too few to represent the rest: half of `rq`'s events then lost 6 points of its cost.
const STRETCH: usize = 512;

/// Some successive events of an object.
#[derive(Clone, Copy)]
struct Stretch {
    object: usize,
    first: usize,
    length: usize,
}

impl Stretch {
    fn of<'t>(&self, trace: &'t Trace) -> &'t [Event] {
        &trace.objects[self.object].events[self.first..self.first + self.length]
    }
}

/// What layouts are rated on, by recording.
pub(crate) fn rated(traces: &[Trace]) -> Vec<Cow<'_, Trace>> {
    let of = traces.iter().map(|trace| sampled(trace, RATED_MAX));
    of.collect()
}

/// The trace with about `most` events: itself, or stretches of its objects, which are drawn without
/// regard to what is in them until there are `most` events. Every object is in it, if without
/// events, and so is who uses what.
fn sampled(trace: &Trace, most: usize) -> Cow<'_, Trace> {
    if trace.events() <= most {
        return Cow::Borrowed(trace);
    }
    let mut objects: Vec<ObjectTrace> = trace.objects.iter().map(without_events).collect();
    for stretch in chosen(trace, most) {
        let events = &mut objects[stretch.object].events;
        events.extend_from_slice(stretch.of(trace));
    }
    Cow::Owned(Trace {
        objects,
        uses: trace.uses.clone(),
        ..*trace
    })
}

fn without_events(object: &ObjectTrace) -> ObjectTrace {
    ObjectTrace {
        residue: object.residue,
        events: Vec::new(),
    }
}

/// The stretches of a sample, in their order in the trace.
fn chosen(trace: &Trace, most: usize) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for (object, of) in trace.objects.iter().enumerate() {
        let starts = (0..of.events.len()).step_by(STRETCH);
        all.extend(starts.map(|first| Stretch {
            object,
            first,
            length: STRETCH.min(of.events.len() - first),
        }));
    }
    let mut drawn: Vec<usize> = (0..all.len()).collect();
    drawn.sort_by_key(|number| mix(*number as u64));
    let mut events = 0;
    let fits = |number: &usize| {
        let has_room = events < most;
        events += all[*number].length;
        has_room
    };
    let mut chosen: Vec<usize> = drawn.into_iter().take_while(fits).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|number| all[number]).collect()
}

#[cfg(test)]
mod tests {
    use linemate_recording::CpuId;

    use super::*;
    use crate::trace::{Act, Kind};

    /// Objects with these numbers of events, each event in a round of its own.
    fn trace(events: &[usize]) -> Trace {
        let mut round = 0;
        let mut event = |_| {
            round += 1;
            Event {
                round,
                at: 0,
                atom: 0,
                act: Act::new(CpuId(0), Kind::Store),
            }
        };
        let object = |count: &usize| ObjectTrace {
            residue: 64,
            events: (0..*count).map(&mut event).collect(),
        };
        Trace {
            objects: events.iter().map(object).collect(),
            cpus: 3,
            ..Trace::default()
        }
    }

    fn rounds(object: &ObjectTrace) -> Vec<u32> {
        object.events.iter().map(|event| event.round).collect()
    }

    #[test]
    fn a_trace_with_as_many_events_is_its_own_sample() {
        let all = trace(&[3000, 1000]);
        assert!(matches!(sampled(&all, 4000), Cow::Borrowed(_)));
        assert!(matches!(sampled(&all, 3999), Cow::Owned(_)));
    }

    #[test]
    fn a_sample_has_whole_stretches_in_their_order_and_all_objects() {
        let all = trace(&[100 * STRETCH, 7, 100 * STRETCH + 1, 9]);
        let part = sampled(&all, 40 * STRETCH);
        assert!((40 * STRETCH..41 * STRETCH).contains(&part.events()));
        assert_eq!((part.objects.len(), part.cpus), (4, 3));
        for (whole, part) in all.objects.iter().zip(&part.objects) {
            assert_eq!(whole.residue, part.residue);
            let (whole, part) = (rounds(whole), rounds(part));
            let stretches: Vec<&[u32]> = whole.chunks(STRETCH).collect();
            let inside = |chunk: &&[u32]| part.contains(&chunk[0]);
            let kept: Vec<u32> = stretches
                .into_iter()
                .filter(inside)
                .flatten()
                .copied()
                .collect();
            assert_eq!(kept, part);
        }
        // Of both long objects about as much.
        let shares = [0, 2].map(|object: usize| part.objects[object].events.len() / STRETCH);
        assert!(
            shares.iter().all(|share| (10..=30).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn short_objects_are_whole_or_empty() {
        let all = trace(&[100; 400]);
        let part = sampled(&all, 10_000);
        let lengths: Vec<usize> = part.objects.iter().map(|o| o.events.len()).collect();
        assert_eq!(lengths.iter().filter(|length| **length == 100).count(), 100);
        assert_eq!(lengths.iter().filter(|length| **length == 0).count(), 300);
    }
}
