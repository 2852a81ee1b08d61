//! Edits by difference against whole replays: the figures of evidence/differences.md.
//!
//! ```text
//! cargo run --release -p linemate-study --example differences -- RECORDING MACHINE SEED COUNT TYPE…
//! cargo run --release -p linemate-study --example differences -- RECORDING MACHINE FILE
//! ```
//!
//! The first makes COUNT edits of each type from the seed, of members that the recording accesses;
//! the second takes those of a file, with an empty line between two, sorted by type. Each is
//! replayed under the same eight interleavings by difference and whole. Prints a row for each edit,
//! then a summary.

#![allow(clippy::print_stdout, reason = "what it finds is its output")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use linemate_answers::Measure;
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed};
use linemate_layout::edit::EditFile;
use linemate_layout::parse::parse;
use linemate_layout::plan::Plan;
use linemate_machine::{LineSize, Machine, Mechanism, find};
use linemate_recording::Recording;
use linemate_session::Session;
use linemate_study::{Effect, Interleavings, compare};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Upper ends of the histogram's bars, in points of the type's change.
const BARS: [f64; 7] = [0.0, 0.03, 0.1, 0.3, 1.0, 3.0, f64::INFINITY];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, machine, edits, rest @ ..] = &arguments[..] else {
        return Err("RECORDING MACHINE (SEED COUNT TYPE… | FILE)".into());
    };
    let recording = Recording::open(Path::new(file))?;
    let session = Session::new(&recording)?;
    let pairs = |mechanism| mechanism == Mechanism::AdjacentLinePairs;
    let machine = find(machine)?.with_only(pairs);
    let mut rows = Vec::new();
    match rest {
        [] => {
            let texts = fs::read_to_string(edits)?;
            let texts: Vec<String> = texts.split("\n\n").map(str::to_owned).collect();
            // Type by type: the more types' accesses edits move, the sooner all are replayed whole.
            for texts in texts.chunk_by(|a, b| a.lines().next() == b.lines().next()) {
                rows.extend(compared(&session, &machine, &Watch::default(), texts)?);
            }
        }
        [count, types @ ..] => {
            let mut random = Random(edits.parse()?);
            for name in types {
                let watch = Watch {
                    types: vec![session.analysis().model().named(name).to_vec()],
                    ..Watch::default()
                };
                let texts = random_edits(&session, name, &watch, count.parse()?, &mut random)?;
                rows.extend(compared(&session, &machine, &watch, &texts)?);
            }
        }
    }
    summary(&rows);
    Ok(())
}

/// SplitMix64, as in the interleavings.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// That many different edits of members that the recording accesses, one to three statements each.
fn random_edits(
    session: &Session<'_>,
    name: &str,
    watch: &Watch,
    count: usize,
    random: &mut Random,
) -> Result<Vec<String>> {
    let scene = Scene::new(session, watch)?;
    let watched = scene.watched().into_iter();
    let members: BTreeSet<&str> = watched
        .filter_map(|key| scene.keys[key].path.split(['.', '[', ' ', '(']).next())
        .filter(|member| !member.is_empty())
        .collect();
    let members: Vec<&str> = members.into_iter().collect();
    let mut texts = BTreeSet::new();
    // Some are refused: two members of one anonymous union, a member after a flexible array.
    for _ in 0..100 * count {
        if texts.len() == count || members.len() < 3 {
            break;
        }
        let mut text = format!("type {name}\n");
        for _ in 0..=random.below(3) {
            text += &statement(&members, random);
        }
        if parse(&text).is_ok_and(|edits| fits(session, &edits)) {
            texts.insert(text);
        }
    }
    Ok(texts.into_iter().collect())
}

fn statement(members: &[&str], random: &mut Random) -> String {
    let mut member = || members[random.below(members.len())];
    let (a, b, c) = (member(), member(), member());
    match random.below(6) {
        0 => format!("isolate {a}\n"),
        1 => format!("isolate {a} {b}\n"),
        2 => format!("move {a} first\n"),
        3 => format!("move {a} after {b}\n"),
        4 => format!("align {a} line\n"),
        _ => format!("order {a} {b} {c}\n"),
    }
}

fn fits(session: &Session<'_>, edits: &EditFile) -> bool {
    let model = session.analysis().model();
    Plan::new(model, LineSize::B64, edits, &BTreeMap::new()).is_ok()
}

/// What the edits change, by difference and whole.
fn compared(
    session: &Session<'_>,
    machine: &Machine,
    watch: &Watch,
    texts: &[String],
) -> Result<Vec<Row>> {
    let scene = Scene::new(session, watch)?;
    let difference = Experiment::new(&scene, machine, Conditions::default())?;
    let whole = Experiment {
        whole: true,
        ..difference
    };
    let interleavings = Interleavings::new(Seed(1), 8, None);
    let (mut rows, mut edits) = (Vec::new(), Vec::new());
    for text in texts {
        edits.push(parse(text)?);
    }
    let by_difference = compare(&difference, &edits, &interleavings)?;
    let whole = compare(&whole, &edits, &interleavings)?;
    for ((text, difference), whole) in texts.iter().zip(by_difference).zip(whole) {
        let text = text.trim().replace('\n', "; ");
        match (difference, whole) {
            (Ok(difference), Ok(whole)) if whole.types.without > 0.0 => {
                let row = Row { difference, whole };
                row.print(&text);
                rows.push(row);
            }
            (Ok(_), Ok(_)) => println!("costs nothing: {text}"),
            (Err(error), _) | (_, Err(error)) => println!("refused: {text}: {error}"),
        }
    }
    Ok(rows)
}

/// An edit, by difference and whole.
struct Row {
    difference: Effect,
    whole: Effect,
}

impl Row {
    /// How far apart the changes of the type's cost are, in points.
    fn apart(&self) -> f64 {
        (points(&self.difference.types).0 - points(&self.whole.types).0).abs()
    }

    fn verdicts(&self) -> [&'static str; 2] {
        [&self.difference.types, &self.whole.types].map(verdict)
    }

    fn print(&self, text: &str) {
        let (by, by_ci) = points(&self.difference.types);
        let (whole, whole_ci) = points(&self.whole.types);
        let [first, second] = self.verdicts();
        println!(
            "| `{text}` | {by:+.3} ± {by_ci:.3} | {whole:+.3} ± {whole_ci:.3} | {:.3} | {first} | {second} |",
            self.apart(),
        );
    }
}

/// The change and its interval, in points of the cost.
fn points(measure: &Measure) -> (f64, f64) {
    let of = measure.without.max(1.0) / 100.0;
    (measure.difference / of, measure.ci95 / of)
}

fn verdict(measure: &Measure) -> &'static str {
    match (measure.significant, measure.difference < 0.0) {
        (false, _) => "inconclusive",
        (true, true) => "better",
        (true, false) => "worse",
    }
}

/// The value that this share of them does not exceed.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn summary(rows: &[Row]) {
    let mut apart: Vec<f64> = rows.iter().map(Row::apart).collect();
    let [half, most, all] = [0.5, 0.95, 1.0].map(|share| percentile(&mut apart, share));
    println!(
        "\n{} edits; points apart: median {half:.3}, 95th percentile {most:.3}, most {all:.3}",
        rows.len()
    );
    let mut least = -1.0;
    for bar in BARS {
        let inside = apart.iter().filter(|apart| (least..=bar).contains(*apart));
        println!(
            "up to {bar}: {}",
            inside.filter(|apart| **apart > least).count()
        );
        least = bar;
    }
    let differ = rows
        .iter()
        .filter(|row| row.verdicts()[0] != row.verdicts()[1]);
    let turned = rows.iter().map(Row::verdicts);
    let turned = turned.filter(|both| both.contains(&"better") && both.contains(&"worse"));
    println!(
        "verdicts: {} differ, {} turned",
        differ.count(),
        turned.count()
    );
    let width = |of: fn(&Effect) -> &Measure| {
        let widths = rows
            .iter()
            .map(|row| (of(&row.difference).ci95, of(&row.whole).ci95));
        let some = widths.filter(|(_, whole)| *whole > 0.0);
        let mut ratios: Vec<f64> = some.map(|(difference, whole)| difference / whole).collect();
        percentile(&mut ratios, 0.5)
    };
    println!(
        "width of intervals, by difference ÷ whole, median: {:.2} of the types, {:.2} of everything",
        width(|effect| &effect.types),
        width(|effect| &effect.whole)
    );
}
