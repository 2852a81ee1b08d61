//! Limits of this process (`ulimit`) that are errors, not its end.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, getrlimit};

use crate::output;

/// Set for the process that does the work where another one waits for it.
const WATCHED: &str = "LINEMATE_WATCHED";

/// How the last words of a process begin that Rust's library ends.
const ENDS: [&str; 2] = ["memory allocation of ", "thread '"];

/// What is in them where memory lacks, for data or for a thread's stack.
const LACKS: [&str; 3] = [
    "memory allocation of ",
    "ThreadPoolBuildError",
    "failed to spawn thread",
];

/// A file that grows over the limit of `ulimit -f` fails its write, so that what is half written is removed and the reason is shown; the signal
/// would end the process at once. To be called before any thread is started: threads inherit it, other programs do not.
pub(crate) fn take_file_size_as_error() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    // If it cannot be blocked, it ends the process.
    let _ = signals.thread_block();
}

/// Under a limit of memory (`ulimit -v`), has another process do the work and says so in a line if that runs out of memory, which it cannot say
/// itself: Rust's library aborts. `None` where there is no limit, or this is that process.
pub(crate) fn watch_memory(arguments: &[OsString]) -> Option<ExitCode> {
    if env::var_os(WATCHED).is_some() {
        // Whoever ends the one that waits means this one.
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
        return None;
    }
    let limit = getrlimit(Resource::As).current?;
    // Where no other process can be had, this one does the work.
    let mut child = Command::new(env::current_exe().ok()?)
        .args(arguments.get(1..)?)
        .env(WATCHED, "")
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let lacked = child
        .stderr
        .take()
        .is_some_and(|said| pass_on(said, &mut io::stderr()));
    Some(ended(&mut child, lacked, limit))
}

/// Passes on what a process says on standard error, without last words that are about a lack of memory; whether there are such.
fn pass_on(said: impl Read, to: &mut impl Write) -> bool {
    let mut said = BufReader::new(said);
    let (mut line, mut end) = (Vec::new(), Vec::new());
    while said
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        // A panic's words begin with an empty line.
        let goes_on = end.iter().any(|byte| *byte != b'\n');
        let ends = line == b"\n" || ENDS.iter().any(|words| line.starts_with(words.as_bytes()));
        end.append(&mut line);
        if !goes_on && !ends {
            // That nobody reads it is not a reason to fail.
            let _ = to.write_all(&end);
            end.clear();
        }
    }
    let words = String::from_utf8_lossy(&end);
    let lacked = LACKS.iter().any(|lack| words.contains(lack));
    if !lacked {
        let _ = to.write_all(&end);
    }
    lacked
}

fn ended(child: &mut Child, lacked: bool, limit: u64) -> ExitCode {
    match child.wait() {
        Ok(status) if lacked && !status.success() => {
            output::tell(&format!(
                "out of memory: this process may have {} MiB (`ulimit -v`): raise the limit",
                limit >> 20
            ));
            ExitCode::from(2)
        }
        Ok(status) => {
            let by_signal = || 128 + status.signal().unwrap_or_default();
            let code = status.code().unwrap_or_else(by_signal);
            ExitCode::from(u8::try_from(code).unwrap_or(2))
        }
        Err(error) => {
            output::tell(&format!(
                "cannot wait for the process that does the work: {error}"
            ));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_about_memory_are_left_out_and_others_are_not() {
        let passed = |said: &[u8]| {
            let mut out = Vec::new();
            let lacked = pass_on(said, &mut out);
            (lacked, String::from_utf8(out).unwrap())
        };
        for said in [
            "",
            "a\nno end of line",
            "a\n\n\nb\n",
            "\nthread 'main' panicked at x:\nb\n",
        ] {
            assert_eq!(passed(said.as_bytes()), (false, said.to_owned()));
        }
        for end in [
            "memory allocation of 8 bytes failed\nstack backtrace:\n",
            "\nthread 'main' (365) panicked at registry.rs:171:10:\nThe pool: ThreadPoolBuildError { .. }\nnote: x\n",
        ] {
            let expected = (true, "note: y\n".to_owned());
            assert_eq!(passed(format!("note: y\n{end}").as_bytes()), expected);
        }
    }
}
