//! Whatever a file in C++ or Rust contains, reading it ends and loses nothing.

use linemate_source::body::read_as;
use linemate_source::definition::{Item, Sought, find};
use linemate_source::{Dialect, initialised};
use proptest::prelude::*;

const CPP: [&str; 30] = [
    "class Q {",
    "struct Q : B<T> {",
    "};",
    "public:",
    "private :",
    "int a = 1;",
    "A<B<int>> b{0};",
    "template <class T>",
    "Q() : a(1), b{a} {",
    "}",
    "<",
    ">",
    "(",
    ")",
    "[[",
    "]]",
    "enum class E { X };",
    "union { int u; };",
    "operator<",
    "::",
    "*",
    ",",
    "=",
    ";",
    "/* c */",
    "#ifdef X\n",
    "#endif\n",
    "\n",
    "'",
    "ü",
];
const RUST: [&str; 26] = [
    "struct Q {",
    "struct Q<'a, T> where T: Fn(u8) -> u8 {",
    "struct Q(",
    ");",
    "}",
    "a: u8,",
    "pub(crate) b: Vec<u8>,",
    "#[cfg(x)]",
    "#[repr(C)]",
    "/// doc\n",
    "// c\n",
    "/* c */",
    "<",
    ">",
    "->",
    ",",
    ":",
    "'a",
    "'x'",
    "\"s\"",
    "r#\"",
    "(",
    "[",
    "pub ",
    "\n",
    "ü",
];

fn check(dialect: Dialect, text: &str) -> Result<(), TestCaseError> {
    if let Ok(body) = read_as(dialect, text) {
        prop_assert_eq!(body.print(), text);
        body.names();
    }
    let item = Item::new(dialect, "n::Q<int>", None);
    for definition in find(text, &Sought::Item(item.clone())) {
        prop_assert!(text.get(definition.body.clone()).is_some());
        let wanted = linemate_source::Wanted {
            members: Vec::new(),
            order: Vec::new(),
            groups: Vec::new(),
            line: linemate_types::LineSize::B64,
        };
        let _ = linemate_source::check(text, &definition, &wanted);
        if dialect == Dialect::Cpp {
            let _ = initialised::check_definition(text, &definition, &item, &wanted);
            let _ = initialised::check_file(text, &item, &wanted);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_read_as_cpp(pieces in proptest::collection::vec(proptest::sample::select(CPP.to_vec()), 0..24)) {
        check(Dialect::Cpp, &pieces.concat())?;
        check(Dialect::Cpp, &pieces.join(" "))?;
    }

    #[test]
    fn any_text_is_read_as_rust(pieces in proptest::collection::vec(proptest::sample::select(RUST.to_vec()), 0..24)) {
        check(Dialect::Rust, &pieces.concat())?;
        check(Dialect::Rust, &pieces.join(" "))?;
    }
}

#[test]
fn nesting_and_repetition_cost_no_stack_and_little_time() {
    for piece in ["<", "(", "{", "[", "A<", "Q(", "struct Q {", "a{"] {
        let text = piece.repeat(10_000);
        for dialect in [Dialect::Cpp, Dialect::Rust] {
            let _ = read_as(dialect, &text);
            let _ = find(&text, &Sought::Item(Item::new(dialect, "Q", None)));
        }
    }
}
