//! Which CPU is running, if QEMU does not say.
//!
//! In deterministic mode QEMU (10.0 to 10.2 at least) compiles into each block the index of the CPU
//! that *translated* it, and passes that index to the block's callbacks whichever CPU runs it. What
//! does change with the CPU is the address of its state, which generated code has in a register of
//! the host; [`crate::ffi`] reads it when a block is entered. This module maps that address to the
//! number by which the guest's kernel knows the CPU: its GS base is that CPU's entry of
//! `__per_cpu_offset`.

/// How the guest's kernel identifies its CPUs.
pub(crate) trait Identify {
    /// The running CPU's two GS bases, the active one and the one that `swapgs` brings.
    fn gs_bases(&self) -> [u64; 2];
    /// The kernel's `__per_cpu_offset[]`, one entry per CPU.
    fn percpu_offsets(&self) -> Vec<u64>;
}

/// The CPUs by the addresses of their states.
#[derive(Debug, Default)]
pub(crate) struct Running {
    known: Vec<(usize, u16)>,
}

impl Running {
    /// The number of the CPU whose state is at `state`. It must be the running one, in case
    /// `identify` has to be called.
    pub(crate) fn number(&mut self, state: usize, identify: &impl Identify) -> u16 {
        let known = self.known.iter().find(|(address, _)| *address == state);
        if let Some((_, cpu)) = known {
            return *cpu;
        }
        let cpu = self.identify(identify);
        self.known.push((state, cpu));
        cpu
    }

    /// A CPU that the kernel has not set up yet (when recording a whole boot) gets the next free
    /// number: firmware starts the CPUs in their order.
    fn identify(&self, identify: &impl Identify) -> u16 {
        let bases = identify.gs_bases();
        let offsets = identify.percpu_offsets();
        let free = |cpu: u16| self.known.iter().all(|(_, known)| *known != cpu);
        (0..)
            .zip(&offsets)
            // Either GS base, because the CPU may be on either side of `swapgs`.
            .find(|(cpu, offset)| **offset != 0 && bases.contains(offset) && free(*cpu))
            .map(|(cpu, _)| cpu)
            .or_else(|| (0..=u16::MAX).find(|cpu| free(*cpu)))
            .unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Guest {
        bases: [u64; 2],
        offsets: Vec<u64>,
    }

    impl Identify for Guest {
        fn gs_bases(&self) -> [u64; 2] {
            self.bases
        }

        fn percpu_offsets(&self) -> Vec<u64> {
            self.offsets.clone()
        }
    }

    fn guest(active: u64, other: u64) -> Guest {
        Guest {
            bases: [active, other],
            offsets: vec![0x1000, 0x2000, 0x3000],
        }
    }

    #[test]
    fn a_cpu_is_known_by_either_gs_base() {
        let mut running = Running::default();
        assert_eq!(running.number(0xa0, &guest(0x3000, 0)), 2);
        assert_eq!(running.number(0xb0, &guest(7, 0x1000)), 0);
    }

    #[test]
    fn a_known_state_is_not_identified_again() {
        let mut running = Running::default();
        assert_eq!(running.number(0xa0, &guest(0x3000, 0)), 2);
        assert_eq!(running.number(0xb0, &guest(0x2000, 0)), 1);
        assert_eq!(running.number(0xa0, &guest(0x1000, 0)), 2);
        assert_eq!(running.number(0xa0, &guest(0x2000, 0)), 2);
    }

    #[test]
    fn before_the_kernel_is_up_cpus_are_counted() {
        let mut running = Running::default();
        let none = Guest {
            bases: [0, 0],
            offsets: vec![0, 0, 0],
        };
        assert_eq!(running.number(0xa0, &none), 0);
        assert_eq!(running.number(0xb0, &none), 1);
        // The kernel is up; CPU 1's number is taken, so a state that claims it again gets the next
        // one.
        assert_eq!(running.number(0xc0, &guest(0x2000, 0)), 2);
    }
}
