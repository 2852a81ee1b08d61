//! The guest's memory, as far as images of it were taken.

use linemate_recording::{Error, Moment, Recording};

/// Pieces of memory at one moment.
#[derive(Clone, Debug, Default)]
pub struct KernelMemory {
    /// (address of the first byte, bytes), sorted.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl KernelMemory {
    /// Memory of these pieces.
    #[must_use]
    pub fn new(mut pieces: Vec<(u64, Vec<u8>)>) -> KernelMemory {
        pieces.sort_by_key(|p| p.0);
        KernelMemory { pieces }
    }

    /// All images of a recording: those from the start, those from the stop.
    ///
    /// # Errors
    /// An image that is damaged.
    pub fn of(recording: &Recording) -> Result<(KernelMemory, KernelMemory), Error> {
        let (mut start, mut stop) = (Vec::new(), Vec::new());
        for image in recording.images() {
            let (info, bytes) = image?;
            match info.moment {
                Moment::Start => start.push((info.addr.0, bytes)),
                Moment::Stop => stop.push((info.addr.0, bytes)),
            }
        }
        Ok((KernelMemory::new(start), KernelMemory::new(stop)))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// `length` bytes from `addr` on, if they are all in one piece.
    #[must_use]
    pub fn bytes(&self, addr: u64, length: usize) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|p| p.0 <= addr);
        // Images may overlap: a small one inside a large one. The nearest that is long enough wins.
        self.pieces[..after]
            .iter()
            .rev()
            // The format does not bound how deep images nest: this bounds a look-up in a broken
            // recording.
            .take(16)
            .find_map(|(start, bytes)| {
                let from = usize::try_from(addr - start).ok()?;
                bytes.get(from..from.checked_add(length)?)
            })
    }

    /// An unsigned 64-bit number.
    #[must_use]
    pub fn u64(&self, addr: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(addr, 8)?.try_into().ok()?))
    }

    /// An unsigned 32-bit number.
    #[must_use]
    pub fn u32(&self, addr: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(addr, 4)?.try_into().ok()?))
    }

    /// Text that ends in a zero byte, of at most 64 bytes.
    #[must_use]
    pub fn text(&self, addr: u64) -> Option<String> {
        let mut text = Vec::new();
        for i in 0..64 {
            match self.bytes(addr.checked_add(i)?, 1)? {
                [0] => return String::from_utf8(text).ok(),
                byte => text.extend_from_slice(byte),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let memory = KernelMemory::new(vec![
            (100, b"name\0\x01\x02\x03\x04\x05\x06\x07\x08".to_vec()),
            (200, vec![0xff; 4]),
        ]);
        assert_eq!(memory.text(100), Some("name".into()));
        assert_eq!(memory.u64(105), Some(0x0807_0605_0403_0201));
        assert_eq!(memory.u32(200), Some(u32::MAX));
        assert_eq!(memory.u64(200), None, "past the piece");
        assert_eq!(memory.bytes(99, 1), None);
        assert_eq!(memory.text(201), None, "no end");
    }
}
