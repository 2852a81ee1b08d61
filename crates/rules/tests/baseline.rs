//! Baselines: known findings are accepted, new or worse ones are not, and fixed ones stay fixed.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use linemate_rules::{Baseline, Finding, Verdict, Where, check, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{LineSize, TypeModel};

const RULES: &str = "type t\ngroup g { a b c }\nhole at most 0 bytes\n";

fn place(arch: &str, line: LineSize) -> Where {
    let arch = arch.to_owned();
    Where { arch, line }
}

fn x86() -> Where {
    place("x86_64", LineSize::B64)
}

/// The findings when a, b and c, of 8 bytes each, start there.
fn findings(starts: [u64; 3]) -> Vec<Finding> {
    let mut list = TypeList::default();
    let word = list.unsigned("u64", 8);
    let mut members = Vec::new();
    let mut next = 0;
    for (name, start) in ["a", "b", "c"].iter().zip(starts) {
        members.push(member(name, word, start));
        next = start + 8;
    }
    list.structure("t", u32::try_from(next).unwrap(), &members);
    let model = TypeModel::new(list.types, 8).unwrap();
    let rules = parse(RULES).unwrap();
    check(&rules, &model, LineSize::B64).unwrap().findings
}

fn baseline(starts: [u64; 3]) -> Baseline {
    let mut baseline = Baseline::default();
    for finding in findings(starts) {
        baseline.add(&x86(), &finding);
    }
    baseline
}

fn verdicts(baseline: &Baseline, starts: [u64; 3]) -> Vec<Verdict> {
    let findings = findings(starts);
    findings
        .iter()
        .map(|f| baseline.verdict(&x86(), f))
        .collect()
}

#[test]
fn known_findings_are_accepted_and_worse_ones_are_not() {
    use Verdict::{Accepted, New, Worse};
    // c on a line of its own, 48 bytes of hole after b.
    let known = baseline([0, 8, 64]);
    assert_eq!(known.len(), 2);
    assert_eq!(verdicts(&known, [0, 8, 64]), [Accepted, Accepted]);
    assert_eq!(
        verdicts(&known, [0, 8, 72]),
        [Accepted, Worse],
        "a larger hole"
    );
    assert_eq!(
        verdicts(&known, [0, 64, 72]),
        [Worse, Worse],
        "b instead of c is away"
    );
    assert_eq!(
        verdicts(&known, [0, 64, 128]),
        [Worse, Worse],
        "a third line"
    );
    assert_eq!(
        verdicts(&known, [0, 8, 24]),
        [Accepted],
        "a smaller hole alone"
    );
    assert_eq!(verdicts(&Baseline::default(), [0, 8, 64]), [New, New]);
    let elsewhere = place("ppc64", LineSize::B64);
    assert_eq!(known.verdict(&elsewhere, &findings([0, 8, 64])[0]), New);
    let wider = place("x86_64", LineSize::B128);
    assert_eq!(known.verdict(&wider, &findings([0, 8, 64])[0]), New);
}

#[test]
fn a_baseline_only_gets_better() {
    let known = baseline([0, 8, 64]);
    let places = BTreeSet::from([x86()]);
    let better = baseline([0, 8, 24]);
    let gone = known.gone(&places, &better);
    let rules: Vec<&str> = gone.iter().map(|g| g.rule.as_str()).collect();
    assert_eq!(rules, ["group g"]);
    assert_eq!((gone[0].subject.as_str(), &gone[0].place), ("t", &x86()));
    assert_eq!(known.tightened(&places, &better), better);
    // Of b and c, which were away, b has come back.
    assert_eq!(baseline([0, 64, 128]).tightened(&places, &known), known);
    // Worse findings do not get in, and unchecked ones stay.
    assert_eq!(better.tightened(&places, &known), better);
    let elsewhere = BTreeSet::from([place("ppc64", LineSize::B128)]);
    assert_eq!(known.gone(&elsewhere, &better), []);
    assert_eq!(known.tightened(&elsewhere, &better), known);
}

#[test]
fn json_keeps_all_and_is_the_same_every_time() {
    let known = baseline([0, 8, 64]);
    let text = known.to_json();
    let expected = r#"{
  "schema": "linemate.check-baseline/1",
  "findings": [
    {
      "arch": "x86_64",
      "line": 64,
      "type": "t",
      "rule": "group g",
      "measure": 1,
      "members": [
        "c"
      ]
    },
    {
      "arch": "x86_64",
      "line": 64,
      "type": "t",
      "rule": "hole",
      "measure": 48,
      "members": [
        "b"
      ]
    }
  ]
}
"#;
    assert_eq!(text, expected);
    assert_eq!(Baseline::from_json(&text).unwrap(), known);
    for (from, to, message) in [
        (
            "baseline/1",
            "baseline/2",
            "schema \"linemate.check-baseline/2\" is not \"linemate.check-baseline/1\"",
        ),
        ("64", "96", "96 is not a line size: must be 64 or 128"),
        (
            "hole",
            "group g",
            "t, group g (x86_64, 64 bytes) is listed twice",
        ),
        (
            "\"arch\"",
            "\"arc\"",
            "not a baseline: unknown field `arc`, expected one of `arch`, `line`, `type`, `rule`, `measure`, `members` at line 5 column 11",
        ),
        (
            "]\n}",
            "",
            "not a baseline: EOF while parsing a list at line 25 column 0",
        ),
    ] {
        let text = text.replace(from, to);
        let error = Baseline::from_json(&text).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
