//! How much memory a replay takes: what grows with the lines touched, what the machine's caches
//! hold, and the tape.

use crate::accounts::lines::Lines;
use crate::cache::array::{Cache, Llc};
use crate::rounds::placement::{Cloner, Placement};
use crate::rounds::replay::Replay;
use crate::scale::tape::Taper;
use crate::size::of_list;

impl<P: Placement, C: Cloner> Replay<P, C> {
    /// Roughly how many bytes this replay takes: tables whose size depends neither on the
    /// recording's length nor on the caches' are left out. What it shares with other replays is not
    /// counted.
    #[must_use]
    pub fn size_in_memory(&self) -> usize {
        let engine = &self.engine;
        let system = &engine.system;
        let caches = system
            .l1
            .iter()
            .chain(&system.l2)
            .map(Cache::size_in_memory);
        let llc = system.llc.iter().map(Llc::size_in_memory);
        let accounts = of_list(&engine.keys)
            + of_list(&engine.hits)
            + of_list(&engine.sites)
            + of_list(&engine.site_hits);
        let lines = engine.lines.as_ref().map_or(0, Lines::size_in_memory);
        let taper = self.taper.as_ref().map_or(0, Taper::size_in_memory);
        caches.chain(llc).sum::<usize>()
            + system.directory.size_in_memory()
            + system.sharing.size_in_memory()
            + system.held.size_in_memory()
            + accounts
            + lines
            + taper
            + of_list(&self.round)
            + of_list(&self.slices)
    }
}
