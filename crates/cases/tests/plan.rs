//! The steps of a case, and on what their keys depend.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use linemate_cases::{
    Case, CaseReplay, Digests, GuestRun, Ingredient, Key, Mode, Plan, StepId, parse,
};

const CASE: &str = r#"
name = "made-up"
summary = "a made-up case"
types = ["rq"]
machines = ["m1", "m2"]
[kernel]
series = "6.12"
[build]
source = "tree"
config = "config"
[guest]
cpus = 8
[workload]
setup = "setup.sh"
files = ["data:/data"]
command = ["run", "-x"]
[[edit]]
name = "built"
file = "built.txt"
patches = ["1.patch", "2.patch"]
measure = "same.txt"
[[check]]
name = "storm"
command = ["storm.sh"]
files = ["tool"]
[[check]]
name = "lockdep"
command = ["storm.sh"]
config = ["lockdep.config"]
memory = "2G"
[[edit]]
name = "only-predicted"
file = "only.txt"
"#;

/// Every ingredient has the digest of its name, except for the one that changed; so has every run,
/// of its kernel and its files.
#[derive(Default)]
struct Changed(BTreeMap<Ingredient, String>);

impl Digests for Changed {
    type Error = String;

    fn run(&mut self, kernel: &str, run: &GuestRun<'_>) -> Result<Key, String> {
        let names = run.files.iter().map(String::as_str).chain(run.setup);
        let files = names.chain(run.command.first().map(String::as_str));
        let files = files.map(|name| self.digest(&Ingredient::File(name.to_owned())));
        let files: Vec<String> = files.collect::<Result<_, _>>()?;
        Ok(Key(format!("{kernel} {run:?} {files:?}")))
    }

    fn digest(&mut self, ingredient: &Ingredient) -> Result<String, String> {
        let changed = self.0.get(ingredient).cloned();
        Ok(changed.unwrap_or_else(|| format!("{ingredient:?}")))
    }
}

fn keys(case: &Case, mode: Mode, digests: &mut Changed) -> Vec<(String, Key)> {
    keys_of(&Plan::new(case, mode), digests)
}

fn keys_of(plan: &Plan<'_>, digests: &mut Changed) -> Vec<(String, Key)> {
    let mut keys = Vec::new();
    for step in &plan.steps {
        let key = plan.key(step, &keys, digests).unwrap();
        keys.push(key);
    }
    let titles = plan.steps.iter().map(|step| step.title.clone());
    titles.zip(keys).collect()
}

#[test]
fn quick_builds_nothing() {
    let case = parse(CASE).unwrap();
    let titles: Vec<String> = keys(&case, Mode::Quick, &mut Changed::default())
        .into_iter()
        .map(|(title, _)| title)
        .collect();
    assert_eq!(
        titles,
        [
            "record the unmodified kernel 6.12",
            "report on rq",
            "find what rq costs on m1",
            "predict built on m1",
            "predict built on m2",
            "predict only-predicted on m1",
            "predict only-predicted on m2",
        ]
    );
}

#[test]
fn full_predicts_from_a_kernel_that_differs_in_the_patches_alone() {
    let case = parse(CASE).unwrap();
    let titles: Vec<String> = keys(&case, Mode::Full, &mut Changed::default())
        .into_iter()
        .map(|(title, _)| title)
        .collect();
    assert_eq!(
        titles[7..],
        [
            "build the kernel without patches",
            "record the kernel built without patches",
            "predict built on m1, kernel built without patches",
            "predict built on m2, kernel built without patches",
            "build the kernel with built",
            "boot and record the kernel with built",
            "measure built on m1",
            "measure built on m2",
            "check the kernel with built: storm",
            "build the kernel with built for lockdep",
            "check the kernel with built: lockdep",
        ]
    );
}

#[test]
fn runs_have_seeds_that_count_up_and_keys_of_their_own() {
    let case = parse(&CASE.replacen("cpus = 8", "cpus = 8\nseed = 7\nruns = 2", 1)).unwrap();
    let steps = keys(&case, Mode::Full, &mut Changed::default());
    let titles: Vec<&str> = steps.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(
        titles[7..20],
        [
            "build the kernel without patches",
            "record the kernel built without patches, seed 7",
            "record the kernel built without patches, seed 8",
            "predict built on m1, kernel built without patches, seed 7",
            "predict built on m2, kernel built without patches, seed 7",
            "predict built on m1, kernel built without patches, seed 8",
            "predict built on m2, kernel built without patches, seed 8",
            "build the kernel with built",
            "boot and record the kernel with built, seed 7",
            "boot and record the kernel with built, seed 8",
            "measure built on m1, seed 7",
            "measure built on m2, seed 7",
            "measure built on m1, seed 8",
        ]
    );
    assert_ne!(steps[8].1, steps[9].1);
    // The first run is the same as where it is the only one.
    let one = parse(&CASE.replacen("cpus = 8", "cpus = 8\nseed = 7", 1)).unwrap();
    assert_eq!(
        keys(&one, Mode::Full, &mut Changed::default())[8].1,
        steps[8].1
    );
}

#[test]
fn more_runs_repeat_nothing_of_fewer() {
    let text = CASE.replacen(
        "cpus = 8",
        "cpus = 8\nruns = { until = 8, at_most = 40 }",
        1,
    );
    let case = parse(&text).unwrap();
    let digests = &mut Changed::default();
    let first = keys(&case, Mode::Full, digests);
    let recordings = |steps: &[(String, Key)]| {
        let recordings = steps.iter().filter(|(title, _)| title.contains("record "));
        recordings.count()
    };
    assert_eq!(recordings(&first), 1 + 2 * 5);
    let more = keys_of(&Plan::with_runs(&case, Mode::Full, 10), digests);
    assert_eq!(recordings(&more), 1 + 2 * 10);
    assert!(first.iter().all(|step| more.contains(step)));
    // The runs of a case with a fixed number are the same ones.
    let fixed = parse(&CASE.replacen("cpus = 8", "cpus = 8\nruns = 5", 1)).unwrap();
    assert_eq!(keys(&fixed, Mode::Full, digests), first);
}

#[test]
fn a_kernel_that_has_to_be_built_is_examined_once_it_is() {
    let case = parse(&CASE.replacen("series = \"6.12\"", "built = true", 1)).unwrap();
    assert_eq!(Plan::new(&case, Mode::Quick).steps, []);
    let plan = Plan::new(&case, Mode::Full);
    let titles: Vec<&str> = plan.steps.iter().map(|step| step.title.as_str()).collect();
    assert_eq!(
        titles[..9],
        [
            "build the kernel without patches",
            "record the kernel built without patches",
            "report on rq",
            "find what rq costs on m1",
            "predict built on m1",
            "predict built on m2",
            "predict only-predicted on m1",
            "predict only-predicted on m2",
            "build the kernel with built",
        ]
    );
    assert_eq!((plan.examined.0, plan.bases.len()), (1, 1));
}

const SHARES: &str = r#"
[[published]]
key = "under f"
value = "0.81 → 0.35 % of all"
source = "a paper"
found = { function = "f", figure = "share-under" }
predicted = { edit = "built", machine = "m2", function = "f", figure = "share-under" }
[[published]]
key = "the same once more"
value = "0.81 → 0.35 % of all"
source = "a paper"
found = { function = "f", figure = "share-under" }
"#;

#[test]
fn published_shares_are_replayed_for_every_kernel_once() {
    let case = parse(&(CASE.to_owned() + SHARES)).unwrap();
    let digests = &mut Changed::default();
    let mut all = keys(&case, Mode::Full, digests);
    let titles = all.iter().map(|(title, _)| title.as_str());
    let shares: Vec<&str> = titles
        .filter(|title| title.contains("share under"))
        .collect();
    assert_eq!(
        shares,
        [
            "find the share under f on m1",
            "predict the share under f with built on m2",
            "find the share under f on m2, kernel built without patches",
            "find the share under f on m2, kernel with built",
        ]
    );
    // All other steps are what they were.
    all.retain(|(title, _)| !title.contains("share under"));
    assert_eq!(all, keys(&parse(CASE).unwrap(), Mode::Full, digests));
    let other = SHARES.replace("function = \"f\"", "function = \"g\"");
    let other = keys(
        &parse(&(CASE.to_owned() + &other)).unwrap(),
        Mode::Full,
        digests,
    );
    let one = keys(&case, Mode::Full, digests);
    let changed = one
        .iter()
        .zip(other)
        .filter(|(one, other)| one.1 != other.1);
    assert_eq!(changed.count(), 4);
}

/// The titles of the steps whose keys are others once an ingredient has changed.
fn redone(ingredient: Ingredient) -> Vec<String> {
    let case = parse(CASE).unwrap();
    let before = keys(&case, Mode::Full, &mut Changed::default());
    let mut changed = Changed([(ingredient, "another".to_owned())].into());
    let after = keys(&case, Mode::Full, &mut changed);
    before
        .into_iter()
        .zip(after)
        .filter(|(before, after)| before.1 != after.1)
        .map(|(before, _)| before.0)
        .collect()
}

#[test]
fn only_what_depends_on_a_change_is_done_again() {
    let all = 18;
    let built: Vec<String> = redone(Ingredient::Patch("2.patch".into()));
    assert_eq!(
        built[..2],
        [
            "build the kernel with built",
            "boot and record the kernel with built"
        ]
    );
    assert_eq!(built.len(), 7);
    assert_eq!(
        redone(Ingredient::File("only.txt".into())),
        [
            "predict only-predicted on m1",
            "predict only-predicted on m2"
        ]
    );
    assert_eq!(
        redone(Ingredient::File("same.txt".into())),
        ["measure built on m1", "measure built on m2"]
    );
    // All but the builds, of which there are three, and the checks, of which there are two.
    for of_every_run in ["setup.sh", "data:/data", "run"] {
        let redone = redone(Ingredient::File(of_every_run.into()));
        assert_eq!(redone.len(), all - 5, "{of_every_run}");
    }
    for of_checks in ["storm.sh", "tool"] {
        let of_checks = redone(Ingredient::File(of_checks.into()));
        assert!(of_checks.contains(&"check the kernel with built: storm".to_owned()));
        assert!(of_checks.iter().all(|title| title.starts_with("check ")));
    }
    assert_eq!(
        redone(Ingredient::File("lockdep.config".into())),
        [
            "build the kernel with built for lockdep",
            "check the kernel with built: lockdep"
        ]
    );
    // All that is neither a build nor a run in a guest, of which there are three and five.
    assert_eq!(redone(Ingredient::Analyser).len(), all - 8);
    assert_eq!(redone(Ingredient::Series("6.12".into())).len(), 7);
    assert_eq!(redone(Ingredient::File("config".into())).len(), all - 7);
    assert_eq!(redone(Ingredient::File("nothing of it".into())).len(), 0);
}

#[test]
fn a_step_comes_after_what_it_reads_and_what_is_cheap_to_know_first() {
    let before = |text: &str, title: &str| {
        let case = parse(text).unwrap();
        let plan = Plan::new(&case, Mode::Full);
        let step = plan.steps.iter().position(|step| step.title == title);
        let before = plan.before(StepId(step.unwrap())).into_iter();
        let titles = before.map(|id| plan.steps[id.0].title.clone());
        titles.collect::<Vec<_>>()
    };
    let two = CASE.replacen("cpus = 8", "cpus = 8\nruns = 2", 1);
    let record = "record the unmodified kernel 6.12";
    let plain = "build the kernel without patches";
    assert_eq!(before(&two, record), [""; 0]);
    assert_eq!(before(&two, "report on rq"), [record]);
    // The first one leaves the names of all accesses to the others.
    let prediction = before(&two, "predict only-predicted on m2");
    assert_eq!(prediction, [record, "report on rq"]);
    let predictions = [
        "predict built on m1",
        "predict built on m2",
        "predict only-predicted on m1",
        "predict only-predicted on m2",
    ];
    assert_eq!(before(&two, plain), predictions);
    assert_eq!(
        before(&two, "record the kernel built without patches, seed 43"),
        [plain]
    );
    // They are compiled in one folder; with another configuration in another one.
    let patched = before(&two, "build the kernel with built");
    assert_eq!(patched[4..], [plain]);
    let lockdep = before(&two, "build the kernel with built for lockdep");
    assert_eq!(lockdep, predictions);
    assert_eq!(
        before(&two, "check the kernel with built: lockdep"),
        ["build the kernel with built for lockdep"]
    );
    let built = two.replacen("series = \"6.12\"", "built = true", 1);
    assert_eq!(before(&built, plain), [""; 0]);
    assert_eq!(before(&built, "build the kernel with built"), [plain]);
    // Steps of a plan are carried out in their order where only one runs at a time.
    let case = parse(&two).unwrap();
    let plan = Plan::new(&case, Mode::Full);
    for number in 0..plan.steps.len() {
        let before = plan.before(StepId(number));
        assert!(before.iter().all(|id| id.0 < number), "{number}");
    }
}

#[test]
fn every_step_has_a_key_of_its_own() {
    let case = parse(CASE).unwrap();
    let mut keys: Vec<Key> = keys(&case, Mode::Full, &mut Changed::default())
        .into_iter()
        .map(|(_, key)| key)
        .collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn the_guest_and_the_command_are_part_of_the_key() {
    let case = parse(CASE).unwrap();
    let before = keys(&case, Mode::Quick, &mut Changed::default());
    for (from, to) in [
        ("cpus = 8", "cpus = 9"),
        ("cpus = 8", "cpus = 8\nseed = 1"),
        ("cpus = 8", "cpus = 8\nmemory = \"2G\""),
        ("cpus = 8", "cpus = 8\nnuma = 2"),
        (
            "[workload]",
            "[event]\nfunction = \"f\"\nname = \"call\"\n[workload]",
        ),
        ("cpus = 8", "cpus = 8\nappend = \"quiet\""),
        ("\"-x\"", "\"-y\""),
        ("\"run\", \"-x\"", "\"run\", \"-\", \"x\""),
    ] {
        let other = parse(&CASE.replacen(from, to, 1)).unwrap();
        let after = keys(&other, Mode::Quick, &mut Changed::default());
        assert_ne!(before[0].1, after[0].1, "{from} -> {to}");
    }
}

#[test]
fn another_replay_has_keys_of_its_own_for_what_replays() {
    let case = parse(CASE).unwrap();
    let plan = |replay: &CaseReplay| {
        let plan = Plan::new(&case, Mode::Full).replayed(replay.clone());
        keys_of(&plan, &mut Changed::default())
    };
    let known = plan(&CaseReplay::default());
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let with = |cold, mechanisms, llc_share| CaseReplay {
        cold,
        mechanisms,
        llc_share,
        cpus: None,
    };
    let costs = |title: &str| title.starts_with("find what ");
    let replays = |title: &str| {
        costs(title) || title.starts_with("predict ") || title.starts_with("measure ")
    };
    let mut seen = vec![known.clone()];
    for replay in [
        with(true, None, None),
        with(false, names(&[]), None),
        with(false, names(&["l1_stride"]), None),
        with(false, names(&["l1_stride", "l2_streamer"]), None),
        with(false, None, Some(true)),
        CaseReplay {
            cpus: Some(480),
            ..CaseReplay::default()
        },
    ] {
        let other = plan(&replay);
        for (place, (title, key)) in other.iter().enumerate() {
            // Costs are found with whole caches.
            let is_new = replays(title) && !(costs(title) && replay.llc_share.is_some());
            for earlier in &seen {
                let stays = *key == earlier[place].1;
                assert!(!stays || !is_new, "{title} {replay:?}");
            }
            assert!(is_new || *key == known[place].1, "{title} {replay:?}");
        }
        seen.push(other);
    }
    // What the case says anyway is not another replay.
    let same = plan(&with(false, None, Some(false)));
    assert_eq!(same, known);
}

#[test]
fn predicted_builds_the_kernel_that_is_examined_and_none_with_patches() {
    let titles = |text: &str| {
        let case = parse(text).unwrap();
        let titles = keys(&case, Mode::Predicted, &mut Changed::default()).into_iter();
        titles.map(|(title, _)| title).collect::<Vec<_>>()
    };
    let case = parse(CASE).unwrap();
    let quick = keys(&case, Mode::Quick, &mut Changed::default()).into_iter();
    assert_eq!(
        titles(CASE),
        quick.map(|(title, _)| title).collect::<Vec<_>>()
    );
    let built = CASE
        .replacen("series = \"6.12\"", "built = true", 1)
        .replacen("cpus = 8", "cpus = 8\nruns = 3", 1);
    assert_eq!(
        titles(&built),
        [
            "build the kernel without patches",
            "record the kernel built without patches, seed 42",
            "report on rq",
            "find what rq costs on m1",
            "predict built on m1",
            "predict built on m2",
            "predict only-predicted on m1",
            "predict only-predicted on m2",
        ]
    );
    // The same steps as those of the whole case.
    let case = parse(&built).unwrap();
    let full = keys(&case, Mode::Full, &mut Changed::default());
    for step in keys(&case, Mode::Predicted, &mut Changed::default()) {
        assert!(full.contains(&step), "{step:?}");
    }
}

#[test]
fn an_event_is_part_of_recordings_and_predictions_and_of_nothing_else() {
    let keys_with = |event: &str| {
        let text = CASE.replacen("[workload]", &format!("{event}\n[workload]"), 1);
        keys(&parse(&text).unwrap(), Mode::Full, &mut Changed::default())
    };
    let f = keys_with("[event]\nfunction = \"f\"\nname = \"call\"");
    let renamed = keys_with("[event]\nfunction = \"f\"\nname = \"another name\"");
    assert_eq!(f, renamed, "a name is shown, and nothing else");
    for other in ["", "[event]\nfunction = \"g\"\nname = \"call\""] {
        for (known, other) in f.iter().zip(keys_with(other)) {
            let stays = known.0.starts_with("build ") || known.0.starts_with("check ");
            assert_eq!(known.1 == other.1, stays, "{}", known.0);
        }
    }
}
