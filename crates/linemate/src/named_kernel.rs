//! Kernels by name: `debian:6.12` for `--kernel`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, bail};
use linemate_guest::{BootableKernel, GuestError, default_kernel};
use linemate_text::shown;
use linemate_types::KernelImage;

use crate::files::InFile;
use crate::output;

/// What a name begins with.
const DEBIAN: &str = "debian:";

/// What looks names up; below `scripts` of the checkout, or `share/linemate/scripts` of what was
/// installed.
const SCRIPT: &str = "kernel-image.sh";

/// The image that `--kernel` means: a file, or one with a name, which is fetched into the cache if
/// it is missing.
pub(crate) fn image(given: &Path) -> anyhow::Result<PathBuf> {
    let name = given.to_string_lossy();
    if !name.starts_with(DEBIAN) {
        let is_number = |part: &str| part.parse::<u16>().is_ok();
        let version = name.split_once('.');
        let is_version = version.is_some_and(|(a, b)| is_number(a) && is_number(b));
        if is_version && !given.exists() {
            bail!("--kernel: there is no file {name}: the kernel of that name is {DEBIAN}{name}");
        }
        return Ok(given.to_owned());
    }
    let script = script()?;
    // Its output while it fetches is for the user; the last line says why it fails, and becomes the
    // error.
    let output = Command::new(&script)
        .arg(&*name)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if output.status.success() {
        let path = String::from_utf8(output.stdout).context("the path of the image")?;
        return Ok(PathBuf::from(path.trim_end()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().unwrap_or("it gives no reason");
    let why = why.strip_prefix("kernel-image: ").unwrap_or(why);
    bail!("--kernel: {}", shown(why))
}

/// What is fetched where no kernel is given and none is there.
const FALLBACK: &str = "debian:6.12";

/// The kernel to boot: the given one; else the running one if it can be read, else the newest in
/// the cache, else Debian's 6.12, which is fetched.
pub(crate) fn to_boot(given: Option<&Path>, cache: &Path) -> anyhow::Result<BootableKernel> {
    if let Some(path) = given {
        return Ok(BootableKernel::read(&image(path)?)?);
    }
    match default_kernel(cache) {
        Err(missing @ GuestError::NoKernel { .. }) => {
            output::to_stderr(&format!(
                "no kernel found: fetching {FALLBACK} once from this computer's apt sources"
            ));
            let fetched = image(Path::new(FALLBACK));
            let path = fetched
                .map_err(|error| anyhow!("{missing}; {FALLBACK} cannot be fetched: {error}"))?;
            Ok(BootableKernel::read(&path)?)
        }
        found => Ok(found?),
    }
}

/// The kernel image, ELF file or BTF blob at `path`.
pub(crate) fn parse(path: &Path) -> anyhow::Result<KernelImage> {
    let bytes = linemate_files::read_file(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    KernelImage::parse(&bytes).with_context(|| path.display().to_string())
}

/// The result of [`image`] for each.
pub(crate) fn images(given: &[InFile]) -> anyhow::Result<Vec<PathBuf>> {
    given.iter().map(|path| image(path)).collect()
}

fn script() -> anyhow::Result<PathBuf> {
    let program = env::current_exe().context("cannot find the folder of this program")?;
    // PREFIX/bin/linemate, or CHECKOUT/target/PROFILE/linemate.
    let places = program.ancestors().skip(2).take(2).flat_map(|above| {
        ["share/linemate/scripts", "scripts"].map(|folder| above.join(folder).join(SCRIPT))
    });
    let mut places = places.filter(|path| path.is_file());
    places.next().ok_or_else(|| {
        anyhow!("names of kernels need {SCRIPT}, which `make install` puts next to this program: name a kernel image instead")
    })
}
