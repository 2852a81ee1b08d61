//! The size of a layout: bytes, lines, holes, and lines that only one CPU touches.

use linemate_answers::Footprint;
use linemate_layout::arrange::Slot;
use linemate_recording::CpuId;
use linemate_types::{ByteOffset, ByteSize};

use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::Trace;

/// Which CPUs touch a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineUsers {
    Nobody,
    One(CpuId),
    Several,
}

impl LineUsers {
    fn and(self, cpu: CpuId) -> LineUsers {
        match self {
            LineUsers::Nobody => LineUsers::One(cpu),
            LineUsers::One(known) if known == cpu => self,
            LineUsers::One(_) | LineUsers::Several => LineUsers::Several,
        }
    }
}

/// Measures units laid out as `slots` say.
pub fn footprint<'t>(
    shape: &StructShape,
    metrics: &Metrics,
    slots: &[Slot],
    traces: impl IntoIterator<Item = &'t Trace>,
) -> Footprint {
    let mut placed = UnitLayout::default();
    metrics.place(slots, &mut placed);
    let (mut holes, mut hole_bytes, mut end) = (0, ByteSize::ZERO, ByteOffset::ZERO);
    let ends = slots.iter().map(|slot| {
        let start = placed.start(slot.unit);
        (start, metrics.end(&placed, slot.unit))
    });
    for (start, next) in ends.chain([(placed.size.end(), placed.size.end())]) {
        let hole = start.after(end).unwrap_or_default();
        if hole > ByteSize::ZERO {
            holes += 1;
        }
        hole_bytes += hole;
        end = next;
    }
    let (mut touched, mut alone) = (0, 0);
    let mut users: Vec<LineUsers> = Vec::new();
    for object in traces.into_iter().flat_map(|t| &t.objects) {
        users.clear();
        for event in &object.events {
            let unit = usize::from(shape.atoms[usize::from(event.atom)].unit);
            // At most the largest type's size in lines.
            let line = metrics.line_of(&placed, object.residue, unit, event.atom);
            let line = line.0 as usize;
            if line >= users.len() {
                users.resize(line + 1, LineUsers::Nobody);
            }
            users[line] = users[line].and(event.act.cpu());
        }
        for users in users.iter().filter(|users| **users != LineUsers::Nobody) {
            touched += 1;
            alone += u64::from(matches!(users, LineUsers::One(_)));
        }
    }
    Footprint {
        bytes: placed.size.0,
        lines: metrics.lines(&placed),
        holes,
        hole_bytes: hole_bytes.0,
        touched,
        alone,
    }
}
