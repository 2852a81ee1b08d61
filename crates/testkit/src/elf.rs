//! Kernel images that contain only machine code.

/// Bytes of an ELF header, and of a section's.
const HEADER: usize = 64;
/// The names of the sections.
const NAMES: &[u8] = b"\0.text\0.shstrtab\0";

/// An ELF file for x86-64 whose `.text` has this code at that address.
pub fn image(address: u64, code: &[u8]) -> Vec<u8> {
    let names = HEADER + code.len();
    let sections = (names + NAMES.len()).next_multiple_of(8);
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    put16(&mut file, &[2, 62]); // an executable file, x86-64
    put32(&mut file, &[1]);
    put64(&mut file, &[address, 0, sections as u64]);
    put32(&mut file, &[0]);
    put16(&mut file, &[HEADER as u16, 0, 0, HEADER as u16, 3, 2]);
    file.extend_from_slice(code);
    file.extend_from_slice(NAMES);
    // The first section header is empty.
    file.resize(sections + HEADER, 0);
    // PROGBITS, loaded and executed.
    let text = SectionHeader {
        name: 1,
        kind: 1,
        flags: 6,
        address,
        at: HEADER,
        bytes: code.len(),
    };
    text.put(&mut file);
    let strings = SectionHeader {
        name: 7,
        kind: 3,
        flags: 0,
        address: 0,
        at: names,
        bytes: NAMES.len(),
    };
    strings.put(&mut file);
    file
}

/// The header of a section.
struct SectionHeader {
    /// Where in [`NAMES`] its name starts.
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    at: usize,
    bytes: usize,
}

impl SectionHeader {
    fn put(&self, file: &mut Vec<u8>) {
        put32(file, &[self.name, self.kind]);
        put64(
            file,
            &[self.flags, self.address, self.at as u64, self.bytes as u64],
        );
        put32(file, &[0, 0]);
        put64(file, &[1, 0]);
    }
}

fn put16(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put32(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put64(file: &mut Vec<u8>, values: &[u64]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
