//! What a type model answers about synthetic types: names close to a misspelt one, the pointers
//! inside a type.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
use linemate_types::kernel_image::{Arch, Format, ImageError};
use linemate_types::{
    ByteOffset, FlatType, FoundType, IntEncoding, KernelImage, LineSize, Name, NotFound, Type,
    TypeModel, TypeQuery, btf, declared_groups, named_members, types_with_groups,
};

#[test]
fn misspelt_names_find_their_neighbours() {
    let mut list = TypeList::default();
    for name in ["task_struct", "task_group", "root_domain", "rq", "rb", ""] {
        list.structure(name, 0, &[]);
    }
    let model = TypeModel::new(list.types, 8).unwrap();
    assert_eq!(model.nearest_names("task_strcut"), ["task_struct"]);
    assert_eq!(model.nearest_names("struct tsk_group"), ["task_group"]);
    assert_eq!(model.nearest_names("rr"), ["rb", "rq"]);
    assert!(model.nearest_names("").is_empty());
}

#[test]
fn pointers_of_a_struct_its_structs_and_its_arrays() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let inner = t.structure("inner", 8, &[member("x", long, 0)]);
    let pointer = t.pointer(inner);
    let number = t.pointer(long);
    let pair = t.structure("pair", 16, &[member("n", long, 0), member("p", pointer, 8)]);
    let pairs = t.array(pair, 2);
    let either = t.union(
        "either",
        8,
        &[member("a", long, 0), member("b", pointer, 0)],
    );
    let many = t.array(pointer, 0);
    let members = [
        member("number", number, 0),
        member("pointer", pointer, 8),
        member("pairs", pairs, 16),
        member("either", either, 48),
        member("many", many, 56),
    ];
    let outer = t.structure("outer", 56, &members);
    let model = btf::parse(&write(&t.types, Endian::Little).unwrap()).unwrap();
    let places = |flexible| -> Vec<u64> {
        let found = model.pointers_in(outer, flexible);
        assert!(found.iter().all(|(_, to)| *to == inner));
        found.iter().map(|(at, _)| at.0).collect()
    };
    assert_eq!(places(0), [8, 24, 40]);
    assert_eq!(places(2), [8, 24, 40, 56, 64]);
}

#[test]
fn a_type_is_found_by_its_name_with_all_its_variants() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let first = t.structure("s", 8, &[member("a", long, 0)]);
    let other = t.structure("s", 16, &[member("a", long, 0), member("b", long, 8)]);
    let second = t.structure("s", 8, &[member("b", long, 0)]);
    let alias = t.typedef("s_t", second);
    let model = TypeModel::new(t.types, 8).unwrap();
    let find = |name| model.find(TypeQuery::Named(name)).unwrap();
    let variants = vec![first, second];
    assert_eq!(find("struct s").id, first);
    assert_eq!(find("s").variants, variants);
    // A typedef of one variant is that variant, and the others are still known.
    let id = second;
    assert_eq!(find("s_t"), FoundType { id, variants });
    assert_eq!(model.declared("s_t"), Some(second));
    assert_eq!(model.get(other).unwrap().name(), "s");
    assert!(alias > second);
    let absent = model.find(TypeQuery::Named("s_")).unwrap_err();
    assert_eq!(absent, NotFound::Absent(vec!["s".into(), "s_t".into()]));
}

#[test]
fn structs_without_a_name_are_found_by_their_members() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let int = t.int("int", 4);
    let ab = |first, second| [member("a", first, 0), member("b", second, 8)];
    let first = t.structure("", 16, &ab(long, long));
    // A pointer's target or a type of the same size does not change the layout; another offset
    // does.
    let second = t.structure("", 16, &ab(long, int));
    t.structure("c1", 24, &[member("a", long, 0), member("c", long, 8)]);
    t.structure("c2", 24, &[member("a", long, 0), member("c", long, 16)]);
    t.structure("c3", 24, &[member("a", long, 0), member("c", long, 16)]);
    t.union("either", 8, &[member("d", long, 0)]);
    let typedef = t.typedef("pair_t", first);
    let model = TypeModel::new(t.types, 8).unwrap();
    let find = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        model.find(TypeQuery::With(&names))
    };
    let variants = vec![first, second];
    let id = first;
    assert_eq!(find(&["b", "a"]), Ok(FoundType { id, variants }));
    // Two layouts; two structs have the second.
    assert_eq!(find(&["c"]), Err(NotFound::Ambiguous(2)));
    assert_eq!(find(&["d"]), Err(NotFound::Absent(Vec::new())), "no union");
    assert_eq!(model.declared("pair_t"), Some(typedef));
}

#[test]
fn members_of_what_has_no_name_are_the_enclosing_types() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let int = t.int("int", 4);
    let inner = t.structure("", 8, &[member("b", int, 0), member("c", int, 4)]);
    let either = t.union("", 8, &[member("a", long, 0), member("", inner, 0)]);
    let pair = t.structure("pair", 8, &[member("x", int, 0), member("y", int, 4)]);
    let pairs = t.array(pair, 2);
    let members = [
        member("n", long, 0),
        member("", either, 8),
        member("pairs", pairs, 16),
    ];
    let outer = t.structure("outer", 32, &members);
    let model = TypeModel::new(t.types, 8).unwrap();
    let found = named_members(&model, outer, LineSize::B64).unwrap();
    let places: Vec<(&str, u64)> = found.iter().map(|m| (&*m.name, m.place.offset.0)).collect();
    let expected = [("n", 0), ("a", 8), ("b", 8), ("c", 12), ("pairs", 16)];
    assert_eq!(places, expected);
    assert!(named_members(&model, int, LineSize::B64).is_err());
    // By path, the elements of an array are the same field.
    let flat = FlatType::new(&model, outer).unwrap();
    let at = |path: &str| {
        let mut leaves = flat.leaves().iter();
        leaves
            .find(|leaf| leaf.path == path)
            .map(|leaf| leaf.offset)
    };
    assert_eq!(at("c"), Some(ByteOffset(12)));
    assert_eq!(at("pairs[].y"), Some(ByteOffset(20)));
    assert_eq!(at("pairs"), None);
}

#[test]
fn types_are_called_as_c_declares_them() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let pair = t.structure("pair", 8, &[member("x", long, 0)]);
    let pointer = t.pointer(pair);
    let rows = t.array(pointer, 3);
    let table = t.array(rows, 2);
    let anonymous = t.union("", 8, &[member("x", long, 0)]);
    let alias = t.typedef("pair_t", pair);
    let model = TypeModel::new(t.types, 8).unwrap();
    for (id, name) in [
        (long, "long unsigned int"),
        (pair, "struct pair"),
        (pointer, "struct pair *"),
        (table, "struct pair *[2][3]"),
        (anonymous, "union"),
        (alias, "pair_t"),
    ] {
        assert_eq!(model.type_name(id), name);
    }
}

#[test]
fn a_kernel_without_types_is_named_if_its_release_is_known() {
    let error = |release: Option<&str>| {
        let release = release.map(str::to_owned);
        ImageError::NoBtf { release }.to_string()
    };
    let wanted = "has no BTF: a kernel built with CONFIG_DEBUG_INFO_BTF is needed";
    assert_eq!(error(Some("6.1.0")), format!("kernel 6.1.0 {wanted}"));
    assert_eq!(error(None), format!("the file {wanted}"));
}

#[test]
fn a_struct_around_one_named_scalar_is_one_field() {
    let mut t = TypeList::default();
    let int = t.int("int", 4);
    let counter = t.structure("counter", 4, &[member("value", int, 0)]);
    let nested = t.structure("nested", 4, &[member("counter", counter, 0)]);
    let pair = t.structure("pair", 8, &[member("a", int, 0), member("b", int, 4)]);
    let padded = t.structure("padded", 8, &[member("value", int, 0)]);
    let members = [
        member("counter", counter, 0),
        member("nested", nested, 4),
        member("padded", padded, 16),
        member("pair", pair, 24),
    ];
    let outer = t.structure("outer", 32, &members);
    let model = TypeModel::new(t.types, 8).unwrap();
    let flat = FlatType::new(&model, outer).unwrap();
    let paths: Vec<&str> = flat.leaves().iter().map(|l| l.path.as_str()).collect();
    let expected = ["counter", "nested", "padded.value", "pair.a", "pair.b"];
    assert_eq!(paths, expected);
}

/// Before Linux 5.0, a bit-field was a member with an integer type of its own, with a width and a
/// bit offset.
#[test]
fn bit_fields_of_old_compilers_are_bit_fields() {
    let mut t = TypeList::default();
    let narrow = |t: &mut TypeList, bits, bit_offset| {
        t.add(Type::Int {
            name: Name::from("int"),
            size: 4,
            bits,
            bit_offset,
            encoding: IntEncoding::Signed,
        })
    };
    let (first, second) = (narrow(&mut t, 3, 0), narrow(&mut t, 5, 3));
    let whole = t.int("int", 4);
    let members = [
        member("a", first, 0),
        member("b", second, 4),
        member("c", whole, 8),
    ];
    let flags = t.structure("flags", 12, &members);
    let model = btf::parse(&write(&t.types, Endian::Little).unwrap()).unwrap();
    let members = &model.composite(flags).unwrap().members;
    let places: Vec<(u64, Option<u32>)> = members.iter().map(|m| (m.offset.0, m.bits)).collect();
    assert_eq!(places, [(0, Some(3)), (35, Some(5)), (64, None)]);
}

/// Raw BTF as the payload of each container.
#[test]
fn containers_show_for_which_machine_they_are() {
    let mut t = TypeList::default();
    t.int("int", 4);
    let blob = write(&t.types, Endian::Little).unwrap();
    let put = |bytes: &mut [u8], at: usize, value: &[u8]| {
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    let parsed = |bytes: &[u8]| {
        let image = KernelImage::parse(bytes).unwrap();
        assert_eq!(image.btf, blob);
        (image.format, image.arch)
    };
    let length = (blob.len() as u32).to_le_bytes();
    for (flags, arch) in [(0x7f, Arch::X86_64), (1, Arch::X86_64), (0x7e, Arch::X86)] {
        // Boot protocol 2.15; one sector of set-up code after the first.
        let mut bytes = vec![0; 1024];
        put(&mut bytes, 0x1f1, &[1]);
        put(&mut bytes, 0x202, b"HdrS\x0f\x02");
        put(&mut bytes, 0x236, &[flags]);
        put(&mut bytes, 0x24c, &length);
        bytes.extend_from_slice(&blob);
        assert_eq!(parsed(&bytes), (Format::BzImage, Some(arch)), "{flags:#x}");
    }
    for (machine, arch) in [
        (0xaa64u16, Arch::Arm64),
        (0x5064, Arch::Riscv64),
        (0x6264, Arch::Loongarch64),
        (0x8664, Arch::X86_64),
    ] {
        let mut bytes = vec![0; 256];
        put(&mut bytes, 0, b"MZ\0\0zimg");
        put(&mut bytes, 8, &256u32.to_le_bytes());
        put(&mut bytes, 12, &length);
        put(&mut bytes, 0x3c, &[0x80]);
        put(&mut bytes, 0x84, &machine.to_le_bytes());
        bytes.extend_from_slice(&blob);
        assert_eq!(parsed(&bytes), (Format::EfiZboot, Some(arch)));
    }
}

#[test]
fn a_typedef_names_a_struct_without_a_tag() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let members = [member("a", long, 0)];
    let bare = t.structure("", 8, &members);
    // Earlier by name, declared later.
    t.typedef("stats", bare);
    t.typedef("Alias", bare);
    let variant = t.structure("", 8, &[member("b", long, 0)]);
    t.typedef("stats", variant);
    let larger = t.structure("", 16, &members);
    t.typedef("stats", larger);
    let hidden = t.structure("", 8, &members);
    t.typedef("tag", hidden);
    let tagged = t.structure("tag", 8, &members);
    t.typedef("tag_t", tagged);
    let nameless = t.structure("", 8, &members);
    let own = t.structure("own", 8, &members);
    t.typedef("own", own);
    let model = TypeModel::new(t.types, 8).unwrap();
    assert_eq!(model.composite_name(bare), "stats");
    assert_eq!(model.composite_name(variant), "stats");
    assert_eq!(model.composite_name(tagged), "tag");
    assert_eq!(model.composite_name(hidden), "", "`tag` is another struct");
    assert_eq!(model.composite_name(nameless), "");
    assert_eq!(model.composite_name(long), "", "a number is not a struct");
    let found = model.find(TypeQuery::Named("stats")).unwrap();
    assert_eq!((found.id, found.variants), (bare, vec![bare, variant]));
    let found = model.find(TypeQuery::Named("tag")).unwrap();
    assert_eq!((found.id, found.variants), (tagged, vec![tagged]));
    // `typedef struct own own;`: each statement of an edit is for it once.
    let found = model.find(TypeQuery::Named("own")).unwrap();
    assert_eq!(found.variants, [own]);
}

#[test]
fn declared_groups_are_between_their_marks() {
    let mut t = TypeList::default();
    let (byte, long) = (t.unsigned("u8", 1), t.unsigned("long", 8));
    let mark = t.array(byte, 0);
    let members = [
        member("before", long, 0),
        member("__cacheline_group_begin__a_read_rx", mark, 8),
        member("x", long, 8),
        member("y", byte, 16),
        member("__cacheline_group_end__a_read_rx", mark, 17),
        member("__cacheline_group_begin__open", mark, 24),
        member("z", long, 24),
    ];
    let first = t.structure("grouped", 32, &members);
    t.structure("plain", 8, &[member("x", long, 0)]);
    t.structure("grouped", 32, &members);
    let model = btf::parse(&write(&t.types, Endian::Little).unwrap()).unwrap();
    let groups = declared_groups(&model, first);
    // One without an end is none.
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["a_read_rx"]);
    let has = |at| groups[0].has(ByteOffset(at));
    assert_eq!([7, 8, 16, 17].map(has), [false, true, true, false]);
    assert_eq!(types_with_groups(&model), [first]);
}
