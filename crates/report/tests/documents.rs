//! The documents of the verbs: JSON read back is the same document, and the text shows its figures
//! to the last digit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Seek, Write};

use common::{read_back, row};
use linemate_answers::{
    By, CellCost, Cost, Costs, CostsDocument, DiffFigures, DiffSide, DoctorCheck, EventCount,
    KernelLayout, LineCost, PairCost, ReplayedAs,
};
use linemate_documents::{
    check_document, checked_kernel, costs_document, diff_document, doctor_document,
    layout_document, machines_document, sarif, type_layout, verify_document,
};
use linemate_machine::{Mechanism, find, shipped};
use linemate_report::{
    CostsTables, Table, check_text, costs_text, diff_text, doctor_text, layout_text, machines_text,
    verify_text,
};
use linemate_rules::Baseline;
use linemate_testkit::btf_writer::{TypeList, bit_field, member};
use linemate_testkit::world::*;
use linemate_types::{LineSize, TypeModel};

#[test]
fn verify_says_the_same_in_both() {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    w.store(1, UNITS[1] + RQ);
    w.sight(F::WakeTask, TASK_SLAB);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&w.bytes(true, Contents::new())).unwrap();
    file.rewind().unwrap();
    let report = linemate_recording::verify(file).unwrap();
    let mut document = verify_document(&report, Vec::new());
    assert!(document.sound);
    let text = read_back(&document, |d| verify_text(d, "r.data"));
    let expected = format!(
        "r.data: sound; {} chunks, 2 accesses, 1 calls, {} returns, {} markers, checksum {:016x}\n",
        report.chunks, report.totals.returns, report.totals.markers, report.checksum
    );
    assert_eq!(text, expected);
    assert_eq!((document.loads, document.stores, document.rmws), (1, 1, 0));

    document = verify_document(&report, vec!["a\u{1b}[2J finding".to_owned()]);
    document.more_findings = 3;
    let text = read_back(&document, |d| verify_text(d, "r.data"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "r.data: a\\x1b[2J finding");
    assert_eq!(lines[1], "r.data: 3 more findings");
    assert!(lines[2].starts_with("r.data: not sound; "), "{text}");
}

#[test]
fn doctor_is_fine_if_every_check_is() {
    let check = |name: &'static str, ok| DoctorCheck {
        name: name.into(),
        verb: None,
        ok,
        detail: format!("{name} was looked at"),
    };
    let fine = doctor_document(vec![check("qemu", true), check("self-test", true)]);
    assert!(fine.ok);
    let text = read_back(&fine, doctor_text);
    assert_eq!(
        text,
        "ok    qemu       qemu was looked at\nok    self-test  self-test was looked at\n"
    );
    let failed = doctor_document(vec![check("qemu", true), check("space", false)]);
    assert!(!failed.ok);
    let text = read_back(&failed, doctor_text);
    assert!(
        text.ends_with("FAIL  space      space was looked at\n"),
        "{text}"
    );
    // What recordings do not need is noted.
    let mut noted = check("pahole", false);
    noted.verb = Some("patch".into());
    let fine = doctor_document(vec![check("qemu", true), noted]);
    assert!(fine.ok);
    let text = read_back(&fine, doctor_text);
    assert!(
        text.ends_with("note  pahole     pahole was looked at\n"),
        "{text}"
    );
}

#[test]
fn machines_show_their_descriptions() {
    let machines: Vec<_> = shipped()
        .iter()
        .map(|known| linemate_machine::find(known.name).unwrap())
        .collect();
    let document = machines_document(&machines, Some("no sysfs".to_owned()));
    let text = read_back(&document, machines_text);
    for machine in &document.machines {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        assert!(text.contains(&format!(
            "{}\n  {}\n  {} CPUs, {} cores, {}, {}, {} MHz; lines of {} bytes",
            machine.name,
            machine.title,
            machine.cpus,
            machine.cores,
            counted(machine.llc_domains, "LLC domain"),
            counted(machine.sockets, "socket"),
            machine.frequency_mhz,
            machine.line_bytes
        )));
        let l = &machine.latency_cycles;
        assert!(text.contains(&format!(
            "L1 {}, L2 {}, LLC {}; HITM {} same domain, {} same socket, {} other socket; memory {} local, {} remote; atomic +{}\n",
            l.l1, l.l2, l.llc, l.hitm_same_domain, l.hitm_same_socket, l.hitm_other_socket, l.dram_local, l.dram_remote, l.atomic
        )));
    }
    assert!(text.ends_with("this\n  not available: no sysfs\n"));
    let without = machines_document(&machines, None);
    let json = serde_json::to_string(&without).unwrap();
    assert!(!json.contains("this_is_missing"));
    read_back(&without, machines_text);
}

/// `struct queue`: a lock, three clocks, two flags of one bit; in the second kernel without the
/// last clock.
fn queue(clocks: u64) -> TypeModel {
    let mut types = TypeList::default();
    let (word, long) = (types.unsigned("unsigned int", 4), types.unsigned("long", 8));
    let mut members = vec![member("lock", word, 0)];
    for clock in 0..clocks {
        let name = format!("clock{clock}");
        members.push(member(&name, long, 64 + 8 * clock));
    }
    let flags = 512 + 64 * clocks;
    members.push(bit_field("idle", word, flags, 1));
    members.push(bit_field("tick", word, flags + 1, 2));
    types.structure("queue", 72 + 8 * clocks as u32, &members);
    TypeModel::new(types.types, 8).unwrap()
}

fn queue_of_nobody() -> TypeModel {
    TypeModel::new(TypeList::default().types, 8).unwrap()
}

#[test]
fn layouts_side_by_side_are_those_of_the_document() {
    let line = LineSize::B64;
    let kernel = |path: &str, release: Option<&str>, model: &TypeModel| KernelLayout {
        path: path.to_owned(),
        release: release.map(str::to_owned),
        arch: Some("x86_64".into()),
        layout: model
            .declared("queue")
            .map(|id| type_layout(model, id, line).unwrap()),
    };
    let (three, two) = (queue(3), queue(2));
    let kernels = vec![
        kernel("/a", Some("6.12"), &three),
        kernel("/b", None, &two),
        kernel("/c", None, &queue_of_nobody()),
    ];
    let document = layout_document("queue", line, kernels);
    let text = read_back(&document, layout_text);
    let layout = document.kernels[0].layout.as_ref().unwrap();
    assert_eq!(
        (layout.size, layout.hole_bytes, layout.members.len()),
        (96, 60, 6)
    );
    for member in &layout.members {
        let offset = format!("{}", member.offset);
        let rows = text.lines().filter_map(|line| line.get(2..));
        let mut rows = rows.map(|row| row.split_whitespace().collect::<Vec<&str>>());
        let words = rows
            .find(|words| words.first() == Some(&member.name.as_str()))
            .unwrap();
        let size = match member.bits {
            Some(bits) => format!("{}:{}", bits.start, bits.width),
            None => member.size.to_string(),
        };
        assert_eq!(words[1..4], [offset, size, member.line.to_string()]);
    }
    assert!(text.contains("* clock2 "), "{text}");
    assert_eq!(row(&text, "* size"), ["* size", "96", "88", "-"]);
    assert_eq!(row(&text, "* hole bytes")[1], layout.hole_bytes.to_string());
}

#[test]
fn findings_are_the_same_as_text_json_and_sarif() {
    let rules = "type queue\ngroup clocks on 1 line { lock clock0 clock1 }\n\tbecause \"read together\"\napart lock from clock2\nstart idle\n";
    let rules = linemate_rules::parse(rules).unwrap_or_else(|error| panic!("{error}"));
    let model = queue(3);
    let checked = linemate_rules::check(&rules, &model, LineSize::B64).unwrap();
    let kernel = |baseline: Option<&Baseline>| {
        let place = linemate_rules::Where {
            arch: "x86_64".to_owned(),
            line: LineSize::B64,
        };
        checked_kernel(
            "/k".to_owned(),
            Some("6.12".to_owned()),
            Some("x86_64"),
            64,
            &checked,
            |finding| baseline.map(|b| b.verdict(&place, finding)),
        )
    };
    let document = check_document("q.rules".to_owned(), vec![kernel(None)], &[]);
    let text = read_back(&document, |d| check_text(d, false));
    let broken = &document.kernels[0].findings;
    assert!(!broken.is_empty());
    assert_eq!(document.failing, broken.len());
    for finding in broken {
        let line = format!(
            "q.rules:{}:{}: {}, {}: {}\n",
            finding.at.line, finding.at.column, finding.subject, finding.rule, finding.message
        );
        assert!(text.contains(&line), "{line} in {text}");
    }
    let log = sarif(&document, "1", |_| None);
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), broken.len());
    for (result, finding) in results.iter().zip(broken) {
        let message = result["message"]["text"].as_str().unwrap();
        assert!(message.contains(&finding.message), "{message}");
        let region = &result["locations"][0]["physicalLocation"]["region"];
        assert_eq!(region["startLine"], finding.at.line);
        assert!(result.get("baselineState").is_none());
    }
    let baseline = Baseline::default();
    let new = check_document("q.rules".to_owned(), vec![kernel(Some(&baseline))], &[]);
    let text = read_back(&new, |d| check_text(d, true));
    assert!(text.contains(" [new]\n"), "{text}");
    assert!(text.contains("1 kernel, 0 accepted"), "{text}");
    assert_eq!(
        sarif(&new, "1", |_| None)["runs"][0]["results"][0]["baselineState"],
        "new"
    );
}

#[test]
fn costs_show_the_counts_of_their_document() {
    let cost = |name: &str, by: u64| Cost {
        name: name.to_owned(),
        loads: 101 * by,
        stores: 53 * by,
        misses: 17 * by,
        cycles: 9_001 * by,
        waited: 900 * by,
        hitm: [3 * by, 5 * by, 7 * by],
        upgrades: 2 * by,
        llc: 6 * by,
        forwards: 8 * by,
        dram: 4 * by,
        ..Cost::default()
    };
    let cell = CellCost {
        offset: 12,
        field: "lock".to_owned(),
        hitm: 31,
        loads: 37,
        cycles_per_load: 219.6,
        stores: 41,
        upgrades: 43,
        cycles: 4_747,
        functions: vec!["tick".to_owned()],
        times: Vec::new(),
    };
    let costs = Costs {
        machine: "made-up".to_owned(),
        whole: cost("", 4),
        types: vec![cost("queue", 3), cost("task", 1)],
        pairs: vec![PairCost {
            from: (1, 0),
            to: (0, 1),
            hitm: 71,
            cycles: 7_373,
        }],
        lines: vec![LineCost {
            name: "queue".to_owned(),
            start: -64,
            lines: 3,
            hitm: 31,
            misses: 78,
            cycles: 4_747,
            cells: vec![cell.clone()],
            ..LineCost::default()
        }],
        ..Costs::default()
    };
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let document = costs_document(
        "1.2.3",
        &w.record(),
        &find("gnr-2s-480").unwrap(),
        None,
        costs.clone(),
    );
    let text = |by| {
        read_back(&document, |d| {
            costs_text(
                d,
                &CostsTables {
                    path: "r.data",
                    by,
                    top: 20,
                    user: true,
                    all: true,
                    ledger: true,
                },
            )
            .to_string()
        })
    };
    // Behind the answer, which begins with a type's name.
    let types = text(By::Type);
    let (_, table) = types.split_once("\n").unwrap();
    for cost in &costs.types {
        let figures = [cost.loads, cost.stores, cost.misses, cost.cycles];
        assert_eq!(row(table, &cost.name)[1..5], figures.map(|n| n.to_string()));
    }
    assert_eq!(
        row(&text(By::Cpu), "CPU 1")[1..],
        ["CPU 0, copy 1", "71", "7373"]
    );
    let lines = text(By::Line);
    let head = "queue, line at byte -64: 31 HITM, 78 left the core, 4747 cycles; 3 such lines moved between cores\n";
    assert!(lines.contains(head), "{lines}");
    assert_eq!(
        row(&lines, "12 "),
        ["12", "lock", "31", "37", "220", "41", "43", "4747", "tick"]
    );
    let elsewhere = |machine: &str| CostsDocument {
        costs: Costs {
            machine: machine.to_owned(),
            ..costs.clone()
        },
        ..document.clone()
    };
    let others = ["turin-2s", "spr-w-48"].map(elsewhere);
    several_machines_are_each_as_alone(&document, &others);
}

fn several_machines_are_each_as_alone(first: &CostsDocument, others: &[CostsDocument]) {
    let event = EventCount {
        function: "tick".to_owned(),
        symbols: vec!["tick".to_owned()],
        calls: 8,
    };
    let joined = CostsDocument {
        event: Some(event.clone()),
        ..first.clone().with_others(others.to_vec())
    };
    let tables = CostsTables {
        path: "r.data",
        by: By::Type,
        top: 20,
        user: true,
        all: false,
        ledger: false,
    };
    let text = read_back(&joined, |d| costs_text(d, &tables).to_string());
    let alone = std::iter::once(first).chain(others);
    for (document, alone) in joined.by_machine().zip(alone) {
        assert_eq!(
            (&document.costs, &document.cpus),
            (&alone.costs, &alone.cpus)
        );
        let shown = costs_text(alone, &tables).to_string();
        for line in shown
            .lines()
            .filter(|line| line.contains(&alone.costs.machine))
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        let per_call = alone.costs.whole.cycles as f64 / 8.0;
        let machine = &alone.costs.machine;
        let line =
            format!("{machine}: 8 calls of tick: {per_call:.3} cycles of everything per call.");
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert_eq!(joined.by_machine().count(), 3);
}

#[test]
fn a_difference_is_scaled_by_the_runs() {
    let side = |accesses, loads, stores, cycles| DiffSide {
        prediction_error: None,
        bytes: 64,
        cpus: 2,
        accesses,
        event: None,
        fields: [(
            "lock".to_owned(),
            DiffFigures {
                loads,
                stores,
                cycles,
                ..DiffFigures::default()
            },
        )]
        .into(),
    };
    let (a, b) = (
        side(1_000_000, 30, 10, 800),
        side(4_000_000, 180, 60, 2_400),
    );
    let document = |machine: Option<&str>| {
        let machine = machine.map(str::to_owned);
        diff_document("1", None, machine, 1, [a.clone(), b.clone()])
    };
    let text = diff_text(&document(None), ["a", "b"], 10).to_string();
    assert_eq!(
        row(&text, "lock")[1..],
        ["30", "180", "10", "60", "40.0", "60.0", "+50.0 %"]
    );
    let text = diff_text(&document(Some("m")), ["a", "b"], 10).to_string();
    assert_eq!(
        row(&text, "lock")[8..],
        ["800", "2400", "+1600", "20.00", "10.00", "-50.0 %"]
    );
    let nothing = diff_document("1", None, None, 1, [DiffSide::default(), b.clone()]);
    let text = diff_text(&nothing, ["a", "b"], 10).to_string();
    assert_eq!(row(&text, "lock").last().unwrap(), "-");
}

#[test]
fn a_table_keeps_what_drives_terminals_out() {
    let mut table = Table::new(&["name"]);
    table.add_row(vec!["\u{1b}[31mred\nnext".to_owned()]);
    let text = table.to_string();
    assert!(text.contains("\\x1b[31mred\\nnext"), "{text}");
}

#[test]
fn a_case_that_does_not_say_how_it_was_replayed_had_adjacent_line_pairs() {
    let mechanisms = ReplayedAs::default().mechanisms;
    assert_eq!(mechanisms, [Mechanism::AdjacentLinePairs.key()]);
}
