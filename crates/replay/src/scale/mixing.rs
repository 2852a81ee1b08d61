//! Which CPU one group's CPU meets where the recorded one touches another CPU's memory.
//!
//! In a recording of eight CPUs the eight meet each other. On a machine with hundreds, the
//! scheduler makes a CPU meet those of its domains: it wakes tasks within its last-level cache's
//! domain, and balances in each domain that it is in, from the last-level cache's to the machine.
//! Balancing a domain reads all CPUs there, and happens every few milliseconds as the domain
//! has CPUs (`get_sd_balance_interval()` and `sd_init()` in kernel/sched: an interval of
//! `sd_weight` ms, longer for all of a busy CPU's alike): so each of a CPU's domains makes it read
//! the same amount of others' memory per second, whatever its size. The model does the same: it
//! draws a domain with equal probability, then a CPU of it.

use std::collections::BTreeSet;

use linemate_recording::CpuId;

use crate::rounds::interleaver::mix;
use crate::rounds::waiting::Cpu;

/// Which other CPUs a CPU meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mixing {
    /// Those of its own group, as recorded.
    Groups,
    /// Those of the machine's scheduling domains.
    #[default]
    Domains,
    /// All of the machine equally: one domain, as in guests.
    Flat,
}

/// Draws which CPUs meet.
#[derive(Clone)]
pub(crate) struct Mixer {
    mixing: Mixing,
    seed: u64,
    recorded: usize,
    copies: u16,
    /// By recorded CPU, then last-level cache's domain: the groups whose CPU is there.
    domains: Vec<Vec<Vec<u16>>>,
    /// The same by socket.
    sockets: Vec<Vec<Vec<u16>>>,
    /// The distinct domains that a CPU is in.
    levels: Vec<Level>,
}

/// An access of a group's CPU, among all that it makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) group: u16,
    /// The number of its slice.
    pub(crate) slice: u64,
    /// How often it has been made in that slice.
    pub(crate) again: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Domain,
    Socket,
    Machine,
}

/// The domains of different size: a socket with one last-level cache equals its domain, a machine
/// with one socket equals that.
fn levels(cpus: &[Cpu]) -> Vec<Level> {
    let count =
        |number: &dyn Fn(&Cpu) -> u16| cpus.iter().map(number).collect::<BTreeSet<u16>>().len();
    let domains = count(&|cpu| cpu.place.domain.0);
    let sockets = count(&|cpu| cpu.place.socket.0);
    let mut levels = Vec::new();
    // As the kernel drops a scheduling domain with the same span as its child.
    if domains > sockets {
        levels.push(Level::Domain);
    }
    if sockets > 1 {
        levels.push(Level::Socket);
    }
    levels.push(Level::Machine);
    levels
}

impl Mixer {
    /// For the CPUs, where recorded CPU c's copy n is number c x copies + n.
    pub(crate) fn new(mixing: Mixing, seed: u64, cpus: &[Cpu], copies: u16) -> Mixer {
        let recorded = cpus.len() / usize::from(copies.max(1));
        let by = |number: &dyn Fn(&Cpu) -> u16| {
            let most = cpus.iter().map(number).max().unwrap_or(0);
            let mut found = vec![vec![Vec::new(); usize::from(most) + 1]; recorded];
            for (at, cpu) in cpus.iter().enumerate() {
                let (of, group) = (at / usize::from(copies), at % usize::from(copies));
                found[of][usize::from(number(cpu))].push(group as u16);
            }
            found
        };
        Mixer {
            mixing,
            seed,
            recorded,
            copies,
            domains: by(&|cpu| cpu.place.domain.0),
            sockets: by(&|cpu| cpu.place.socket.0),
            levels: levels(cpus),
        }
    }

    /// The group whose CPU `owner` the group's `cpu` meets.
    pub(crate) fn group(&self, cpu: &Cpu, owner: CpuId, moment: Moment) -> u16 {
        let Moment {
            group,
            slice,
            again,
        } = moment;
        let owner = usize::from(owner.0);
        // Per-CPU memory of a CPU that was not recorded has no copies to choose from.
        if owner >= self.recorded {
            return group;
        }
        let random = mix(self.seed
            // By slice: what a CPU does to another in one turn is done to the same one. A repeated
            // access (CPU growth) meets another.
            ^ mix(slice ^ u64::from(again) << 48)
            ^ mix((owner as u64) << 16 | u64::from(cpu.logical.0)));
        let draw = |groups: &[u16], random: u64| match groups.len() {
            0 => None,
            count => Some(groups[(random % count as u64) as usize]),
        };
        // Other bits than the level's, which is drawn from the low ones.
        let anyone = || ((random >> 8) % u64::from(self.copies)) as u16;
        let level = self.levels[(random % self.levels.len() as u64) as usize];
        match (self.mixing, level) {
            (Mixing::Groups, _) => group,
            (Mixing::Flat, _) | (Mixing::Domains, Level::Machine) => anyone(),
            (Mixing::Domains, Level::Domain) => {
                let domain = usize::from(cpu.place.domain.0);
                draw(&self.domains[owner][domain], random >> 8).unwrap_or(group)
            }
            (Mixing::Domains, Level::Socket) => {
                let socket = usize::from(cpu.place.socket.0);
                draw(&self.sockets[owner][socket], random >> 8).unwrap_or(group)
            }
        }
    }
}
