//! Unpacks kernels: every compression that Linux supports except LZO.
//!
//! Output is bounded by [`MAX_UNPACKED`] whatever the input claims.

use std::io::{self, Read};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;

/// The maximum size of an unpacked kernel: 1 GiB, ten times the largest distribution kernel.
pub const MAX_UNPACKED: u64 = 1 << 30;

/// How a kernel is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// `CONFIG_KERNEL_GZIP`
    Gzip,
    /// `CONFIG_KERNEL_BZIP2`
    Bzip2,
    /// `CONFIG_KERNEL_LZMA`
    Lzma,
    /// `CONFIG_KERNEL_XZ`
    Xz,
    /// `CONFIG_KERNEL_LZO`: recognised, but not unpacked.
    Lzo,
    /// `CONFIG_KERNEL_LZ4`: the legacy frame.
    Lz4,
    /// `CONFIG_KERNEL_ZSTD`
    Zstd,
}

impl Compression {
    /// The compression of data with this start (lib/decompress.c); `None` if it is none of them.
    pub fn of(bytes: &[u8]) -> Option<Compression> {
        let magics: [(&[u8], Compression); 8] = [
            (b"\x1f\x8b", Compression::Gzip),
            (b"\x1f\x9e", Compression::Gzip),
            (b"BZh", Compression::Bzip2),
            (b"\x5d\x00\x00", Compression::Lzma),
            (b"\xfd7zXZ\0", Compression::Xz),
            (b"\x89LZO", Compression::Lzo),
            (LZ4_LEGACY, Compression::Lz4),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
        ];
        magics
            .iter()
            .find(|(magic, _)| bytes.starts_with(magic))
            .map(|(_, found)| *found)
    }

    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Lzma => "lzma",
            Compression::Xz => "xz",
            Compression::Lzo => "lzo",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// Why data cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Broken or truncated.
    #[error("broken or truncated {} data: {error}", compression.name())]
    Broken {
        /// The compression.
        compression: Compression,
        /// The decompressor's error.
        error: String,
    },
    /// More than [`MAX_UNPACKED`].
    #[error("unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// A compression that is known but not unpacked.
    #[error("{} is not supported", .0.name())]
    Unsupported(Compression),
}

/// Unpacks `bytes`. Anything after the compressed data (x86 and zboot append the unpacked size) is
/// ignored.
///
/// # Errors
/// Broken data, an unpacked size above [`MAX_UNPACKED`], or LZO.
pub fn unpack(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>, UnpackError> {
    let broken = |error: io::Error| UnpackError::Broken {
        compression,
        error: error.to_string(),
    };
    // The limit is that of the dictionary, whose size the data's header claims.
    let dictionary = |limited: Result<Stream, liblzma::stream::Error>| {
        let stream = limited.map_err(|e| broken(e.into()))?;
        read(compression, XzDecoder::new_stream(bytes, stream))
    };
    match compression {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Gzip => read(compression, flate2::read::GzDecoder::new(bytes)),
        Compression::Bzip2 => read(compression, bzip2::read::BzDecoder::new(bytes)),
        Compression::Xz => dictionary(Stream::new_stream_decoder(MAX_UNPACKED, 0)),
        Compression::Lzma => dictionary(Stream::new_lzma_decoder(MAX_UNPACKED)),
        Compression::Zstd => {
            // One frame alone: the appended size would be read as another.
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes)
                .map_err(broken)?
                .single_frame();
            read(compression, decoder)
        }
        Compression::Lz4 => lz4_legacy(bytes),
        Compression::Lzo => Err(UnpackError::Unsupported(compression)),
    }
}

fn read(compression: Compression, decoder: impl Read) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    decoder
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| UnpackError::Broken {
            compression,
            error: error.to_string(),
        })?;
    bounded(unpacked)
}

fn bounded(unpacked: Vec<u8>) -> Result<Vec<u8>, UnpackError> {
    match unpacked.len() as u64 {
        n if n > MAX_UNPACKED => Err(UnpackError::TooLarge(MAX_UNPACKED)),
        _ => Ok(unpacked),
    }
}

const LZ4_LEGACY: &[u8] = b"\x02\x21\x4c\x18";
/// Every block except the last unpacks to exactly this (LZ4 legacy frame format).
const LZ4_BLOCK: usize = 8 << 20;

/// The legacy frame: magic, then blocks of a length and that many bytes, to the end. Only its
/// position distinguishes the total length, which kernels append, from a block's length.
fn lz4_legacy(bytes: &[u8]) -> Result<Vec<u8>, UnpackError> {
    let broken = |error: String| UnpackError::Broken {
        compression: Compression::Lz4,
        error,
    };
    let mut rest = bytes.get(LZ4_LEGACY.len()..).unwrap_or(&[]);
    let mut unpacked = Vec::new();
    let mut block = Vec::new();
    while rest.len() > 4 {
        let (length, tail) = rest.split_at(4);
        if length == LZ4_LEGACY {
            // Concatenated frames, as `lz4 -l` produces from concatenated input.
            rest = tail;
            continue;
        }
        let length = length
            .iter()
            .rev()
            .fold(0usize, |sum, b| sum << 8 | usize::from(*b));
        let packed = tail.get(..length).ok_or_else(|| {
            broken(format!(
                "a block of {length} bytes where {} are left",
                tail.len()
            ))
        })?;
        block.resize(LZ4_BLOCK, 0);
        let size = lz4_flex::block::decompress_into(packed, &mut block)
            .map_err(|error| broken(error.to_string()))?;
        unpacked.extend_from_slice(&block[..size.min(LZ4_BLOCK)]);
        if unpacked.len() as u64 > MAX_UNPACKED {
            return Err(UnpackError::TooLarge(MAX_UNPACKED));
        }
        rest = &tail[length..];
    }
    Ok(unpacked)
}
