//! BTF: what can be read can be written and read again as the same types, and every layout is
//! consistent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linemate_testkit::btf_writer::{Endian, WriteError, write};
use linemate_types::{
    FlatType, Layout, LineSize, Type, TypeId, TypeModel, btf, named_members, pahole,
};

fuzz_target!(|data: &[u8]| {
    let Ok(model) = btf::parse(data) else { return };
    round_trip(&model);
    for (id, t) in model.iter() {
        model.type_name(id);
        if let Type::Composite(_) = t {
            check(&model, id);
        }
    }
    model.percpu_variables();
});

fn round_trip(model: &TypeModel) {
    let types: Vec<Type> = model.iter().map(|(_, t)| t.clone()).collect();
    for endian in [Endian::Little, Endian::Big] {
        let blob = match write(&types, endian) {
            Ok(blob) => blob,
            // Bit-fields of the old form can start where the new form cannot say it.
            Err(WriteError::Member { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let again = btf::parse(&blob).expect("what was written can be read");
        assert!(again.iter().map(|(_, t)| t).eq(&types), "{types:#?}");
    }
}

fn check(model: &TypeModel, id: TypeId) {
    let layout = Layout::new(model, id, LineSize::B64).expect("a struct or union has a layout");
    assert_eq!(Some(layout.size), model.size_of(id));
    assert!(layout.padding <= layout.size);
    pahole::print(model, id, LineSize::B128).expect("a struct or union can be printed");
    let _ = named_members(model, id, LineSize::B64);
    let Ok(flat) = FlatType::new(model, id) else {
        return;
    };
    for leaf in flat.leaves() {
        let flexible = leaf.arrays.iter().any(|(_, count)| *count == 0);
        assert!(
            flexible || leaf.offset.0 + leaf.size <= layout.size,
            "{leaf:?}"
        );
        let hit = flat
            .find(leaf.offset, leaf.size)
            .expect("a field is found at its own offset");
        assert!(hit.offset.0 < leaf.offset.0 + leaf.size, "{leaf:?} {hit:?}");
        flat.path(&hit);
    }
}
