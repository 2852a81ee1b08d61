//! Which functions' calls are counted, and which are refused.

use super::tests::{INT, LONG, TASK_POINTER, model, symbols};
use super::*;

type Counted = Vec<(String, Role, usize)>;

/// A kernel with `f(struct task_struct *)` and `g(int)`, and these symbols; what is recorded once
/// `event` is counted.
fn counted(lines: &str, event: &str) -> Result<Counted, EventRefusal> {
    let types = model(&[
        ("f", INT, &[("t", TASK_POINTER)]),
        ("g", INT, &[("n", INT)]),
        ("kfree", TypeId::VOID, &[("n", LONG)]),
        ("twice", INT, &[("n", INT)]),
        ("twice", INT, &[("n", LONG)]),
    ]);
    let symbols = symbols(lines);
    let mut list = watch_list(&types, &symbols);
    list.count(Some(&types), &symbols, &[event.to_owned()])?;
    let entries: Vec<_> = list.table.functions.iter().map(|f| f.entry).collect();
    assert!(entries.is_sorted(), "{entries:?}");
    let functions = list.table.functions.into_iter();
    let row = |f: Function| (f.name, f.role, f.parameters.len());
    Ok(functions.map(row).collect())
}

fn refused(lines: &str, event: &str) -> EventRefusal {
    match counted(lines, event) {
        Err(error) => error,
        Ok(functions) => panic!("{functions:?}"),
    }
}

const F: &str = "ffffffff81000040 t f\n";
const G: &str = "ffffffff81000010 T g\n";

#[test]
fn an_event_keeps_its_parameters_and_needs_none() {
    let row = |name: &str, role, parameters| (name.to_owned(), role, parameters);
    let both = format!("{F}{G}");
    assert_eq!(counted(&both, "f").unwrap(), [row("f", Role::Event, 1)]);
    assert_eq!(
        counted(&both, "g").unwrap(),
        [row("g", Role::Event, 0), row("f", Role::Plain, 1)]
    );
    let switch = "ffffffff81000020 T asm_exc_page_fault\n";
    assert_eq!(
        counted(switch, "asm_exc_page_fault").unwrap(),
        [row("asm_exc_page_fault", Role::Interrupt, 0)]
    );
}

#[test]
fn every_copy_is_counted_and_no_part() {
    let copies = "ffffffff81000080 t f.isra.0\nffffffff810000a0 t f.constprop.1\n\
                  ffffffff810000c0 t f.cold\nffffffff810000d0 t f.isra.0.cold\nffffffffc0000000 t f\t[m]\n";
    let names: Vec<String> = counted(&format!("{F}{copies}"), "f")
        .unwrap()
        .into_iter()
        .map(|(name, role, _)| {
            assert_eq!(role, Role::Event);
            name
        })
        .collect();
    assert_eq!(names, ["f", "f.isra.0", "f.constprop.1"]);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let absent = EventRefusal::Absent("h".to_owned());
    assert_eq!(refused(F, "h"), absent);
    let only_cold = "ffffffff81000040 t h.cold\n";
    assert_eq!(refused(only_cold, "h"), absent);
    assert_eq!(
        refused(&format!("{F}ffffffff81000080 t f.part.0\n"), "f"),
        EventRefusal::Split {
            function: "f".to_owned(),
            part: "f.part.0".to_owned()
        }
    );
    let ambiguous = |name: &str| EventRefusal::Ambiguous(name.to_owned());
    let two = format!("{F}ffffffff81000080 t f\n");
    assert_eq!(refused(&two, "f"), ambiguous("f"));
    let one_symbol = "ffffffff81000040 t twice\n";
    assert_eq!(refused(one_symbol, "twice"), ambiguous("twice"));
    let kfree = "ffffffff81000040 T kfree\n";
    assert_eq!(
        refused(kfree, "kfree"),
        EventRefusal::Allocator("kfree".to_owned())
    );
}
