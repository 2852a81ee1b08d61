//! Edits applied to types: exact offsets, and every refusal with its reason.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_layout::{AccessRule, Layout, Plan, parse};
use linemate_testkit::btf_writer::{TypeList, bit_field, member};
use linemate_types::{ByteOffset, ByteSize, LineSize, TypeModel};

/// ```text
/// struct inner { u64 x; u32 y; }                          size 16
/// struct bits { u32 a:3, b:5; u8 c; }                     size 4
/// union { u64 curr; u32 donor; }
/// struct rq { u32 lock; u32 nr; u64 tick; u32 csd align 64; (curr, donor); inner in[2]; u32 f0:1, f1:2; u8 tail; }
/// struct list { u32 count; u32 hot; u64 items[]; }
/// struct table { u64 count; u64 *numbers; struct inner *inners; union { u64 *a; u64 b; }; u64 **rows; u64 **two[2]; }
/// struct mm { struct { u64 map; u32 users; }; u64 bits; }
/// struct doubtful { u64 whole[8]; struct { u64 x2; u64 y2; }; } of 128 bytes
/// struct holder { struct inner; u64 z; } as in Microsoft's C
/// struct twin { struct { u64 here; u64 there; }; struct { u32 count; }; u32 end; }
/// struct other { struct { u64 here; u64 there; }; }
/// struct outer { u8 id; struct inner first; struct rq rq; u32 end; }
/// ```
fn model() -> TypeModel {
    let mut t = TypeList::default();
    let u8_ = t.unsigned("unsigned char", 1);
    let u32_ = t.unsigned("unsigned int", 4);
    let u64_ = t.unsigned("unsigned long", 8);
    let inner = t.structure("inner", 16, &[member("x", u64_, 0), member("y", u32_, 8)]);
    let union = t.union("", 8, &[member("curr", u64_, 0), member("donor", u32_, 0)]);
    let pair = t.array(inner, 2);
    let rq = t.structure(
        "rq",
        128,
        &[
            member("lock", u32_, 0),
            member("nr", u32_, 4),
            member("tick", u64_, 8),
            member("csd", u32_, 64),
            member("", union, 72),
            member("in", pair, 80),
            bit_field("f0", u32_, 112 * 8, 1),
            bit_field("f1", u32_, 112 * 8 + 1, 2),
            member("tail", u8_, 113),
        ],
    );
    let items = t.array(u64_, 0);
    t.structure(
        "list",
        8,
        &[
            member("count", u32_, 0),
            member("hot", u32_, 4),
            member("items", items, 8),
        ],
    );
    t.structure(
        "outer",
        256,
        &[
            member("id", u8_, 0),
            member("first", inner, 8),
            member("rq", rq, 64),
            member("end", u32_, 192),
        ],
    );
    let numbers = t.pointer(u64_);
    let rows = t.pointer(numbers);
    let inners = t.pointer(inner);
    let either = t.union("", 8, &[member("a", numbers, 0), member("b", u64_, 0)]);
    let two = t.array(rows, 2);
    let whole = t.structure("", 16, &[member("map", u64_, 0), member("users", u32_, 8)]);
    t.structure("mm", 24, &[member("", whole, 0), member("bits", u64_, 16)]);
    t.structure(
        "table",
        56,
        &[
            member("count", u64_, 0),
            member("numbers", numbers, 8),
            member("inners", inners, 16),
            member("", either, 24),
            member("rows", rows, 32),
            member("two", two, 40),
        ],
    );
    let both = [member("here", u64_, 0), member("there", u64_, 8)];
    let both = t.structure("", 16, &both);
    let single = t.structure("", 4, &[member("count", u32_, 0)]);
    t.structure(
        "twin",
        24,
        &[
            member("", both, 0),
            member("", single, 16),
            member("end", u32_, 20),
        ],
    );
    t.structure("other", 16, &[member("", both, 0)]);
    let line = t.array(u64_, 8);
    let two = [member("x2", u64_, 0), member("y2", u64_, 8)];
    let two = t.structure("", 16, &two);
    let doubtful = [member("whole", line, 0), member("", two, 64)];
    let nameless = [member("", inner, 0), member("z", u64_, 16)];
    t.structure("holder", 24, &nameless);
    t.structure("doubtful", 128, &doubtful);
    t.union("either", 8, &[member("a", u64_, 0), member("b", u32_, 0)]);
    TypeModel::new(t.types, 8).unwrap()
}

fn layout_on(text: &str, name: &str, line: LineSize) -> Arc<Layout> {
    let model = model();
    let file = parse(text).unwrap();
    let mut plan = Plan::new(&model, line, &file, &BTreeMap::new()).unwrap();
    plan.layouts.of(model.lookup(name).unwrap()).unwrap()
}

fn layout(edits: &str) -> Arc<Layout> {
    layout_on(&format!("type rq\n{edits}"), "rq", LineSize::B64)
}

/// Byte offsets of lock, nr, tick, csd, (curr), in, f0, f1 (bit), tail; `None` if removed.
fn offsets(layout: &Layout) -> Vec<Option<u64>> {
    layout
        .offsets
        .iter()
        .map(|o| o.map(|bit| bit.0 / 8))
        .collect()
}

fn all(values: [u64; 9]) -> Vec<Option<u64>> {
    values.into_iter().map(Some).collect()
}

#[test]
fn nothing_changed_is_nothing_changed() {
    let layout = layout("");
    assert_eq!(offsets(&layout), all([0, 4, 8, 64, 72, 80, 112, 112, 113]));
    assert_eq!(
        (layout.size.0, layout.align.bytes(), layout.map.is_none()),
        (128, 64, true)
    );
}

#[test]
fn moves_and_orders() {
    // nr, moved after tick, leaves a hole of 4; csd is still aligned to a line.
    assert_eq!(
        offsets(&layout("move nr after tick")),
        all([0, 16, 8, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(
        offsets(&layout("move csd first")),
        all([4, 8, 16, 0, 24, 32, 64, 64, 65])
    );
    assert_eq!(layout("move csd first").size.0, 128);
    assert_eq!(
        offsets(&layout("move lock last")),
        all([116, 0, 8, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(
        offsets(&layout("move tail before lock")),
        all([4, 8, 16, 64, 72, 80, 112, 112, 0])
    );
    // The union and the array move as one; the alternatives still overlap.
    assert_eq!(
        offsets(&layout("order lock donor in nr")),
        all([0, 48, 56, 64, 8, 16, 68, 68, 69])
    );
    let order = layout("order tick nr lock");
    assert_eq!(offsets(&order), all([12, 8, 0, 64, 72, 80, 112, 112, 113]));
}

#[test]
fn alignment_and_padding() {
    assert_eq!(
        offsets(&layout("align nr 32")),
        all([0, 32, 40, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(
        offsets(&layout("align tick line")),
        all([0, 4, 64, 128, 136, 144, 176, 176, 177])
    );
    assert_eq!(layout("align tick line").size.0, 192);
    assert_eq!(
        offsets(&layout("pad lock to 12")),
        all([0, 12, 16, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(
        offsets(&layout("pad after tail 15")),
        all([0, 4, 8, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(layout("pad after tail 15").size.0, 192);
    assert_eq!(
        offsets(&layout("pad after lock 1")),
        all([0, 8, 16, 64, 72, 80, 112, 112, 113])
    );
}

#[test]
fn elements_of_an_array_are_padded() {
    let rq = layout("pad elements of in to line");
    assert_eq!(offsets(&rq), all([0, 4, 8, 64, 72, 80, 208, 208, 209]));
    assert_eq!(rq.size.0, 256);
    let to = |old| rq.moved(ByteOffset(old)).unwrap().0;
    assert_eq!((to(80), to(88), to(96), to(104)), (80, 88, 144, 152));
    // A stride that the elements' alignment does not allow is rounded up.
    let rq = layout("pad elements of in to 20");
    assert_eq!(rq.moved(ByteOffset(96)).unwrap().0, 80 + 24);
    assert_eq!(layout("pad elements of in to 16").map, None);
    // The new layout of the elements counts, too.
    let both = "type inner\nisolate y\ntype rq\npad elements of in to 192";
    let rq = layout_on(both, "rq", LineSize::B64);
    let to = |old| rq.moved(ByteOffset(old)).unwrap().0;
    assert_eq!((to(80), to(88), to(96), to(104)), (128, 192, 320, 384));
    let list = layout_on(
        "type list\npad elements of items to 64",
        "list",
        LineSize::B64,
    );
    assert_eq!(list.moved(ByteOffset(8 + 8 * 1000)).unwrap().0, 8 + 64_000);
}

#[test]
fn groups_lie_on_lines_of_their_own() {
    // tick and nr where tick was: line 1; csd's line follows.
    let isolated = layout("isolate tick nr");
    assert_eq!(
        offsets(&isolated),
        all([0, 72, 64, 128, 136, 144, 176, 176, 177])
    );
    assert_eq!((isolated.size.0, isolated.lines(LineSize::B64)), (192, 3));
    let first = layout("group hot first { curr nr }\nmove lock after hot");
    assert_eq!(
        offsets(&first),
        all([64, 8, 72, 128, 0, 136, 168, 168, 169])
    );
    let last = layout("group cold last { lock nr }");
    assert_eq!(
        offsets(&last),
        all([128, 132, 0, 64, 72, 80, 112, 112, 113])
    );
    assert_eq!(last.size.0, 192, "nothing else on the last line either");
    let two = layout("group a first { nr }\ngroup b after a { tick }\nmove lock after b");
    assert_eq!(
        offsets(&two),
        all([128, 0, 64, 192, 200, 208, 240, 240, 241])
    );
    let moved = layout("group a first { nr }\nmove a last");
    assert_eq!(offsets(&moved), all([0, 128, 8, 64, 72, 80, 112, 112, 113]));
    let wide = layout_on("type rq\nisolate tick nr", "rq", LineSize::B128);
    assert_eq!(
        offsets(&wide),
        all([0, 136, 128, 256, 264, 272, 304, 304, 305])
    );
    assert_eq!((wide.size.0, wide.lines(LineSize::B128)), (384, 3));
}

#[test]
fn another_line_size_moves_what_is_aligned_to_lines() {
    let wide = layout_on("", "rq", LineSize::B128);
    assert_eq!(offsets(&wide), all([0, 4, 8, 128, 136, 144, 176, 176, 177]));
    assert_eq!((wide.size.0, wide.align.bytes()), (256, 128));
}

#[test]
fn removed_fields_leave_no_hole() {
    let layout = layout("remove nr");
    assert_eq!(layout.offsets[1], None);
    assert_eq!(offsets(&layout)[2], Some(8), "tick needs its alignment");
    assert_eq!(
        layout
            .map
            .as_ref()
            .unwrap()
            .parts(ByteOffset(4), ByteSize(4)),
        []
    );
    let parts = layout
        .map
        .as_ref()
        .unwrap()
        .parts(ByteOffset(0), ByteSize(8));
    assert_eq!(
        parts
            .iter()
            .map(|p| (p.offset.0, p.bytes.0))
            .collect::<Vec<_>>(),
        [(0, 4)]
    );
}

#[test]
fn embedded_types_take_their_outer_types_along() {
    let edit = "type inner\nisolate y";
    let inner = layout_on(edit, "inner", LineSize::B64);
    assert_eq!(
        (inner.size.0, inner.align.bytes(), offsets(&inner)),
        (128, 64, vec![Some(0), Some(64)])
    );
    let rq = layout_on(edit, "rq", LineSize::B64);
    assert_eq!(offsets(&rq), all([0, 4, 8, 64, 72, 128, 384, 384, 385]));
    assert_eq!(rq.size.0, 448);
    let map = rq.map.as_ref().unwrap();
    let to = |old| rq.moved(linemate_types::ByteOffset(old)).unwrap().0;
    assert_eq!(
        (to(80), to(88), to(96), to(104), to(112)),
        (128, 192, 256, 320, 384)
    );
    assert_eq!(map.parts(ByteOffset(88), ByteSize(4)).len(), 1);
    let outer = layout_on(edit, "outer", LineSize::B64);
    assert_eq!(offsets(&outer), [Some(0), Some(64), Some(192), Some(640)]);
    assert_eq!(outer.size.0, 704);
    // rq.in[1].y, at 64 + 104 of the outer one.
    assert_eq!(
        outer.moved(linemate_types::ByteOffset(168)).unwrap().0,
        192 + 320
    );
}

#[test]
fn a_flexible_array_stays_last() {
    let list = layout_on(
        "type list\nisolate hot\nmove count last",
        "list",
        LineSize::B64,
    );
    assert_eq!(offsets(&list), [Some(64), Some(0), Some(72)]);
    assert_eq!(list.size.0, 128, "sizeof counts up to the line's end");
    let map = list.map.as_ref().unwrap();
    assert_eq!(
        map.parts(ByteOffset(8 + 8 * 1000), ByteSize(8))[0].offset.0,
        72 + 8000
    );
}

/// Where an edited `mm` has `map`, `users` and `bits`, and its size.
fn of_mm(edits: &str) -> [Option<u64>; 4] {
    let mm = layout_on(&format!("type mm\n{edits}"), "mm", LineSize::B64);
    let at = |byte| mm.moved(ByteOffset(byte)).map(|at| at.0);
    [at(0), at(8), at(16), Some(mm.size.0)]
}

#[test]
fn members_of_an_anonymous_struct_move_in_it() {
    for edits in [
        "order users map",
        "move users first",
        "move map last",
        "move map after users",
        "group g { users }\nmove g before map",
    ] {
        let inside = of_mm(edits);
        assert_eq!(inside[1], Some(0), "{edits}");
        assert_ne!(inside[0], Some(0), "{edits}");
    }
    assert_eq!(
        of_mm("order users map"),
        [Some(8), Some(0), Some(16), Some(24)]
    );
    assert_eq!(
        of_mm("pad after map 8"),
        [Some(0), Some(16), Some(24), Some(32)],
        "in the struct, not after it"
    );
    assert_eq!(of_mm("pad users to 12")[2..], [Some(24), Some(32)]);
    assert_eq!(of_mm("remove users"), [Some(0), None, Some(8), Some(16)]);
    assert_eq!(
        of_mm("isolate users"),
        [Some(0), Some(64), Some(128), Some(192)],
        "the struct starts and fills lines"
    );
    assert_eq!(
        of_mm("align users line"),
        [Some(0), Some(64), Some(128), Some(192)]
    );
    // Named with a member outside, it moves as a whole; alone, an only member does, too.
    assert_eq!(
        of_mm("order bits users"),
        [Some(8), Some(16), Some(0), Some(24)]
    );
    let twin = layout_on("type twin\nmove count last", "twin", LineSize::B64);
    let at = |byte| twin.moved(ByteOffset(byte)).map(|at| at.0);
    assert_eq!((at(16), at(20)), (Some(20), Some(16)));
}

#[test]
fn an_alignment_of_its_first_member_decides_where_an_anonymous_struct_starts() {
    let start = |edits: &str| {
        let text = format!("type doubtful\npad after whole 8\n{edits}");
        let layout = layout_on(&text, "doubtful", LineSize::B64);
        layout.moved(ByteOffset(64)).map(|at| at.0)
    };
    assert_eq!(start(""), Some(128), "it may have asked for its line");
    assert_eq!(start("align x2 8"), Some(72));
    assert_eq!(start("align y2 8"), Some(128));
}

#[test]
fn impossible_edits_are_refused_with_the_reason() {
    let cases = [
        (
            "type rq\npad elements of nr to line",
            "2:1: rq: `nr` is not an array: pad the member itself, `pad F to N`",
        ),
        (
            "type rq\npad elements of in to 8",
            "2:1: rq: `in[]` has 16 bytes: padding it to 8 would cut it",
        ),
        (
            "type rq\nmove lok first",
            "2:1: rq: there is no field or group `lok`; the nearest: lock",
        ),
        (
            "type rq\nalign zzzzzz 64",
            "2:1: rq: there is no field or group `zzzzzz`",
        ),
        (
            "type rq\nisolate in.x",
            "2:1: rq: `in.x` is inside the member `in`: move `in` as a whole, or edit its type under `type inner`",
        ),
        (
            "type rq\nmove f1 first",
            "2:1: rq: `f1` shares its bytes with other bit-fields, which move together: name the first, `f0`",
        ),
        (
            "type rq\nremove f0",
            "2:1: rq: `f0` shares its bytes with other bit-fields: they cannot be removed apart",
        ),
        (
            "type rq\nremove curr",
            "2:1: rq: `curr` is in an anonymous struct or union: its place stays, so removing it does not change the layout",
        ),
        (
            "type mm\nisolate bits users",
            "2:1: mm: `users` is in an anonymous struct and `bits` is not in the same: make a group of members of one struct",
        ),
        (
            "type mm\ngroup g after bits { users map }",
            "2:1: mm: `users` is in an anonymous struct and `bits` is not in the same: make a group of members of one struct",
        ),
        (
            "type mm\ngroup g { users map }\nmove bits before g",
            "3:1: mm: `g` is in an anonymous struct and `bits` is not in the same: make a group of members of one struct",
        ),
        (
            "type mm\ngroup bits { users }",
            "2:1: mm: `bits` names a field or group already: give the group another name",
        ),
        (
            "type mm\nisolate map user",
            "2:1: mm: there is no field or group `user`; the nearest: users",
        ),
        (
            "type mm\nmove users after users",
            "2:1: mm: `users` cannot be before or after itself",
        ),
        (
            "type twin\norder here there",
            "2:1: twin: the anonymous struct of `here` is in `other`, too, as far as the types show: it stays as it is",
        ),
        (
            "type twin\nremove count",
            "2:1: twin: `count` is in an anonymous struct or union: its place stays, so removing it does not change the layout",
        ),
        (
            "type holder\nmove y before x",
            "2:1: holder: `y` and `x` are in one member without a name, which moves as a whole: edit its type",
        ),
        (
            "type list\nmove items first",
            "2:1: list: `items` is a flexible array (or ends in one): it stays last, with nothing after it",
        ),
        (
            "type list\nmove hot after items",
            "2:1: list: `items` is a flexible array (or ends in one): it stays last, with nothing after it",
        ),
        (
            "type list\ngroup g { count items }",
            "2:1: list: `items` is a flexible array (or ends in one): it stays last, with nothing after it",
        ),
        (
            "type rq\norder lock nr lock",
            "2:1: rq: `lock` is named twice",
        ),
        (
            "type rq\nisolate nr tick nr",
            "2:1: rq: `nr` is named twice",
        ),
        (
            "type rq\ngroup a { nr tick }\nisolate tick",
            "3:1: rq: `tick` is in group `a` already: leave it out here or there",
        ),
        (
            "type rq\ngroup a { nr tick }\nmove nr last",
            "3:1: rq: `nr` is in group `a` already: leave it out here or there",
        ),
        (
            "type rq\ngroup a { nr tick }\nmove lock after nr",
            "3:1: rq: `lock` would then be on the lines of group `a`: add it to the group, or move it relative to the group",
        ),
        (
            "type rq\ngroup lock { nr }",
            "2:1: rq: `lock` names a field or group already: give the group another name",
        ),
        (
            "type rq\ngroup a { nr }\ngroup a { lock }",
            "3:1: rq: `a` names a field or group already: give the group another name",
        ),
        (
            "type rq\nmove nr after nr",
            "2:1: rq: `nr` cannot be before or after itself",
        ),
        (
            "type rq\nalign nr 48",
            "2:1: rq: 48 is not an alignment: give a power of two from 1 to 4096; the nearest is 64",
        ),
        (
            "type rq\nalign nr 8192",
            "2:1: rq: 8192 is not an alignment: give a power of two from 1 to 4096; the nearest is 4096",
        ),
        (
            "type rq\nalign nr 0",
            "2:1: rq: 0 is not an alignment: give a power of two from 1 to 4096; the nearest is 1",
        ),
        (
            "type rq\npad tick to 4",
            "2:1: rq: `tick` has 8 bytes: padding it to 4 would cut it",
        ),
        (
            "type rq\npad after nr 2000000",
            "2:1: rq: 2000000 bytes of padding are too many: 1048576 at most",
        ),
        (
            "type rq\nremove nr\nmove nr first",
            "3:1: rq: `nr` was removed further up",
        ),
        (
            "type rq\ngroup a { nr }\nalign a 64",
            "3:1: rq: `a` is a group: name one of its fields",
        ),
        (
            "type either\nmove b first",
            "2:1: either: it is a union: its members overlap and have no order",
        ),
        (
            "type innner\nmove x last",
            "2:1: innner: there is no such struct; the nearest: inner",
        ),
        (
            "type with x nothing\nmove x last",
            "2:1: struct with x, nothing: there is no such struct",
        ),
        ("colocate rq rq", "1:1: rq: `rq` is named twice"),
        (
            "base-align rq 3",
            "1:1: rq: 3 is not an alignment: give a power of two from 1 to 4096; the nearest is 4",
        ),
        (
            "type rq\nskip silent stores of nrr",
            "2:1: rq: there is no field or group `nrr`; the nearest: nr",
        ),
        (
            "type table\nskip array of nothing",
            "2:1: table: there is no field or group `nothing`",
        ),
        (
            "type table\nskip array of count",
            "2:1: table: `count` is not a pointer",
        ),
        (
            "type table\nskip array of two",
            "2:1: table: `two` is not a pointer",
        ),
        (
            "type table\nskip array of inners",
            "2:1: table: `inners` does not point to an array of pointers or numbers",
        ),
        (
            "type table\nskip array of a",
            "2:1: table: `a` is in a union: it is not always valid",
        ),
        (
            "type rq\nlayout-from nowhere",
            "2:1: rq: the types of `nowhere` are not available",
        ),
    ];
    let model = model();
    for (text, expected) in cases {
        let file = parse(text).unwrap();
        let refused = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).unwrap_err();
        assert_eq!(refused.to_string(), expected, "{text:?}");
    }
}

#[test]
fn a_pointer_that_is_followed_knows_its_rivals() {
    let model = model();
    let file = parse("type table\nskip array of rows\nskip array of numbers").unwrap();
    let plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    let chases: Vec<(u64, u64, Vec<u64>)> = plan
        .accesses
        .iter()
        .map(|rule| match rule {
            AccessRule::SkipArray(chase) => (
                chase.field.offset.0,
                chase.element.0,
                chase.rivals.iter().map(|at| at.0).collect(),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    // All that point to things of 8 bytes; `inners` points to things of 16.
    let rivals =
        |own: u64| -> Vec<u64> { [8, 24, 32, 40].into_iter().filter(|o| *o != own).collect() };
    assert_eq!(chases, [(32, 8, rivals(32)), (8, 8, rivals(8))]);
}

#[test]
fn bit_fields_start_where_none_crosses_its_own_type() {
    let mut t = TypeList::default();
    let (u8_, u32_) = (
        t.unsigned("unsigned char", 1),
        t.unsigned("unsigned int", 4),
    );
    for (name, bits, c, size) in [("wide", 31, 4, 8), ("narrow", 20, 3, 4)] {
        let members = [bit_field("f", u32_, 0, bits), member("c", u8_, c)];
        t.structure(name, size, &members);
    }
    let model = TypeModel::new(t.types, 8).unwrap();
    let moved = |name: &str| {
        let file = parse(&format!("type {name}\nmove c first")).unwrap();
        let mut plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
        let layout = plan.layouts.of(model.lookup(name).unwrap()).unwrap();
        (offsets(&layout), layout.size.0)
    };
    assert_eq!(moved("wide"), (vec![Some(4), Some(0)], 8));
    assert_eq!(moved("narrow"), (vec![Some(1), Some(0)], 4));
}

#[test]
fn a_struct_that_ends_in_a_flexible_array_stays_last() {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    let items = t.array(u64_, 0);
    let list = t.structure(
        "list",
        8,
        &[member("n", u64_, 0), member("items", items, 8)],
    );
    t.structure(
        "holder",
        16,
        &[member("a", u64_, 0), member("list", list, 8)],
    );
    t.structure("plain", 16, &[member("a", u64_, 0), member("b", u64_, 8)]);
    let model = TypeModel::new(t.types, 8).unwrap();
    let plan = |text: &str| {
        let file = parse(text).unwrap();
        Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).map(|_| ())
    };
    assert_eq!(
        plan("type holder\nmove list first")
            .unwrap_err()
            .to_string(),
        "2:1: holder: `list` is a flexible array (or ends in one): it stays last, with nothing after it"
    );
    assert!(plan("type plain\nmove b first").is_ok());
}
