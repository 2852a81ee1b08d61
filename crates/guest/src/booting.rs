//! Boots a guest on the disk that keeps its state: with all CPUs, or with one and the others wave
//! by wave.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::control::{Message, PROTOCOL, Pause};
use crate::error::GuestError;
use crate::observer::{Observer, Stage};
use crate::processors::{CpuSlot, Processors};
use crate::qemu::{GuestFiles, Plugin, Qemu, Start};
use crate::shape::{GuestShape, Timing};
use crate::vm::{GuestWatch, Vm};

/// A guest that boots, in a folder with what it boots from.
pub(crate) struct Booting<'a> {
    pub(crate) qemu: &'a Qemu,
    pub(crate) shape: &'a GuestShape,
    /// The recorder's library, which holds the guest where it is saved.
    pub(crate) recorder: &'a Path,
    /// Host time that a boot may take; as long as it makes progress if absent.
    pub(crate) limit: Option<Duration>,
    pub(crate) started: Instant,
    pub(crate) files: &'a GuestFiles,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Booting<'_> {
    /// Boots with all CPUs; gives `/proc/kallsyms`.
    ///
    /// # Errors
    /// The guest does not come as far as that.
    pub(crate) fn at_power_on(&mut self) -> Result<Vec<u8>, GuestError> {
        let vm = self.start(Processors::AtPowerOn)?;
        self.save_booted(vm)
    }

    /// Boots with one CPU and plugs the others in; gives `/proc/kallsyms`, or nothing if the kernel
    /// does not take as many.
    ///
    /// # Errors
    /// The guest does not come as far as that.
    pub(crate) fn plugged(&mut self) -> Result<Option<Vec<u8>>, GuestError> {
        let mut vm = self.start(Processors::First)?;
        let said = self.run_to(&mut vm, Pause::Processors)?;
        let Some(Message::Possible(possible)) = said.first() else {
            return Err(unexpected(&said));
        };
        if *possible < self.shape.cpus {
            drop(vm);
            self.tidy()?;
            return Ok(None);
        }
        let topology = self.shape.topology()?;
        if topology.needs_x2apic() {
            vm.allow_long_blocks()?;
        }
        let slots: Vec<CpuSlot> = CpuSlot::but_first(topology).collect();
        let same_wave = |a: &CpuSlot, b: &CpuSlot| a.wave(topology) == b.wave(topology);
        for (number, wave) in slots.chunk_by(same_wave).enumerate() {
            if number > 0 {
                self.run_to(&mut vm, Pause::Processors)?;
            }
            vm.plug(wave)?;
        }
        self.save_booted(vm).map(Some)
    }

    fn start(&self, processors: Processors) -> Result<Vm, GuestError> {
        let plugin = Some((self.recorder, &Plugin::Hold));
        let start = Start::Boot(processors);
        // Without `give_up`: nothing of a failed boot is useful, and QEMU is killed with the `Vm`.
        Vm::start(self.qemu, self.shape, self.files, plugin, start)
    }

    fn run_to(&mut self, vm: &mut Vm, expected: Pause) -> Result<Vec<Message>, GuestError> {
        let until = |limit: Duration| (self.started + limit, limit.as_secs());
        let mut watch = GuestWatch {
            doing: Stage::Booting.name(),
            limit: self.limit.map(until),
            silence: Some(self.silence()),
            lively: self.shape.timing == Timing::Deterministic,
            recording: None,
            cancel: self.cancel,
            observer: &mut *self.observer,
        };
        match vm.run_to_pause(&mut watch) {
            Ok((pause, said)) if pause == expected => Ok(said),
            Ok((_, said)) => Err(unexpected(&said)),
            // A boot has no command that could take too long: the error is on the console.
            Err(GuestError::Timeout { seconds, .. }) => Err(GuestError::NeverReached {
                seconds,
                console: vm.console_end(),
            }),
            Err(error) => Err(error),
        }
    }

    /// The processor time of QEMU that a boot may take between two signs of life. The longest
    /// silence is the calibration of the APIC timer, 1 s for each CPU at power-on on the computer
    /// where it was measured. A guest of fewer than 64 CPUs is silent from the beginning to the
    /// end, which took 48 s with 32: ten times that is allowed.
    fn silence(&self) -> Duration {
        let seconds = if self.shape.cpus < 64 { 10 } else { 3 };
        Duration::from_secs(120 + seconds * u64::from(self.shape.cpus))
    }

    /// Runs the guest until its agent waits for what to run, saves it on its disk, and ends it.
    fn save_booted(&mut self, mut vm: Vm) -> Result<Vec<u8>, GuestError> {
        let said = self.run_to(&mut vm, Pause::Snapshot)?;
        if said.first() != Some(&Message::Hello(PROTOCOL)) {
            return Err(unexpected(&said));
        }
        vm.stop_held()?;
        let (address, length) = symbols_place(&said)?;
        let symbols = vm.read_virtual(address, length)?;
        vm.save(self.shape)?;
        vm.quit()?;
        self.tidy()?;
        Ok(symbols)
    }

    /// When QEMU has ended, so that nothing changes the files any more.
    fn tidy(&self) -> Result<(), GuestError> {
        self.files.take_back()?;
        self.files.remove_channels()
    }
}

fn symbols_place(said: &[Message]) -> Result<(u64, u64), GuestError> {
    let place = said.iter().find_map(|message| match message {
        Message::Symbols { address, length } => Some((*address, *length)),
        _ => None,
    });
    match place {
        Some((_, 0)) => Err(GuestError::Symbols(
            "/proc/kallsyms is empty: the kernel was built without CONFIG_KALLSYMS".into(),
        )),
        Some(place) => Ok(place),
        None => Err(GuestError::Symbols(
            "the agent did not report where they are".into(),
        )),
    }
}

/// The guest's words are not those of this protocol.
fn unexpected(said: &[Message]) -> GuestError {
    GuestError::Protocol {
        doing: Stage::Booting.name(),
        message: format!("{:?}", said.last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_symbols_is_named() {
        let error = symbols_place(&[Message::Symbols {
            address: 1,
            length: 0,
        }])
        .unwrap_err();
        assert!(error.to_string().contains("CONFIG_KALLSYMS"), "{error}");
        let place = symbols_place(&[Message::Symbols {
            address: 1,
            length: 2,
        }])
        .unwrap();
        assert_eq!(place, (1, 2));
    }
}
