//! Turns limits of this process (`ulimit`) into errors instead of its end.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, getrlimit};

use crate::output;

/// The maximum size of last words.
const HELD_MAX: u64 = 64 << 10;

/// The status of a process that panicked.
const PANIC: i32 = 101;

/// Set in the process that does the work while another one waits for it.
const WATCHED: &str = "LINEMATE_WATCHED";

/// The start of the last words of a process that Rust's library aborts.
const ENDS: [&str; 2] = ["memory allocation of ", "thread '"];

/// Their text if memory is lacking, for data or for a thread's stack.
const LACKS: [&str; 4] = [
    "memory allocation of ",
    "Cannot allocate memory",
    "ThreadPoolBuildError",
    "failed to spawn thread",
];

/// A file that exceeds the limit of `ulimit -f` fails its write, so that a partial file is removed
/// and the reason is shown; the signal would end the process at once. Must be called before any
/// thread is started: threads inherit it, other programs do not.
pub(crate) fn take_file_size_as_error() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    // If it cannot be blocked, it ends the process.
    let _ = signals.thread_block();
}

/// Under a memory limit (`ulimit -v`), lets another process do the work and reports in one line if
/// that runs out of memory, which it cannot report itself: Rust's library aborts. `None` without a
/// limit, and in that process.
pub(crate) fn watch_memory(arguments: &[OsString]) -> Option<ExitCode> {
    if env::var_os(WATCHED).is_some() {
        // What ends the waiting process ends this one.
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
        return None;
    }
    let limit = getrlimit(Resource::As).current?;
    // On a terminal, progress is shown, and the last words of Rust's library with it.
    let stderr = match io::stderr().is_terminal() {
        true => Stdio::inherit(),
        false => Stdio::piped(),
    };
    // If no other process can be started, this one does the work.
    let mut child = Command::new(env::current_exe().ok()?)
        .args(arguments.get(1..)?)
        .env(WATCHED, "")
        .stderr(stderr)
        .spawn()
        .ok()?;
    wait_through_interrupts();
    let said = child.stderr.take();
    let last = said.map(|said| pass_on(said, &mut io::stderr()));
    Some(ended(&mut child, last.as_deref(), limit))
}

/// Ctrl-C goes to all processes of a terminal's job: both end as the working one does.
fn wait_through_interrupts() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGQUIT);
    // If they cannot be blocked, this process ends before the other.
    let _ = signals.thread_block();
}

/// Passes on a process's standard error; returns what may be its last words, which are held back.
fn pass_on(said: impl Read, to: &mut impl Write) -> Vec<u8> {
    let mut said = BufReader::new(said);
    let (mut line, mut end) = (Vec::new(), Vec::new());
    while said
        .by_ref()
        .take(HELD_MAX)
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        // A panic's words start with an empty line.
        let goes_on = end.iter().any(|byte| *byte != b'\n');
        let ends = line == b"\n" || ENDS.iter().any(|words| line.starts_with(words.as_bytes()));
        end.append(&mut line);
        if (!goes_on && !ends) || end.len() as u64 > HELD_MAX {
            // Nobody reading it is not a reason to fail.
            let _ = to.write_all(&end);
            end.clear();
        }
    }
    end
}

/// Whether a process that ended like this, with these last words, lacked memory. Without its words
/// an abort is enough: nothing else aborts.
fn lacked(status: ExitStatus, last: Option<&[u8]>) -> bool {
    let aborted = status.signal() == Some(Signal::SIGABRT as i32);
    match last.map(String::from_utf8_lossy) {
        None => aborted,
        Some(words) => {
            let panicked = status.code() == Some(PANIC);
            (aborted || panicked) && LACKS.iter().any(|lack| words.contains(lack))
        }
    }
}

fn ended(child: &mut Child, last: Option<&[u8]>, limit: u64) -> ExitCode {
    let status = match child.wait() {
        Ok(status) => status,
        Err(error) => {
            output::to_stderr(&format!("cannot wait for the worker process: {error}"));
            return ExitCode::from(2);
        }
    };
    if lacked(status, last) {
        output::to_stderr(&format!(
            "out of memory: this process is limited to {} MiB (`ulimit -v`): raise it",
            limit >> 20
        ));
        return ExitCode::from(2);
    }
    let _ = io::stderr().write_all(last.unwrap_or_default());
    let by_signal = || 128 + status.signal().unwrap_or_default();
    let code = status.code().unwrap_or_else(by_signal);
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is passed on at once, and what is held back.
    fn passed(said: &[u8]) -> (String, Vec<u8>) {
        let mut out = Vec::new();
        let last = pass_on(said, &mut out);
        (String::from_utf8(out).unwrap(), last)
    }

    #[test]
    fn last_words_are_held_back_and_others_are_not() {
        for said in ["", "a\nno end of line", "a\n\n\nb\n"] {
            assert_eq!(passed(said.as_bytes()), (said.to_owned(), Vec::new()));
        }
        for end in [
            "memory allocation of 8 bytes failed\nstack backtrace:\n",
            "\nthread 'main' panicked at x:\nb\n",
        ] {
            let said = format!("note: y\n{end}");
            let expected = ("note: y\n".to_owned(), end.as_bytes().to_vec());
            assert_eq!(passed(said.as_bytes()), expected);
        }
        // A recorded command can print something similar and continue.
        let long = format!("thread 'x' panicked\n{}", "on\n".repeat(1 << 16));
        let (out, last) = passed(long.as_bytes());
        assert!(last.len() as u64 <= HELD_MAX);
        assert_eq!(out.into_bytes(), long.as_bytes()[..long.len() - last.len()]);
        let line = vec![b'x'; 1 << 20];
        assert_eq!(passed(&line).0.into_bytes(), line);
    }

    #[test]
    fn a_lack_of_memory_is_an_end_with_such_words() {
        let (abort, panic, fine, error) = (6, PANIC << 8, 0, 2 << 8);
        let memory = "memory allocation of 8 bytes failed\n";
        let pool = "\nthread 'main' (365) panicked at registry.rs:171:10:\nThe pool: ThreadPoolBuildError { .. }\nnote: x\n";
        let other = "\nthread 'main' panicked at x:\nb\n";
        for (status, words, expected) in [
            (abort, Some(memory), true),
            (panic, Some(pool), true),
            (abort, None, true),
            (panic, Some(other), false),
            (panic, None, false),
            // The words of a recorded command.
            (fine, Some(memory), false),
            (error, Some(pool), false),
        ] {
            let last = words.map(str::as_bytes);
            let found = lacked(ExitStatus::from_raw(status), last);
            assert_eq!(found, expected, "{status} {words:?}");
        }
    }
}
