//! Searches of random traces, for tests.

use linemate_layout::Layouts;
use linemate_recording::CpuId;
use linemate_replay::mix;
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{ByteSize, LineSize, TypeModel};

use crate::cost::CostModel;
use crate::objective::Objective;
use crate::search::{Limit, Search};
use crate::shape::{Metrics, StructShape};
use crate::trace::{Act, Event, Kind, ObjectTrace, Trace};

/// Members of `struct s`, eight bytes each.
pub(crate) const MEMBERS: u16 = 24;

/// A number below `below`; `what` it is thrown for.
pub(crate) fn dice(seed: u32, what: u32, below: u32) -> u32 {
    (mix(mix(seed.into()) ^ mix(what.into())) >> 32) as u32 % below
}

fn types() -> TypeModel {
    let mut list = TypeList::default();
    let long = list.unsigned("long", 8);
    let members = (0..MEMBERS).map(|m| member(&format!("m{m}"), long, (m * 8).into()));
    list.structure("s", (8 * MEMBERS).into(), &members.collect::<Vec<_>>());
    TypeModel::new(list.types, 8).unwrap_or_else(|e| panic!("{e}"))
}

/// Three objects that four CPUs use at random. Only every third member is written.
fn trace(seed: u32) -> Trace {
    let event = |number: u32| {
        let atom = dice(seed, number * 4, MEMBERS.into()) as u16;
        let kinds = match atom % 3 {
            0 => [Kind::Load, Kind::Store, Kind::Rmw],
            _ => [Kind::Load; 3],
        };
        let kind = kinds[dice(seed, number * 4 + 1, 3) as usize];
        Event {
            round: number / 6,
            at: number % 6 * 40,
            atom,
            act: Act::new(CpuId(dice(seed, number * 4 + 2, 4) as u16), kind),
        }
    };
    let object = |number: u32| ObjectTrace {
        residue: 64 * (number % 2) as u8,
        // Their ends are not those of pieces.
        events: (number * 2000..number * 2000 + 1300 + 333 * number)
            .map(event)
            .collect(),
    };
    Trace {
        objects: (0..3).map(object).collect(),
        cpus: 4,
        ..Trace::default()
    }
}

/// Asks a search of a random trace's layouts on these machines.
pub(crate) fn with_search<R>(
    seed: u32,
    machines: &[&str],
    ask: impl FnOnce(&Search<'_, '_, '_>) -> R,
) -> R {
    with_search_of(&trace(seed), machines, ask)
}

/// Asks a search of a trace's layouts on these machines.
pub(crate) fn with_search_of<R>(
    trace: &Trace,
    machines: &[&str],
    ask: impl FnOnce(&Search<'_, '_, '_>) -> R,
) -> R {
    let types = types();
    let mut layouts = Layouts::new(&types, LineSize::B64);
    let shape = StructShape::new(&mut layouts, "s", types.named("s"), &[]).expect("a plain struct");
    let metrics = Metrics::new(&mut layouts, &shape).expect("a plain struct");
    let model = |name: &&str| {
        let machine = linemate_machine::find(name).expect("a shipped machine");
        CostModel::new(trace, &machine, metrics.clone(), &shape).expect("fits")
    };
    let models: Vec<CostModel<'_>> = machines.iter().map(model).collect();
    let objective = Objective::of_original(&models, &shape);
    let limits = [Limit {
        metrics,
        bytes: ByteSize((8 * MEMBERS).into()),
    }];
    ask(&Search::new(&shape, &objective, &limits))
}
