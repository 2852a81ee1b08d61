//! The kernel's command line: what a guest's shape needs, then the user's words.

use crate::processors::{PROCESSORS_PATH, Processors};
use crate::shape::{BIG_CPUS, GuestShape, ShapeError};

/// What makes the boot of many CPUs shorter. Each `pause` in a wait ends a turn, and the next turn
/// of the waiting CPU comes after those of all others.
///
/// * `cpu_init_udelay=0`: the kernel does not wait 10 ms each time it starts a CPU, as it would on
///   processors of the emulated family. With it the time would grow with the square of the CPUs.
/// * `tsc=reliable`: [`TRUST_CLOCKS`].
/// * `cpuhp.parallel=0`: they are started one after the other. Started at once, all but one wait in
///   a loop for what follows.
/// * `loglevel=7`: the console shows each CPU that is started.
const BIG_GUEST: &str = " cpu_init_udelay=0 tsc=reliable cpuhp.parallel=0 loglevel=7";

/// The kernel's clock is the TSC. A kernel that distrusts it takes the HPET, which is read under a
/// lock: one line for all CPUs. Started CPUs do not compare their clocks, of which there is one,
/// nor does a watchdog later, as on a real machine of up to four sockets.
const TRUST_CLOCKS: &str = " tsc=reliable";

impl GuestShape {
    /// The kernel's command line.
    ///
    /// No address randomisation, so that symbols have the addresses of the image; `panic=-1` turns
    /// a panic into a reboot, on which QEMU exits.
    ///
    /// # Errors
    /// As [`GuestShape::topology`].
    pub(crate) fn kernel_command_line(&self, processors: Processors) -> Result<String, ShapeError> {
        // The user's words last, so that they win if two contradict each other.
        let mut line = "console=ttyS0 nokaslr norandmaps quiet panic=-1".to_owned();
        if self.cpus >= BIG_CPUS {
            line.push_str(BIG_GUEST);
        } else if self.clocks_are_distrusted()? {
            line.push_str(TRUST_CLOCKS);
        }
        if processors != Processors::AtPowerOn {
            line.push_str(" rdinit=");
            line.push_str(PROCESSORS_PATH);
            if !self.topology()?.needs_x2apic() {
                // A kernel that believes in a hypervisor takes it without need.
                line.push_str(" nox2apic");
            }
        }
        if !self.append.is_empty() {
            line.push(' ');
            line.push_str(&self.append);
        }
        Ok(line)
    }

    /// Whether the kernel would not take the TSC for its clock. Every kernel distrusts the TSCs of
    /// several sockets of the emulated family.
    fn clocks_are_distrusted(&self) -> Result<bool, ShapeError> {
        let topology = self.topology()?;
        Ok(topology.sockets > 1 || (self.distrusts_clocks && self.cpus > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cpus: u16, sockets: u16, distrusts_clocks: bool) -> String {
        let shape = GuestShape {
            cpus,
            sockets: Some(sockets),
            append: "debug".into(),
            distrusts_clocks,
            ..GuestShape::default()
        };
        shape.kernel_command_line(Processors::AtPowerOn).unwrap()
    }

    #[test]
    fn many_cpus_are_started_without_waiting_and_few_as_ever() {
        assert!(line(63, 1, false).ends_with(" panic=-1 debug"));
        let big = " panic=-1 cpu_init_udelay=0 tsc=reliable cpuhp.parallel=0 loglevel=7 debug";
        for distrusts_clocks in [false, true] {
            let line = line(64, 1, distrusts_clocks);
            assert!(line.ends_with(big), "{line}");
        }
    }

    #[test]
    fn distrusted_clocks_are_declared_reliable_and_the_user_has_the_last_word() {
        let trusted = " panic=-1 tsc=reliable debug";
        assert!(line(62, 2, false).ends_with(trusted));
        assert!(line(2, 1, true).ends_with(trusted));
        assert!(line(62, 2, true).ends_with(trusted));
        assert!(line(1, 1, true).ends_with(" panic=-1 debug"));
        assert!(line(2, 1, false).ends_with(" panic=-1 debug"));
    }
}
