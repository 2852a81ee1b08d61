//! Where values of the engine become values of documents: both have types of their own, so that
//! what a document says does not change when the engine does.

use linemate_answers::{MachinePlaces, Mixing, TimeGrid, WarmUp};

/// The parts of a recording's time and the rows of its CPUs.
#[must_use]
pub fn time_grid(grid: linemate_recording::TimeGrid) -> TimeGrid {
    TimeGrid {
        start: grid.start,
        step: grid.step,
        bins: grid.bins,
        cpus_per_row: grid.cpus_per_row,
        rows: grid.rows,
    }
}

pub(crate) fn warm_up(warm_up: linemate_replay::WarmUp) -> WarmUp {
    WarmUp {
        lines: warm_up.lines,
        late: warm_up.late,
    }
}

pub(crate) fn places(places: linemate_replay::MachinePlaces) -> MachinePlaces {
    use linemate_replay::MachinePlaces as Replayed;
    match places {
        Replayed::Cpu => MachinePlaces::Cpu,
        Replayed::Domain => MachinePlaces::Domain,
        Replayed::Socket => MachinePlaces::Socket,
    }
}

pub(crate) fn mixing(mixing: linemate_replay::Mixing) -> Mixing {
    use linemate_replay::Mixing as Replayed;
    match mixing {
        Replayed::Groups => Mixing::Groups,
        Replayed::Domains => Mixing::Domains,
        Replayed::Flat => Mixing::Flat,
    }
}

/// What [`mixing`] is of.
pub(crate) fn replayed_mixing(mixing: Mixing) -> linemate_replay::Mixing {
    use linemate_replay::Mixing as Replayed;
    match mixing {
        Mixing::Groups => Replayed::Groups,
        Mixing::Domains => Replayed::Domains,
        Mixing::Flat => Replayed::Flat,
    }
}
