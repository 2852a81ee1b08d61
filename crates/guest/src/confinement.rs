//! How QEMU is confined. The guest runs whatever it is given: a bug in QEMU's devices would give a
//! hostile guest QEMU's own privileges, so QEMU gets few (docs/internals/security.md).
//!
//! * Root starts QEMU as an unused user id, without capabilities; the files it needs are in the
//!   run's folder, which is its current folder, or are passed to it open.
//! * QEMU's own system call filter is on: no new processes, no change of user, no obsolete calls.
//!
//! What does not work here (containers, a QEMU without the filter) is found by trying, and left
//! out.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Of util-linux: it sets what a process has to set for itself before it becomes QEMU.
const SETPRIV: &str = "/usr/bin/setpriv";

/// QEMU's filter of system calls.
const FILTER: [&str; 2] = [
    "-sandbox",
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
];

/// Ids that systems reserve for services without an entry in the user database (systemd's
/// DynamicUser), so that two guests at a time do not share one, as they would as `nobody`.
const USERS: std::ops::Range<u32> = 61184..65520;

/// The capabilities that root needs to watch a process of another user, by number: chown,
/// dac_override, fowner, kill, setgid, setuid, setpcap, sys_ptrace.
const NEEDED: [u32; 8] = [0, 1, 3, 5, 6, 7, 8, 19];

/// How QEMU is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Through `setpriv`: QEMU dies with its parent and gains no privileges by executing.
    tied: bool,
    /// Whether it runs without capabilities.
    bare: bool,
    /// The user and group that it runs as, if not the caller's.
    user: Option<u32>,
    /// With its filter of system calls.
    filter: bool,
}

impl Confinement {
    /// The strictest confinement that works here with this QEMU.
    pub(crate) fn find(program: &str) -> Self {
        if !Path::new(SETPRIV).is_file() {
            return Self::first_that_works(program, vec![Self::default()]);
        }
        let tied = Confinement {
            tied: true,
            ..Self::default()
        };
        // The strictest first: each is tried, because there is no other way to learn what a
        // container allows.
        let mut ways = vec![tied.clone()];
        if rustix::process::geteuid().is_root() {
            let bare = Confinement { bare: true, ..tied };
            ways.insert(0, bare.clone());
            if has_capabilities(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
                // By the process's number, so that concurrent runs differ; two equal ones only lose
                // their separation.
                let user = USERS.start + std::process::id() % (USERS.end - USERS.start);
                let user = Some(user);
                ways.insert(0, Confinement { user, ..bare });
            }
        }
        Self::first_that_works(program, ways)
    }

    fn first_that_works(program: &str, ways: Vec<Self>) -> Self {
        // The filter matters less than the user, so it is given up first.
        let both = |way: Self| {
            [
                Confinement {
                    filter: true,
                    ..way.clone()
                },
                way,
            ]
        };
        ways.into_iter()
            .flat_map(both)
            .find(|way| way.works(program).unwrap_or(false))
            .unwrap_or_default()
    }

    /// Starts a QEMU without a machine and ends it.
    fn works(&self, program: &str) -> io::Result<bool> {
        let mut child = self
            .command(program)
            .args(["-M", "none", "-nodefaults", "-display", "none"])
            .args(["-monitor", "stdio"])
            .args(self.arguments())
            // A folder that every user may enter.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that has already ended reports that by its status.
            let _ = stdin.write_all(b"quit\n");
        }
        Ok(child.wait()?.success())
    }

    /// The command that becomes QEMU.
    pub(crate) fn command(&self, program: &str) -> Command {
        if !self.tied {
            return Command::new(program);
        }
        let mut command = Command::new(SETPRIV);
        // The signal comes when the starting thread ends, for whatever reason: QEMU does not
        // outlive a killed run.
        command.args(["--pdeathsig", "KILL", "--no-new-privs"]);
        if self.bare {
            command.args(["--inh-caps=-all", "--bounding-set=-all"]);
        }
        if let Some(user) = self.user {
            let user = user.to_string();
            // The caller's groups as well: root's could read what the user cannot.
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        command.args(["--", program]);
        command
    }

    pub(crate) fn arguments(&self) -> &'static [&'static str] {
        if self.filter { &FILTER } else { &[] }
    }

    /// The user and group that QEMU runs as, if not the caller's.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Whether QEMU may be unable to read what this process can.
    pub(crate) fn has_fewer_rights(&self) -> bool {
        self.bare
    }

    /// In words, for `doctor`.
    #[must_use]
    pub fn describe(&self) -> String {
        let user = match (self.user, self.bare) {
            (Some(user), _) => format!("as user {user}, without capabilities"),
            (None, true) => "as root, without capabilities".to_owned(),
            (None, false) => "as this user".to_owned(),
        };
        let filter = match self.filter {
            true => "system calls filtered",
            false => "system calls not filtered",
        };
        format!("QEMU runs {user}; {filter}")
    }
}

/// Whether the text of `/proc/self/status` has all of [`NEEDED`].
fn has_capabilities(status: &str) -> bool {
    let set = status.lines().find_map(|line| {
        let digits = line.strip_prefix("CapEff:")?;
        u64::from_str_radix(digits.trim(), 16).ok()
    });
    set.is_some_and(|set| NEEDED.iter().all(|number| set >> number & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(confinement: &Confinement) -> Vec<String> {
        let command = confinement.command("qemu");
        let program = command.get_program().to_string_lossy().into_owned();
        let words = command.get_args().map(|w| w.to_string_lossy().into_owned());
        std::iter::once(program).chain(words).collect()
    }

    #[test]
    fn root_gives_up_all_that_it_can() {
        let all = Confinement {
            tied: true,
            bare: true,
            user: Some(61184),
            filter: true,
        };
        let expected = "/usr/bin/setpriv --pdeathsig KILL --no-new-privs --inh-caps=-all --bounding-set=-all \
            --reuid 61184 --regid 61184 --clear-groups -- qemu";
        assert_eq!(words(&all).join(" "), expected);
        assert_eq!(all.arguments()[0], "-sandbox");
        assert_eq!(words(&Confinement::default()), ["qemu"]);
        assert!(Confinement::default().arguments().is_empty());
    }

    #[test]
    fn what_fails_is_left_out() {
        // Exits with success, whatever its arguments.
        let best = Confinement::find("true");
        assert!(best.filter);
        let root = rustix::process::geteuid().is_root();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let user = root && best.tied && has_capabilities(&status);
        assert_eq!(
            best.user.is_some_and(|number| USERS.contains(&number)),
            user
        );
        // Nothing works with this one: it is started plainly, and reports its own error.
        assert_eq!(Confinement::find("false"), Confinement::default());
    }

    #[test]
    fn capabilities_are_read_from_the_status() {
        assert!(has_capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n"));
        // Docker's default set has no sys_ptrace.
        assert!(!has_capabilities("CapEff:\t00000000a80425fb\n"));
        assert!(!has_capabilities(""));
    }
}
