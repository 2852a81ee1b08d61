//! Advice other than reordering members: what to do less often, not at all, or elsewhere.
//!
//! ```text
//! counts             uses by instruction; types used in turn; counters written with bitmaps; objects with users (the session's)
//! pass 1  costs      the recording in order, with the misses of a replay without edits: cost by field, act and
//!                    function; where pointers led
//!         rules      one module per kind of advice: candidates with what is at stake
//! pass 2+ trials     replays with and without the best candidates: predicted effect, confidence intervals
//! ```
//!
//! A rule says that the code does something needless or that data is in an expensive place; it does
//! not know what the program means. `docs/model/remedies.md` has each rule with its constants and
//! their reasons, `evidence/remedies.md` what it got wrong. No rule writes a patch.

mod apart;
mod collide;
mod context;
mod costs;
mod derivable;
mod elements;
mod fields;
mod focus;
mod holders;
mod links;
mod locks;
mod model;
mod own_line;
mod owners;
mod partners;
mod percpu;
mod reuse;
mod sharing;
mod silent;
mod trials;
mod variables;
mod writers;

use linemate_answers::{Remedy, RemedyEffect, RemedyKind, RemedyList};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Cpus, Experiment, INTERLEAVINGS_MIN, Seed};
use linemate_session::Session;

pub use apart::allocated_apart;
pub use model::{RemedyError, RemedyOptions};

use apart::neighbours::Neighbours;
use collide::strides::Collisions;
use context::{Context, stake};
use costs::{Classes, MeasuredCosts};
use fields::Fields;
use focus::Focus;
use links::Follower;
use owners::Owners;
use partners::found::{Answer, answers};
use trials::try_all;

/// Finds remedies.
///
/// # Errors
/// Impossible options, a focus that nothing touched, a damaged recording.
pub fn find(session: &Session<'_>, options: &RemedyOptions) -> Result<RemedyList, RemedyError> {
    if options.interleavings < INTERLEAVINGS_MIN {
        return Err(RemedyError::Interleavings(options.interleavings));
    }
    let analysis = session.analysis();
    let cpus = Cpus::new(analysis, options.conditions.cpus)?;
    let in_turn = &session.counted().in_turn;
    let fields = Fields::new(
        analysis,
        &session.counted().tally,
        options.machine.line.bytes(),
    );
    let focus = options.focus.as_deref();
    let focus = focus.map(|name| Focus::new(analysis, &fields, name).ok_or_else(|| absent(name)));
    let focus = focus.transpose()?;
    // Before the costs, which follow the pointers in question: theirs is the one pass in order.
    let questions = links::questions(analysis, in_turn, &fields, focus.as_ref());
    let mut scene = Scene::new(session, &Watch::default())?;
    let experiment = Experiment::new(&scene, &options.machine, options.conditions)?;
    let tally = &session.counted().tally;
    let line = options.machine.line.bytes();
    let neighbours = Neighbours::new(analysis, &scene, tally, line);
    let owners = Owners::new(analysis, &scene, line);
    let classes = Classes::new(
        &fields,
        Follower::new(analysis, &fields, &questions),
        &neighbours,
        owners,
    );
    let costs = MeasuredCosts::found(&experiment, classes, &questions, Seed(options.seed))?;
    let collisions = Collisions::new(analysis, &experiment)?;
    let answers = answers(analysis, &fields, &costs, &questions);
    // `colocate` pairs by these counts: pointers are better evidence than which objects are touched
    // one after the other.
    scene.neighbours = answers.iter().map(Answer::neighbours).collect();
    let context = Context {
        analysis,
        options,
        tally: &session.counted().tally,
        in_turn,
        fields: &fields,
        scene: &scene,
        costs: &costs,
        answers: &answers,
        collisions: &collisions,
        neighbours: &neighbours,
        cpus,
        focus: focus.as_ref(),
    };
    let Candidates {
        mut remedies,
        left_out,
        floor,
        mut below_floor,
    } = candidates(&context);
    try_best(&mut remedies, &scene, options, costs.whole.cycles)?;
    let before = remedies.len();
    remedies.retain(|remedy| is_worth_listing(remedy, floor));
    below_floor += before - remedies.len();
    rank(&mut remedies);
    Ok(RemedyList {
        machine: options.machine.name.clone(),
        line_bytes: options.machine.line.bytes(),
        cpus: cpus.replayed(),
        recorded_cpus: cpus.recorded,
        seed: options.seed,
        interleavings: options.interleavings,
        accesses: scene.accesses.0,
        whole: stake(&costs.whole),
        remedies,
        left_out,
        floor,
        below_floor,
    })
}

fn absent(name: &str) -> RemedyError {
    RemedyError::Absent(name.to_owned())
}

/// What the rules found.
struct Candidates {
    /// What is worth listing.
    remedies: Vec<Remedy>,
    /// More with as much at stake as those listed, by kind.
    left_out: Vec<(RemedyKind, usize)>,
    /// Cycles that have to be at stake.
    floor: u64,
    /// How many have less.
    below_floor: usize,
}

/// Those with most at stake first, in each kind.
fn candidates(context: &Context<'_>) -> Candidates {
    let mut all = Candidates {
        remedies: Vec::new(),
        left_out: Vec::new(),
        floor: context.floor(),
        below_floor: 0,
    };
    for kind in RemedyKind::ALL {
        let mut found = match kind {
            RemedyKind::SkipSilentStores => silent::find(context),
            RemedyKind::ReuseResult => reuse::find(context),
            RemedyKind::Derive => derivable::find(context),
            RemedyKind::SplitPerCpu => percpu::find(context),
            RemedyKind::CoAllocate => partners::find(context),
            RemedyKind::OwnLine => {
                let mut found = writers::find(context);
                // Not one member of a struct that all writers' members are found for.
                let whole: Vec<Vec<String>> = found.iter().map(|r| r.concerns.clone()).collect();
                let mut one = own_line::find(context);
                one.retain(|remedy| !whole.contains(&remedy.concerns));
                found.extend(one);
                found.extend(variables::find(context));
                found
            }
            RemedyKind::PadElements => {
                let mut found = apart::elements(context);
                found.extend(elements::find(context));
                found
            }
            RemedyKind::AllocateApart => apart::blocks(context),
            RemedyKind::SpreadOverSets => collide::find(context),
            RemedyKind::WriteLess => sharing::find(context),
        };
        if let Some(focus) = context.focus {
            found.retain(|remedy| focus.concerns(remedy));
        }
        // After the focus, which must not shorten the list of what it is about.
        found.sort_by(by_stake);
        found = merged(found);
        let before = found.len();
        found.retain(|remedy| remedy.stake.cycles >= all.floor);
        all.below_floor += before - found.len();
        let more = found.len().saturating_sub(context.options.per_kind);
        if more > 0 {
            all.left_out.push((kind, more));
        }
        found.truncate(context.options.per_kind);
        all.remedies.extend(found);
    }
    all
}

/// Remedies with the same edits as one, with what is at stake for all: a base class that is moved
/// is moved in each class derived from it.
fn merged(found: Vec<Remedy>) -> Vec<Remedy> {
    let edits = |r: &Remedy| -> Vec<String> { r.trials.iter().map(|t| t.edits.clone()).collect() };
    let mut kept: Vec<Remedy> = Vec::new();
    for remedy in found {
        let same = |r: &&mut Remedy| !r.trials.is_empty() && edits(r) == edits(&remedy);
        let Some(first) = kept.iter_mut().find(same) else {
            kept.push(remedy);
            continue;
        };
        first.stake.misses += remedy.stake.misses;
        first.stake.cycles += remedy.stake.cycles;
        for name in remedy.concerns {
            if !first.concerns.contains(&name) {
                first.concerns.push(name);
            }
        }
        let note = format!("the same edit serves {}, too", remedy.subject);
        first.reasons.notes.push(note);
    }
    kept.sort_by(by_stake);
    kept
}

fn by_stake(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let key = |r: &Remedy| std::cmp::Reverse((r.stake.cycles, r.stake.misses));
    key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
}

/// Without a number of trials, this many are tried, whatever is at stake.
const TRIALS: usize = 2;

/// And further ones, up to this many in all, that have a part of all cost at stake: one in twenty
/// is what somebody would mend.
const TRIALS_OF_LARGE: usize = 6;
const LARGE_PART: u64 = 20;

/// The best of each kind are tried, then the second best, until enough were tried. `whole`: what
/// everything costs.
fn try_best(
    remedies: &mut [Remedy],
    scene: &Scene<'_>,
    options: &RemedyOptions,
    whole: u64,
) -> Result<(), RemedyError> {
    let mut chosen: Vec<usize> = Vec::new();
    for rank in 0..options.per_kind {
        let of_rank = |kind: RemedyKind| {
            let of_kind = remedies.iter().enumerate().filter(|(_, r)| r.kind == kind);
            of_kind.map(|(number, _)| number).nth(rank)
        };
        let mut best: Vec<usize> = RemedyKind::ALL.into_iter().filter_map(of_rank).collect();
        best.retain(|number| !remedies[*number].trials.is_empty());
        best.sort_by(|a, b| by_stake(&remedies[*a], &remedies[*b]));
        chosen.extend(best);
    }
    match options.trials {
        Some(trials) => chosen.truncate(trials),
        None => {
            let is_large =
                |n: &usize| remedies[*n].stake.cycles.saturating_mul(LARGE_PART) >= whole;
            let mut further = chosen.split_off(TRIALS.min(chosen.len()));
            further.retain(is_large);
            chosen.extend(further);
            chosen.truncate(TRIALS_OF_LARGE);
        }
    }
    let texts: Vec<String> = chosen
        .iter()
        .flat_map(|number| remedies[*number].trials.iter().map(|t| t.edits.clone()))
        .collect();
    if texts.is_empty() {
        return Ok(());
    }
    let mut effects = try_all(scene, options, &texts)?.into_iter();
    for number in chosen {
        for trial in &mut remedies[number].trials {
            trial.effect = effects.next().unwrap_or(RemedyEffect::NotTried);
        }
    }
    Ok(())
}

/// Not if replay shows a gain of fewer cycles than have to be at stake.
fn is_worth_listing(remedy: &Remedy, floor: u64) -> bool {
    remedy.gain().is_none_or(|gain| gain >= floor as f64)
}

/// The largest gain first, then by what is at stake; what replay tried without a gain comes last.
fn rank(remedies: &mut [Remedy]) {
    remedies.sort_by(|a, b| {
        let gain = |r: &Remedy| r.gain().unwrap_or(0.0);
        let by_gain = gain(b).total_cmp(&gain(a));
        let refuted = a.is_refuted().cmp(&b.is_refuted());
        by_gain.then(refuted).then_with(|| by_stake(a, b))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use linemate_answers::{Gain, Measure, Stake, Trial};

    fn remedy(subject: &str, cycles: u64, effect: RemedyEffect) -> Remedy {
        Remedy {
            kind: RemedyKind::OwnLine,
            subject: subject.to_owned(),
            advice: String::new(),
            concerns: Vec::new(),
            stake: Stake { misses: 1, cycles },
            reasons: Default::default(),
            trials: vec![Trial {
                edits: String::new(),
                effect,
            }],
        }
    }

    fn tried(difference: f64) -> RemedyEffect {
        let types = Measure {
            difference,
            significant: true,
            ..Measure::default()
        };
        RemedyEffect::Tried(Gain {
            interleavings: 8,
            types,
            misses: Measure::default(),
            whole: types,
            skipped: 0,
            in_either_half: 0,
        })
    }

    #[test]
    fn remedies_with_the_same_edits_are_one() {
        let mut texture = remedy("Texture", 500, RemedyEffect::NotTried);
        let mut mesh = remedy("Mesh", 900, RemedyEffect::NotTried);
        let mut other = remedy("Light", 1000, RemedyEffect::NotTried);
        for (remedy, edits) in [
            (&mut texture, "type Resource"),
            (&mut mesh, "type Resource"),
            (&mut other, "type Light"),
        ] {
            remedy.concerns = vec![remedy.subject.clone()];
            remedy.trials[0].edits = edits.to_owned();
        }
        let mut untried = remedy("none", 1, RemedyEffect::NotTried);
        untried.trials.clear();
        let found = merged(vec![other, mesh, texture, untried.clone(), untried]);
        let shown: Vec<(&str, u64)> = found
            .iter()
            .map(|r| (r.subject.as_str(), r.stake.cycles))
            .collect();
        let expected = [("Mesh", 1400), ("Light", 1000), ("none", 1), ("none", 1)];
        assert_eq!(shown, expected);
        assert_eq!(found[0].concerns, ["Mesh", "Texture"]);
        assert_eq!(
            found[0].reasons.notes,
            ["the same edit serves Texture, too"]
        );
    }

    #[test]
    fn a_gain_below_the_floor_is_not_listed() {
        let listed = |effect| is_worth_listing(&remedy("it", 900, effect), 20);
        assert!(listed(tried(-20.0)) && !listed(tried(-19.0)));
        // What was not tried may gain what is at stake; what gains nothing is said so.
        assert!(listed(RemedyEffect::NotTried) && listed(tried(5.0)));
    }

    #[test]
    fn what_gains_is_first_and_what_was_tried_in_vain_is_last() {
        let mut remedies = [
            remedy("in vain", 900, tried(5.0)),
            remedy("not tried, small", 10, RemedyEffect::NotTried),
            remedy("gains little", 20, tried(-5.0)),
            remedy("not tried, large", 80, RemedyEffect::NotTried),
            remedy("gains much", 10, tried(-50.0)),
        ];
        rank(&mut remedies);
        let order = remedies.map(|remedy| remedy.subject);
        assert_eq!(
            order,
            [
                "gains much",
                "gains little",
                "not tried, large",
                "not tried, small",
                "in vain"
            ]
        );
    }
}
