//! Markers of no bytes, which code finds bit-fields by.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_layout::{Plan, parse};
use linemate_testkit::btf_writer::{TypeList, bit_field, member};
use linemate_types::{LineSize, TypeModel};

/// ```text
/// struct skb {
///     u32 len; u8 offset[0]; u8 cloned:1, nohdr:1; u8 count; u8 begin[0]; u16 users;
///     u8 __cacheline_group_end__rx[0]; u64 tail; u64 data[];
/// }
/// ```
#[test]
fn a_marker_moves_with_the_bit_fields_that_it_marks() {
    let mut t = TypeList::default();
    let u8_ = t.unsigned("unsigned char", 1);
    let u16_ = t.unsigned("unsigned short", 2);
    let u32_ = t.unsigned("unsigned int", 4);
    let u64_ = t.unsigned("unsigned long", 8);
    let (marker, data) = (t.array(u8_, 0), t.array(u64_, 0));
    let members = [
        member("len", u32_, 0),
        member("offset", marker, 4),
        bit_field("cloned", u8_, 4 * 8, 1),
        bit_field("nohdr", u8_, 4 * 8 + 1, 1),
        member("count", u8_, 5),
        member("begin", marker, 6),
        member("users", u16_, 6),
        member("__cacheline_group_end__rx", marker, 8),
        member("tail", u64_, 8),
        member("data", data, 16),
    ];
    t.structure("skb", 16, &members);
    let model = TypeModel::new(t.types, 8).unwrap();
    let planned = |edit: &str| {
        let file = parse(&format!("type skb\n{edit}")).unwrap();
        let plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new());
        let mut plan = plan.map_err(|why| why.to_string())?;
        let layout = plan.layouts.of(model.lookup("skb").unwrap());
        let layout = layout.map_err(|why| why.to_string())?;
        let bytes = layout.offsets.iter().map(|at| at.map(|bit| bit.0 / 8));
        Ok::<Vec<Option<u64>>, String>(bytes.collect())
    };
    let at = |all: [u64; 10]| Ok(all.map(Some).to_vec());
    assert_eq!(planned(""), at([0, 4, 4, 4, 5, 6, 6, 8, 8, 16]));
    assert_eq!(
        planned("move cloned last"),
        at([0, 16, 16, 16, 4, 5, 6, 8, 8, 24])
    );
    assert_eq!(
        planned("move users first"),
        at([4, 8, 8, 8, 9, 10, 0, 10, 16, 24])
    );
    assert_eq!(
        planned("move tail first"),
        at([8, 12, 12, 12, 13, 14, 14, 16, 0, 16])
    );
    // What begins there stays where it was among the others.
    assert_eq!(
        planned("move begin first"),
        at([0, 4, 4, 4, 5, 0, 6, 8, 8, 16])
    );
    let split = planned("move nohdr first").unwrap_err();
    assert!(split.contains("name the first, `cloned`"), "{split}");
    assert!(planned("move offset first").is_err());
}
