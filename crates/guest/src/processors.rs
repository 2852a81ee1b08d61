//! A guest's CPUs: where they are in the machine, and how it comes to them.
//!
//! A guest of few CPUs has all of them at power-on. One of many boots with one, and the others are
//! plugged in: while the kernel waits for something in a loop, each `pause` ends a turn, and the
//! next turn of the waiting CPU comes after those of all others, most of which have nothing to do.
//! With one CPU the kernel calibrates its timers as fast as it can.
//!
//! ```text
//! power-on ── one CPU boots ── held, the others plugged in ── started ── held, saved
//! ```
//!
//! The recorder holds the guest at one instruction while they are plugged in, which is done by
//! small waves: a CPU that was not started yet gets its turns, too. It also answers to the lower
//! eight bits of its APIC number alone, so CPUs that share them have to come one after the other.

use serde_json::{Value, json};

/// The topology for QEMU: the product is the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Sockets of the machine.
    pub sockets: u16,
    /// Cores of a socket.
    pub cores: u16,
    /// Threads of a core.
    pub threads: u16,
}

impl Topology {
    /// The first APIC number that no CPU has without x2APIC: 255 is all CPUs.
    pub(crate) const XAPIC_END: u32 = 255;

    /// The highest APIC number. Threads, cores and sockets have bits of their own in it, so it may
    /// be higher than that of the last CPU.
    pub(crate) fn last_apic(self) -> u32 {
        self.apic(CpuSlot {
            socket: self.sockets.saturating_sub(1),
            core: self.cores.saturating_sub(1),
            thread: self.threads.saturating_sub(1),
        })
    }

    fn apic(self, slot: CpuSlot) -> u32 {
        let bits = |n: u16| u32::from(n).next_power_of_two().trailing_zeros();
        let core = bits(self.threads);
        let socket = bits(self.cores) + core;
        (u32::from(slot.socket) << socket) | (u32::from(slot.core) << core) | u32::from(slot.thread)
    }

    /// Whether some CPU has a number that only x2APIC has.
    pub(crate) fn needs_x2apic(self) -> bool {
        self.last_apic() >= Topology::XAPIC_END
    }
}

/// The first process of a guest that boots with one CPU, in its file system.
pub(crate) const PROCESSORS_PATH: &str = "/processors";

/// Which of its CPUs a guest has when QEMU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processors {
    /// All of them, from power-on.
    AtPowerOn,
    /// One, which boots; there is room for the others.
    First,
    /// All of them, of a saved machine that the first one booted.
    Plugged,
}

/// CPUs whose APIC numbers share all bits but these are plugged in at once.
const WAVE_BITS: u32 = 4;
const _: () = assert!(WAVE_BITS <= u8::BITS);

/// QEMU's name for a CPU that can be plugged in.
const MODEL: &str = "max-x86_64-cpu";

/// The place of a CPU in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuSlot {
    socket: u16,
    core: u16,
    thread: u16,
}

impl CpuSlot {
    /// The places of all CPUs but the first, in the order of their numbers.
    pub(crate) fn but_first(topology: Topology) -> impl Iterator<Item = CpuSlot> {
        let Topology {
            sockets,
            cores,
            threads,
        } = topology;
        let of_core = move |socket, core| {
            (0..threads).map(move |thread| CpuSlot {
                socket,
                core,
                thread,
            })
        };
        let all = (0..sockets).flat_map(move |socket| {
            let cores = 0..cores;
            cores.flat_map(move |core| of_core(socket, core))
        });
        all.skip(1)
    }

    /// The number of its wave: all of earlier ones have to be started before.
    pub(crate) fn wave(self, topology: Topology) -> u32 {
        topology.apic(self) >> WAVE_BITS
    }

    fn id(self) -> String {
        format!("cpu-{}-{}-{}", self.socket, self.core, self.thread)
    }

    /// The value of QEMU's `-device` for it.
    pub(crate) fn option(self) -> String {
        let CpuSlot {
            socket,
            core,
            thread,
        } = self;
        let id = self.id();
        format!("{MODEL},socket-id={socket},core-id={core},thread-id={thread},id={id}")
    }

    /// The arguments of QEMU's `device_add` for it.
    pub(crate) fn arguments(self) -> Value {
        json!({
            "driver": MODEL,
            "socket-id": self.socket,
            "core-id": self.core,
            "thread-id": self.thread,
            "id": self.id(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_place_but_the_first_in_order() {
        let topology = Topology {
            sockets: 2,
            cores: 1,
            threads: 2,
        };
        let options: Vec<String> = CpuSlot::but_first(topology).map(CpuSlot::option).collect();
        assert_eq!(
            options,
            [
                "max-x86_64-cpu,socket-id=0,core-id=0,thread-id=1,id=cpu-0-0-1",
                "max-x86_64-cpu,socket-id=1,core-id=0,thread-id=0,id=cpu-1-0-0",
                "max-x86_64-cpu,socket-id=1,core-id=0,thread-id=1,id=cpu-1-0-1"
            ]
        );
        assert!(CpuSlot::but_first(topology).all(|slot| slot.wave(topology) == 0));
        let last = CpuSlot::but_first(topology).last().unwrap();
        assert_eq!(
            last.arguments(),
            json!({ "driver": "max-x86_64-cpu", "socket-id": 1, "core-id": 0, "thread-id": 1,
                "id": "cpu-1-0-1" })
        );
    }

    #[test]
    fn numbers_that_share_eight_bits_are_of_different_waves() {
        let topology = Topology {
            sockets: 2,
            cores: 120,
            threads: 2,
        };
        assert_eq!(topology.last_apic(), 256 + 239);
        let mut waves: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for slot in CpuSlot::but_first(topology) {
            let wave = waves.entry(slot.wave(topology)).or_default();
            wave.push(topology.apic(slot));
        }
        // 256 numbers for the first socket, of which 240 are taken.
        let numbers: Vec<u32> = waves.keys().copied().collect();
        assert_eq!(numbers, (0..15).chain(16..31).collect::<Vec<_>>());
        assert_eq!(waves.values().map(Vec::len).sum::<usize>(), 479);
        for wave in waves.values() {
            let low: BTreeSet<u32> = wave.iter().map(|apic| apic & 0xff).collect();
            assert_eq!(low.len(), wave.len());
        }
    }
}
