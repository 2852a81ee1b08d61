//! Programs: whatever is in a file's debug information, reading it ends, and what it says of types
//! is consistent.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use linemate_dwarf::{
    Companions, ElfAddr, ProgramCode, ProgramFiles, ProgramTypes, Register, skeletons, split_ids,
};
use linemate_types::{FlatType, Layout, LineSize, Type, pahole};

fuzz_target!(|data: &[u8]| {
    let _ = Companions::of(data);
    if let Ok(skeletons) = skeletons(data) {
        let ids: BTreeSet<u64> = skeletons.iter().map(|skeleton| skeleton.id).collect();
        let _ = split_ids(data, &ids);
    }
    // A program that has its split units, too.
    let files = ProgramFiles::new(data, None, None).and_then(|files| files.with_split(&[data]));
    let Ok(files) = files else {
        return;
    };
    let Ok(types) = ProgramTypes::read(&files) else {
        return;
    };
    let model = types.model();
    for (id, t) in model.iter() {
        model.type_name(id);
        if let Type::Composite(composite) = t {
            let layout = Layout::new(model, id, LineSize::B64).expect("a struct has a layout");
            assert_eq!(layout.size, u64::from(composite.size));
            pahole::print(model, id, LineSize::B64).expect("a struct can be printed");
            let _ = FlatType::new(model, id);
        }
    }
    let Ok(code) = ProgramCode::read(&files, &types) else {
        return;
    };
    for function in code.functions() {
        for range in &function.ranges {
            ask(&code, range.start);
            ask(&code, ElfAddr(range.end.0 - 1));
        }
    }
    for global in code.globals() {
        assert_eq!(model.size_of(global.type_id).unwrap_or(0), global.size);
    }
});

fn ask(code: &ProgramCode<'_>, pc: ElfAddr) {
    let _ = code.source(pc);
    for register in 0..17 {
        code.pointer_in(pc, Register(register));
        code.variable_at(pc, Register(register), -16);
    }
}
