//! An ELF file's address ranges.

use std::ops::Range;

use linemate_types::ElfAddr;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind, elf};
use thiserror::Error;

/// The maximum number of symbols of a file that are read.
const SYMBOLS_MAX: usize = 4 << 20;

/// A file that cannot be read as a program.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Not an ELF file, or a broken one.
    #[error("{path} is not a sound x86-64 ELF file: {reason}")]
    Elf {
        /// The file, as the guest has it.
        path: String,
        /// The reader's error message.
        reason: String,
    },
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub address: ElfAddr,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory: what the file does not have is zero.
    pub memory_bytes: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
}

impl Segment {
    /// Its addresses, if its memory is private.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.address.0..self.address.0.saturating_add(self.memory_bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its first byte; for thread-local variables the offset in the file's thread storage.
    pub address: ElfAddr,
    /// Bytes; 0 if the file does not say.
    pub size: u64,
    /// Its name, as the linker has it.
    pub name: String,
}

/// The thread-local variables of a file (`PT_TLS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadStorage {
    /// Bytes of each thread's copy.
    size: u64,
    align: u64,
}

/// A program or library.
#[derive(Clone, Debug)]
pub struct Image {
    /// Where the guest has it.
    pub path: String,
    /// Whether it is loaded where the linker put it (`ET_EXEC`).
    pub fixed: bool,
    /// The mapped parts, by address.
    pub segments: Vec<Segment>,
    pub functions: Vec<Symbol>,
    pub variables: Vec<Symbol>,
    /// Thread-local variables, by offset.
    pub thread_locals: Vec<Symbol>,
    /// The storage that has them.
    thread_storage: Option<ThreadStorage>,
}

impl Image {
    /// Reads a file; `debug` is the file with its debug information, whose symbols it may lack.
    ///
    /// # Errors
    /// [`ImageError::Elf`].
    pub fn read(path: &str, bytes: &[u8], debug: Option<&[u8]>) -> Result<Self, ImageError> {
        let refuse = |error: object::Error| ImageError::Elf {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(refuse)?;
        let endian = file.endian();
        let mut image = Self {
            path: path.to_owned(),
            fixed: file.kind() == object::ObjectKind::Executable,
            segments: Vec::new(),
            functions: Vec::new(),
            variables: Vec::new(),
            thread_locals: Vec::new(),
            thread_storage: None,
        };
        for header in file.elf_program_headers() {
            match header.p_type(endian) {
                elf::PT_LOAD => image.segments.push(Segment {
                    address: ElfAddr(header.p_vaddr(endian)),
                    offset: header.p_offset(endian),
                    file_bytes: header.p_filesz(endian),
                    memory_bytes: header.p_memsz(endian),
                    writable: header.p_flags(endian) & elf::PF_W != 0,
                    executable: header.p_flags(endian) & elf::PF_X != 0,
                }),
                elf::PT_TLS => {
                    image.thread_storage = Some(ThreadStorage {
                        size: header.p_memsz(endian),
                        align: header.p_align(endian).max(1),
                    });
                }
                _ => {}
            }
        }
        image.segments.sort_by_key(|segment| segment.address);
        image.take_symbols(&file);
        // Damaged debug information costs only names.
        if let Some(debug) = debug.and_then(|b| ElfFile64::<LittleEndian>::parse(b).ok()) {
            image.take_symbols(&debug);
        }
        for list in [
            &mut image.functions,
            &mut image.variables,
            &mut image.thread_locals,
        ] {
            list.sort();
            list.dedup();
        }
        Ok(image)
    }

    fn take_symbols(&mut self, file: &ElfFile64<'_, LittleEndian>) {
        for symbol in file
            .symbols()
            .chain(file.dynamic_symbols())
            .take(SYMBOLS_MAX)
        {
            let list = match symbol.kind() {
                SymbolKind::Text => &mut self.functions,
                SymbolKind::Data => &mut self.variables,
                SymbolKind::Tls => &mut self.thread_locals,
                _ => continue,
            };
            if let (true, Ok(name)) = (symbol.is_definition(), symbol.name()) {
                if !name.is_empty() {
                    list.push(Symbol {
                        address: ElfAddr(symbol.address()),
                        size: symbol.size(),
                        name: name.split('@').next().unwrap_or(name).to_owned(),
                    });
                }
            }
        }
    }

    /// The file's name without its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The address of `offset` in the file's code.
    #[must_use]
    pub fn code_at(&self, offset: u64) -> Option<ElfAddr> {
        let executable = self.segments.iter().filter(|segment| segment.executable);
        executable
            .filter_map(|segment| {
                let within = offset.checked_sub(segment.offset)?;
                let address = segment.address.0.checked_add(within)?;
                (within < segment.file_bytes).then_some(ElfAddr(address))
            })
            .next()
    }

    /// The file offset of `address`; `None` if it is not in the file.
    #[must_use]
    pub fn offset_of(&self, address: ElfAddr) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.0.checked_sub(segment.address.0)?;
            let offset = segment.offset.checked_add(within)?;
            (within < segment.file_bytes).then_some(offset)
        })
    }

    /// Whether a mapped part contains the address.
    #[must_use]
    pub fn holds(&self, address: ElfAddr) -> bool {
        self.segments.iter().any(|s| s.range().contains(&address.0))
    }

    /// Whether it is a shared library or the loader. By name, because a program is ET_DYN, too.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.name().contains(".so")
    }

    /// How many bytes below a thread pointer a program's thread-local variables start: they end
    /// there (System V ABI, TLS variant II; U. Drepper, ELF Handling For Thread-Local Storage,
    /// section 3.4.6). `None` for libraries: theirs are further below, in an order that is unknown
    /// here.
    #[must_use]
    pub fn below_thread_pointer(&self) -> Option<u64> {
        let storage = self.thread_storage.filter(|_| !self.is_library())?;
        storage.size.checked_next_multiple_of(storage.align)
    }

    /// The function at an address.
    #[must_use]
    pub fn function_at(&self, address: ElfAddr) -> Option<&Symbol> {
        at(&self.functions, address)
    }

    /// The variable at an address.
    #[must_use]
    pub fn variable_at(&self, address: ElfAddr) -> Option<&Symbol> {
        at(&self.variables, address)
    }
}

/// Symbols may nest or share an address: this many are examined.
const NEAR: usize = 16;

/// The symbol that contains an address, of several at one address the last by name, because
/// underscores come first. One without a size extends to the next.
fn at(list: &[Symbol], address: ElfAddr) -> Option<&Symbol> {
    let after = list.partition_point(|symbol| symbol.address <= address);
    let near = list[after.saturating_sub(NEAR)..after].iter().rev();
    let mut near = near.filter(|s| s.size == 0 || address.0 - s.address.0 < s.size);
    near.next()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn symbol(address: u64, size: u64, name: &str) -> Symbol {
        Symbol {
            address: ElfAddr(address),
            size,
            name: name.into(),
        }
    }

    #[test]
    fn a_symbol_holds_its_bytes_and_no_others() {
        let list = [
            symbol(16, 64, "outer"),
            symbol(32, 8, "inner"),
            symbol(96, 0, "label"),
        ];
        let name = |address| at(&list, ElfAddr(address)).map(|s| s.name.as_str());
        assert_eq!(name(15), None);
        assert_eq!(name(31), Some("outer"));
        assert_eq!(name(39), Some("inner"));
        assert_eq!(name(40), Some("outer"));
        assert_eq!(name(80), None);
        assert_eq!(name(1000), Some("label"));
    }

    #[test]
    fn this_program_is_read() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let image = Image::read("/bin/test", &bytes, None).unwrap();
        assert_eq!(image.name(), "test");
        let main = image.functions.iter().find(|f| f.name == "main").unwrap();
        let offset = image.offset_of(main.address).unwrap();
        assert_eq!(image.code_at(offset), Some(main.address));
        assert_eq!(
            image.function_at(main.address).unwrap().address,
            main.address
        );
        assert!(image.holds(main.address) && !image.holds(ElfAddr(u64::MAX - 8)));
    }

    #[test]
    fn what_is_no_program_is_refused_by_name() {
        let error = Image::read("/etc/passwd", b"root", None)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("/etc/passwd is not a sound x86-64 ELF file: "),
            "{error}"
        );
    }
}
