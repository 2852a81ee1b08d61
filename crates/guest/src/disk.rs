//! An empty disk image (qcow2) for QEMU to store a snapshot in. The guest never sees it.
//!
//! Format: docs/interop/qcow2.rst of QEMU.

const CLUSTER_BITS: u32 = 16;
const CLUSTER: usize = 1 << CLUSTER_BITS;

/// Bytes of the (unused) disk; snapshots are after its end.
const DISK_SIZE: u64 = CLUSTER as u64;

/// The image's bytes: four clusters, for the header, the table of reference counts, its one block,
/// and the table of data.
pub(crate) fn empty() -> Vec<u8> {
    let mut image = vec![0; 4 * CLUSTER];
    let cluster = |index: u64| index << CLUSTER_BITS;
    let mut header = Vec::new();
    header.extend_from_slice(b"QFI\xfb");
    put32(&mut header, 3); // version
    put64(&mut header, 0); // no backing file
    put32(&mut header, 0);
    put32(&mut header, CLUSTER_BITS);
    put64(&mut header, DISK_SIZE);
    put32(&mut header, 0); // no encryption
    put32(&mut header, 1); // entries in the table of data
    put64(&mut header, cluster(3)); // where that is
    put64(&mut header, cluster(1)); // table of reference counts
    put32(&mut header, 1); // its clusters
    put32(&mut header, 0); // no snapshots yet
    put64(&mut header, 0);
    put64(&mut header, 0); // features: incompatible, compatible, auto-clear
    put64(&mut header, 0);
    put64(&mut header, 0);
    put32(&mut header, 4); // 2^4 bits for a reference count
    put32(&mut header, 104); // bytes of this header
    write(&mut image, 0, &header);
    write(&mut image, CLUSTER, &cluster(2).to_be_bytes());
    // Each of the four clusters is used once; all others are free, and QEMU grows the file.
    let counts: Vec<u8> = (0..4).flat_map(|_| 1u16.to_be_bytes()).collect();
    write(&mut image, 2 * CLUSTER, &counts);
    image
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn write(image: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in image.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_says_where_its_tables_are() {
        let image = empty();
        let u64_at = |at: usize| u64::from_be_bytes(image[at..at + 8].try_into().unwrap());
        assert_eq!(image.len(), 4 * CLUSTER);
        assert_eq!(&image[..8], b"QFI\xfb\0\0\0\x03");
        assert_eq!(
            (u64_at(24), u64_at(40), u64_at(48)),
            (0x1_0000, 0x3_0000, 0x1_0000)
        );
        assert_eq!(image[100..104], 104u32.to_be_bytes());
        assert_eq!(u64_at(CLUSTER), 0x2_0000);
        assert_eq!(
            image[2 * CLUSTER..2 * CLUSTER + 10],
            [0, 1, 0, 1, 0, 1, 0, 1, 0, 0]
        );
    }
}
