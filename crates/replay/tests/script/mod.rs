//! The text language of the exact-count tests.
//!
//! A script is a line per access:
//!
//! ```text
//! @120 9 W A.4+8 = hitm_socket true 220 (20) | A:.M B:E
//! ```
//!
//! at cycle 120 (if not given: after everything so far has ended) logical CPU 9 writes 8 bytes at
//! byte 4 of line A; expected are the source, the cause (`-` for a private hit; true or false
//! sharing as it turns out in the end), the latency in cycles, in parentheses the part of it that
//! was waiting (0 if not given), and after the bar, where given, the state of the line in each core
//! (M, E, F, S; `.` for none; trailing ones left out). Operations are R, W and X (atomic).

use linemate_machine::{CoreId, LogicalCpu, Machine};
use linemate_recording::AccessKind;
use linemate_replay::{Cause, LineState, MissTag, Piece, System};

/// One parsed line of a script.
struct ScriptLine<'t> {
    at: Option<u64>,
    cpu: u16,
    kind: AccessKind,
    line: u64,
    words: u64,
    expected: &'t str,
    states: &'t str,
}

/// Lines are named A to Z; A is line 64, so that pairs are A B, C D, …
fn line_number(name: &str) -> u64 {
    let letter = name.bytes().next().expect("a line's name");
    assert!(
        name.len() == 1 && letter.is_ascii_uppercase(),
        "{name:?} is not a line"
    );
    64 + u64::from(letter - b'A')
}

fn parse(text: &str, line_bytes: u64) -> ScriptLine<'_> {
    let (rest, states) = text.split_once('|').unwrap_or((text, ""));
    let (access, expected) = rest.split_once('=').unwrap_or((rest, ""));
    let mut words = access.split_whitespace().peekable();
    let at = words
        .next_if(|word| word.starts_with('@'))
        .map(|word| word[1..].parse().unwrap());
    let cpu = words.next().unwrap().parse().unwrap();
    let kind = match words.next().unwrap() {
        "R" => AccessKind::Load,
        "W" => AccessKind::Store,
        "X" => AccessKind::Rmw,
        other => panic!("no operation {other:?}"),
    };
    let (line, place) = words.next().unwrap().split_once('.').unwrap();
    let (offset, bytes) = place.split_once('+').unwrap_or((place, "1"));
    let (offset, bytes): (u64, u64) = (offset.parse().unwrap(), bytes.parse().unwrap());
    let per_word = line_bytes / 64;
    let words = (offset..offset + bytes).fold(0, |words, byte| words | 1 << (byte / per_word));
    let line = line_number(line);
    ScriptLine {
        at,
        cpu,
        kind,
        line,
        words,
        expected: expected.trim(),
        states: states.trim(),
    }
}

fn states(system: &System, machine: &Machine, expected: &str) -> String {
    let mut out = Vec::new();
    for name in expected
        .split_whitespace()
        .map(|state| state.split(':').next().unwrap())
    {
        let of = |core: usize| match system.state(CoreId(core as u16), line_number(name)) {
            LineState::Modified => 'M',
            LineState::Exclusive => 'E',
            LineState::Forward => 'F',
            LineState::Shared => 'S',
            LineState::Invalid => '.',
        };
        let all: String = (0..machine.topology.cores()).map(of).collect();
        out.push(format!("{name}:{}", all.trim_end_matches('.')));
    }
    out.join(" ")
}

/// Runs a script and returns it with the actual results in place of the expected ones.
pub(crate) fn run(machine: &Machine, script: &str) -> String {
    let mut system = System::new(machine);
    let mut now = 0;
    let mut causes: Vec<Option<Cause>> = Vec::new();
    let mut rows = Vec::new();
    for text in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let step = parse(text, machine.line.bytes());
        let at = step.at.unwrap_or(now);
        let place = machine
            .topology
            .place(LogicalCpu(step.cpu))
            .expect("a CPU of the machine");
        let piece = Piece {
            line: step.line,
            words: step.words,
            kind: step.kind,
        };
        let verdict = system.access(LogicalCpu(step.cpu), place, piece, at);
        if verdict.undecided {
            let tag = MissTag {
                key: causes.len() as u32,
                cycles: verdict.cycles,
                ..MissTag::default()
            };
            system.open(place, &verdict, tag);
        }
        causes.push(verdict.cause);
        for closed in system.take_closed() {
            causes[closed.tag.key as usize] = Some(closed.cause);
        }
        now = now.max(at + verdict.cycles);
        let waited = if verdict.waited > 0 {
            format!(" ({})", verdict.waited)
        } else {
            String::new()
        };
        let states = states(&system, machine, step.states);
        let access = text.split(['=', '|']).next().unwrap().trim_end();
        rows.push((
            access.to_owned(),
            verdict,
            waited,
            states,
            step.expected.is_empty(),
        ));
    }
    system.finish();
    for closed in system.take_closed() {
        causes[closed.tag.key as usize] = Some(closed.cause);
    }
    let mut out = String::new();
    for ((access, verdict, waited, states, quiet), cause) in rows.into_iter().zip(causes) {
        out += &access;
        if !quiet {
            let cause = match cause {
                None => "-",
                Some(Cause::TrueSharing) => "true",
                Some(Cause::FalseSharing) => "false",
                Some(other) => other.name(),
            };
            out += &format!(
                " = {} {cause} {}{waited}",
                verdict.source.name(),
                verdict.cycles
            );
        }
        if !states.is_empty() {
            out += &format!(" | {states}");
        }
        out.push('\n');
    }
    out
}

/// A script must give the results written in it.
#[track_caller]
pub(crate) fn check(machine: &Machine, script: &str) {
    let wanted: String = script
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .map(|line| line + "\n")
        .collect();
    let got = run(machine, script);
    assert!(wanted == got, "expected\n{wanted}\ngot\n{got}");
}
