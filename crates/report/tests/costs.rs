//! What costs say first, and which rows they show.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::{By, Causes, Cost, Costs, CostsDocument, GroupCosts, HotPlace, LockCost};
use linemate_documents::costs_document;
use linemate_machine::find;
use linemate_report::{CostsTables, costs_text};
use linemate_testkit::world::*;

/// The text of costs of which these are the types, with their cycles. `link_map@ld.so.2` has one
/// field, `job` has four.
fn text_of(types: &[(&str, u64)], hottest: Option<HotPlace>) -> String {
    let named = |(name, cycles): &(&str, u64)| Cost {
        name: (*name).to_owned(),
        cycles: *cycles,
        causes: Causes {
            false_sharing: *cycles,
            ..Causes::default()
        },
        ..Cost::default()
    };
    let costs = Costs {
        machine: "m".to_owned(),
        whole: named(&("", types.iter().map(|(_, cycles)| cycles).sum())),
        types: types.iter().map(named).collect(),
        fields: [
            ("job.next", 400),
            ("job.done[]", 300),
            ("job.lock | word", 200),
            ("job.started", 199),
            ("link_map@ld.so.2.l_addr", 1),
        ]
        .iter()
        .map(named)
        .collect(),
        hottest,
        ..Costs::default()
    };
    shown(costs)
}

fn shown(costs: Costs) -> String {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let machine = find("gnr-2s-480").unwrap();
    let document = costs_document("1.2.3", &w.record(), &machine, None, costs);
    let tables = CostsTables {
        path: "r.data",
        by: By::Type,
        top: 20,
        user: true,
        all: false,
        ledger: false,
    };
    let json = serde_json::to_string(&document).unwrap();
    let back: CostsDocument = serde_json::from_str(&json).unwrap();
    assert_eq!(back, document);
    costs_text(&back, &tables).to_string()
}

#[test]
fn rows_of_costs_are_types_with_fields_whatever_dots_their_names_have() {
    let text = text_of(&[("link_map@ld.so.2", 995), ("(stack)", 5)], None);
    assert!(text.contains("\n link_map@ld.so.2 "), "{text}");
    assert!(!text.contains("(stack)"), "{text}");
}

#[test]
fn what_costs_most_comes_first_whatever_it_is() {
    let hottest = HotPlace {
        name: "malloc(64)".to_owned(),
        function: "serve".to_owned(),
        source: Some("server.c:42 serve".to_owned()),
    };
    let types = [
        ("malloc(64)", 944),
        ("link_map@ld.so.2", 47),
        ("(stack)", 9),
    ];
    let text = text_of(&types, Some(hottest));
    assert!(
        text.starts_with(
            "malloc(64) costs most on m: 944 cycles, 94.4 % of all, hottest at server.c:42 serve; false sharing 100.0 %. link_map@ld.so.2 costs most of the types with a layout on m: 47 cycles, 4.7 % of all; 100.0 % of that is not true sharing: false sharing 100.0 %.\n"
        ),
        "{text}"
    );
    assert!(text.contains("\n malloc(64) "), "the table has it: {text}");
    assert!(!text.contains("\n (stack) "), "{text}");
    let text = text_of(&[("job", 1099)], None);
    assert!(
        text.starts_with("job costs most on m: 1099 cycles, 100.0 % of all, hottest in next, done[], lock; 100.0 % of that"),
        "fields with half of the first's: {text}"
    );
    let text = text_of(&[("link_map@ld.so.2", 1)], None);
    assert!(
        text.starts_with(
            "link_map@ld.so.2 costs most on m: 1 cycles, 100.0 % of all; 100.0 % of that is not true sharing: false sharing 100.0 %.\n"
        ),
        "causes of nothing are left out: {text}"
    );
}

/// Of the recorded CPUs and of groups of them alike: each row of the JSON, to the last digit.
#[test]
fn the_waiting_for_locks_is_that_of_the_json() {
    let wait = |name: &str, waits, cycles| LockCost {
        name: name.to_owned(),
        function: "_raw_spin_lock".to_owned(),
        waits,
        cycles,
    };
    let waits = vec![
        wait("rq.__lock", 12_345, 678_901),
        wait("file.f_lock", 3, 9),
    ];
    let costs = Costs {
        duration: 1_000_000,
        cpus: 2,
        ..Costs::default()
    };
    let alone = shown(Costs {
        lock_waits: waits.clone(),
        ..costs.clone()
    });
    let groups = shown(Costs {
        groups: Some(GroupCosts {
            locks: waits,
            ..GroupCosts::default()
        }),
        ..costs
    });
    for text in [alone, groups] {
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.contains("_raw_spin_lock"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let first = [
            "rq.__lock",
            "_raw_spin_lock",
            "12345",
            "678901",
            "33.9",
            "%",
        ];
        let second = ["file.f_lock", "_raw_spin_lock", "3", "9", "0.0", "%"];
        assert_eq!(rows, [first, second], "{text}");
    }
    assert!(!shown(Costs::default()).contains("taken in"));
}
