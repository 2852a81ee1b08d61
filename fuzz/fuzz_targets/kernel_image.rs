//! Kernel images: any file is taken or refused without harm, and what is packed into an image comes
//! out again.

#![no_main]

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use linemate_types::KernelImage;
use linemate_types::kernel_image::{Arch, Format};

fuzz_target!(|data: &[u8]| {
    if let Ok(image) = KernelImage::parse(data) {
        let _ = image.types();
    }
    let mut blob = b"\x9f\xeb".to_vec();
    blob.extend_from_slice(data);
    let sectors = data.first().copied().unwrap_or(0);
    let image = KernelImage::parse(&bzimage(&blob, sectors)).expect("a sound image");
    assert_eq!(image.btf, blob);
    assert_eq!(image.format, Format::BzImage);
    assert_eq!(image.arch, Some(Arch::X86_64));
    assert_eq!(image.release.as_deref(), Some("6.12.0-test"));
});

/// An x86 image with `setup` sectors (0 means 4) and `blob`, packed, behind them.
fn bzimage(blob: &[u8], setup: u8) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(blob).expect("memory takes all");
    let payload = encoder.finish().expect("memory takes all");
    let sectors = if setup == 0 { 4 } else { usize::from(setup) };
    let mut image = vec![0; ((sectors + 1) * 512).max(0x600)];
    let start = image.len() - (sectors + 1) * 512;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[setup]);
    put(0x202, b"HdrS");
    put(0x206, &0x020f_u16.to_le_bytes());
    put(0x20e, &0x0180_u16.to_le_bytes());
    put(0x236, &1_u16.to_le_bytes());
    put(0x248, &u32::try_from(start).expect("small").to_le_bytes());
    put(
        0x24c,
        &u32::try_from(payload.len()).expect("small").to_le_bytes(),
    );
    put(0x380, b"6.12.0-test (builder) #1\0");
    image.extend_from_slice(&payload);
    image
}
