//! The predictions that encoder and decoder share.
//!
//! An event costs one byte if it is what the model expects. Both sides maintain the same tables in
//! the same way; the encoder writes where the event differs from the expectation, and the decoder
//! applies the difference.
//!
//! * A **site** is where an event can come from: the load or the store half of an instruction, or
//!   the call or the return of a function. After a site, the model expects the last two sites that
//!   followed it, each with the number of instructions in between.
//! * An **address** is expected to be the site's last one, or to be as far from the CPU's previous
//!   access to the same region as last time: fields of one object, slots of one stack frame.
//! * A **region** is a hash of an address's top bits: direct map, vmalloc area with the stacks,
//!   kernel image. The model does not need to know which is which, and a collision only costs
//!   bytes.

use linemate_units::GuestAddr;

// This and the next two are part of the format: other sizes are another format.
pub(crate) const REGIONS: usize = 16;
/// Size of the dictionary of recent values.
pub(crate) const RECENT: usize = 256;
/// Size of the table of callers.
const CALLERS: usize = 4096;
/// "No event on this CPU yet."
pub(crate) const NO_SITE: Site = Site(u32::MAX);

/// Where an event comes from: bit 0 = a function, bit 1 = a store or return, above them the
/// instruction's or function's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site(pub(crate) u32);

impl Site {
    /// An instruction's loads, or its stores and RMWs.
    #[inline]
    pub(crate) fn access(instruction: u32, writes: bool) -> Self {
        Self(instruction << 2 | u32::from(writes) << 1)
    }

    /// A function's call or return.
    pub(crate) fn function(function: u32, returns: bool) -> Self {
        Self(function << 2 | u32::from(returns) << 1 | 1)
    }

    pub(crate) fn is_function(self) -> bool {
        self.0 & 1 != 0
    }

    /// Index into the table of its kind.
    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 >> 1) as usize
    }
}

/// The expectation after a site: the last two successors, latest first, and the instructions up to
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Successors {
    pub(crate) sites: [Site; 2],
    pub(crate) gaps: [u8; 2],
}

impl Successors {
    pub(crate) const NONE: Self = Self {
        sites: [NO_SITE; 2],
        gaps: [0; 2],
    };
}

/// The model's state of an access site.
#[derive(Clone, Copy, Debug)]
// Half a cache line, which a test enforces: hence 32 bits for the distance and 8 for gaps.
pub(crate) struct AccessSlot {
    pub(crate) last: u64,
    /// Its distance from the CPU's previous access to the region, if 32 bits can hold it.
    pub(crate) distance: i32,
    pub(crate) next: Successors,
    /// Size, kind, mapping ([`pack_info`]) and whether the last was [`SILENT`].
    pub(crate) info: u8,
    /// The distance was right more recently than the last address.
    pub(crate) prefer_distance: bool,
    /// The chunk that last used this slot; in another one it counts as new.
    pub(crate) epoch: u32,
}

/// Bit of [`AccessSlot::info`] above those of [`pack_info`].
pub(crate) const SILENT: u8 = 1 << 6;

impl AccessSlot {
    fn new(epoch: u32) -> Self {
        Self {
            last: 0,
            distance: 0,
            next: Successors::NONE,
            info: 0,
            prefer_distance: false,
            epoch,
        }
    }
}

/// The model's state of a call or return site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionSlot {
    pub(crate) values: [u64; crate::MAX_PARAMETERS],
    pub(crate) caller: u64,
    /// Distance of the stack pointer from the CPU's last accessed address.
    pub(crate) stack_distance: u64,
    pub(crate) next: Successors,
    /// How the last call's values were coded.
    pub(crate) codes: u16,
    pub(crate) epoch: u32,
}

impl FunctionSlot {
    fn new(epoch: u32) -> Self {
        Self {
            values: [0; crate::MAX_PARAMETERS],
            caller: 0,
            stack_distance: 0,
            next: Successors::NONE,
            codes: 0,
            epoch,
        }
    }
}

/// The state of a CPU that is not running.
#[derive(Clone, Copy, Debug)]
struct Parked {
    site: Site,
    last_addr: u64,
    regions: [u64; REGIONS],
}

impl Parked {
    const NEW: Self = Self {
        site: NO_SITE,
        last_addr: 0,
        regions: [0; REGIONS],
    };
}

/// The tables, and the state of the running CPU.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) cpu: Option<u16>,
    pub(crate) time: u64,
    /// The site of the CPU's last event.
    pub(crate) site: Site,
    /// The site of the lane's last access: explicit sites are relative to it.
    pub(crate) access_site: Site,
    /// The current expectation: the successors of `site`.
    pub(crate) expected: Successors,
    /// The CPU's last accessed address.
    pub(crate) last_addr: u64,
    /// The CPU's last address in each region.
    pub(crate) regions: [u64; REGIONS],
    accesses: Vec<AccessSlot>,
    functions: Vec<FunctionSlot>,
    parked: Vec<Parked>,
    recent: Box<[u64; RECENT]>,
    callers: Box<[u64; CALLERS]>,
    epoch: u32,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            cpu: None,
            time: 0,
            site: NO_SITE,
            access_site: Site(0),
            expected: Successors::NONE,
            last_addr: 0,
            regions: [0; REGIONS],
            accesses: Vec::new(),
            functions: Vec::new(),
            parked: Vec::new(),
            recent: Box::new([0; RECENT]),
            callers: Box::new([0; CALLERS]),
            epoch: 0,
        }
    }

    /// Forgets everything at the start of a chunk. Costs nothing per site: slots of an older epoch
    /// count as new.
    pub(crate) fn start_chunk(&mut self) {
        // A slot of the first round would look like one of this chunk.
        if self.epoch == u32::MAX {
            self.accesses.clear();
            self.functions.clear();
            self.epoch = 0;
        }
        // Tables begin with epoch 0, which no chunk has.
        self.epoch += 1;
        self.cpu = None;
        self.time = 0;
        self.site = NO_SITE;
        self.access_site = Site(0);
        self.expected = Successors::NONE;
        self.last_addr = 0;
        self.regions = [0; REGIONS];
        // Small enough to be cleared; only the tables by site are not.
        self.parked.fill(Parked::NEW);
        self.recent.fill(0);
        self.callers.fill(0);
    }

    pub(crate) fn reserve_instructions(&mut self, count: usize) {
        grow(
            &mut self.accesses,
            count.saturating_mul(2),
            AccessSlot::new(0),
        );
    }

    pub(crate) fn reserve_functions(&mut self, count: usize) {
        grow(
            &mut self.functions,
            count.saturating_mul(2),
            FunctionSlot::new(0),
        );
    }

    pub(crate) fn reserve_cpus(&mut self, count: usize) {
        grow(&mut self.parked, count, Parked::NEW);
    }

    /// Saves the running CPU and restores `cpu`.
    #[cold]
    pub(crate) fn switch_to(&mut self, cpu: u16) {
        if let Some(old) = self.cpu {
            self.reserve_cpus(usize::from(old) + 1);
            self.parked[usize::from(old)] = Parked {
                site: self.site,
                last_addr: self.last_addr,
                regions: self.regions,
            };
        }
        self.reserve_cpus(usize::from(cpu) + 1);
        let parked = self.parked[usize::from(cpu)];
        self.cpu = Some(cpu);
        self.site = parked.site;
        self.last_addr = parked.last_addr;
        self.regions = parked.regions;
        // Looked up again: other CPUs that run the same code may have changed them since.
        self.expected = self.successors(parked.site);
    }

    fn successors(&mut self, site: Site) -> Successors {
        if site == NO_SITE {
            Successors::NONE
        } else if site.is_function() {
            self.function_slot(site).next
        } else {
            self.access_slot(site).0.next
        }
    }

    /// The slot of an access site, reset if its last use was in another chunk; and the CPU's
    /// regions.
    #[inline]
    pub(crate) fn access_slot(&mut self, site: Site) -> (&mut AccessSlot, &mut [u64; REGIONS]) {
        let index = site.index();
        let epoch = self.epoch;
        if index >= self.accesses.len() {
            self.reserve_instructions(index / 2 + 1);
        }
        let slot = &mut self.accesses[index];
        if slot.epoch != epoch {
            *slot = AccessSlot::new(epoch);
        }
        (slot, &mut self.regions)
    }

    /// The slot of a call or return site, reset if its last use was in another chunk.
    pub(crate) fn function_slot(&mut self, site: Site) -> &mut FunctionSlot {
        let index = site.index();
        let epoch = self.epoch;
        if index >= self.functions.len() {
            self.reserve_functions(index / 2 + 1);
        }
        let slot = &mut self.functions[index];
        if slot.epoch != epoch {
            *slot = FunctionSlot::new(epoch);
        }
        slot
    }

    /// Notes that `site` followed `gap` instructions after the CPU's last event, where something
    /// else was expected.
    #[cold]
    pub(crate) fn learn_successor(&mut self, site: Site, gap: u64) {
        // Not the slot's own: `expected` is a copy of it, taken when the last event was closed, and
        // nothing in between changes it.
        let mut next = self.expected;
        // The second becomes the first, and the first the second; a third one is forgotten.
        if next.sites[0] != site {
            next.sites[1] = next.sites[0];
            next.gaps[1] = next.gaps[0];
            next.sites[0] = site;
        }
        // A longer one is explicit each time, because no gap of more than 255 equals it.
        next.gaps[0] = gap.min(255) as u8;
        if self.site == NO_SITE {
            return;
        }
        if self.site.is_function() {
            self.function_slot(self.site).next = next;
        } else {
            self.access_slot(self.site).0.next = next;
        }
    }

    /// Where a call from the site of the CPU's last access is expected to return to.
    pub(crate) fn caller(&mut self) -> &mut u64 {
        // The call instruction is not an event that the model sees: the previous access shows where
        // the code is. The top 12 bits of the product are the best mixed.
        let hash = self.access_site.0.wrapping_mul(0x9e37_79b1) >> 20;
        &mut self.callers[hash as usize % CALLERS]
    }

    /// The place of `value` in the dictionary, and its current contents.
    pub(crate) fn recent(&mut self, value: u64) -> (u8, &mut u64) {
        let place = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        (place, &mut self.recent[usize::from(place)])
    }

    /// The value at a place of the dictionary.
    pub(crate) fn recent_at(&self, place: u8) -> u64 {
        self.recent[usize::from(place)]
    }
}

fn grow<T: Clone>(table: &mut Vec<T>, length: usize, new: T) {
    if table.len() < length {
        table.resize(length, new);
    }
}

/// Which region an address is in.
#[inline]
pub(crate) fn region(addr: u64) -> usize {
    // Bits 44-47 distinguish the areas of 4-level paging, bits 52-55 those of 5-level paging.
    ((addr >> 44 ^ addr >> 52) & 15) as usize
}

/// The address that the distance predicts.
#[inline]
pub(crate) fn by_distance(slot: &AccessSlot, regions: &[u64; REGIONS]) -> u64 {
    regions[region(slot.last)].wrapping_add(i64::from(slot.distance) as u64)
}

/// Records an access's address in its slot and the CPU's regions.
#[inline]
pub(crate) fn learn_address(slot: &mut AccessSlot, regions: &mut [u64; REGIONS], addr: u64) {
    // Of the address itself; a prediction has only the last one to go by. They differ only if an
    // instruction changes regions.
    let previous = &mut regions[region(addr)];
    slot.distance = addr.wrapping_sub(*previous) as i32;
    *previous = addr;
    slot.last = addr;
}

/// Size, kind and mapping in a byte: bits 0-2 log2 of the size, 3-4 the kind, 5 user mapping.
#[inline]
pub(crate) fn pack_info(size_log2: u8, kind: crate::AccessKind, user_mapping: bool) -> u8 {
    size_log2 | (kind as u8) << 3 | u8::from(user_mapping) << 5
}

/// A pc for every instruction number.
pub(crate) type Instructions = [GuestAddr];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_of_both_paging_modes_have_their_own_regions() {
        let four_level = [
            0xffff_8880_0000_0000u64,
            0xffff_c900_0000_0000,
            0xffff_ea00_0000_0000,
        ];
        let five_level = [
            0xff11_0000_0000_0000,
            0xffa0_0000_0000_0000,
            0xffd4_0000_0000_0000,
        ];
        let image = 0xffff_ffff_8100_0000;
        for areas in [four_level, five_level] {
            let mut regions: Vec<usize> = areas.iter().copied().map(region).collect();
            regions.push(region(image));
            regions.sort_unstable();
            regions.dedup();
            assert_eq!(regions.len(), 4, "{areas:x?}");
        }
    }

    #[test]
    fn a_slot_is_half_a_cache_line() {
        assert_eq!(size_of::<AccessSlot>(), 32);
    }
}
