//! The guest's hardware as requested, and the QEMU options for it.
//!
//! Everything here is part of a snapshot's key: two runs with the same shape can share a boot.

use thiserror::Error;

use crate::processors::{Processors, Topology};

/// 480 were recorded. The machine type has room for 4,096.
pub const MAX_CPUS: u16 = 512;

/// From this many CPUs on, a guest boots with one, and its command line makes the boot shorter.
/// Smaller ones have neither, so that their recordings stay the same.
pub const BIG_CPUS: u16 = 64;

/// Makes the kernel believe that it runs on a hypervisor, which it knows by this serial number and
/// by a port that QEMU has. On what it takes for real hardware it ignores further CPUs of a socket
/// in use.
const HYPERVISOR: [&str; 2] = ["-smbios", "type=1,serial=VMware-"];

/// Remapped interrupts, without which there is no x2APIC for more than 255 CPUs.
const REMAPPING: [&str; 2] = ["-device", "intel-iommu,intremap=on,eim=on"];

/// Memory that each CPU takes: 512 MiB for 64. The kernel's memory for each CPU and its threads is
/// a part of it, the rest is for the command.
const BYTES_PER_CPU: u64 = 8 << 20;

/// A Debian kernel with an initramfs does not boot with less.
pub const MIN_MEMORY: u64 = 256 << 20;

/// How guest time passes and in which order the CPUs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// One host thread runs the CPUs in turn and the clock counts instructions: same inputs, same
    /// bytes.
    #[default]
    Deterministic,
    /// One host thread for each CPU, guest time is host time: faster, but no two runs are the same.
    Parallel,
}

/// The guest's hardware, seed and kernel command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestShape {
    pub cpus: u16,
    /// Sockets; derived from the others if absent.
    pub sockets: Option<u16>,
    /// Cores per socket; derived if absent.
    pub cores: Option<u16>,
    /// Hardware threads per core; one if absent.
    pub threads: Option<u16>,
    /// NUMA nodes: CPUs and memory are split evenly. One means none are described.
    pub numa_nodes: u16,
    pub memory_bytes: u64,
    /// Seed of all randomness that QEMU gives the guest.
    pub seed: u32,
    /// Appended to the kernel's command line.
    pub append: String,
    /// How CPUs take turns: repeatable, or in parallel and fast.
    pub timing: Timing,
    /// The kernel distrusts the clocks of several emulated processors, also of one socket
    /// ([`BootableKernel::distrusts_clocks`]).
    ///
    /// [`BootableKernel::distrusts_clocks`]: crate::kernel::BootableKernel::distrusts_clocks
    pub distrusts_clocks: bool,
}

/// Why a guest of this shape cannot exist.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// No CPU, or more than the machine type has interrupts for.
    #[error("{0} CPUs cannot be emulated: give --smp a number from 1 to {MAX_CPUS}")]
    Cpus(u16),
    /// The topology's product is not the number of CPUs.
    #[error(
        "{sockets} sockets x {cores} cores x {threads} threads are not {cpus} CPUs: correct --smp, --sockets, --cores or --threads"
    )]
    Topology {
        /// `--sockets`, given or derived.
        sockets: u16,
        /// `--cores`, given or derived.
        cores: u16,
        /// `--threads`, given or derived.
        threads: u16,
        cpus: u16,
    },
    /// Numbers of CPUs that only x2APIC has, which the kernel cannot use here.
    #[error(
        "{} sockets x {} cores x {} threads have APIC numbers up to {}, and {} is the highest with --parallel, with --whole-boot and of a kernel without CONFIG_HYPERVISOR_GUEST: lower --smp, or choose other --cores and --threads, whose numbers are rounded up to powers of two",
        .0.sockets, .0.cores, .0.threads, .0.last_apic(), Topology::XAPIC_END - 1
    )]
    ApicNumbers(Topology),
    /// CPUs cannot be split evenly over the nodes.
    #[error(
        "{cpus} CPUs cannot be split evenly over {nodes} NUMA nodes: choose --numa so that it divides --smp"
    )]
    Numa { cpus: u16, nodes: u16 },
    /// Too little memory, or not whole mebibytes on each node.
    #[error(
        "{bytes} bytes of memory: --memory has to be at least 256M and whole mebibytes on each NUMA node"
    )]
    Memory { bytes: u64 },
    /// Less memory than the CPUs take.
    #[error(
        "{bytes} bytes of memory are too few for {cpus} CPUs, which take 8 MiB each: give --memory {}M or more",
        (u64::from(*cpus) * BYTES_PER_CPU) >> 20
    )]
    MemoryPerCpu {
        /// `--memory`.
        bytes: u64,
        cpus: u16,
    },
    /// More memory than this computer can back.
    #[error("{bytes} bytes of memory: this computer has {host} with its swap: lower --memory")]
    BeyondHost {
        bytes: u64,
        /// Memory and swap of this computer.
        host: u64,
    },
}

impl Default for GuestShape {
    fn default() -> Self {
        GuestShape {
            cpus: 8,
            sockets: None,
            cores: None,
            threads: None,
            numa_nodes: 1,
            memory_bytes: 1 << 30,
            seed: 42,
            append: String::new(),
            timing: Timing::Deterministic,
            distrusts_clocks: false,
        }
    }
}

impl GuestShape {
    /// Checks the shape and completes its topology.
    ///
    /// # Errors
    /// A [`ShapeError`] that names the option to correct.
    pub fn topology(&self) -> Result<Topology, ShapeError> {
        if self.cpus == 0 || self.cpus > MAX_CPUS {
            return Err(ShapeError::Cpus(self.cpus));
        }
        let nodes = self.numa_nodes;
        if nodes == 0 || self.cpus % nodes != 0 {
            return Err(ShapeError::Numa {
                cpus: self.cpus,
                nodes,
            });
        }
        // QEMU takes the amount in MiB, and each node has a memory file of its own.
        let unit = u64::from(nodes) << 20;
        if self.memory_bytes < MIN_MEMORY || self.memory_bytes % unit != 0 {
            return Err(ShapeError::Memory {
                bytes: self.memory_bytes,
            });
        }
        if self.memory_bytes < u64::from(self.cpus) * BYTES_PER_CPU {
            return Err(ShapeError::MemoryPerCpu {
                bytes: self.memory_bytes,
                cpus: self.cpus,
            });
        }
        let threads = self.threads.unwrap_or(1);
        // NUMA nodes are sockets unless the user says otherwise: a node that split a socket would
        // contradict the cache topology that the kernel derives from the socket.
        let default_sockets = if self.cores.is_none() { nodes } else { 0 };
        let sockets = match (self.sockets, self.cores) {
            (Some(sockets), _) => sockets,
            (None, Some(cores)) => self.cpus / cores.saturating_mul(threads).max(1),
            (None, None) => default_sockets,
        };
        let cores = self
            .cores
            .unwrap_or_else(|| self.cpus / sockets.saturating_mul(threads).max(1));
        let product = u32::from(sockets)
            .checked_mul(u32::from(cores))
            .and_then(|n| n.checked_mul(u32::from(threads)));
        if product != Some(u32::from(self.cpus)) {
            return Err(ShapeError::Topology {
                sockets,
                cores,
                threads,
                cpus: self.cpus,
            });
        }
        let topology = Topology {
            sockets,
            cores,
            threads,
        };
        if self.processors() == Processors::AtPowerOn {
            check_power_on(topology)?;
        }
        Ok(topology)
    }

    /// Checks that all CPUs can be there at power-on.
    ///
    /// # Errors
    /// As [`GuestShape::topology`], and [`ShapeError::ApicNumbers`] for any guest.
    pub(crate) fn check_power_on(&self) -> Result<(), ShapeError> {
        check_power_on(self.topology()?)
    }

    /// How the guest comes to its CPUs, if its kernel can take them after its boot.
    pub(crate) fn processors(&self) -> Processors {
        // In parallel no CPU waits for the others' turns.
        if self.cpus >= BIG_CPUS && self.timing == Timing::Deterministic {
            Processors::Plugged
        } else {
            Processors::AtPowerOn
        }
    }

    /// Checks that this computer can back the guest's memory.
    ///
    /// # Errors
    /// [`ShapeError::BeyondHost`].
    pub fn check_host(&self) -> Result<(), ShapeError> {
        let system = rustix::system::sysinfo();
        // Their types differ between architectures.
        #[allow(clippy::useless_conversion)]
        let units = u64::from(system.totalram).saturating_add(u64::from(system.totalswap));
        let host = units.saturating_mul(u64::from(system.mem_unit.max(1)));
        if self.memory_bytes > host {
            return Err(ShapeError::BeyondHost {
                bytes: self.memory_bytes,
                host,
            });
        }
        Ok(())
    }

    /// About the bytes of the state after the boot, and rather more: 1/64 of memory describes it,
    /// and each CPU has memory of its own. 8 CPUs with 1 GiB take 110 MiB, 128 with 3 GiB 205 MiB.
    pub(crate) fn state_bytes(&self) -> u64 {
        (128 << 20) + self.memory_bytes / 64 + (u64::from(self.cpus) << 20)
    }

    /// QEMU's options for this hardware. The announcement of a restored machine on the network, its
    /// display and its default devices are all absent: the guest could see anything that wakes
    /// QEMU's main loop at a host time.
    ///
    /// # Errors
    /// As [`GuestShape::topology`].
    pub(crate) fn qemu_arguments(&self, processors: Processors) -> Result<Vec<String>, ShapeError> {
        let topology = self.topology()?;
        let mebibytes = self.memory_bytes >> 20;
        let mut arguments: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-M",
            // With system-management mode each CPU has a view of memory of its own, and QEMU makes
            // all of them again for each device and CPU that comes: at 480 CPUs 4 GB and 70 % of a
            // start. Linux does not use it; smaller guests have it, so that their recordings stay
            // the same.
            match processors {
                Processors::AtPowerOn => "q35",
                Processors::First | Processors::Plugged => "q35,smm=off",
            },
            "-cpu",
            // Four-level paging, so that kernel addresses are the usual ones on every QEMU.
            match processors {
                Processors::AtPowerOn => "max,la57=off",
                Processors::First | Processors::Plugged => "max,la57=off,-hypervisor",
            },
            "-rtc",
            // Neither the date nor the clock are the host's.
            "base=2026-01-01,clock=vm",
        ]
        .map(str::to_owned)
        .into();
        arguments.extend(["-m".to_owned(), format!("{mebibytes}M")]);
        arguments.extend([
            "-smp".to_owned(),
            self.processor_option(topology, processors),
        ]);
        arguments.extend(["-seed".to_owned(), self.seed.to_string()]);
        arguments.extend(self.clock(topology, processors));
        arguments.extend(memory_arguments(self));
        if processors != Processors::AtPowerOn {
            arguments.extend(HYPERVISOR.map(str::to_owned));
            if topology.needs_x2apic() {
                arguments.extend(REMAPPING.map(str::to_owned));
            }
        }
        let line = self.kernel_command_line(processors)?;
        arguments.extend(["-append".to_owned(), line]);
        Ok(arguments)
    }

    /// QEMU's options for how guest time passes.
    fn clock(&self, topology: Topology, processors: Processors) -> Vec<String> {
        let words: &[&str] = match (self.timing, processors) {
            (Timing::Parallel, _) => &["-accel", "tcg,thread=multi"],
            // The kernel reads the timer while it calibrates it (`check_power_on`).
            (_, Processors::First) if topology.needs_x2apic() => {
                &["-accel", "tcg,thread=single,one-insn-per-tb=on"]
            }
            _ => &["-accel", "tcg,thread=single"],
        };
        // One nanosecond per instruction; an idle guest's clock jumps to its next timer at once.
        let count: &[&str] = match self.timing {
            Timing::Deterministic => &["-icount", "shift=0,sleep=off"],
            Timing::Parallel => &[],
        };
        words
            .iter()
            .chain(count)
            .map(|&word| word.to_owned())
            .collect()
    }

    fn processor_option(&self, topology: Topology, processors: Processors) -> String {
        let Topology {
            sockets,
            cores,
            threads,
        } = topology;
        let cpus = self.cpus;
        let count = match processors {
            Processors::AtPowerOn => cpus.to_string(),
            Processors::First | Processors::Plugged => format!("1,maxcpus={cpus}"),
        };
        format!("{count},sockets={sockets},cores={cores},threads={threads}")
    }
}

/// The kernel reads the timer of an x2APIC while it calibrates it, and QEMU 10.0.2 ends with `Bad
/// icount read` where an instruction in the middle of a block does that. A boot with one CPU can
/// afford blocks of one instruction.
fn check_power_on(topology: Topology) -> Result<(), ShapeError> {
    match topology.needs_x2apic() {
        true => Err(ShapeError::ApicNumbers(topology)),
        false => Ok(()),
    }
}

/// QEMU's options for memory that [`crate::ram::Ram`] can read.
fn memory_arguments(shape: &GuestShape) -> Vec<String> {
    let backend = |id: String, bytes: u64| {
        [
            "-object".to_owned(),
            format!("memory-backend-ram,id={id},size={bytes}"),
        ]
    };
    if shape.numa_nodes <= 1 {
        let mut arguments: Vec<String> = backend("ram".to_owned(), shape.memory_bytes).into();
        arguments.extend(["-machine".to_owned(), "memory-backend=ram".to_owned()]);
        return arguments;
    }
    let (nodes, cpus) = (shape.numa_nodes, shape.cpus / shape.numa_nodes);
    let mut arguments = Vec::new();
    for node in 0..nodes {
        let (first, last) = (node * cpus, node * cpus + cpus - 1);
        let bytes = shape.memory_bytes / u64::from(nodes);
        arguments.extend(backend(format!("ram{node}"), bytes));
        arguments.extend([
            "-numa".to_owned(),
            format!("node,nodeid={node},cpus={first}-{last},memdev=ram{node}"),
        ]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
        let pairs = arguments.iter().zip(arguments.iter().skip(1));
        pairs
            .filter(|(a, _)| *a == option)
            .map(|(_, b)| b.as_str())
            .collect()
    }

    #[test]
    fn default_shape_is_one_socket_deterministic() {
        let arguments = GuestShape::default()
            .qemu_arguments(Processors::AtPowerOn)
            .unwrap();
        assert_eq!(after(&arguments, "-smp"), ["8,sockets=1,cores=8,threads=1"]);
        assert_eq!(after(&arguments, "-m"), ["1024M"]);
        assert_eq!(after(&arguments, "-accel"), ["tcg,thread=single"]);
        assert_eq!(after(&arguments, "-icount"), ["shift=0,sleep=off"]);
        assert_eq!(after(&arguments, "-seed"), ["42"]);
        assert_eq!(
            after(&arguments, "-append"),
            ["console=ttyS0 nokaslr norandmaps quiet panic=-1"]
        );
    }

    #[test]
    fn apic_numbers_have_eight_bits_at_power_on() {
        let shape = |cpus, sockets, timing| GuestShape {
            cpus,
            sockets: Some(sockets),
            memory_bytes: 4 << 30,
            timing,
            ..GuestShape::default()
        };
        for timing in [Timing::Deterministic, Timing::Parallel] {
            assert!(shape(255, 1, timing).check_power_on().is_ok());
            assert!(shape(240, 2, timing).check_power_on().is_ok());
            // 128 numbers for each socket: the last one is 2 * 128 + 84.
            let error = shape(255, 3, timing).check_power_on().unwrap_err();
            let start = "3 sockets x 85 cores x 1 threads have APIC numbers up to 340, and 254 is the highest ";
            assert!(error.to_string().starts_with(start), "{error}");
            assert_eq!(
                shape(255, 3, timing).topology().is_ok(),
                timing == Timing::Deterministic
            );
        }
    }

    #[test]
    fn one_of_many_cpus_boots_and_the_others_are_plugged_in() {
        let few = GuestShape {
            cpus: 63,
            ..GuestShape::default()
        };
        assert_eq!(few.processors(), Processors::AtPowerOn);
        let shape = |cpus| GuestShape {
            cpus,
            numa_nodes: 2,
            memory_bytes: 4 << 30,
            append: "debug".into(),
            ..GuestShape::default()
        };
        let line = |shape: &GuestShape, processors| shape.kernel_command_line(processors).unwrap();
        for (cpus, end) in [
            (64, " rdinit=/processors nox2apic debug"),
            (480, " rdinit=/processors debug"),
        ] {
            let shape = shape(cpus);
            assert_eq!(shape.processors(), Processors::Plugged);
            for processors in [Processors::First, Processors::Plugged] {
                assert!(line(&shape, processors).ends_with(end));
                let arguments = shape.qemu_arguments(processors).unwrap();
                let smp = format!("1,maxcpus={cpus},sockets=2,cores={},threads=1", cpus / 2);
                assert_eq!(after(&arguments, "-smp"), [smp]);
                assert_eq!(after(&arguments, "-cpu"), ["max,la57=off,-hypervisor"]);
                assert_eq!(after(&arguments, "-M"), ["q35,smm=off"]);
                let remapping = after(&arguments, "-device");
                assert_eq!(remapping.len(), usize::from(cpus == 480));
                let steps = cpus == 480 && processors == Processors::First;
                let accelerator = after(&arguments, "-accel");
                assert_eq!(accelerator[0].ends_with(",one-insn-per-tb=on"), steps);
            }
        }
        // The same words as ever for a kernel that does not take them.
        assert!(line(&shape(64), Processors::AtPowerOn).ends_with(" loglevel=7 debug"));
    }

    #[test]
    fn cpus_need_memory_and_the_error_says_how_much() {
        let shape = |cpus, mebibytes: u64| GuestShape {
            cpus,
            memory_bytes: mebibytes << 20,
            ..GuestShape::default()
        };
        assert!(shape(240, 1920).topology().is_ok());
        assert!(shape(64, 512).topology().is_ok());
        let error = shape(240, 1919).topology().unwrap_err();
        let bytes = 1919 << 20;
        assert_eq!(error, ShapeError::MemoryPerCpu { bytes, cpus: 240 });
        assert!(
            error.to_string().ends_with("give --memory 1920M or more"),
            "{error}"
        );
    }

    #[test]
    fn parallel_has_no_icount() {
        let shape = GuestShape {
            timing: Timing::Parallel,
            ..GuestShape::default()
        };
        let arguments = shape.qemu_arguments(Processors::AtPowerOn).unwrap();
        assert_eq!(after(&arguments, "-accel"), ["tcg,thread=multi"]);
        assert!(after(&arguments, "-icount").is_empty());
    }

    #[test]
    fn numa_nodes_become_sockets_with_even_shares() {
        let shape = GuestShape {
            numa_nodes: 2,
            append: "debug".into(),
            ..GuestShape::default()
        };
        let arguments = shape.qemu_arguments(Processors::AtPowerOn).unwrap();
        assert_eq!(after(&arguments, "-smp"), ["8,sockets=2,cores=4,threads=1"]);
        assert_eq!(
            after(&arguments, "-numa"),
            [
                "node,nodeid=0,cpus=0-3,memdev=ram0",
                "node,nodeid=1,cpus=4-7,memdev=ram1"
            ]
        );
        assert_eq!(
            after(&arguments, "-object"),
            [
                "memory-backend-ram,id=ram0,size=536870912",
                "memory-backend-ram,id=ram1,size=536870912"
            ]
        );
        assert!(after(&arguments, "-append")[0].ends_with(" panic=-1 tsc=reliable debug"));
    }

    #[test]
    fn topology_is_completed_from_what_is_given() {
        let base = GuestShape {
            cpus: 16,
            ..GuestShape::default()
        };
        let t = |s, c, h| Topology {
            sockets: s,
            cores: c,
            threads: h,
        };
        assert_eq!(base.topology(), Ok(t(1, 16, 1)));
        assert_eq!(
            GuestShape {
                sockets: Some(2),
                ..base.clone()
            }
            .topology(),
            Ok(t(2, 8, 1))
        );
        assert_eq!(
            GuestShape {
                cores: Some(4),
                ..base.clone()
            }
            .topology(),
            Ok(t(4, 4, 1))
        );
        assert_eq!(
            GuestShape {
                threads: Some(2),
                ..base.clone()
            }
            .topology(),
            Ok(t(1, 8, 2))
        );
        let all = GuestShape {
            sockets: Some(2),
            cores: Some(4),
            threads: Some(2),
            ..base
        };
        assert_eq!(all.topology(), Ok(t(2, 4, 2)));
    }

    #[test]
    fn memory_has_to_be_there() {
        GuestShape::default().check_host().unwrap();
        let bytes = 900 << 40;
        let large = GuestShape {
            memory_bytes: bytes,
            ..GuestShape::default()
        };
        let error = large.check_host().unwrap_err();
        assert!(matches!(error, ShapeError::BeyondHost { bytes: b, .. } if b == bytes));
        assert!(error.to_string().ends_with("lower --memory"), "{error}");
    }

    #[test]
    fn impossible_shapes_name_the_option() {
        let base = GuestShape::default();
        assert_eq!(
            GuestShape {
                cpus: 0,
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Cpus(0))
        );
        assert_eq!(
            GuestShape {
                cpus: 513,
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Cpus(513))
        );
        assert_eq!(
            GuestShape {
                sockets: Some(3),
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Topology {
                sockets: 3,
                cores: 2,
                threads: 1,
                cpus: 8
            })
        );
        assert_eq!(
            GuestShape {
                cores: Some(0),
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Topology {
                sockets: 8,
                cores: 0,
                threads: 1,
                cpus: 8
            })
        );
        assert_eq!(
            GuestShape {
                numa_nodes: 3,
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Numa { cpus: 8, nodes: 3 })
        );
        assert_eq!(
            GuestShape {
                memory_bytes: 1 << 20,
                ..base.clone()
            }
            .topology(),
            Err(ShapeError::Memory { bytes: 1 << 20 })
        );
        assert_eq!(
            GuestShape {
                memory_bytes: (1 << 30) + 1,
                ..base
            }
            .topology(),
            Err(ShapeError::Memory {
                bytes: (1 << 30) + 1
            })
        );
    }
}
