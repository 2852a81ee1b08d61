//! Synthetic structs and traces of them.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_advise::cost::CostModel;
use linemate_advise::objective::Objective;
use linemate_advise::search::Limit;
use linemate_advise::shape::{Metrics, StructShape};
use linemate_advise::trace::{Act, Event, Kind, ObjectTrace, Trace};
use linemate_layout::Layouts;
use linemate_machine::Machine;
use linemate_recording::CpuId;
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{LineSize, TypeId, TypeModel};

/// A seeded source of numbers (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % count
    }
}

/// `struct s` with members m0, m1, … of these sizes (1, 2, 4, 8, or multiples of 8), as a compiler
/// lays them out.
pub(crate) fn model(sizes: &[u32]) -> TypeModel {
    let mut t = TypeList::default();
    let scalars: Vec<(u32, TypeId)> = [1u8, 2, 4, 8]
        .iter()
        .map(|size| (u32::from(*size), t.unsigned(&format!("u{size}"), *size)))
        .collect();
    let long = scalars[3].1;
    let (mut members, mut end, mut widest) = (Vec::new(), 0u64, 1u64);
    for (number, size) in sizes.iter().enumerate() {
        let known = scalars.iter().find(|(s, _)| s == size).map(|(_, id)| *id);
        let id = known.unwrap_or_else(|| t.array(long, size / 8));
        let align = u64::from((*size).min(8));
        end = end.next_multiple_of(align);
        widest = widest.max(align);
        members.push(member(&format!("m{number}"), id, end));
        end += u64::from(*size);
    }
    let bytes = u32::try_from(end.next_multiple_of(widest)).unwrap();
    t.structure("s", bytes, &members);
    TypeModel::new(t.types, 8).unwrap()
}

pub(crate) fn shape(model: &TypeModel) -> StructShape {
    let ids = model.named("s").to_vec();
    StructShape::new(&mut Layouts::new(model, LineSize::B64), "s", &ids, &[]).unwrap()
}

pub(crate) fn metrics(model: &TypeModel, shape: &StructShape, line: LineSize) -> Metrics {
    Metrics::new(&mut Layouts::new(model, line), shape).unwrap()
}

/// Random accesses of `cpus` CPUs to one object: every member has its own habits.
pub(crate) fn trace(shape: &StructShape, cpus: u16, events: u32, dice: &mut Dice) -> Trace {
    let habits: Vec<(u64, u64, u64)> = (0..shape.units().len())
        .map(|_| (dice.below(8), dice.below(100), dice.below(u64::from(cpus))))
        .collect();
    let mut list = Vec::new();
    for round in 0..events {
        let atom = dice.below(shape.atoms.len() as u64) as u16;
        let (heat, writes, owner) = habits[usize::from(shape.atoms[usize::from(atom)].unit)];
        if dice.below(8) > heat {
            continue;
        }
        let cpu = if dice.below(3) == 0 {
            owner
        } else {
            dice.below(u64::from(cpus))
        };
        let kind = match dice.below(100) {
            x if x >= writes => Kind::Load,
            x if x % 4 == 0 => Kind::Rmw,
            _ => Kind::Store,
        };
        list.push(Event {
            round: round / 3,
            at: round % 3,
            atom,
            act: Act::new(CpuId(cpu as u16), kind),
        });
    }
    Trace {
        objects: vec![ObjectTrace {
            residue: 0,
            events: list,
        }],
        cpus: usize::from(cpus),
        ..Trace::default()
    }
}

pub(crate) fn machine(name: &str) -> Machine {
    linemate_machine::find(name).unwrap()
}

/// Runs `with` on an objective of one trace and one machine, and limits without growth in lines.
pub(crate) fn with_objective<T>(
    model: &TypeModel,
    shape: &StructShape,
    trace: &Trace,
    machine: &Machine,
    with: impl FnOnce(&Objective<'_, '_>, &[Limit]) -> T,
) -> T {
    let metrics = metrics(model, shape, LineSize::B64);
    let models = [CostModel::new(trace, machine, metrics.clone(), shape).unwrap()];
    let objective = Objective::of_original(&models, shape);
    let bytes = metrics.original.align_up(LineSize::B64.into());
    with(&objective, &[Limit { metrics, bytes }])
}
