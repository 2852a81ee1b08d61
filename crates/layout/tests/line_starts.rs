//! Members that start a line at no cost: those that may have requested it keep it, and the answer
//! names them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_layout::{Plan, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{LineSize, TypeModel};

/// `vm_area_struct` of Debian's 6.19: only `vm_refcnt` is `____cacheline_aligned_in_smp`, and BTF
/// shows nothing of that except the size, 192 where 184 would do.
fn area(size: u32) -> TypeModel {
    let mut t = TypeList::default();
    let (int, long) = (
        t.unsigned("unsigned int", 4),
        t.unsigned("unsigned long", 8),
    );
    let (two, four, five) = (t.array(long, 2), t.array(long, 4), t.array(long, 5));
    let members = [
        member("vm_start", two, 0),
        member("vm_mm", long, 16),
        member("vm_page_prot", long, 24),
        member("vm_flags", long, 32),
        member("vm_lock_seq", int, 40),
        member("anon_vma_chain", two, 48),
        member("anon_vma", long, 64),
        member("vm_ops", long, 72),
        member("vm_pgoff", five, 80),
        member("numab_state", long, 120),
        member("vm_refcnt", int, 128),
        member("shared", four, 136),
        member("vm_userfaultfd_ctx", two, 168),
    ];
    t.structure("vm_area_struct", size, &members);
    TypeModel::new(t.types, 8).unwrap()
}

/// Where members start under `edits`, the size, and the notes about line starts.
fn planned(model: &TypeModel, edits: &str) -> (BTreeMap<String, u64>, u64, Vec<String>) {
    let file = parse(&format!("type vm_area_struct\n{edits}")).unwrap();
    let mut plan = Plan::new(model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    let id = model.struct_named("vm_area_struct").unwrap();
    let layout = plan.layouts.of(id).unwrap();
    let members = &model.composite(id).unwrap().members;
    let places = members.iter().zip(&layout.offsets);
    let places = places.map(|(m, offset)| (m.name.to_string(), offset.unwrap().0 / 8));
    let said = plan.layouts.line_starts(id).unwrap();
    let said = said.iter().map(|start| {
        let verb = if start.kept { "keeps" } else { "lost" };
        format!("{} {verb}; {}", start.member, start.otherwise)
    });
    (places.collect(), layout.size.0, said.collect())
}

#[test]
fn a_member_that_may_have_requested_its_line_stays_on_it() {
    let model = area(192);
    let (places, size, said) = planned(&model, "move vm_lock_seq after vm_refcnt");
    // As in gcc 12, except for `anon_vma`, which requests nothing: only the source says so.
    assert_eq!((places["vm_refcnt"], places["vm_lock_seq"]), (128, 132));
    assert_eq!(
        (places["anon_vma_chain"], places["anon_vma"], size),
        (40, 64, 192)
    );
    assert_eq!(
        said,
        [
            "anon_vma keeps; align anon_vma 8",
            "vm_refcnt keeps; align vm_refcnt 4"
        ]
    );
    let otherwise = "move vm_lock_seq after vm_refcnt\nalign anon_vma 8";
    let (places, size, said) = planned(&model, otherwise);
    assert_eq!(
        (
            places["anon_vma"],
            places["numab_state"],
            places["vm_refcnt"]
        ),
        (56, 112, 128)
    );
    assert_eq!(
        (size, said),
        (192, vec!["vm_refcnt keeps; align vm_refcnt 4".to_owned()])
    );
    let torn = "move vm_lock_seq after vm_refcnt\nalign anon_vma 8\nalign vm_refcnt 4";
    let (places, _, said) = planned(&model, torn);
    assert_eq!((places["vm_refcnt"], said), (120, Vec::new()));
}

#[test]
fn an_edit_that_moves_the_member_takes_it_off_its_line_and_says_so() {
    let model = area(192);
    let (places, _, said) = planned(&model, "move vm_refcnt after vm_lock_seq");
    assert_eq!(places["vm_refcnt"], 44);
    assert_eq!(said, ["vm_refcnt lost; align vm_refcnt line"]);
    let (_, _, said) = planned(&model, "isolate vm_refcnt");
    assert_eq!(said, [] as [&str; 0], "it starts a line of its own");
    let (_, _, said) = planned(&model, "move vm_pgoff after vm_ops");
    assert_eq!(said, [] as [&str; 0], "nothing depends on it");
}

#[test]
fn where_the_size_needs_no_line_nothing_is_held() {
    // With 184 bytes no member starts lines on purpose: objects do not.
    let (places, size, said) = planned(&area(184), "move vm_lock_seq after vm_refcnt");
    assert_eq!(
        (places["anon_vma"], places["vm_refcnt"], size),
        (56, 120, 176)
    );
    assert_eq!(said, [] as [&str; 0]);
}
