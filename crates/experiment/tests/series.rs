//! What recordings bring to a series.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_answers::GrowthBy;
use linemate_experiment::series_counts;
use linemate_growth::Growth;
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_testkit::world::{Contents, F, NOHZ, RQ, UNITS, World};

fn recorded(cpus: u16, times: u64, command: Option<&str>) -> Recording {
    let mut world = World::new();
    for _ in 0..times {
        world.access(0, AccessKind::Store, UNITS[0] + RQ, 4, F::WakeTask, false);
        world.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    }
    let mut contents = Contents::new();
    let mut put = |key: &str, value: String| contents.metadata.insert(key.into(), value);
    put("cpus", cpus.to_string());
    if let Some(command) = command {
        put("command", command.to_owned());
    }
    world.record_of(true, contents)
}

#[test]
fn a_recordings_rows_are_named_by_function_and_field() {
    let member = |cpus: u16, times| {
        let recording = recorded(cpus, times, Some("true"));
        series_counts("x", &Session::new(&recording).unwrap()).unwrap()
    };
    let series = vec![member(2, 20), member(4, 80), member(8, 320)];
    let growth = Growth::new(series).unwrap();
    let trends = growth.trends(GrowthBy::Access);
    let names: Vec<(&str, &str)> = trends.rows().map(|row| (row.0, row.1)).collect();
    assert_eq!(
        names,
        [
            ("update_rq", "nohz.idle_cpus_mask"),
            ("wake_task", "rq.nr_running")
        ]
    );
    let factor = |field| growth.factor("wake_task", field, 2, 8).mean;
    assert!(
        near(factor("rq.nr_running"), 4.0, 0.2),
        "{}",
        factor("rq.nr_running")
    );
    assert_eq!(
        factor("runqueues"),
        factor("rq.nr_running"),
        "the variable of it"
    );
}

#[test]
fn a_recording_that_does_not_say_what_ran_is_refused() {
    let recording = recorded(2, 1, None);
    let error = series_counts("x.data", &Session::new(&recording).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.data: the recording does not contain its command"
    );
}

fn near(value: f64, expected: f64, part: f64) -> bool {
    (value / expected - 1.0).abs() <= part
}
