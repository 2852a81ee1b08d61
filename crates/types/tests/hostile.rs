//! Broken and hostile input: every error carries its value, nothing panics, nothing takes long.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use linemate_testkit::btf_writer::{Endian, TypeList, bit_field, member, write};
use linemate_types::btf::{self, BtfError};
use linemate_types::kernel_image::ImageError;
use linemate_types::{
    BitOffset, ByteOffset, Enumerator, FlatType, FlattenError, KernelImage, Layout, LineSize,
    ModelError, Name, Prototype, Qualifier, Type, TypeId, TypeModel, named_members, pahole,
};
use proptest::prelude::*;

/// Types of every kind, with everything that is optional.
fn sample() -> TypeList {
    let mut list = TypeList::default();
    let int = list.int("int", 4);
    let long = list.unsigned("long unsigned int", 8);
    let tag = list.add(Type::Qualified {
        qualifier: Qualifier::Tag(Name::from("rcu")),
        target: int,
    });
    let pointer = list.pointer(tag);
    let array = list.array(long, 3);
    let inner = list.union("", 8, &[member("a", int, 0), member("b", long, 0)]);
    let flexible = list.array(int, 0);
    let flags = list.structure(
        "flags",
        4,
        &[bit_field("x", int, 0, 3), bit_field("y", int, 3, 13)],
    );
    let constant = list.constant(flags);
    let outer = [
        member("p", pointer, 0),
        member("array", array, 8),
        member("", inner, 32),
        member("flags", constant, 40),
        member("tail", flexible, 48),
    ];
    let outer = list.structure("outer", 48, &outer);
    list.typedef("outer_t", outer);
    let values = |values: &[i64]| {
        values
            .iter()
            .map(|v| Enumerator {
                name: Name::from("V"),
                value: *v,
            })
            .collect::<Vec<_>>()
    };
    let (name, negative) = (Name::from("sign"), values(&[-1, 5]));
    list.add(Type::Enum {
        name,
        size: 4,
        signed: true,
        values: negative,
    });
    let (name, wide) = (Name::from("wide"), values(&[i64::MIN, 1 << 40]));
    list.add(Type::Enum {
        name,
        size: 8,
        signed: false,
        values: wide,
    });
    let to_outer = list.pointer(outer);
    let function = list.function("enqueue", int, &[("rq", to_outer), ("flags", int)]);
    list.add(Type::DeclarationTag {
        name: Name::from("kfunc"),
        target: function,
        component: None,
    });
    let prototype = Prototype {
        result: TypeId::VOID,
        parameters: Vec::new(),
        variadic: true,
    };
    list.add(Type::Prototype(prototype));
    list.add(Type::Float {
        name: Name::from("double"),
        size: 8,
    });
    list.percpu(&[("runqueues", outer, 0x40, 48), ("counter", int, 0, 4)]);
    list
}

fn model(list: TypeList) -> Result<TypeModel, ModelError> {
    TypeModel::new(list.types, 8)
}

#[test]
fn what_is_written_is_read_again_in_both_byte_orders() {
    let types = sample().types;
    for endian in [Endian::Little, Endian::Big] {
        let model = btf::parse(&write(&types, endian).unwrap()).unwrap();
        let read: Vec<Type> = model.iter().map(|(_, t)| t.clone()).collect();
        assert_eq!(read, types);
        assert_eq!(model.pointer_size(), 8);
    }
}

#[test]
fn questions_have_exact_answers() {
    let model = model(sample()).unwrap();
    let outer = model.struct_named("outer").unwrap();
    assert_eq!(model.size_of(outer), Some(48));
    assert_eq!(model.lookup("outer_t"), Some(outer));
    assert_eq!(model.named("nothing"), []);
    let (_, name, prototype) = model.functions().next().unwrap();
    assert_eq!(name.as_str(), "enqueue");
    assert_eq!(
        model.pointer_to_composite(prototype.parameters[0].type_id),
        Some(outer)
    );
    assert_eq!(
        model.pointer_to_composite(prototype.parameters[1].type_id),
        None
    );
    let percpu: Vec<_> = model
        .percpu_variables()
        .into_iter()
        .map(|v| (v.name.to_string(), v.offset.0, v.size))
        .collect();
    assert_eq!(
        percpu,
        [
            ("counter".to_owned(), 0, 4),
            ("runqueues".to_owned(), 0x40, 48)
        ]
    );
}

#[test]
fn offsets_resolve_to_field_paths() {
    let model = model(sample()).unwrap();
    let flat = FlatType::new(&model, model.struct_named("outer").unwrap()).unwrap();
    let at = |offset, size| {
        flat.find(ByteOffset(offset), size)
            .map(|hit| (flat.path(&hit), hit.offset.0, hit.covers))
    };
    let path = |text: &str, offset, covers| Some((text.to_owned(), offset, covers));
    assert_eq!(at(0, 8), path("p", 0, true));
    assert_eq!(at(4, 8), path("p", 0, false), "runs over the end");
    assert_eq!(at(24, 8), path("array[2]", 24, true));
    assert_eq!(at(20, 4), path("array[1]", 16, true));
    assert_eq!(
        at(32, 4),
        path("a", 32, true),
        "the first member that covers"
    );
    assert_eq!(
        at(32, 8),
        path("b", 32, true),
        "the first member that covers"
    );
    assert_eq!(at(36, 4), path("b", 32, true));
    assert_eq!(at(40, 1), path("flags.x", 40, true));
    assert_eq!(
        at(41, 1),
        path("flags.x", 40, true),
        "the first of the storage unit stands for all"
    );
    let x = flat.find(ByteOffset(41), 1).unwrap().leaf;
    assert_eq!(flat.names(x), "flags.x | flags.y");
    assert_eq!(flat.extent(x), (ByteOffset(40), 2));
    assert_eq!(at(42, 2), None, "bits that no field uses");
    assert_eq!(at(44, 4), None, "hole");
    assert_eq!(
        at(44, 8),
        path("tail[0]", 48, false),
        "reaches out of the hole"
    );
    assert_eq!(
        at(48 + 400, 4),
        path("tail[100]", 448, true),
        "a flexible array has no end"
    );
    assert_eq!(at(u64::MAX, 1), None);
}

#[test]
fn references_out_of_range_are_named() {
    let mut list = TypeList::default();
    let pointer = list.pointer(TypeId(7));
    let error = ModelError::OutOfRange {
        id: pointer,
        target: TypeId(7),
        count: 2,
    };
    assert_eq!(model(list).unwrap_err(), error);

    let mut list = sample();
    let function = list
        .types
        .iter()
        .position(|t| matches!(t, Type::Function { .. }))
        .unwrap();
    let function = TypeId(u32::try_from(function).unwrap());
    let id = list.pointer(function);
    let error = ModelError::WrongKind {
        id,
        target: function,
        wanted: "a type",
    };
    assert_eq!(model(list).unwrap_err(), error);
}

#[test]
fn cycles_are_named() {
    // A typedef of itself, a struct in itself, a pointer to itself, an array of itself.
    let mut list = TypeList::default();
    list.typedef("t", TypeId(1));
    assert_eq!(model(list).unwrap_err(), ModelError::Cycle(TypeId(1)));

    let mut list = TypeList::default();
    list.typedef("t", TypeId(2));
    list.structure("s", 8, &[member("t", TypeId(1), 0)]);
    assert_eq!(model(list).unwrap_err(), ModelError::Cycle(TypeId(1)));

    let mut list = TypeList::default();
    list.pointer(TypeId(1));
    assert_eq!(model(list).unwrap_err(), ModelError::Cycle(TypeId(1)));

    let mut list = TypeList::default();
    list.array(TypeId(1), 2);
    assert_eq!(model(list).unwrap_err(), ModelError::Cycle(TypeId(1)));

    // But a list is not a cycle.
    let mut list = TypeList::default();
    list.pointer(TypeId(2));
    list.structure("list_head", 8, &[member("next", TypeId(1), 0)]);
    assert!(model(list).is_ok());
}

#[test]
fn nesting_is_bounded() {
    let mut list = TypeList::default();
    let mut id = list.int("int", 4);
    for _ in 0..100_000 {
        id = list.pointer(id);
    }
    let error = ModelError::TooDeep {
        id: TypeId(65),
        depth: 65,
    };
    assert_eq!(model(list).unwrap_err(), error);
}

#[test]
fn sizes_do_not_overflow() {
    let mut list = TypeList::default();
    let mut id = list.int("int", 4);
    for _ in 0..3 {
        id = list.array(id, u32::MAX);
    }
    let element = 4 * u64::from(u32::MAX);
    let error = ModelError::ArrayTooLarge {
        id: TypeId(3),
        count: u32::MAX,
        element,
    };
    assert_eq!(model(list).unwrap_err(), error);
}

#[test]
fn members_must_fit() {
    let mut list = TypeList::default();
    let int = list.int("int", 4);
    let id = list.structure("s", 6, &[member("a", int, 0), member("b", int, 4)]);
    let offset = BitOffset(32);
    let error = ModelError::MemberOutside {
        id,
        member: 1,
        offset,
        bits: 32,
        size: 6,
    };
    assert_eq!(model(list).unwrap_err(), error);
}

#[test]
fn bit_fields_have_the_names_of_their_storage_unit() {
    let mut list = TypeList::default();
    let int = list.unsigned("unsigned int", 4);
    let byte = list.unsigned("unsigned char", 1);
    let inner = list.structure(
        "inner",
        8,
        &[
            bit_field("a", int, 0, 1),
            bit_field("b", int, 1, 1),
            bit_field("far", int, 30, 2),
            // Another unit of the same struct.
            bit_field("c", int, 32, 1),
            // A narrower type in the same bytes.
            bit_field("d", byte, 40, 4),
        ],
    );
    let pair = list.array(inner, 2);
    let members = [member("one", inner, 0), member("many", pair, 8)];
    list.structure("bits", 24, &members);
    let model = model(list).unwrap();
    let flat = FlatType::new(&model, model.struct_named("bits").unwrap()).unwrap();
    let named = |offset, size| {
        let hit = flat.find(ByteOffset(offset), size).unwrap();
        let (at, bytes) = flat.extent(hit.leaf);
        (flat.names(hit.leaf), hit.offset.0, at.0, bytes)
    };
    let name = |text: &str, start, at, bytes| (text.to_owned(), start, at, bytes);
    for (offset, size) in [(0, 1), (0, 4), (3, 1)] {
        assert_eq!(
            named(offset, size),
            name("one.a | one.b | one.far", 0, 0, 4)
        );
    }
    assert_eq!(named(4, 1), name("one.c | one.d", 4, 4, 2));
    assert_eq!(named(5, 1), name("one.c | one.d", 4, 4, 2));
    // In the second element: the extent is the first one's.
    assert_eq!(
        named(16 + 5, 1),
        name("many[].c | many[].d", 16 + 4, 8 + 4, 2)
    );
}

#[test]
fn only_integers_can_be_bit_fields() {
    let mut list = TypeList::default();
    let int = list.int("int", 4);
    let array = list.array(int, 2);
    for (type_id, bits) in [(int, 33), (array, 3)] {
        let mut list = list.clone();
        let id = list.structure("s", 8, &[bit_field("a", type_id, 0, bits)]);
        let error = ModelError::BitField {
            id,
            member: 0,
            bits,
        };
        assert_eq!(model(list).unwrap_err(), error);
    }
}

/// Anonymous structs that double with each level: 2^60 members in 60 types.
fn bomb() -> TypeList {
    let mut list = TypeList::default();
    // Each level is as large as the one below: they overlap, which the format allows.
    let mut id = list.int("int", 4);
    for _ in 0..60 {
        id = list.union("", 4, &[member("", id, 0), member("", id, 0)]);
    }
    list.structure("bomb", 4, &[member("inner", id, 0)]);
    list
}

#[test]
fn exploding_types_end() {
    let model = model(bomb()).unwrap();
    let id = model.struct_named("bomb").unwrap();
    assert_eq!(
        FlatType::new(&model, id).unwrap_err(),
        FlattenError::TooManyLeaves(id)
    );
    assert!(Layout::new(&model, id, LineSize::B64).is_some());
    assert!(pahole::print(&model, id, LineSize::B64).unwrap().len() < 16 << 20);
    let inner = TypeId(id.0 - 1);
    assert!(matches!(
        named_members(&model, inner, LineSize::B64),
        Err(FlattenError::TooManyLeaves(_))
    ));
}

#[test]
fn exploding_prototypes_end() {
    let mut list = TypeList::default();
    let mut id = list.int("int", 4);
    for _ in 0..30 {
        let parameter = linemate_types::Parameter {
            name: Name::from("p"),
            type_id: id,
        };
        let parameters = vec![parameter.clone(), parameter];
        let prototype = list.add(Type::Prototype(Prototype {
            result: id,
            parameters,
            variadic: false,
        }));
        id = list.pointer(prototype);
    }
    list.structure("bomb", 8, &[member("callback", id, 0)]);
    let model = model(list).unwrap();
    let bomb = model.struct_named("bomb").unwrap();
    assert!(pahole::print(&model, bomb, LineSize::B64).unwrap().len() < 16 << 20);
    assert!(model.type_name(id).len() < 10 << 20);
}

#[test]
fn broken_headers_are_named() {
    let blob = write(&sample().types, Endian::Little).unwrap();
    let with = |at: usize, byte: u8| {
        let mut blob = blob.clone();
        blob[at] = byte;
        btf::parse(&blob).unwrap_err()
    };
    assert_eq!(with(0, 0), BtfError::Magic(0xeb00));
    assert_eq!(with(2, 2), BtfError::Version(2));
    assert_eq!(with(3, 1), BtfError::Flags(1));
    assert_eq!(with(4, 23), BtfError::HeaderLength(23));
    assert!(matches!(with(15, 1), BtfError::TooShort { .. }));
    assert!(matches!(with(23, 1), BtfError::TooShort { .. }));
    assert_eq!(
        btf::parse(b"").unwrap_err(),
        BtfError::TooShort {
            length: 0,
            needed: 24
        }
    );
    let last = blob.len() - 1;
    assert!(matches!(with(last, b'x'), BtfError::Strings(_)));
    assert!(matches!(with(last, 0xff), BtfError::Strings(_)));
    // The first type is an int: its name, kind and size.
    assert!(matches!(
        with(27, 1),
        BtfError::NameOffset {
            offset: 0x0100_0001,
            ..
        }
    ));
    assert_eq!(
        with(31, 20),
        BtfError::Kind {
            id: TypeId(1),
            kind: 20
        }
    );
    let error = BtfError::Value {
        id: TypeId(1),
        field: "size of an integer",
        value: 3,
    };
    assert_eq!(with(32, 3), error);
}

#[test]
fn a_cut_blob_is_refused_at_every_length() {
    let blob = write(&sample().types, Endian::Little).unwrap();
    for length in 0..blob.len() {
        assert!(
            btf::parse(&blob[..length]).is_err(),
            "{length} of {} bytes",
            blob.len()
        );
    }
}

#[test]
fn files_that_are_no_kernels_are_reported() {
    let error = |bytes: &[u8]| KernelImage::parse(bytes).unwrap_err();
    assert!(
        matches!(error(b"root:x:0:0:root"), ImageError::NotAKernel(start) if start == b"root:x:0")
    );
    assert!(matches!(error(b""), ImageError::NotAKernel(start) if start.is_empty()));
    assert!(matches!(error(b"\x7fELF"), ImageError::Elf(_)));
    assert!(matches!(error(b"\x1f\x8b"), ImageError::Unpack(_)));
    let mut bzimage = vec![0; 0x300];
    bzimage[0x202..0x206].copy_from_slice(b"HdrS");
    bzimage[0x206..0x208].copy_from_slice(&[0x05, 0x02]);
    assert!(matches!(error(&bzimage), ImageError::BootProtocol(0x0205)));
    bzimage[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
    bzimage[0x248..0x250].copy_from_slice(&[0xff; 8]);
    let needed = 5 * 512 + 2 * u64::from(u32::MAX);
    match error(&bzimage) {
        ImageError::Truncated {
            needed: found,
            length: 0x300,
            ..
        } => assert_eq!(found, needed),
        other => panic!("{other}"),
    }
    bzimage.truncate(0x20c);
    assert!(matches!(error(&bzimage), ImageError::Truncated { .. }));
}

#[test]
fn containers_do_not_nest_without_end() {
    use std::io::Write;
    let mut packed = b"\x7fELF".to_vec();
    for _ in 0..10 {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&packed).unwrap();
        packed = encoder.finish().unwrap();
    }
    assert!(matches!(
        KernelImage::parse(&packed),
        Err(ImageError::Nested(4))
    ));
}

/// Does everything that can be done with a model.
fn exercise(model: &TypeModel) {
    for (id, t) in model.iter() {
        model.type_name(id);
        model.pointer_to_composite(id);
        if let Type::Composite(_) = t {
            if let Ok(flat) = FlatType::new(model, id) {
                for leaf in flat.leaves() {
                    let hit = flat
                        .find(leaf.offset, leaf.size)
                        .expect("a field is found at its offset");
                    flat.path(&hit);
                }
            }
            assert!(Layout::new(model, id, LineSize::B128).is_some());
            assert!(pahole::print(model, id, LineSize::B64).is_some());
            let _ = named_members(model, id, LineSize::B64);
        }
    }
    model.percpu_variables();
    model.nearest_names("outer");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_blobs_do_no_harm(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut blob = write(&sample().types, Endian::Little).unwrap();
        for (index, byte) in damage {
            let at = index.index(blob.len());
            blob[at] = byte;
        }
        if let Ok(model) = btf::parse(&blob) {
            exercise(&model);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let _ = btf::parse(&bytes);
        let _ = KernelImage::parse(&bytes);
    }
}

/// The fuzzer starts from the sample: it would not find the format's many rules by itself.
#[test]
fn the_fuzzers_seed_is_the_sample() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/btf/sample");
    let blob = write(&sample().types, Endian::Little).unwrap();
    if std::env::var_os("LINEMATE_UPDATE").is_some() {
        std::fs::write(path, &blob).unwrap();
    }
    let seed = std::fs::read(path).unwrap();
    assert_eq!(
        seed, blob,
        "LINEMATE_UPDATE=1 cargo test -p linemate-types writes it again"
    );
}
