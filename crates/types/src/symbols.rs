//! The kernel's symbol table, from the text of `/proc/kallsyms`.
//!
//! Does not know types: what lies behind an address is the caller's to combine with the type model.

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address; for per-CPU variables before Linux 6.16 the offset in the per-CPU section.
    pub address: u64,
    /// The letter of `nm`: `T`/`t` code, `D`/`d` data, `B`/`b` zeroed data, `R`/`r` read-only data, `A` absolute, …
    pub letter: char,
    /// Its name; several symbols may share one.
    pub name: String,
    /// The module it belongs to; `None` for the kernel itself.
    pub module: Option<String>,
}

/// What is wrong with a symbol table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsError {
    /// A line that is not `address letter name [module]`.
    #[error("symbols line {line}: not `address letter name`: {text:?}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Its first 60 characters.
        text: String,
    },
    /// All addresses are 0: the reader was not allowed to see them (kernel.kptr_restrict).
    #[error("all {0} symbols have address 0: the kernel hides them from this user")]
    Hidden(usize),
}

/// A symbol table sorted by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Sorted by (address, name, module).
    symbols: Vec<Symbol>,
    /// Indices into `symbols`, sorted by name.
    by_name: Vec<u32>,
}

/// Per-CPU offsets are small, addresses of a kernel are not: below this an `A` symbol is an offset.
const PERCPU_OFFSET_MAX: u64 = 1 << 20;

impl Symbols {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    /// The first line that is no symbol, or a table whose addresses are all hidden.
    pub fn parse_kallsyms(text: &str) -> Result<Symbols, SymbolsError> {
        let mut symbols = Vec::new();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
        {
            symbols.push(parse_line(line).ok_or_else(|| SymbolsError::Line {
                line: index + 1,
                text: line.chars().take(60).collect(),
            })?);
        }
        if !symbols.is_empty() && symbols.iter().all(|s: &Symbol| s.address == 0) {
            return Err(SymbolsError::Hidden(symbols.len()));
        }
        Ok(Symbols::new(symbols))
    }

    /// A table of `symbols` in any order.
    pub fn new(mut symbols: Vec<Symbol>) -> Symbols {
        symbols.sort_by(|a, b| {
            (a.address, &a.name, &a.module, a.letter)
                .cmp(&(b.address, &b.name, &b.module, b.letter))
        });
        let count = u32::try_from(symbols.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        by_name.sort_by(|a, b| {
            symbols[*a as usize]
                .name
                .cmp(&symbols[*b as usize].name)
                .then(a.cmp(b))
        });
        Symbols { symbols, by_name }
    }

    /// All symbols, by address.
    pub fn all(&self) -> &[Symbol] {
        &self.symbols
    }

    /// All symbols called `name`, by address.
    pub fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Symbol> {
        let start = self.by_name.partition_point(|i| self.name_of(*i) < name);
        let count = self.by_name[start..].partition_point(|i| self.name_of(*i) == name);
        self.by_name[start..start + count]
            .iter()
            .map(|i| &self.symbols[*i as usize])
    }

    fn name_of(&self, index: u32) -> &str {
        &self.symbols[index as usize].name
    }

    /// The address of the kernel's own symbol `name`, if there is exactly one address for it.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let mut found = self
            .named(name)
            .filter(|s| s.module.is_none())
            .map(|s| s.address);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The symbol that `address` belongs to (the nearest at or below it; the first by name when several share
    /// an address) and how far behind the symbol's start it is. `None` below the first symbol.
    pub fn at(&self, address: u64) -> Option<(&Symbol, u64)> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        let start = self.symbols.get(after.checked_sub(1)?)?.address;
        let first = self.symbols.partition_point(|s| s.address < start);
        self.symbols
            .get(first)
            .map(|symbol| (symbol, address - start))
    }

    /// Bytes from `symbol` to the next higher address: an upper bound of its size, for the table has none.
    /// `None` for the last one.
    pub fn size_estimate(&self, symbol: &Symbol) -> Option<u64> {
        let next = self
            .symbols
            .partition_point(|s| s.address <= symbol.address);
        self.symbols
            .get(next)
            .map(|next| next.address - symbol.address)
    }

    /// Where the per-CPU section starts in symbol addresses: 0 before Linux 6.16 (symbols are offsets),
    /// `__per_cpu_start` from then on. A variable's symbol = this + its offset in BTF's `.data..percpu`.
    pub fn percpu_base(&self) -> u64 {
        match self.address_of("__per_cpu_start") {
            Some(start) if start >= PERCPU_OFFSET_MAX => start,
            _ => 0,
        }
    }
}

fn parse_line(line: &str) -> Option<Symbol> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut letters = words.next()?.chars();
    let letter = letters.next()?;
    let name = words.next()?.to_owned();
    let module = match words.next() {
        None => None,
        Some(word) => Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned()),
    };
    (letters.next().is_none() && words.next().is_none()).then_some(Symbol {
        address,
        letter,
        name,
        module,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
0000000000000000 A __per_cpu_start
0000000000030b80 A runqueues
ffffffff81000000 T _stext
ffffffff81000040 T startup_64
ffffffff81000100 t helper
ffffffff81000180 t helper
ffffffff81000100 T alias_of_helper
ffffffffc0000000 t helper\t[nfs]
";

    fn table() -> Symbols {
        Symbols::parse_kallsyms(TABLE).unwrap()
    }

    #[test]
    fn by_name_finds_all_in_address_order() {
        let symbols = table();
        let found: Vec<_> = symbols
            .named("helper")
            .map(|s| (s.address, s.module.as_deref()))
            .collect();
        let expected = [
            (0xffff_ffff_8100_0100, None),
            (0xffff_ffff_8100_0180, None),
            (0xffff_ffff_c000_0000, Some("nfs")),
        ];
        assert_eq!(found, expected);
        assert_eq!(symbols.named("help").count(), 0);
        assert_eq!(symbols.address_of("helper"), None, "two addresses");
        assert_eq!(symbols.address_of("runqueues"), Some(0x30b80));
    }

    #[test]
    fn by_address_gives_symbol_and_offset() {
        let symbols = table();
        let at = |address| {
            symbols
                .at(address)
                .map(|(s, offset)| (s.name.as_str(), offset))
        };
        assert_eq!(at(0xffff_ffff_8100_0040), Some(("startup_64", 0)));
        assert_eq!(at(0xffff_ffff_8100_00ff), Some(("startup_64", 0xbf)));
        assert_eq!(
            at(0xffff_ffff_8100_0101),
            Some(("alias_of_helper", 1)),
            "first by name"
        );
        assert_eq!(at(0), Some(("__per_cpu_start", 0)));
        let (symbol, _) = symbols.at(0xffff_ffff_8100_0050).unwrap();
        assert_eq!(symbols.size_estimate(symbol), Some(0xc0));
        let (last, _) = symbols.at(u64::MAX).unwrap();
        assert_eq!(symbols.size_estimate(last), None);
    }

    #[test]
    fn the_percpu_base_depends_on_the_kernel() {
        assert_eq!(table().percpu_base(), 0);
        let later = "ffffffff83000000 D __per_cpu_start\nffffffff83030b80 D runqueues\n";
        let later = Symbols::parse_kallsyms(later).unwrap();
        assert_eq!(later.percpu_base(), 0xffff_ffff_8300_0000);
    }

    #[test]
    fn broken_lines_are_named() {
        for bad in ["xyz T a", "12 T", "12 TT a", "12 T a nfs", "12 T a [nfs] b"] {
            let text = format!("ffffffff81000000 T _stext\n{bad}\n");
            let expected = SymbolsError::Line {
                line: 2,
                text: bad.to_owned(),
            };
            assert_eq!(Symbols::parse_kallsyms(&text).unwrap_err(), expected);
        }
        let hidden = "0000000000000000 T _stext\n0000000000000000 T other\n";
        assert_eq!(
            Symbols::parse_kallsyms(hidden).unwrap_err(),
            SymbolsError::Hidden(2)
        );
        assert!(Symbols::parse_kallsyms("").unwrap().all().is_empty());
    }
}
