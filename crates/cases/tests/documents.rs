//! Figures in docs/ of the shipped cases and of the survey equal those of the results, to the last
//! digit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// A row of a markdown table, its cells under the table's names of columns.
struct Row {
    columns: Vec<String>,
    cells: Vec<String>,
}

impl Row {
    /// The cell of the first of these columns that the table has.
    fn get(&self, columns: &[&str]) -> Option<&str> {
        let at = columns
            .iter()
            .find_map(|name| self.columns.iter().position(|column| column == name))?;
        self.cells.get(at).map(String::as_str)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Cells without emphasis, and with the minus sign that results have.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let plain = |cell: &str| cell.trim().replace("**", "").replace('−', "-");
    Some(inner.split('|').map(plain).collect())
}

/// The rows of all tables below a heading, up to the next one of its rank.
fn rows(text: &str, heading: &str) -> Vec<Row> {
    let rank = heading.split(' ').next().unwrap();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    assert!(lines.next().is_some(), "there is no {heading}");
    let mut columns: Option<Vec<String>> = None;
    let mut found = Vec::new();
    for line in lines.take_while(|line| !line.starts_with(&format!("{rank} "))) {
        let Some(cells) = cells(line) else {
            columns = None;
            continue;
        };
        match &columns {
            None => columns = Some(cells),
            Some(_) if cells.iter().all(|cell| cell.starts_with("---")) => {}
            Some(columns) => found.push(Row {
                columns: columns.clone(),
                cells,
            }),
        }
    }
    found
}

/// The case that a cell's link leads to: the folder of its README.md or results.md.
fn linked(cell: &str) -> Option<PathBuf> {
    let (_, rest) = cell.split_once("](../")?;
    let (path, _) = rest.split_once(')')?;
    let folder = root().join(path).parent()?.to_path_buf();
    folder.join("case.toml").is_file().then_some(folder)
}

/// Each row that predicts and was recorded again is a row of the results of the case that it links
/// to, or the row above it. How many there were.
fn rows_are_of_their_results(document: &str, heading: &str) -> usize {
    let mut case: Option<PathBuf> = None;
    let mut checked = 0;
    for row in rows(&read(&root().join(document)), heading) {
        let Some((predicted, recorded)) = row
            .get(&["predicted change", "predicted"])
            .zip(row.get(&["recorded change", "recorded again"]))
        else {
            continue;
        };
        let first = &row.cells[0];
        if !first.is_empty() {
            case = linked(first);
        }
        let Some(folder) = &case else {
            continue;
        };
        let results = read(&folder.join("results.md"));
        let mut wanted = vec![predicted, recorded];
        // A machine is in a column, or behind the case's name.
        let machine = row.get(&["machine"]).or_else(|| first.rsplit(", ").next());
        wanted.extend(machine);
        wanted.extend(row.get(&["of"]));
        wanted.extend(row.get(&["error"]));
        wanted.extend(row.get(&["verdict", ""]));
        // Results write a function as `f()`.
        let plain = |text: &str| text.trim_matches('`').trim_end_matches("()").to_owned();
        let has = |line: &str| {
            let cells = cells(line).unwrap_or_default();
            let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
            wanted.iter().all(|text| cells.contains(&plain(text)))
        };
        assert!(
            results.lines().any(has),
            "{document}, {heading}: no row of {}/results.md has {wanted:?}",
            folder.display()
        );
        let runs = row
            .get(&["runs"])
            .map(|runs| format!("Means of {runs} runs"));
        assert!(runs.is_none_or(|runs| results.contains(&runs)), "{first}");
        checked += 1;
    }
    checked
}

#[test]
fn validation_and_findings_show_what_results_tell() {
    let validation = "evidence/validation.md";
    assert!(rows_are_of_their_results(validation, "## Rebuilt kernels") >= 25);
    assert!(rows_are_of_their_results(validation, "## Work 2 again") >= 4);
    let findings = "evidence/findings.md";
    assert!(rows_are_of_their_results(findings, "## Built and recorded again") >= 15);
}

/// `15: a -5.48 %, b -4.69 %` of a text that has six and `9 more`.
fn is_told(told: &str, full: &str) -> bool {
    if told == "none" {
        return full.is_empty();
    }
    let (count, first) = told.split_once(": ").unwrap();
    let listed = full.split(", ").filter(|part| part.ends_with('%')).count();
    let more = full
        .rsplit(", ")
        .next()
        .and_then(|last| last.strip_suffix(" more"));
    let more: usize = more.map_or(0, |more| more.parse().unwrap());
    full.starts_with(first) && count.parse() == Ok(listed + more)
}

#[test]
fn findings_show_what_the_survey_tells() {
    let survey = read(&root().join("evidence/survey-7.3.md"));
    let candidates = rows(&survey, "## Candidates");
    let mut told = 0;
    for row in rows(
        &read(&root().join("evidence/findings.md")),
        "## Linux 7.3.4",
    ) {
        let (Some(sum), Some(edit)) = (row.get(&["sum"]), row.get(&["edit"])) else {
            continue;
        };
        let of_edit = candidates
            .iter()
            .find(|candidate| candidate.get(&["edit"]) == Some(edit));
        let candidate = of_edit.unwrap_or_else(|| panic!("the survey has no {edit}"));
        assert_eq!(candidate.get(&["sum"]), Some(sum), "{edit}");
        for column in ["gains in", "loses in"] {
            let (ours, theirs) = (
                row.get(&[column]).unwrap(),
                candidate.get(&[column]).unwrap(),
            );
            assert!(
                is_told(ours, theirs),
                "{edit}: {ours}, the survey has {theirs}"
            );
        }
        told += 1;
    }
    assert_eq!(told, candidates.len());
}

#[test]
fn findings_show_the_surveys_trials_on_each_machine() {
    let trials: Vec<Vec<String>> = read(&root().join("evidence/survey-7.3.md"))
        .lines()
        .filter_map(cells)
        .collect();
    let mut told = 0;
    for row in rows(
        &read(&root().join("evidence/findings.md")),
        "## Linux 7.3.4",
    ) {
        let Some(candidate) = row.get(&["candidate"]) else {
            continue;
        };
        for machine in ["gnr-2s-480", "turin-2s", "spr-w-48"] {
            let (Some(workload), Some(share)) = (row.get(&["workload"]), row.get(&[machine]))
            else {
                continue;
            };
            let is_trial = |trial: &Vec<String>| {
                trial.len() == 7
                    && [&trial[0], &trial[1], &trial[2], &trial[6]]
                        == [candidate, workload, machine, share]
            };
            assert!(
                trials.iter().any(is_trial),
                "no trial says {candidate} {workload} {machine} {share}"
            );
            told += 1;
        }
    }
    assert!(told >= 39, "{told}");
}

/// A figure with commas between its thousands.
fn number(text: &str) -> f64 {
    text.split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap()
}

#[test]
fn what_is_replayed_by_default_is_one_figure_in_the_ablation_and_in_the_survey() {
    let trials: Vec<Vec<String>> = read(&root().join("evidence/survey-7.3.md"))
        .lines()
        .filter_map(cells)
        .filter(|trial| trial.len() == 7)
        .collect();
    let mut told = 0;
    for row in rows(
        &read(&root().join("evidence/validation.md")),
        "## Each mechanism alone",
    ) {
        let Some(finding) = row.get(&["finding"]) else {
            continue;
        };
        let name = finding[1..].split(']').next().unwrap();
        let is_row = |trial: &&Vec<String>| {
            let candidate = trial[0].trim_matches('`');
            candidate.trim_end_matches("-test") == name
                && Some(trial[1].as_str()) == row.get(&["workload"])
                && Some(trial[2].as_str())
                    == row.get(&["machine"]).map(|name| name.trim_matches('`'))
        };
        let trial = trials
            .iter()
            .find(is_row)
            .unwrap_or_else(|| panic!("{finding}"));
        let (cycles, change) = (number(&trial[3]), number(&trial[4]));
        let interval = number(trial[4].split("± ").nth(1).unwrap());
        let expected = format!(
            "{:+.1} ± {:.1} % of {:.3} M",
            100.0 * change / cycles,
            100.0 * interval / cycles,
            cycles / 1e6
        );
        assert_eq!(row.get(&["pairs (default)"]), Some(&*expected), "{finding}");
        told += 1;
    }
    assert_eq!(told, 12);
}
