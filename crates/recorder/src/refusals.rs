//! Failed system calls of programs: missing files, peers that do not answer.
//!
//! They are recognised by the processor's and the system calls' interface
//! (arch/x86/entry/syscalls/syscall_64.tbl), which no kernel changes: at the instruction `syscall`
//! the registers show the request, and at its return address the result. Nothing of this goes into
//! the recording.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::sync::{Mutex, PoisonError};

use linemate_recording::Register;

use crate::watch::Cpu;

/// The encoding of `syscall` (Intel SDM, SYSCALL).
pub(crate) const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// The maximum number stored: the latest, each once.
const KEPT: usize = 16;
/// Calls that wait for their result; one that never returns (`execve`) must not stay forever.
const WAITING_MAX: usize = 256;
/// The longest name that is read.
const NAME_MAX: usize = 1024;
/// Bytes of an address of a peer: the longest is that of a local socket (`struct sockaddr_un`).
const ADDRESS_MAX: u64 = 110;

/// The call that replaces the calling program. If it succeeds, it does not return.
const EXECVE: &str = "execve";

const ENOENT: i32 = 2;
/// No network, no host, nobody there, no such address: include/uapi/asm-generic/errno.h.
const NO_PEER: [i32; 7] = [ENOENT, 97, 99, 101, 111, 112, 113];
/// No such address family, no such protocol.
const NO_PROTOCOL: [i32; 2] = [93, 97];

/// The subject of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The file whose name is at this address.
    File(u64),
    /// The peer whose address is at this address, of that many bytes.
    Peer(u64, u64),
    /// Addresses of this family.
    Family(u64),
}

/// A call that has not returned.
#[derive(Clone, Debug)]
struct Waiting {
    /// The page tables and the stack pointer: no two threads share both.
    thread: (u64, u64),
    call: &'static str,
    subject: Subject,
    /// For a program that is to replace the caller: if it exists, nothing is left to read its name
    /// from.
    program: Option<Vec<u8>>,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RefusedCall {
    call: &'static str,
    error: i32,
    what: Vec<u8>,
}

#[derive(Debug, Default)]
struct RefusalState {
    /// The page tables of the process that started the recording, which is not one of the user's
    /// programs.
    starter: Option<u64>,
    waiting: VecDeque<Waiting>,
    /// The failed calls, the latest last.
    refusals: VecDeque<RefusedCall>,
}

/// The latest failed calls.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<RefusalState>);

impl Refusals {
    fn change<T>(&self, change: impl FnOnce(&mut RefusalState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Recording starts, at an instruction of the running process.
    pub(crate) fn begin(&self, cpu: &impl Cpu) {
        let starter = cpu.page_tables();
        self.change(|state| {
            *state = RefusalState {
                starter: Some(starter),
                ..RefusalState::default()
            };
        });
    }

    /// A program is about to make a system call.
    pub(crate) fn on_syscall(&self, cpu: &impl Cpu) {
        let Some((call, subject)) = about(cpu) else {
            return;
        };
        let thread = thread(cpu);
        let program = match subject {
            Subject::File(name) if call == EXECVE => text(cpu, name),
            _ => None,
        };
        self.change(|state| {
            if state.starter == Some(thread.0) {
                return;
            }
            let same = state.waiting.iter().position(|w| w.thread == thread);
            // The thread makes another call, so its last one has not returned: a successful
            // `execve` does not.
            if let Some(at) = same.or((state.waiting.len() == WAITING_MAX).then_some(0)) {
                state.unanswered(at);
            }
            state.waiting.push_back(Waiting {
                thread,
                call,
                subject,
                program,
            });
        });
    }

    /// A program is at the return address of a system call.
    pub(crate) fn answered(&self, cpu: &impl Cpu) {
        self.change(|state| {
            if state.waiting.is_empty() {
                return;
            }
            let thread = thread(cpu);
            let at = state.waiting.iter().position(|w| w.thread == thread);
            if let Some(waiting) = at.and_then(|at| state.waiting.remove(at)) {
                state.record_result(cpu, waiting);
            }
        });
    }

    /// One line for each, the latest first: the call, the error's number and its subject, in
    /// hexadecimal digits.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |refusal: &RefusedCall| {
            let mut what = String::new();
            for byte in &refusal.what {
                let _ = write!(what, "{byte:02x}");
            }
            format!("{} {} {what}", refusal.call, refusal.error)
        };
        self.change(|state| {
            while !state.waiting.is_empty() {
                state.unanswered(0);
            }
            state.refusals.iter().rev().map(line).collect()
        })
    }
}

impl RefusalState {
    fn record_result(&mut self, cpu: &impl Cpu, Waiting { call, subject, .. }: Waiting) {
        // -4095 to -1 are errors.
        let result = cpu.result() as i64;
        let error = (-4095..0).contains(&result).then_some(-result as i32);
        let what = match (subject, error) {
            (Subject::File(name), Some(ENOENT)) => text(cpu, name),
            // Only while something is missing: reading the name of each opened file would slow down
            // every call.
            (Subject::File(name), None) if !self.refusals.is_empty() => {
                let name = text(cpu, name).unwrap_or_default();
                return self.found(&name);
            }
            (Subject::Peer(at, length), Some(error)) if NO_PEER.contains(&error) => {
                peer(cpu, at, length)
            }
            (Subject::Family(family), Some(error)) if NO_PROTOCOL.contains(&error) => {
                Some(format!("family {family}").into_bytes())
            }
            _ => None,
        };
        let (Some(what), Some(error)) = (what.filter(|what| !what.is_empty()), error) else {
            return;
        };
        let refusal = RefusedCall { call, error, what };
        // The latest of each: a program that polls for one file must not push out all others.
        self.refusals.retain(|known| known.what != refusal.what);
        if self.refusals.len() == KEPT {
            self.refusals.pop_front();
        }
        self.refusals.push_back(refusal);
    }

    /// A call will not return any more: a program was found, and runs.
    fn unanswered(&mut self, at: usize) {
        if let Some(name) = self.waiting.remove(at).and_then(|w| w.program) {
            self.found(&name);
        }
    }

    /// A file exists: if it was searched for in other folders before, as along a search path, it
    /// has been found.
    fn found(&mut self, name: &[u8]) {
        let last = last_part(name);
        self.refusals
            .retain(|refusal| last.is_empty() || last_part(&refusal.what) != last);
    }
}

fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or(name)
}

fn thread(cpu: &impl Cpu) -> (u64, u64) {
    (cpu.page_tables(), cpu.stack())
}

/// The subject of the call, if it is one that is reported.
fn about(cpu: &impl Cpu) -> Option<(&'static str, Subject)> {
    let [first, second, third, fifth] =
        [Register::Rdi, Register::Rsi, Register::Rdx, Register::R8].map(|r| cpu.argument(r));
    let peer = |call, at, length| (at != 0).then_some((call, Subject::Peer(at, length)));
    let (call, name) = match cpu.result() {
        2 => ("open", first),
        257 | 437 => ("open", second),
        4 | 6 => ("stat", first),
        262 | 332 => ("stat", second),
        21 => ("access", first),
        269 | 439 => ("access", second),
        59 => (EXECVE, first),
        322 => (EXECVE, second),
        80 => ("chdir", first),
        42 => return peer("connect", second, third),
        44 => return peer("sendto", fifth, cpu.argument(Register::R9)),
        41 => return Some(("socket", Subject::Family(first))),
        _ => return None,
    };
    Some((call, Subject::File(name)))
}

/// The mapped bytes from an address on, at most this many. Words are read aligned, so each is in
/// one page.
fn bytes<'c>(cpu: &'c impl Cpu, address: u64, most: usize) -> impl Iterator<Item = u8> + 'c {
    let words = (0..).map_while(move |i| {
        let at = (address & !7).checked_add(8 * i)?;
        cpu.word(at).map(u64::to_le_bytes)
    });
    words.flatten().skip((address & 7) as usize).take(most)
}

/// A text with a terminating zero, or its beginning.
fn text(cpu: &impl Cpu, address: u64) -> Option<Vec<u8>> {
    let text: Vec<u8> = bytes(cpu, address, NAME_MAX)
        .take_while(|byte| *byte != 0)
        .collect();
    (!text.is_empty()).then_some(text)
}

/// A peer's address in words: include/uapi/linux/in.h, in6.h, un.h.
fn peer(cpu: &impl Cpu, address: u64, length: u64) -> Option<Vec<u8>> {
    let address: Vec<u8> = bytes(cpu, address, length.min(ADDRESS_MAX) as usize).collect();
    let (family, rest) = address.split_first_chunk::<2>()?;
    let port = || {
        rest.first_chunk::<2>()
            .map(|port| u16::from_be_bytes(*port))
    };
    let text = match u16::from_le_bytes(*family) {
        1 => {
            let name = match rest.split_first()? {
                // A name in no folder.
                (0, abstract_name) => [b"@", abstract_name].concat(),
                _ => rest.to_vec(),
            };
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            return name.get(..end).map(<[u8]>::to_vec);
        }
        2 => {
            let ip: [u8; 4] = rest.get(2..6)?.try_into().ok()?;
            SocketAddrV4::new(Ipv4Addr::from(ip), port()?).to_string()
        }
        10 => {
            let ip: [u8; 16] = rest.get(6..22)?.try_into().ok()?;
            SocketAddrV6::new(Ipv6Addr::from(ip), port()?, 0, 0).to_string()
        }
        family => format!("family {family}"),
    };
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_cpu::FakeCpu;

    impl FakeCpu {
        /// Makes a call and returns its result.
        fn call(&mut self, refusals: &Refusals, number: u64, arguments: &[u64], result: i64) {
            self.result = number;
            self.arguments[..arguments.len()].copy_from_slice(arguments);
            refusals.on_syscall(self);
            self.result = result as u64;
            refusals.answered(self);
        }

        fn open(&mut self, refusals: &Refusals, name: &str, result: i64) {
            self.put(0x5003, format!("{name}\0").as_bytes());
            self.call(refusals, 257, &[-100i64 as u64, 0x5003], result);
        }
    }

    fn told(refusals: &Refusals) -> Vec<String> {
        let lines = refusals.lines();
        let decode = |line: &String| {
            let (head, hex) = line.rsplit_once(' ').unwrap();
            let bytes = hex
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
            format!("{head} {}", String::from_utf8(bytes.collect()).unwrap())
        };
        lines.iter().map(decode).collect()
    }

    #[test]
    fn files_that_are_not_there_are_reported_the_latest_first_and_once() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        cpu.open(&refusals, "/etc/a.conf", -2);
        cpu.open(&refusals, "/etc/b.conf", -2);
        cpu.open(&refusals, "/etc/denied", -13);
        cpu.open(&refusals, "/etc/there", 3);
        cpu.open(&refusals, "/etc/a.conf", -2);
        assert_eq!(
            told(&refusals),
            ["open 2 /etc/a.conf", "open 2 /etc/b.conf"]
        );
    }

    #[test]
    fn what_a_search_path_finds_is_not_missing() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        cpu.open(&refusals, "/lib/x/libm.so", -2);
        cpu.open(&refusals, "/lib/other", -2);
        cpu.open(&refusals, "/usr/lib/libm.so", 4);
        assert_eq!(told(&refusals), ["open 2 /lib/other"]);
    }

    #[test]
    fn a_program_that_is_found_leaves_no_search_behind() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        cpu.put(0x5000, b"/sbin/prog\0");
        cpu.put(0x6000, b"/bin/prog\0");
        cpu.put(0x7000, b"/bin/other\0");
        for _ in 0..2 {
            cpu.call(&refusals, 59, &[0x5000], -2);
            (cpu.result, cpu.arguments[0]) = (59, 0x6000);
            refusals.on_syscall(&cpu);
        }
        // The thread continues as another program.
        cpu.call(&refusals, 59, &[0x7000], -2);
        assert_eq!(told(&refusals), ["execve 2 /bin/other"]);
        assert_eq!(refusals.change(|state| state.waiting.len()), 0);
    }

    #[test]
    fn answers_go_to_who_asked_and_the_starter_asks_nothing() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        cpu.put(0x5000, b"first\0");
        cpu.put(0x6000, b"second\0");
        let mut other = FakeCpu {
            stack: 64,
            ..cpu.clone()
        };
        (cpu.result, cpu.arguments[0]) = (2, 0x5000);
        refusals.on_syscall(&cpu);
        (other.result, other.arguments[0]) = (21, 0x6000);
        refusals.on_syscall(&other);
        (other.result, cpu.result) = (0, -2i64 as u64);
        refusals.answered(&other);
        refusals.answered(&cpu);
        // No later call was made.
        refusals.answered(&cpu);
        assert_eq!(told(&refusals), ["open 2 first"]);
        let starter = Refusals::default();
        starter.begin(&cpu);
        cpu.call(&starter, 2, &[0x5000], -2);
        assert!(told(&starter).is_empty());
    }

    #[test]
    fn peers_have_their_addresses() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        cpu.put(0x100, &[2, 0, 0x1f, 0x90, 127, 0, 0, 1]);
        cpu.call(&refusals, 42, &[3, 0x100, 16], -111);
        cpu.put(0x200, &[10, 0, 0, 80, 0, 0, 0, 0]);
        cpu.put(0x208, &[[0; 15].as_slice(), &[1]].concat());
        cpu.call(&refusals, 42, &[3, 0x200, 28], -101);
        cpu.put(0x300, b"\x01\0/run/x.sock\0");
        cpu.call(&refusals, 42, &[3, 0x300, 110], -2);
        cpu.put(0x400, b"\x01\0\0name");
        cpu.call(&refusals, 44, &[3, 0, 0, 0, 0x400, 7], -111);
        cpu.call(&refusals, 41, &[16, 3, 0], -97);
        // In progress, and no address at all.
        cpu.call(&refusals, 42, &[3, 0x100, 16], -115);
        cpu.call(&refusals, 42, &[3, 0x9000, 16], -111);
        cpu.call(&refusals, 42, &[3, 0x100, 1], -111);
        assert_eq!(
            told(&refusals),
            [
                "socket 97 family 16",
                "sendto 111 @name",
                "connect 2 /run/x.sock",
                "connect 101 [::1]:80",
                "connect 111 127.0.0.1:8080",
            ]
        );
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (refusals, mut cpu) = (Refusals::default(), FakeCpu::default());
        for i in 0..1000 {
            cpu.stack = i;
            (cpu.result, cpu.arguments[0]) = (2, 0x5003);
            refusals.on_syscall(&cpu);
        }
        assert_eq!(refusals.change(|state| state.waiting.len()), WAITING_MAX);
        for i in 0..100 {
            cpu.open(&refusals, &format!("/{i}"), -2);
        }
        cpu.open(&refusals, &"x".repeat(5000), -2);
        let told = told(&refusals);
        assert_eq!(told.len(), KEPT);
        assert_eq!(told[0].len(), "open 2 ".len() + NAME_MAX);
        assert_eq!(told[1], "open 2 /99");
    }
}
