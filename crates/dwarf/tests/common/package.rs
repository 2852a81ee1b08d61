//! Packages of DWARF 5, which the binutils' `dwp` cannot make before 2.41: `.debug_cu_index` and
//! `.debug_tu_index` by the standard (7.3.5).

use std::path::Path;
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use super::run;

/// The sections that have columns, with their numbers, units first.
const COLUMNS: [(&str, u32); 6] = [
    (".debug_info.dwo", 1),
    (".debug_abbrev.dwo", 3),
    (".debug_line.dwo", 4),
    (".debug_loclists.dwo", 5),
    (".debug_str_offsets.dwo", 6),
    (".debug_rnglists.dwo", 8),
];

/// A unit, by its id or signature, and its contributions to the columns: offset and length.
struct Row {
    id: u64,
    places: [(u32, u32); 6],
}

/// One package of `objects`.
pub(crate) fn of(folder: &Path, objects: &[&[u8]]) -> Vec<u8> {
    let mut columns: [Vec<u8>; 6] = Default::default();
    let mut strings: Vec<u8> = Vec::new();
    let (mut units, mut types) = (Vec::new(), Vec::new());
    for bytes in objects {
        let file = ElfFile64::<Endianness>::parse(*bytes).unwrap();
        let pieces = |name: &str| -> Vec<Vec<u8>> {
            file.sections()
                .filter(|section| section.name() == Ok(name))
                .map(|section| section.uncompressed_data().unwrap().into_owned())
                .collect()
        };
        let mut places = [(0, 0); 6];
        for (number, (name, _)) in COLUMNS.iter().enumerate().skip(1) {
            let mut piece = pieces(name).concat();
            if *name == ".debug_str_offsets.dwo" {
                // After the header, offsets of strings, which follow those of the earlier objects.
                for offset in piece[8..].chunks_exact_mut(4) {
                    let old = u32::from_le_bytes(offset.try_into().unwrap());
                    let new = old + u32::try_from(strings.len()).unwrap();
                    offset.copy_from_slice(&new.to_le_bytes());
                }
            }
            places[number] = append(&mut columns[number], &piece);
        }
        for unit in pieces(COLUMNS[0].0) {
            places[0] = append(&mut columns[0], &unit);
            // Length, version, kind, bytes of an address, place of the abbreviations; then the id
            // or the signature.
            let id = u64::from_le_bytes(unit[12..20].try_into().unwrap());
            match unit[6] {
                5 => units.push(Row { id, places }),
                6 if types.iter().all(|row: &Row| row.id != id) => types.push(Row { id, places }),
                _ => {}
            }
        }
        strings.extend(pieces(".debug_str.dwo").concat());
    }
    let mut parts: Vec<(&str, Vec<u8>)> = COLUMNS.iter().map(|c| c.0).zip(columns).collect();
    parts.push((".debug_str.dwo", strings));
    parts.push((".debug_cu_index", index(&units)));
    parts.push((".debug_tu_index", index(&types)));
    parts.retain(|(_, bytes)| !bytes.is_empty());
    elf(folder, &parts)
}

fn append(column: &mut Vec<u8>, piece: &[u8]) -> (u32, u32) {
    let start = u32::try_from(column.len()).unwrap();
    column.extend_from_slice(piece);
    (start, u32::try_from(piece.len()).unwrap())
}

fn index(rows: &[Row]) -> Vec<u8> {
    if rows.is_empty() {
        return Vec::new();
    }
    let slots = (rows.len() * 3 / 2 + 1).next_power_of_two();
    let mut table = vec![(0, 0); slots];
    for (row, number) in rows.iter().zip(1..) {
        let mask = slots as u64 - 1;
        let (mut slot, step) = (row.id & mask, (row.id >> 32 & mask) | 1);
        while table[slot as usize].1 != 0 {
            slot = (slot + step) & mask;
        }
        table[slot as usize] = (row.id, number);
    }
    let mut words: Vec<u32> = vec![5, 6, rows.len() as u32, slots as u32];
    words.extend(
        table
            .iter()
            .flat_map(|(id, _)| [*id as u32, (*id >> 32) as u32]),
    );
    words.extend(table.iter().map(|(_, row)| row));
    words.extend(COLUMNS.iter().map(|(_, number)| number));
    let places = || rows.iter().flat_map(|row| row.places);
    words.extend(places().map(|(start, _)| start));
    words.extend(places().map(|(_, length)| length));
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// An ELF file with these sections.
fn elf(folder: &Path, parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let to = folder.join("package");
    run(Command::new("gcc")
        .args(["-c", "-x", "c", "/dev/null", "-o"])
        .arg(&to));
    let mut add = Command::new("objcopy");
    for (name, bytes) in parts {
        let part = folder.join(name.trim_start_matches('.'));
        std::fs::write(&part, bytes).unwrap();
        add.arg("--add-section")
            .arg(format!("{name}={}", part.display()));
    }
    run(add.arg(&to));
    std::fs::read(&to).unwrap()
}
