//! A CPU for tests: registers and a little memory.

use std::collections::HashMap;

use linemate_recording::Register;

use crate::watch::Cpu;

/// What a test sets is what a watched instruction sees.
#[derive(Clone, Default)]
pub(crate) struct FakeCpu {
    pub(crate) arguments: [u64; 6],
    pub(crate) tables: u64,
    pub(crate) stack: u64,
    pub(crate) result: u64,
    /// By address, a multiple of 8.
    pub(crate) memory: HashMap<u64, [u8; 8]>,
}

impl FakeCpu {
    /// Writes memory. Bytes that share a word with it and were not written are 0.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            self.memory.entry(at & !7).or_default()[(at & 7) as usize] = *byte;
        }
    }
}

impl Cpu for FakeCpu {
    fn argument(&self, register: Register) -> u64 {
        self.arguments[register as usize]
    }
    fn stack(&self) -> u64 {
        self.stack
    }
    fn result(&self) -> u64 {
        self.result
    }
    fn word(&self, address: u64) -> Option<u64> {
        assert_eq!(address % 8, 0, "{address:#x}");
        let word = self.memory.get(&address)?;
        Some(u64::from_le_bytes(*word))
    }
    fn page_tables(&self) -> u64 {
        self.tables
    }
}
