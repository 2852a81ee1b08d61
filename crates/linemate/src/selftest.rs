//! Compares what the recorder saw of the self-test program with what that program says it did.
//!
//! The program (`selftest/selftest.c`) prints its tests' code addresses and accesses; the recording
//! has every access with the address of its instruction. Nothing here runs a guest.

use std::collections::BTreeMap;
use std::fmt;

use linemate_recording::{Access, AccessKind, GuestAddr, PAGE};
use thiserror::Error;

/// The self-test program: a static executable for x86-64 Linux.
pub(crate) const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/selftest"));

/// Where the kernel maps all physical memory: accesses through user mappings are recorded there.
// The guest has `nokaslr` and four levels of page tables (`la57=off`), so it does not move.
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

/// An access of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    kind: AccessKind,
    size: u8,
    /// From the start of the arena. An access elsewhere has `None`.
    offset: Option<u64>,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Rmw => "rmw",
        };
        match self.offset {
            Some(offset) => write!(f, "{kind} {} {offset}", self.size),
            None => write!(f, "{kind} {} elsewhere", self.size),
        }
    }
}

/// A piece of code and its accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    end: u64,
    name: String,
    expected: Vec<Expected>,
    seen: Vec<Expected>,
}

/// The program's output, and what was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelfTest {
    /// By the address of their first instruction.
    tests: BTreeMap<u64, Test>,
    /// The arena's page for each direct-map page.
    pages: BTreeMap<u64, u64>,
}

/// The program's output has an unexpected form.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unexpected line from the self-test: {0:?}")]
pub(crate) struct NotUnderstood(String);

/// A test whose accesses were not all seen correctly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) test: String,
    /// What an x86 programmer expects.
    pub(crate) expected: String,
    pub(crate) seen: String,
}

impl SelfTest {
    /// Reads the program's output.
    ///
    /// # Errors
    /// The first unexpected line; or no tests at all.
    pub(crate) fn parse(output: &str) -> Result<Self, NotUnderstood> {
        let mut all = Self::default();
        for line in output.lines() {
            all.line(line)
                .ok_or_else(|| NotUnderstood(line.to_owned()))?;
        }
        if all.tests.is_empty() || all.pages.is_empty() {
            return Err(NotUnderstood(output.to_owned()));
        }
        Ok(all)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "page" => {
                let (index, frame) = rest.split_once(' ')?;
                let address = hex(frame)?.checked_mul(PAGE)?.checked_add(DIRECT_MAP)?;
                self.pages.insert(address, hex(index)?.checked_mul(PAGE)?);
            }
            "test" => {
                let mut words = rest.splitn(3, ' ');
                let (start, end) = (hex(words.next()?)?, hex(words.next()?)?);
                let (name, accesses) = words.next()?.split_once(':')?;
                let expected = accesses
                    .split(',')
                    .map(str::trim)
                    .filter(|access| !access.is_empty())
                    .map(expected)
                    .collect::<Option<Vec<_>>>()?;
                let test = Test {
                    end,
                    name: name.to_owned(),
                    expected,
                    seen: Vec::new(),
                };
                self.tests.insert(start, test);
            }
            _ => return None,
        }
        Some(())
    }

    /// Handles an access of the recording; those of other code are skipped.
    pub(crate) fn see(&mut self, access: &Access) {
        let Some((_, test)) = self.tests.range_mut(..=access.pc.0).next_back() else {
            return;
        };
        if access.pc.0 >= test.end {
            return;
        }
        let GuestAddr(addr) = access.addr;
        let page = self
            .pages
            .get(&(addr & !(PAGE - 1)))
            .filter(|_| access.user_mapping);
        test.seen.push(Expected {
            kind: access.kind,
            size: access.size,
            offset: page.map(|offset| offset + addr % PAGE),
        });
    }

    /// How many tests there are.
    pub(crate) fn count(&self) -> usize {
        self.tests.len()
    }

    /// The tests whose accesses differ in number, kind, size, address or order.
    pub(crate) fn mismatches(&self) -> Vec<Mismatch> {
        // If one access of a test has several pieces, a size that is not a power of two is split.
        let differs = |test: &&Test| !same(&test.expected, &test.seen);
        self.tests
            .values()
            .filter(differs)
            .map(|test| Mismatch {
                test: test.name.clone(),
                expected: list(&test.expected),
                seen: list(&test.seen),
            })
            .collect()
    }
}

/// Whether two lists are equal after sizes that are not powers of two (which a page-crossing access
/// can have) are split.
fn same(expected: &[Expected], seen: &[Expected]) -> bool {
    expected.iter().flat_map(split).eq(seen.iter().copied())
}

fn split(access: &Expected) -> Vec<Expected> {
    let mut pieces = Vec::new();
    let mut left = access.size;
    let mut offset = access.offset;
    while let Some(log2) = left.checked_ilog2() {
        let size = 1u8 << log2;
        pieces.push(Expected {
            size,
            offset,
            ..*access
        });
        offset = offset.map(|o| o + u64::from(size));
        left -= size;
    }
    pieces
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

fn expected(access: &str) -> Option<Expected> {
    let mut words = access.split(' ');
    let kind = match words.next()? {
        "load" => AccessKind::Load,
        "store" => AccessKind::Store,
        "rmw" => AccessKind::Rmw,
        _ => return None,
    };
    let (size, offset) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(Expected {
        kind,
        size,
        offset: Some(offset),
    })
}

fn list(accesses: &[Expected]) -> String {
    if accesses.is_empty() {
        return "nothing".to_owned();
    }
    accesses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linemate_recording::{CpuId, VirtualTime};

    const OUTPUT: &str = "page 0 12\npage 1 7\n\
                          test 401000 401004 add: load 4 4, store 4 4\n\
                          test 401004 401008 page: store 3 4093, store 5 4096\n\
                          test 401008 40100c none: \n";

    fn access(pc: u64, kind: AccessKind, size: u8, addr: u64) -> Access {
        Access {
            time: VirtualTime(0),
            cpu: CpuId(0),
            pc: GuestAddr(pc),
            addr: GuestAddr(addr),
            size,
            kind,
            silent: false,
            user_mapping: true,
        }
    }

    const PAGE0: u64 = DIRECT_MAP + 0x12 * PAGE;
    const PAGE1: u64 = DIRECT_MAP + 7 * PAGE;

    fn all_seen() -> Vec<Access> {
        use AccessKind::{Load, Store};
        vec![
            access(0x40_1000, Load, 4, PAGE0 + 4),
            access(0x40_1000, Store, 4, PAGE0 + 4),
            access(0x40_1004, Store, 2, PAGE0 + 4093),
            access(0x40_1004, Store, 1, PAGE0 + 4095),
            access(0x40_1004, Store, 4, PAGE1),
            access(0x40_1004, Store, 1, PAGE1 + 4),
            access(0x40_100c, Store, 8, PAGE1),
            access(0x40_0fff, Store, 8, PAGE1),
        ]
    }

    fn mismatches(accesses: &[Access]) -> Vec<Mismatch> {
        let mut test = SelfTest::parse(OUTPUT).unwrap();
        assert_eq!(test.count(), 3);
        accesses.iter().for_each(|access| test.see(access));
        test.mismatches()
    }

    #[test]
    fn exact_accesses_match() {
        assert_eq!(mismatches(&all_seen()), []);
    }

    #[test]
    fn any_difference_is_reported() {
        type Change = fn(&mut Vec<Access>);
        let changes: [Change; 6] = [
            |all| {
                all.remove(0);
            },
            |all| all[0].size = 8,
            |all| all[0].kind = AccessKind::Rmw,
            |all| all[0].addr.0 += 1,
            |all| all[0].user_mapping = false,
            |all| all.swap(0, 1),
        ];
        for change in changes {
            let mut all = all_seen();
            change(&mut all);
            let found = mismatches(&all);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].test, "add");
            assert_eq!(found[0].expected, "load 4 4, store 4 4");
        }
        let mut all = all_seen();
        all.push(access(0x40_100b, AccessKind::Load, 1, 0x1000));
        assert_eq!(
            mismatches(&all),
            [Mismatch {
                test: "none".into(),
                expected: "nothing".into(),
                seen: "load 1 elsewhere".into()
            }]
        );
    }

    #[test]
    fn other_output_is_refused() {
        for bad in [
            "",
            "hello",
            "page 0",
            "page 0 x",
            "test 1 2 a load 1 0",
            "test 1 2 a: load 1",
        ] {
            assert!(SelfTest::parse(bad).is_err(), "{bad:?}");
        }
    }
}
