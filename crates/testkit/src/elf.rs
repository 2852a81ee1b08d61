//! Kernel images that hold machine code and nothing else.

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
    section(&mut file, (1, 1), 6, address, (HEADER, code.len()));
    section(&mut file, (7, 3), 0, 0, (names, NAMES.len()));
    file
}

fn section(
    file: &mut Vec<u8>,
    (name, kind): (u32, u32),
    flags: u64,
    address: u64,
    (at, bytes): (usize, usize),
) {
    put32(file, &[name, kind]);
    put64(file, &[flags, address, at as u64, bytes as u64]);
    put32(file, &[0, 0]);
    put64(file, &[1, 0]);
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
