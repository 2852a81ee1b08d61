//! What a recording depends on apart from its kernel, and the key that identifies it.

use std::env;
use std::path::PathBuf;

use linemate_files::{Recipe, read_file};

use crate::error::GuestError;
use crate::initramfs;
use crate::payload::{self, Payload, Workload};
use crate::programs::OwnAllocator;
use crate::qemu::Qemu;
use crate::shape::GuestShape;

/// Changes when the same conditions give another recording for a reason that no part of the key
/// covers.
const FORMAT: &[u8] = b"linemate recording 2";

/// What a recording depends on apart from its kernel: equal conditions and kernels give equal
/// bytes.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub qemu: Qemu,
    pub shape: GuestShape,
    pub workload: Workload,
    pub recorder: PathBuf,
    /// The guest runs unrecorded, and nothing is written.
    pub bare: bool,
    /// Record user-mode code too.
    pub user: bool,
    /// Record what is needed to name programs' accesses. Implies `user`.
    pub program: Option<ProgramNaming>,
    pub whole_boot: bool,
    /// Instructions of a CPU's turn; QEMU decides if absent. Deterministic runs only.
    pub turn: Option<u32>,
    /// Functions of the kernel whose calls are all recorded.
    pub events: Vec<String>,
}

/// How programs are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramNaming {
    pub allocators: Vec<OwnAllocator>,
    /// Whether to name the kernel's memory, too: if not, its types are not needed, nor are its
    /// allocations watched.
    pub kernel_types: bool,
}

impl Conditions {
    /// The key of the recording that they give with a kernel: 32 hexadecimal digits.
    ///
    /// It is made of contents, not of names, paths or times: the emulator's version, the recorder,
    /// the guest's files, and how it is recorded. `kernel` is the digest of the image, or something
    /// else that determines its bytes, such as the key of its build.
    ///
    /// # Errors
    /// A part is missing, or cannot run in the guest.
    pub fn key(&self, kernel: &str) -> Result<String, GuestError> {
        let search_path = env::var("PATH").unwrap_or_default();
        // Its bytes, because two builds of one version may record differently.
        let recorder = read_file(&self.recorder)
            .map_err(|_| GuestError::RecorderMissing(self.recorder.clone()))?;
        let mut recipe = Recipe::new(FORMAT);
        recipe.part(kernel.as_bytes());
        recipe.part(self.qemu.version.as_bytes());
        recipe.part(&recorder);
        // With the agent and this computer's busybox in it.
        recipe.part(&initramfs::build(&self.shape, &search_path)?);
        recipe.part(self.payload(&search_path)?.digest().as_bytes());
        let arguments = self.shape.qemu_arguments(self.shape.processors())?;
        // How many: without that, the last argument could be confused with what follows.
        recipe.part(&arguments.len().to_le_bytes());
        for argument in &arguments {
            recipe.part(argument.as_bytes());
        }
        let switches = [
            self.bare,
            self.records_user(),
            self.program.is_some(),
            self.names_kernel(),
            self.whole_boot,
        ];
        recipe.part(&switches.map(u8::from));
        recipe.part(&self.turn.unwrap_or(0).to_le_bytes());
        for event in &self.events {
            recipe.part(event.as_bytes());
        }
        Ok(recipe.key())
    }

    pub(crate) fn payload(&self, search_path: &str) -> Result<Payload, GuestError> {
        let allocators = self.program.as_ref().map(|program| &*program.allocators);
        payload::pack(&self.workload, allocators, search_path)
    }

    /// Whether user-mode code is recorded.
    pub(crate) fn records_user(&self) -> bool {
        self.user || self.program.is_some()
    }

    /// Whether to name the kernel's memory.
    pub(crate) fn names_kernel(&self) -> bool {
        self.program
            .as_ref()
            .is_none_or(|program| program.kernel_types)
    }
}

impl Payload {
    /// Of the archive, and of what is not in it: files with the programs' debug information, and
    /// their own allocators.
    fn digest(&self) -> String {
        let mut recipe = Recipe::new(b"payload");
        recipe.part(&self.bytes);
        // They change the recording and not the guest: the archive alone would be the same.
        if let Some(programs) = &self.programs {
            for content in &programs.contents {
                recipe.part(content);
            }
            recipe.part(format!("{:?}", programs.functions).as_bytes());
        }
        recipe.key()
    }
}
