//! What the verbs that replay write with `--json`. The case that keeps their outputs reads the same types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_study::costs::Costs;
use linemate_study::effect::WhatIf;
use linemate_study::{Cpus, EventCount};
use serde::{Deserialize, Serialize};

use crate::leaves::LayoutChange;

/// What `linemate report --machine --json` writes (docs/reference/json/costs.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostsDocument {
    /// [`CostsDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; none if it is cut.
    pub checksum: Option<String>,
    /// The type that was asked for.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Where each replayed CPU is, in the order of the recorded CPUs and then their copies.
    #[serde(default)]
    pub cpus: Vec<CpuPlace>,
    /// The answer.
    pub costs: Costs,
}

/// Where a replayed CPU is on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlace {
    /// The recorded CPU, and which of its copies.
    pub cpu: (usize, usize),
    /// Its last-level cache's domain.
    pub domain: u16,
    /// Its socket.
    pub socket: u16,
}

impl CpuPlace {
    /// Those of `costs` on `machine`.
    fn all(machine: &Machine, costs: &Costs) -> Vec<CpuPlace> {
        let copies = (costs.cpus / costs.recorded_cpus.max(1)).max(1);
        let cpus = Cpus {
            recorded: costs.recorded_cpus,
            copies: u16::try_from(copies).unwrap_or(u16::MAX),
        };
        let mixing = costs.groups.as_ref().map(|groups| groups.mixing);
        let spread = cpus
            .places(machine, mixing.unwrap_or_default())
            .unwrap_or_default();
        let places = spread.into_iter().enumerate().filter_map(|(number, cpu)| {
            let place = machine.topology.place(cpu)?;
            Some(CpuPlace {
                cpu: (number / copies, number % copies),
                domain: place.domain.0,
                socket: place.socket.0,
            })
        });
        places.collect()
    }
}

impl CostsDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.costs/5";

    /// The document of these costs of `recording` on `machine`, made by version `tool`.
    pub fn new(
        tool: &str,
        recording: &Recording,
        machine: &Machine,
        type_name: Option<&str>,
        costs: Costs,
    ) -> Self {
        CostsDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recording: recording.metadata().clone(),
            checksum: checksum(recording),
            type_name: type_name.map(str::to_owned),
            cpus: CpuPlace::all(machine, &costs),
            costs,
        }
    }
}

/// What `linemate whatif --json` writes (docs/reference/json/whatif.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIfDocument {
    /// [`WhatIfDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; none if it is cut.
    pub checksum: Option<String>,
    /// The edits, as a file holds them.
    pub edits: String,
    /// What costs are told per, if an event was asked for.
    #[serde(default)]
    pub event: Option<EventCount>,
    /// The edited types before and after, for each machine's line size once.
    #[serde(default)]
    pub layouts: Vec<LayoutChange>,
    /// The answers, one for each machine.
    pub results: Vec<WhatIf>,
}

impl WhatIfDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.whatif/2";

    /// The document of these answers about `recording`, made by version `tool`.
    pub fn new(
        tool: &str,
        recording: &Recording,
        edits: String,
        layouts: Vec<LayoutChange>,
        results: Vec<WhatIf>,
    ) -> Self {
        WhatIfDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recording: recording.metadata().clone(),
            checksum: checksum(recording),
            edits,
            event: None,
            layouts,
            results,
        }
    }
}

/// The recording's checksum as all documents write it.
pub(crate) fn checksum(recording: &Recording) -> Option<String> {
    recording.checksum().map(|sum| format!("{sum:016x}"))
}
