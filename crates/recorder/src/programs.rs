//! What is recorded about programs beyond their accesses: which code runs, in which address space,
//! and where pages are mapped.
//!
//! Only in deterministic mode: it depends on the order of all CPUs' events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use linemate_recording::{MAX_CODE_PAGES, MappedPage, Mark, PAGE, ProgramFiles, code_page_digest};

use crate::address::page_tables_in;
use crate::tap::Tap;

/// Pages of code, numbered by contents.
#[derive(Debug)]
struct CodePages {
    numbers: HashMap<u64, u64>,
    next: u64,
}

/// What has been recorded.
#[derive(Debug)]
pub(crate) struct ProgramPages {
    code: Mutex<CodePages>,
    /// The root of each CPU's page tables.
    roots: Box<[AtomicU64]>,
    /// For each frame, one more than where it was last mapped.
    mapped: Box<[AtomicU64]>,
}

impl ProgramPages {
    /// Nothing recorded yet, for a guest with `cpus` CPUs and `memory` bytes. Memory has a hole
    /// below 4 GiB, so there are frames above its size.
    pub(crate) fn new(files: &ProgramFiles, cpus: usize, memory: u64) -> Self {
        let numbers = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let mut code = HashMap::new();
        for (digest, number) in files.pages() {
            code.entry(digest).or_insert(number);
        }
        let frames = (memory / PAGE + (1 << 20)) as usize;
        Self {
            code: Mutex::new(CodePages {
                numbers: code,
                next: files.unlisted(),
            }),
            roots: numbers(cpus),
            mapped: numbers(frames),
        }
    }

    /// The code address of offset `within` in a page of code with the contents `page`.
    pub(crate) fn code_address(&self, page: &[u8], within: u64) -> u64 {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let next = code.next;
        let number = *code
            .numbers
            .entry(code_page_digest(page))
            // Page 0 represents all code beyond the limit, which a recording cannot number.
            .or_insert(if next < MAX_CODE_PAGES { next } else { 0 });
        if number == next {
            code.next += 1;
        }
        number * PAGE + within
    }

    /// A CPU that runs kernel code, `back` instructions before the end of its block, has this
    /// `cr3`. (Programs' code can have page tables of its own; the kernel's identify the space.)
    pub(crate) fn runs(&self, tap: &Tap, back: u32, cpu: u16, cr3: u64) {
        let root = page_tables_in(cr3);
        let Some(last) = self.roots.get(usize::from(cpu)) else {
            return;
        };
        // Page tables that are reused for another process cannot be distinguished: the space keeps
        // its number.
        if last.swap(root, Ordering::Relaxed) != root {
            tap.mark(back, Mark::Space, root);
        }
    }

    /// An access through a user mapping: `vaddr` maps to `physical`.
    pub(crate) fn note_mapping(&self, tap: &Tap, back: u32, vaddr: u64, physical: u64) {
        let page = MappedPage {
            frame: physical / PAGE,
            page: vaddr / PAGE,
        };
        let Some(last) = self.mapped.get(page.frame as usize) else {
            return;
        };
        // Nearly always: one load and a comparison for each access to user memory. Plus one, so
        // that zero means none.
        if last.load(Ordering::Relaxed) == page.page + 1 {
            return;
        }
        last.store(page.page + 1, Ordering::Relaxed);
        if let Some(value) = page.value() {
            tap.mark(back, Mark::Page, value);
        }
    }

    /// Forgets what was reported before recording began, which nobody received.
    pub(crate) fn begin(&self) {
        for told in self.roots.iter().chain(&self.mapped) {
            told.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linemate_recording::{CodeRange, GuestAddr, ProgramFile};

    fn programs() -> (ProgramFiles, ProgramPages) {
        let page = [7; PAGE as usize];
        let file = ProgramFile {
            path: "/bin/a".into(),
            debug_of: None,
            length: 8192,
            code: vec![CodeRange {
                offset: 4096,
                digests: vec![code_page_digest(&page), code_page_digest(&page)],
            }],
        };
        let files = ProgramFiles::new(vec![file]).unwrap();
        let programs = ProgramPages::new(&files, 2, 1 << 20);
        (files, programs)
    }

    #[test]
    fn code_is_known_by_its_contents() {
        let (files, programs) = programs();
        let listed = programs.code_address(&[7; PAGE as usize], 5);
        assert_eq!(files.place(GuestAddr(listed)), Some((0, 4101)));
        let other = programs.code_address(&[8; PAGE as usize], 5);
        assert_eq!(other, files.unlisted() * PAGE + 5);
        assert_eq!(files.place(GuestAddr(other)), None);
        let third = programs.code_address(&[9; PAGE as usize], 0);
        assert_eq!(third, (files.unlisted() + 1) * PAGE);
        assert_eq!(programs.code_address(&[8; PAGE as usize], 5), other);
    }

    fn words(tap: &'static Tap) -> usize {
        tap.stop();
        let mut drain = tap.records().drain();
        let mut words = 0;
        while drain.wait() {
            while drain.has_next() {
                drain.next();
                words += 1;
            }
        }
        words
    }

    #[test]
    fn only_what_changes_is_reported() {
        let (_, programs) = programs();
        let tap: &'static Tap = Box::leak(Box::new(Tap::new()));
        tap.start(0, 0);
        let at_start = 4;
        programs.runs(tap, 0, 0, 0x1000_0000);
        // The same, with its number.
        programs.runs(tap, 0, 0, 0x1000_0005);
        programs.runs(tap, 0, 1, 0x1000_0000);
        programs.note_mapping(tap, 0, 0x5000_0000, 0x3000);
        programs.note_mapping(tap, 0, 0x5000_0ff8, 0x3ff8);
        programs.note_mapping(tap, 0, 0x6000_0000, 0x3000);
        assert_eq!(words(tap), at_start + 4 * 2);
    }
}
