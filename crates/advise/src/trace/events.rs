//! An object's events, as the cost model reads them: what every event does, and apart from that when
//! it happens, which the model needs of one in five.

use linemate_recording::{AccessKind, CpuId, MAX_CPUS};

/// What an access does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It reads the atom.
    Load,
    /// It writes the atom without reading it.
    Store,
    /// Reads and writes it at once.
    Rmw,
}

impl Kind {
    pub(super) fn of(kind: AccessKind) -> Kind {
        match kind {
            AccessKind::Load => Kind::Load,
            AccessKind::Store => Kind::Store,
            AccessKind::Rmw => Kind::Rmw,
        }
    }

    /// Whether the CPU must own the line.
    pub fn writes(self) -> bool {
        self != Kind::Load
    }
}

/// An access to an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its round: all CPUs run at once in it.
    pub round: u32,
    /// Instructions from the round's start.
    pub at: u32,
    /// The number of the atom that it touches.
    pub atom: u16,
    /// Who does what to it.
    pub act: Act,
}

/// Bits of an [`Act`] for its [`Kind`].
const KIND_BITS: u32 = 2;

const _: () = assert!(MAX_CPUS <= 1 << (u16::BITS - KIND_BITS));

/// A recorded CPU, and whether it reads or writes: in 16 bits, because there are millions of events
/// and up to [`MAX_CPUS`] CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act(u16);

impl Act {
    /// Of a CPU below [`MAX_CPUS`].
    pub fn new(cpu: CpuId, kind: Kind) -> Act {
        Act(cpu.0 << KIND_BITS | kind as u16)
    }

    /// The CPU.
    #[inline]
    pub fn cpu(self) -> CpuId {
        CpuId(self.0 >> KIND_BITS)
    }

    /// Whether it reads or writes.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 % (1 << KIND_BITS) {
            0 => Kind::Load,
            1 => Kind::Store,
            _ => Kind::Rmw,
        }
    }
}

/// What an event does, without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomAct {
    /// The number of the atom that it touches.
    pub atom: u16,
    /// Who does what to it.
    pub act: Act,
}

const _: () = assert!(size_of::<AtomAct>() == 4);

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// Its round: all CPUs run at once in it.
    pub round: u32,
    /// Instructions from the round's start.
    pub at: u32,
}

/// Events in order. The two columns have one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    touches: Vec<AtomAct>,
    moments: Vec<EventTime>,
}

impl Events {
    /// Appends an event.
    pub fn push(&mut self, event: Event) {
        let Event {
            round,
            at,
            atom,
            act,
        } = event;
        self.touches.push(AtomAct { atom, act });
        self.moments.push(EventTime { round, at });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.touches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.touches.is_empty()
    }

    /// What each does.
    pub fn touches(&self) -> &[AtomAct] {
        &self.touches
    }

    /// When each happens.
    pub fn moments(&self) -> &[EventTime] {
        &self.moments
    }

    /// The events, in order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let both = self.touches.iter().zip(&self.moments);
        both.map(|(touch, moment)| Event {
            round: moment.round,
            at: moment.at,
            atom: touch.atom,
            act: touch.act,
        })
    }
}

impl Extend<Event> for Events {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Events {
        let mut all = Events::default();
        all.extend(events);
        all
    }
}
