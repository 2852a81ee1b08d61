//! The head of a recording: what is known before the guest runs.

use std::fs::File;
use std::path::Path;

use linemate_recording::{Metadata, Writer};
use linemate_types::{KernelImage, Symbols, TypeModel};
use sha2::{Digest, Sha256};

use crate::error::GuestError;
use crate::functions::{self, WatchList};
use crate::programs::Programs;
use crate::shape::{GuestShape, Timing};

/// A kernel's types and symbols, as the head holds them and the images need them.
pub(crate) struct Known {
    pub(crate) btf: Vec<u8>,
    pub(crate) release: String,
    pub(crate) types: TypeModel,
    pub(crate) symbol_text: Vec<u8>,
    pub(crate) symbols: Symbols,
    pub(crate) watch: WatchList,
}

impl Known {
    /// Reads the types from the image and the symbols that its boot gave; calls of `events` are counted.
    pub(crate) fn new(
        path: &Path,
        image: &[u8],
        symbol_text: Vec<u8>,
        events: &[String],
    ) -> Result<Self, GuestError> {
        let unusable = |reason: String| GuestError::KernelUnusable {
            path: path.to_owned(),
            reason,
        };
        let image = KernelImage::parse(image).map_err(|e| unusable(e.to_string()))?;
        let types = image.types().map_err(|e| unusable(e.to_string()))?;
        let symbols = Symbols::parse_kallsyms(&String::from_utf8_lossy(&symbol_text))
            .map_err(|e| GuestError::Symbols(e.to_string()))?;
        let mut watch = functions::watch_list(&types, &symbols);
        watch.count(&types, &symbols, events)?;
        let release = image.release.unwrap_or_else(|| "unknown".to_owned());
        Ok(Known {
            btf: image.btf,
            release,
            types,
            symbol_text,
            symbols,
            watch,
        })
    }
}

/// What decides how a run goes.
pub(crate) struct RunFacts<'a> {
    pub(crate) shape: &'a GuestShape,
    pub(crate) kernel: &'a [u8],
    pub(crate) command: &'a [String],
    pub(crate) payload: &'a [u8],
    pub(crate) qemu_version: &'a str,
    pub(crate) user: bool,
    pub(crate) program: bool,
    pub(crate) whole_boot: bool,
}

/// Describes the run. Two equal runs have equal metadata: no paths, no times, nothing of this computer.
pub(crate) fn metadata(run: &RunFacts<'_>, known: &Known) -> Metadata {
    let shape = run.shape;
    let mut metadata = Metadata::new();
    let mut put = |key: &str, value: String| metadata.insert(key.to_owned(), value);
    put("kernel", known.release.clone());
    put("kernel.sha256", sha256(run.kernel));
    put("kernel.command_line", shape.kernel_command_line());
    put("command", run.command.join(" "));
    put("payload.sha256", sha256(run.payload));
    put("cpus", shape.cpus.to_string());
    if let Ok(topology) = shape.topology() {
        put("sockets", topology.sockets.to_string());
        put("cores", topology.cores.to_string());
        put("threads", topology.threads.to_string());
    }
    put("numa_nodes", shape.numa_nodes.to_string());
    put("memory_bytes", shape.memory_bytes.to_string());
    put("seed", shape.seed.to_string());
    put("qemu", run.qemu_version.to_owned());
    let timing = match shape.timing {
        Timing::Deterministic => "deterministic",
        Timing::Parallel => "parallel",
    };
    put("timing", timing.to_owned());
    put("user", switch(run.user));
    if run.program {
        put("program", switch(true));
    }
    put("whole_boot", switch(run.whole_boot));
    metadata
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Writes the head to an empty file: the recorder goes on with it.
pub(crate) fn write(
    file: File,
    metadata: &Metadata,
    known: &Known,
    programs: Option<&Programs>,
) -> Result<(), linemate_recording::Error> {
    let mut writer = Writer::create_in(Box::new(file), env!("CARGO_PKG_VERSION"), metadata)?;
    writer.btf(&known.btf)?;
    writer.symbols(&known.symbol_text)?;
    writer.functions(&known.watch.table)?;
    let Some(programs) = programs else {
        return Ok(());
    };
    let contents: Vec<&[u8]> = programs.contents.iter().map(|c| &**c).collect();
    writer.programs(&programs.files, &contents)
}
