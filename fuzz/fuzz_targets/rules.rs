//! Rules: no text makes the reader panic, what was read prints as a text that reads the same, and
//! can be held against a kernel.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use linemate_rules::{check, parse};
use linemate_testkit::btf_writer::{TypeList, bit_field, member};
use linemate_types::{LineSize, TypeModel};

/// `struct t` with an array, a union, bit-fields, a struct without a tag and a flexible array;
/// one-letter names, easy to guess.
fn kernel() -> &'static TypeModel {
    static KERNEL: OnceLock<TypeModel> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let mut list = TypeList::default();
        let word = list.unsigned("u64", 8);
        let inner = list.structure("s", 16, &[member("a", word, 0), member("b", word, 8)]);
        let array = list.array(inner, 4);
        let tail = list.array(word, 0);
        let either = [member("c", word, 0), member("d", inner, 0)];
        let either = list.union("", 16, &either);
        let bits = [bit_field("e", word, 0, 3), bit_field("f", word, 3, 40)];
        let bits = list.structure("", 8, &bits);
        let members = [
            member("a", word, 0),
            member("g", array, 8),
            member("", either, 72),
            member("", bits, 120),
            member("h", inner, 128),
            member("z", tail, 144),
        ];
        list.structure("t", 144, &members);
        TypeModel::new(list.types, 8).expect("these types are sound")
    })
}

fuzz_target!(|text: &str| {
    let Ok(rules) = parse(text) else {
        return;
    };
    let printed = rules.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&rules), "{printed}");
    for line in [LineSize::B64, LineSize::B128] {
        if let Ok(checked) = check(&rules, kernel(), line) {
            assert!(checked.findings.len() <= checked.compared);
            for finding in &checked.findings {
                assert!(!finding.fault.to_string().is_empty());
                assert!(finding.measure() > 0);
            }
        }
    }
});
