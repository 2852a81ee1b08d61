//! Per-CPU memory: the units of the first chunk, the variables in them, and sightings outside
//! those.

use linemate_recording::{CpuId, GuestAddr};

use super::located::Located;
use super::variables::VariableNames;
use crate::ledger::Bucket;
use crate::map::KernelMap;
use crate::schema::Schema;
use crate::subjects::{Extent, Subjects, extents, find};
use crate::votes::{Bounds, Votes};

/// Where per-CPU memory is and what is in it.
#[derive(Debug)]
pub(super) struct PercpuNames {
    variables: VariableNames,
    /// By per-CPU address: sightings outside variables and tracked objects.
    open: Vec<Extent>,
    /// First addresses of the units, sorted, with their CPUs.
    units: Vec<(u64, u16)>,
}

/// A byte of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct InUnit {
    pub(super) cpu: CpuId,
    pub(super) percpu: u64,
}

impl PercpuNames {
    pub(super) fn new(
        subjects: &mut Subjects,
        schema: &Schema,
        map: &KernelMap,
        sighted: &Votes,
    ) -> PercpuNames {
        let variables = VariableNames::new(subjects, schema, &map.percpu_variables, sighted, true);
        let open = sighted.decide(schema, Bounds::Open, None).placements;
        let mut units: Vec<(u64, u16)> = (0u16..)
            .zip(&map.percpu.offsets)
            .map(|(cpu, offset)| (offset.wrapping_add(map.percpu.section.start), cpu))
            .collect();
        units.sort_unstable();
        PercpuNames {
            variables,
            open: extents(subjects, &open, Bucket::Field, "", true),
            units,
        }
    }

    /// The unit of the first per-CPU chunk that contains an address.
    pub(super) fn unit(&self, map: &KernelMap, addr: u64) -> Option<InUnit> {
        let at = self.units.partition_point(|u| u.0 <= addr).checked_sub(1)?;
        let (start, cpu) = self.units[at];
        // Addresses beyond the last unit first: since 6.15 the section is at the end of the address
        // space, and the sum would overflow.
        let inside = Some(addr - start).filter(|inside| *inside < map.percpu.unit_size)?;
        let percpu = map.percpu.section.start.checked_add(inside)?;
        map.in_unit(addr, percpu).then_some(InUnit {
            cpu: CpuId(cpu),
            percpu,
        })
    }

    /// The variable at an address of a unit.
    pub(super) fn variable(&self, map: &KernelMap, at: InUnit, addr: GuestAddr) -> Option<Located> {
        if !map.percpu.section.contains(&at.percpu) {
            return None;
        }
        let list = &map.percpu_variables;
        self.variables.at(list, at.percpu, addr.0, Some(at.cpu))
    }

    /// What was sighted at an address of a unit outside variables.
    pub(super) fn sighted(&self, at: InUnit, addr: GuestAddr) -> Option<Located> {
        let extent = find(&self.open, at.percpu)?;
        let start = addr.0 - (at.percpu - extent.start);
        Some(Located::inside(&extent, at.percpu, start, Some(at.cpu)))
    }
}
