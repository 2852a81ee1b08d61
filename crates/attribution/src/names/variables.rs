//! Variables of the kernel's image and per-CPU ones, and what is inside those without a type.

use linemate_recording::{CpuId, GuestAddr};
use rustc_hash::FxHashMap;

use super::located::Located;
use crate::ledger::Bucket;
use crate::map::{Variable, Variables};
use crate::schema::Schema;
use crate::subjects::{Extent, Subject, SubjectId, Subjects, bare, clip, extents, find};
use crate::votes::{Bounds, Hint, Placement, Votes};

/// Variables with their subjects and what was found inside them.
#[derive(Debug, Default)]
pub(super) struct VariableNames {
    subjects: Vec<SubjectId>,
    strides: Vec<u64>,
    /// By variable: what sightings say about one without a type. Offsets from the variable's start.
    extents: FxHashMap<usize, Vec<Extent>>,
}

impl VariableNames {
    /// Numbers the variables of `list`; `votes`: what was sighted, by address.
    pub(super) fn new(
        subjects: &mut Subjects,
        schema: &Schema,
        list: &Variables,
        votes: &Votes,
        percpu: bool,
    ) -> VariableNames {
        let (typed, named) = match percpu {
            true => (Bucket::PercpuTyped, Bucket::PercpuNamed),
            false => (Bucket::GlobalTyped, Bucket::GlobalNamed),
        };
        let mut names = VariableNames::default();
        let inside = by_variable(list, votes);
        let silent = Votes::default();
        for (index, variable) in list.list.iter().enumerate() {
            let special = special_bucket(&variable.name);
            let bucket = special.unwrap_or(if variable.typed { typed } else { named });
            let ty = variable.ty.filter(|_| special.is_none());
            names.subjects.push(subjects.number(Subject {
                ty,
                label: variable.name.clone(),
                percpu,
                ..bare(bucket)
            }));
            names.strides.push(ty.map_or(0, |t| schema.size(t)));
            // BTF is trusted where it has the type; sightings name the rest.
            if !variable.typed && special.is_none() {
                let votes = inside.get(&index).unwrap_or(&silent);
                let found = place_variable(schema, variable, votes);
                if !found.is_empty() {
                    let found = extents(subjects, &found, typed, &variable.name, percpu);
                    names.extents.insert(index, found);
                }
            }
        }
        names
    }

    /// The variable of `list` at `at`, which is the byte at `addr`: the two differ for per-CPU
    /// variables.
    pub(super) fn at(
        &self,
        list: &Variables,
        at: u64,
        addr: u64,
        owner: Option<CpuId>,
    ) -> Option<Located> {
        let index = list.find(at)?;
        let offset = at - list.list[index].range.start;
        let object = GuestAddr(addr - offset);
        if let Some(extents) = self.extents.get(&index) {
            if let Some(extent) = find(extents, offset) {
                let start = object.0 + extent.start;
                return Some(Located::inside(&extent, offset, start, owner));
            }
        }
        let offset = offset.checked_rem(self.strides[index]).unwrap_or(offset);
        Some(Located {
            subject: self.subjects[index],
            offset: clip(offset),
            object,
            owner,
        })
    }
}

/// What was sighted in each variable, by offset.
fn by_variable(list: &Variables, votes: &Votes) -> FxHashMap<usize, Votes> {
    let mut inside: FxHashMap<usize, Votes> = FxHashMap::default();
    for (addr, ty, weight) in votes.iter() {
        if let Some(index) = list.find(addr) {
            let start = list.list[index].range.start;
            inside
                .entry(index)
                .or_default()
                .add(addr - start, ty, weight);
        }
    }
    inside
}

/// A symbol's size is only known up to the next symbol, so anything that fits may be there.
fn place_variable(schema: &Schema, variable: &Variable, votes: &Votes) -> Vec<Placement> {
    let size = variable.range.end - variable.range.start;
    votes
        .decide(
            schema,
            Bounds::Variable { size },
            Some(Hint::All(&variable.name)),
        )
        .placements
}

/// Variables that hold stacks and page tables (arch/x86: init_task.c, head_64.S, cpu_entry_area.c).
fn special_bucket(name: &str) -> Option<Bucket> {
    match name {
        "init_stack"
        | "__start_init_stack"
        | "init_thread_union"
        | "irq_stack_backing_store"
        | "exception_stacks"
        | "entry_stack_storage" => Some(Bucket::Stack),
        "init_top_pgt" | "early_top_pgt" | "level4_kernel_pgt" | "level3_kernel_pgt"
        | "level3_ident_pgt" | "level2_kernel_pgt" | "level2_ident_pgt" | "level2_fixmap_pgt"
        | "level1_fixmap_pgt" | "early_dynamic_pgts" => Some(Bucket::PageTable),
        _ => None,
    }
}
