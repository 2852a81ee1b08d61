//! A client for QEMU's machine protocol: commands and their results. Events are skipped.
//!
//! It knows the protocol, not the purpose of the guest or the commands.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thiserror::Error;

/// QEMU answers at once unless it is starved of CPU time or writes a file.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// QMP has no longer lines.
const LINE_LIMIT: usize = 16 << 20;

/// A failed conversation with QEMU.
#[derive(Debug, Error)]
pub enum QmpError {
    /// QEMU closed the connection: it has ended or is ending.
    #[error("QEMU closed its control connection")]
    Closed,
    /// The connection itself failed.
    #[error("control connection to QEMU: {0}")]
    Io(#[from] io::Error),
    /// QEMU refused a command.
    #[error("QEMU refused {command}: {reason}")]
    Refused { command: String, reason: String },
    /// Something that is not QMP.
    #[error("unexpected answer from QEMU: {0}")]
    Protocol(String),
    /// No answer in time.
    #[error("QEMU did not answer {command} within {} s", ANSWER_LIMIT.as_secs())]
    NoAnswer { command: String },
}

/// A connection to a running QEMU.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl Qmp {
    /// Reads the greeting and enables commands.
    pub(crate) fn new(stream: UnixStream) -> Result<Self, QmpError> {
        let mut qmp = Qmp {
            stream,
            pending: Vec::new(),
        };
        // QEMU greets once; anything before that is not for us.
        let deadline = Instant::now() + ANSWER_LIMIT;
        while qmp
            .message(deadline)?
            .is_none_or(|m| m.get("QMP").is_none())
        {
            if Instant::now() >= deadline {
                return Err(QmpError::NoAnswer {
                    command: "the greeting".into(),
                });
            }
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Runs a command and returns its result.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.send(command, arguments)?;
        self.answer(command)
    }

    /// Sends a command, whose answer must be read next.
    pub(crate) fn send(&mut self, command: &str, arguments: Value) -> Result<(), QmpError> {
        let mut request = json!({ "execute": command, "arguments": arguments }).to_string();
        request.push('\n');
        self.stream.write_all(request.as_bytes()).map_err(closed)
    }

    /// The result of the command that was sent.
    pub(crate) fn answer(&mut self, command: &str) -> Result<Value, QmpError> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < deadline {
            let Some(mut message) = self.message(deadline)? else {
                continue;
            };
            // One command at a time, so the next result is this command's; events in between have
            // neither key.
            if let Some(result) = message.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = message.get("error") {
                let reason = error["desc"]
                    .as_str()
                    .unwrap_or("no reason given")
                    .to_owned();
                return Err(QmpError::Refused {
                    command: command.to_owned(),
                    reason,
                });
            }
        }
        Err(QmpError::NoAnswer {
            command: command.to_owned(),
        })
    }

    /// One message. `None` when time is up.
    fn message(&mut self, deadline: Instant) -> Result<Option<Value>, QmpError> {
        let Some(line) = self.line(deadline)? else {
            return Ok(None);
        };
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|_| QmpError::Protocol(String::from_utf8_lossy(&line).trim().to_owned()))
    }

    fn line(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, QmpError> {
        loop {
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
                return Ok(Some(self.pending.drain(..=end).collect()));
            }
            // A guest that has taken over QEMU could otherwise fill this process's memory.
            if self.pending.len() > LINE_LIMIT {
                return Err(QmpError::Protocol("an endless line".into()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(QmpError::Closed),
                Ok(n) => self
                    .pending
                    .extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(closed(e)),
            }
        }
    }
}

fn closed(error: io::Error) -> QmpError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => QmpError::Closed,
        _ => QmpError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::thread;

    /// A QEMU that answers each command with the next of `answers`.
    fn fake(answers: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let mut out = theirs;
            out.write_all(b"{\"QMP\": {}}\n").unwrap();
            for answer in answers {
                lines.next().unwrap().unwrap();
                out.write_all(answer.as_bytes()).unwrap();
            }
        });
        ours
    }

    #[test]
    fn events_between_command_and_result_are_passed_over() {
        let mut qmp = Qmp::new(fake(&[
            "{\"return\": {}}\n",
            "{\"event\": \"STOP\"}\n{\"event\": \"GUEST_PANICKED\"}\n{\"return\": {\"running\": false}}\n",
        ]))
        .unwrap();
        let status = qmp.execute("query-status", json!({})).unwrap();
        assert_eq!(status, json!({ "running": false }));
        assert!(matches!(
            qmp.execute("quit", json!({})),
            Err(QmpError::Closed)
        ));
    }

    #[test]
    fn a_refusal_carries_qemus_words() {
        let answers = &[
            "{\"return\": {}}\n",
            "{\"error\": {\"class\": \"X\", \"desc\": \"no such file\"}}\n",
        ];
        let mut qmp = Qmp::new(fake(answers)).unwrap();
        let error = qmp.execute("migrate", json!({})).unwrap_err();
        assert_eq!(error.to_string(), "QEMU refused migrate: no such file");
    }

    #[test]
    fn what_is_not_qmp_is_an_error() {
        let error = Qmp::new(fake(&["nonsense\n"])).unwrap_err();
        assert_eq!(error.to_string(), "unexpected answer from QEMU: nonsense");
    }
}
