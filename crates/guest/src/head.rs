//! The head of a recording: what is known before the guest runs.

use std::fs::File;
use std::path::Path;

use linemate_recording::{Metadata, Writer};
use linemate_types::kernel_image::ImageError;
use linemate_types::{KernelImage, Symbols, TypeModel};
use sha2::{Digest, Sha256};

use crate::error::GuestError;
use crate::functions::{self, WatchList};
use crate::programs::Programs;
use crate::shape::{GuestShape, Timing};

/// A kernel's types and symbols, as the head needs them for the recording and for the images.
pub(crate) struct KnownKernel {
    pub(crate) release: String,
    /// `None` if the kernel's memory is not named.
    pub(crate) types: Option<KernelTypes>,
    pub(crate) symbol_text: Vec<u8>,
    pub(crate) symbols: Symbols,
    pub(crate) watch: WatchList,
}

pub(crate) struct KernelTypes {
    btf: Vec<u8>,
    pub(crate) model: TypeModel,
}

impl KnownKernel {
    /// Reads the types from the image, if they are wanted, and the symbols from its boot; calls of
    /// `events` are counted.
    pub(crate) fn new(
        path: &Path,
        image: &[u8],
        with_types: bool,
        symbol_text: Vec<u8>,
        events: &[String],
    ) -> Result<Self, GuestError> {
        let unusable = |reason: String| GuestError::KernelUnusable {
            path: path.to_owned(),
            reason,
        };
        let symbols = Symbols::parse_kallsyms(&String::from_utf8_lossy(&symbol_text))
            .map_err(|e| GuestError::Symbols(e.to_string()))?;
        let (release, types) = match KernelImage::parse(image) {
            Ok(image) if with_types => {
                let model = image.types().map_err(|e| unusable(e.to_string()))?;
                let btf = image.btf;
                (image.release, Some(KernelTypes { btf, model }))
            }
            Ok(image) => (image.release, None),
            // Types that nobody wants may be missing.
            Err(ImageError::NoBtf { release }) if !with_types => (release, None),
            Err(error @ ImageError::NoBtf { .. }) => {
                let remedy = "record programs alone with --program --kernel-types no";
                return Err(unusable(format!("{error}, or {remedy}")));
            }
            Err(error) => return Err(unusable(error.to_string())),
        };
        let model = types.as_ref().map(|types| &types.model);
        let mut watch = match model {
            Some(model) => functions::watch_list(model, &symbols),
            None => functions::nameless_watch_list(&symbols),
        };
        // Before the run: a function that cannot be counted is reported before the guest has done
        // any work.
        watch.count(model, &symbols, events)?;
        let release = release.unwrap_or_else(|| "unknown".to_owned());
        Ok(KnownKernel {
            release,
            types,
            symbol_text,
            symbols,
            watch,
        })
    }
}

/// The settings that determine a run.
pub(crate) struct RunFacts<'a> {
    pub(crate) shape: &'a GuestShape,
    pub(crate) kernel_command_line: &'a str,
    pub(crate) kernel: &'a [u8],
    pub(crate) command: &'a [String],
    pub(crate) payload: &'a [u8],
    pub(crate) qemu_version: &'a str,
    pub(crate) user: bool,
    pub(crate) program: bool,
    pub(crate) whole_boot: bool,
    pub(crate) turn: Option<u32>,
}

/// Describes the run. Two equal runs have equal metadata: no paths, no times, nothing of this
/// computer.
pub(crate) fn metadata(run: &RunFacts<'_>, known: &KnownKernel) -> Metadata {
    let shape = run.shape;
    let mut metadata = Metadata::new();
    let mut put = |key: &str, value: String| metadata.insert(key.to_owned(), value);
    put("kernel", known.release.clone());
    put("kernel.sha256", sha256(run.kernel));
    put("kernel.command_line", run.kernel_command_line.to_owned());
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
    // Recordings with them do not say so, as before there were others.
    if known.types.is_none() {
        put("kernel_types", switch(false));
    }
    put("whole_boot", switch(run.whole_boot));
    // Absent where QEMU ends turns.
    if let Some(turn) = run.turn {
        put("turn", turn.to_string());
    }
    metadata
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Writes the head to an empty file, which the recorder continues.
pub(crate) fn write(
    file: File,
    metadata: &Metadata,
    known: &KnownKernel,
    programs: Option<&Programs>,
) -> Result<(), linemate_recording::Error> {
    // In the format's order, and before all events: a truncated recording has them.
    let mut writer = Writer::create_in(Box::new(file), env!("CARGO_PKG_VERSION"), metadata)?;
    if let Some(types) = &known.types {
        writer.btf(&types.btf)?;
    }
    writer.symbols(&known.symbol_text)?;
    writer.functions(&known.watch.table)?;
    let Some(programs) = programs else {
        return Ok(());
    };
    let contents: Vec<&[u8]> = programs.contents.iter().map(|c| &**c).collect();
    writer.programs(&programs.files, &contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_btf_is_refused_unless_its_types_are_left_out() {
        // A program has none either.
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = b"ffffffff81000010 T __switch_to\nffffffff81000020 T kfree\n";
        let known = |with_types| {
            let events = ["kfree".to_owned()];
            KnownKernel::new(
                Path::new("vmlinuz"),
                &image,
                with_types,
                symbols.to_vec(),
                &events,
            )
        };
        let Err(error) = known(true) else {
            panic!("the program has BTF");
        };
        assert!(error.to_string().contains("--kernel-types no"), "{error}");
        let known = known(false).unwrap();
        assert!(known.types.is_none());
        let names = known.watch.table.functions.iter().map(|f| f.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["__switch_to", "kfree"]);
    }
}
