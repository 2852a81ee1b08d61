//! Finds the BTF, the release and the architecture in a kernel image.
//!
//! | input | recognised by | where the kernel is |
//! |---|---|---|
//! | raw BTF (`/sys/kernel/btf/vmlinux`) | BTF magic | – |
//! | ELF (`vmlinux`, ppc64el's `vmlinuz`) | ELF magic | it is the kernel |
//! | x86 bzImage | `HdrS` at 0x202 | `payload_offset`, `payload_length` of the boot header |
//! | EFI zboot (arm64, riscv64, loongarch64) | `MZ`, `zimg` at 4 | offset and size of the zboot header |
//! | arm64 or riscv64 `Image` | magic at 0x38 | it is the kernel |
//! | a compressed one of these (`Image.gz`) | magic of the compression | all of it |
//!
//! Formats: Documentation/arch/x86/boot.rst, Documentation/arch/arm64/booting.rst,
//! drivers/firmware/efi/libstub/zboot-header.S. It does not verify signatures or checksums and does
//! not know modules.

use linemate_units::LineSize;
use object::{Object, ObjectSection, SectionKind};

use crate::TypeModel;
use crate::btf::{self, BtfError};
use crate::unpack::{self, Compression, UnpackError};

/// The machine that a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit Arm.
    Arm64,
    /// 64-bit POWER, either byte order.
    Ppc64,
    /// 64-bit RISC-V.
    Riscv64,
    /// 64-bit LoongArch.
    Loongarch64,
    /// IBM Z.
    S390x,
}

impl Arch {
    /// What `uname -m` calls it (`ppc64` for both byte orders).
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::X86 => "i686",
            Arch::Arm64 => "aarch64",
            Arch::Ppc64 => "ppc64",
            Arch::Riscv64 => "riscv64",
            Arch::Loongarch64 => "loongarch64",
            Arch::S390x => "s390x",
        }
    }

    /// The line size that Linux lays out its types for (`L1_CACHE_BYTES` of distribution kernels);
    /// `None` for s390x, whose 256 bytes are not a [`LineSize`].
    pub fn line(self) -> Option<LineSize> {
        match self {
            Arch::Ppc64 => Some(LineSize::B128),
            Arch::S390x => None,
            _ => Some(LineSize::B64),
        }
    }
}

/// The container of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A bare BTF blob.
    RawBtf,
    /// An ELF file.
    Elf,
    /// An x86 boot image.
    BzImage,
    /// An EFI application that unpacks a kernel.
    EfiZboot,
    /// A flat arm64 or riscv64 image.
    FlatImage,
}

/// Why a file gives no types.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No section of machine code.
    #[error("it has no machine code: a vmlinuz or a vmlinux is needed")]
    NoCode,
    /// None of the known formats.
    #[error("not a kernel image, ELF file or BTF ({}): a vmlinuz, a vmlinux or /sys/kernel/btf/vmlinux is needed", start(.0))]
    NotAKernel(Vec<u8>),
    #[error("{what} ends at byte {needed}, but the file has {length}")]
    Truncated {
        what: &'static str,
        needed: u64,
        /// Length of the file.
        length: u64,
    },
    /// A bzImage whose header does not say where the kernel is (before Linux 2.6.24).
    #[error("boot protocol {}.{:02} is older than 2.08 and does not say where the kernel is", .0 >> 8, .0 & 0xff)]
    BootProtocol(u16),
    /// The kernel cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Containers nested too deep.
    #[error("more than {0} nested images")]
    Nested(u32),
    /// A broken ELF file.
    #[error("broken ELF file: {0}")]
    Elf(object::Error),
    /// A kernel without type information.
    #[error("{} has no BTF: a kernel built with CONFIG_DEBUG_INFO_BTF is needed", whose(.release))]
    NoBtf {
        /// Its release, if it is known.
        release: Option<String>,
    },
    /// Broken BTF.
    #[error(transparent)]
    Btf(#[from] BtfError),
}

fn whose(release: &Option<String>) -> String {
    match release {
        Some(release) => format!("kernel {release}"),
        None => "the file".to_owned(),
    }
}

fn start(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".to_owned();
    }
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("starts with {}", hex.join(" "))
}

/// The contents of a kernel image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelImage {
    /// The outermost container of the file.
    pub format: Format,
    /// How the kernel inside is compressed.
    pub compression: Compression,
    /// The machine it is for; `None` for raw BTF, which does not say.
    pub arch: Option<Arch>,
    /// `uname -r`, e.g. `6.12.117+deb12-cloud-amd64`; `None` if the image does not contain it.
    pub release: Option<String>,
    /// The bytes of the kernel's BTF.
    pub btf: Vec<u8>,
}

/// A section of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSection {
    /// The linked address of its first byte.
    pub address: u64,
    /// Its bytes as in the image, before the kernel patches them at boot.
    pub bytes: Vec<u8>,
}

/// `Image.gz` with a zboot inside is the deepest that exists.
const MAX_NESTING: u32 = 4;

impl KernelImage {
    /// Finds the BTF in `bytes`, the contents of a file.
    ///
    /// # Errors
    /// [`ImageError`]: unknown format, truncated, cannot be unpacked, or without BTF.
    pub fn parse(bytes: &[u8]) -> Result<KernelImage, ImageError> {
        let mut found = ImageFacts::default();
        let btf = found.look(bytes, 0)?;
        Ok(KernelImage {
            format: found.format.unwrap_or(Format::RawBtf),
            compression: found.compression.unwrap_or(Compression::None),
            arch: found.arch,
            release: found.release,
            btf,
        })
    }

    /// The machine code in `bytes`, the contents of a file; sections in the image's order.
    ///
    /// # Errors
    /// As for [`KernelImage::parse`]; also an image without code sections, as raw BTF and flat
    /// images are.
    pub fn code(bytes: &[u8]) -> Result<Vec<CodeSection>, ImageError> {
        let mut found = ImageFacts {
            code: Some(Vec::new()),
            ..ImageFacts::default()
        };
        found.look(bytes, 0)?;
        match found.code {
            Some(code) if !code.is_empty() => Ok(code),
            _ => Err(ImageError::NoCode),
        }
    }

    /// The types of the kernel.
    ///
    /// # Errors
    /// Broken BTF.
    pub fn types(&self) -> Result<TypeModel, BtfError> {
        btf::parse(&self.btf)
    }
}

/// What is known so far, from the outermost container inwards; the first value found wins.
#[derive(Default)]
struct ImageFacts {
    format: Option<Format>,
    compression: Option<Compression>,
    arch: Option<Arch>,
    release: Option<String>,
    /// Code sections, if those are wanted and not BTF.
    code: Option<Vec<CodeSection>>,
}

impl ImageFacts {
    /// The BTF in `bytes`. Recursion: at most [`MAX_NESTING`].
    fn look(&mut self, bytes: &[u8], depth: u32) -> Result<Vec<u8>, ImageError> {
        if depth > MAX_NESTING {
            return Err(ImageError::Nested(MAX_NESTING));
        }
        if [&[0x9f, 0xeb][..], &[0xeb, 0x9f]]
            .iter()
            .any(|magic| bytes.starts_with(magic))
        {
            self.format.get_or_insert(Format::RawBtf);
            return Ok(bytes.to_vec());
        }
        if bytes.starts_with(b"\x7fELF") {
            self.format.get_or_insert(Format::Elf);
            return self.elf(bytes);
        }
        // Before EFI's `MZ`: a bzImage with an EFI stub starts with that, too.
        if is_at(bytes, 0x202, b"HdrS") {
            self.format.get_or_insert(Format::BzImage);
            let payload = self.bzimage(bytes)?;
            return self.compressed(payload, depth);
        }
        if bytes.starts_with(b"MZ") && is_at(bytes, 4, b"zimg") {
            self.format.get_or_insert(Format::EfiZboot);
            let payload = self.zboot(bytes)?;
            return self.compressed(payload, depth);
        }
        if is_at(bytes, 0x38, b"ARM\x64") || is_at(bytes, 0x38, b"RSC\x05") {
            self.format.get_or_insert(Format::FlatImage);
            return self.flat(bytes);
        }
        match Compression::of(bytes) {
            Some(_) => self.compressed(bytes, depth),
            None => Err(ImageError::NotAKernel(
                bytes.iter().copied().take(8).collect(),
            )),
        }
    }

    fn compressed(&mut self, payload: &[u8], depth: u32) -> Result<Vec<u8>, ImageError> {
        let compression = Compression::of(payload).unwrap_or(Compression::None);
        // Of the outermost container: that is how the file is packed.
        self.compression.get_or_insert(compression);
        match compression {
            Compression::None => self.look(payload, depth + 1),
            packed => {
                let unpacked = unpack::unpack(packed, payload)?;
                self.look(&unpacked, depth + 1)
            }
        }
    }

    fn bzimage<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ImageError> {
        let protocol = u16_at(bytes, 0x206)?;
        if protocol < 0x0208 {
            return Err(ImageError::BootProtocol(protocol));
        }
        // A value of 0 means 4, for compatibility with very old boot loaders.
        let setup_sectors = match bytes.get(0x1f1) {
            Some(0) | None => 4,
            Some(n) => u64::from(*n),
        };
        // XLF_KERNEL_64 of `xloadflags`, which protocol 2.12 added.
        let is_64_bit = protocol >= 0x020c && u16_at(bytes, 0x236)? & 1 != 0;
        self.arch
            .get_or_insert(if is_64_bit { Arch::X86_64 } else { Arch::X86 });
        let version = usize::from(u16_at(bytes, 0x20e)?);
        if version != 0 {
            // "6.12.117+deb12-cloud-amd64 (builder@host) #1 SMP …", ended by NUL.
            let text = bytes.get(version + 0x200..).unwrap_or(&[]);
            self.set_release(text);
        }
        // The boot sector does not count as a set-up sector.
        let start = (setup_sectors + 1) * 512 + u64::from(u32_at(bytes, 0x248)?);
        slice(
            bytes,
            start,
            u64::from(u32_at(bytes, 0x24c)?),
            "the compressed kernel",
        )
    }

    fn zboot<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ImageError> {
        // The PE header names the EFI application's machine.
        let pe = usize::try_from(u32_at(bytes, 0x3c)?).unwrap_or(usize::MAX);
        let machine = pe.checked_add(4).and_then(|at| u16_at(bytes, at).ok());
        let arch = match machine {
            Some(0xaa64) => Some(Arch::Arm64),
            Some(0x5064) => Some(Arch::Riscv64),
            Some(0x6264) => Some(Arch::Loongarch64),
            Some(0x8664) => Some(Arch::X86_64),
            _ => None,
        };
        self.arch = self.arch.or(arch);
        let (start, length) = (u32_at(bytes, 8)?, u32_at(bytes, 12)?);
        slice(
            bytes,
            u64::from(start),
            u64::from(length),
            "the compressed kernel",
        )
    }

    fn elf(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
        let file = object::File::parse(bytes).map_err(ImageError::Elf)?;
        let arch = match file.architecture() {
            object::Architecture::X86_64 => Some(Arch::X86_64),
            object::Architecture::I386 => Some(Arch::X86),
            object::Architecture::Aarch64 => Some(Arch::Arm64),
            object::Architecture::PowerPc64 => Some(Arch::Ppc64),
            object::Architecture::Riscv64 => Some(Arch::Riscv64),
            object::Architecture::LoongArch64 => Some(Arch::Loongarch64),
            object::Architecture::S390x => Some(Arch::S390x),
            _ => None,
        };
        self.arch = self.arch.or(arch);
        if let Some(code) = &mut self.code {
            // Only code is wanted, so an image without BTF is not an error here.
            for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
                code.push(CodeSection {
                    address: section.address(),
                    bytes: section.data().map_err(ImageError::Elf)?.to_vec(),
                });
            }
            return Ok(Vec::new());
        }
        self.release_from_banner(bytes);
        match file.section_by_name(".BTF") {
            Some(section) => {
                let data = section.data().map_err(ImageError::Elf)?;
                if data.is_empty() {
                    Err(self.no_btf())
                } else {
                    Ok(data.to_vec())
                }
            }
            None => Err(self.no_btf()),
        }
    }

    /// A flat image has no section table: its BTF is the one place that parses as BTF.
    fn flat(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
        let arch = if is_at(bytes, 0x38, b"ARM\x64") {
            Arch::Arm64
        } else {
            Arch::Riscv64
        };
        self.arch.get_or_insert(arch);
        self.release_from_banner(bytes);
        // Magic, version 1, no flags, header of 24 bytes, types right after it.
        let header = b"\x9f\xeb\x01\0\x18\0\0\0\0\0\0\0";
        for at in memchr::memmem::find_iter(bytes, header) {
            let (Ok(types), Ok(strings), Ok(length)) = (
                u32_at(bytes, at + 12),
                u32_at(bytes, at + 16),
                u32_at(bytes, at + 20),
            ) else {
                continue;
            };
            let end = at as u64 + 24 + u64::from(strings) + u64::from(length);
            let Ok(end) = usize::try_from(end) else {
                continue;
            };
            // The strings come after the types: chance matches of the magic rarely satisfy that.
            if types == 0 || types > strings {
                continue;
            }
            if let Some(blob) = bytes.get(at..end) {
                return Ok(blob.to_vec());
            }
        }
        Err(self.no_btf())
    }

    fn no_btf(&self) -> ImageError {
        ImageError::NoBtf {
            release: self.release.clone(),
        }
    }

    /// `Linux version 6.12.117+deb12-cloud-amd64 (builder@host) …`, which init/version.c puts into
    /// every kernel.
    fn release_from_banner(&mut self, bytes: &[u8]) {
        let banner = b"Linux version ";
        let text = memchr::memmem::find_iter(bytes, banner)
            .filter_map(|at| bytes.get(at + banner.len()..))
            // The words also occur in messages, before a format's `%s`.
            .find(|text| text.first().is_some_and(u8::is_ascii_digit));
        if let Some(text) = text {
            self.set_release(text);
        }
    }

    /// The first word of `text`, if it can be a release.
    fn set_release(&mut self, text: &[u8]) {
        // __NEW_UTS_LEN: no release is longer than 64 bytes.
        let word = text.iter().take(65).take_while(|b| b.is_ascii_graphic());
        let word: String = word.map(|b| char::from(*b)).collect();
        if self.release.is_none() && !word.is_empty() && word.len() <= 64 {
            self.release = Some(word);
        }
    }
}

fn is_at(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(wanted))
}

fn slice<'a>(
    bytes: &'a [u8],
    start: u64,
    length: u64,
    what: &'static str,
) -> Result<&'a [u8], ImageError> {
    let needed = start.saturating_add(length);
    let range = usize::try_from(start)
        .ok()
        .zip(usize::try_from(needed).ok());
    range
        .and_then(|(start, end)| bytes.get(start..end))
        .ok_or(ImageError::Truncated {
            what,
            needed,
            length: bytes.len() as u64,
        })
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ImageError> {
    match *slice(bytes, at as u64, 2, "the header")? {
        [a, b] => Ok(u16::from_le_bytes([a, b])),
        _ => Ok(0),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ImageError> {
    match *slice(bytes, at as u64, 4, "the header")? {
        [a, b, c, d] => Ok(u32::from_le_bytes([a, b, c, d])),
        _ => Ok(0),
    }
}
