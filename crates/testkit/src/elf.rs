//! ELF files for x86-64 that contain only the sections of a test.

/// Bytes of an ELF header, and of a section's.
const HEADER: usize = 64;

/// A section to put into a file.
struct SectionContents<'c> {
    name: &'static str,
    flags: u64,
    address: u64,
    contents: &'c [u8],
}

/// A file whose `.text` has this code at that address.
pub fn image(address: u64, code: &[u8]) -> Vec<u8> {
    let text = SectionContents {
        name: ".text",
        // Loaded and executed.
        flags: 6,
        address,
        contents: code,
    };
    file(address, &[text])
}

/// A program whose debug information is one unit without entries: it describes no variable.
pub fn undescribed() -> Vec<u8> {
    let section = |name, contents| SectionContents {
        name,
        flags: 0,
        address: 0,
        contents,
    };
    // A unit of version 4 with addresses of 8 bytes, and its entry, which has abbreviation 1: a
    // `DW_TAG_compile_unit` (0x11) without attributes.
    let info = section(".debug_info", b"\x08\0\0\0\x04\0\0\0\0\0\x08\x01");
    let abbreviations = section(".debug_abbrev", b"\x01\x11\0\0\0\0");
    file(0, &[info, abbreviations])
}

fn file(entry: u64, contents: &[SectionContents<'_>]) -> Vec<u8> {
    let mut names = vec![0];
    let mut headers = Vec::new();
    let mut at = HEADER;
    for section in contents {
        let header = SectionHeader {
            name: names.len(),
            kind: 1, // PROGBITS
            flags: section.flags,
            address: section.address,
            at,
            bytes: section.contents.len(),
        };
        header.put(&mut headers);
        names.extend(section.name.bytes().chain([0]));
        at += section.contents.len();
    }
    let strings = SectionHeader {
        name: names.len(),
        kind: 3, // STRTAB
        flags: 0,
        address: 0,
        at,
        bytes: names.len() + ".shstrtab\0".len(),
    };
    strings.put(&mut headers);
    names.extend_from_slice(b".shstrtab\0");
    let table = (at + names.len()).next_multiple_of(8);
    let count = contents.len() as u16;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    put16(&mut file, &[2, 62]); // an executable file, x86-64
    put32(&mut file, &[1]);
    put64(&mut file, &[entry, 0, table as u64]);
    put32(&mut file, &[0]);
    let header = HEADER as u16;
    put16(&mut file, &[header, 0, 0, header, count + 2, count + 1]);
    contents
        .iter()
        .for_each(|section| file.extend(section.contents));
    file.extend(names);
    // The first section header is empty.
    file.resize(table + HEADER, 0);
    file.extend(headers);
    file
}

/// The header of a section.
struct SectionHeader {
    /// Where in the table of names its name starts.
    name: usize,
    kind: u32,
    flags: u64,
    address: u64,
    at: usize,
    bytes: usize,
}

impl SectionHeader {
    fn put(&self, file: &mut Vec<u8>) {
        put32(file, &[self.name as u32, self.kind]);
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
