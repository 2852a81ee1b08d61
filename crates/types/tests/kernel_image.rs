//! Every container and compression, with the fuzzer's seeds: all of them hold the same BTF.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use linemate_types::KernelImage;
use linemate_types::kernel_image::{Arch, Format};
use linemate_types::unpack::Compression;

fn seed(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_container_gives_the_same_btf() {
    let raw = (Format::RawBtf, None, None);
    let cases = [
        ("gzip", Compression::Gzip, raw),
        ("xz", Compression::Xz, raw),
        ("lzma", Compression::Lzma, raw),
        ("bzip2", Compression::Bzip2, raw),
        ("zstd", Compression::Zstd, raw),
        ("lz4", Compression::Lz4, raw),
        (
            "elf",
            Compression::None,
            (Format::Elf, Some(Arch::X86_64), None),
        ),
        (
            "zboot",
            Compression::Gzip,
            (Format::EfiZboot, Some(Arch::Arm64), None),
        ),
        (
            "flat",
            Compression::None,
            (Format::FlatImage, Some(Arch::Arm64), Some("6.12.0-arm")),
        ),
    ];
    for (name, compression, (format, arch, release)) in cases {
        let image = KernelImage::parse(&seed(&format!("kernel_image/{name}"))).unwrap();
        assert_eq!(image.compression, compression, "{name}");
        assert_eq!((image.format, image.arch), (format, arch), "{name}");
        assert_eq!(image.release.as_deref(), release, "{name}");
        assert_eq!(image.btf, seed("btf/sample"), "{name}");
        assert!(
            image.types().unwrap().struct_named("outer").is_some(),
            "{name}"
        );
    }
}

#[test]
fn a_cut_image_is_refused_at_every_length() {
    // A truncated flat image or ELF file can still hold all of the BTF, and bzip2 and LZ4 blocks
    // are complete or absent.
    for name in ["gzip", "xz", "zstd", "zboot"] {
        let bytes = seed(&format!("kernel_image/{name}"));
        for length in 0..bytes.len() {
            assert!(
                KernelImage::parse(&bytes[..length]).is_err(),
                "{name} cut at {length}"
            );
        }
    }
}
