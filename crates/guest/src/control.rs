//! The agent's control lines.

use std::fmt;

/// The protocol's number, which the agent sends first.
pub(crate) const PROTOCOL: u32 = 1;

/// Why the guest is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Booted with one CPU: the recorder holds the guest so that the others can be plugged in.
    Processors,
    /// Booted, symbols in memory: the recorder holds the guest so that it can be saved.
    Snapshot,
    /// About to start the command: the guest waits at the barrier.
    Start,
    /// All of the command's processes have ended: the guest waits at the barrier.
    Stop,
}

/// How a process of the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status.
    Exit(u8),
    /// A signal killed it.
    Signal(u8),
}

impl ExitStatus {
    /// Whether it ended by itself, with status 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == ExitStatus::Exit(0)
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Exit(status) => write!(f, "exit status {status}"),
            ExitStatus::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// A line from the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello(u32),
    /// How many CPUs the kernel has room for.
    Possible(u16),
    Symbols {
        address: u64,
        length: u64,
    },
    Pause(Pause),
    Payload(u64),
    Setup,
    SetupEnded(ExitStatus),
    CommandEnded(ExitStatus),
    Error(String),
}

impl Message {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match verb {
            "hello" => Message::Hello(rest.parse().ok()?),
            "possible" => Message::Possible(rest.parse().ok()?),
            "symbols" => {
                let (address, length) = rest.split_once(' ')?;
                let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
                Message::Symbols {
                    address,
                    length: length.parse().ok()?,
                }
            }
            "hold" | "barrier" => Message::Pause(match line {
                "hold processors" => Pause::Processors,
                "hold snapshot" => Pause::Snapshot,
                "barrier start" => Pause::Start,
                "barrier stop" => Pause::Stop,
                _ => return None,
            }),
            "payload" => Message::Payload(rest.parse().ok()?),
            "setup" if rest.is_empty() => Message::Setup,
            "setup" => Message::SetupEnded(status(rest)?),
            "command" => Message::CommandEnded(status(rest)?),
            "error" => Message::Error(rest.to_owned()),
            _ => return None,
        })
    }
}

fn status(text: &str) -> Option<ExitStatus> {
    let (how, number) = text.split_once(' ')?;
    let number = number.parse().ok()?;
    match how {
        "exit" => Some(ExitStatus::Exit(number)),
        "signal" => Some(ExitStatus::Signal(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_agent() {
        let parse = Message::parse;
        assert_eq!(parse("hello 1"), Some(Message::Hello(1)));
        assert_eq!(
            parse("symbols 0x7f00 12"),
            Some(Message::Symbols {
                address: 0x7f00,
                length: 12
            })
        );
        assert_eq!(parse("possible 480"), Some(Message::Possible(480)));
        assert_eq!(
            parse("hold processors"),
            Some(Message::Pause(Pause::Processors))
        );
        assert_eq!(
            parse("hold snapshot"),
            Some(Message::Pause(Pause::Snapshot))
        );
        assert_eq!(parse("barrier start"), Some(Message::Pause(Pause::Start)));
        assert_eq!(parse("payload 5"), Some(Message::Payload(5)));
        assert_eq!(parse("setup"), Some(Message::Setup));
        assert_eq!(
            parse("setup exit 2"),
            Some(Message::SetupEnded(ExitStatus::Exit(2)))
        );
        assert_eq!(
            parse("command signal 9"),
            Some(Message::CommandEnded(ExitStatus::Signal(9)))
        );
        assert_eq!(parse("error a b"), Some(Message::Error("a b".into())));
        for bad in [
            "",
            "hello",
            "possible 65536",
            "symbols 7f00 12",
            "hold",
            "command exit 256",
            "other",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
