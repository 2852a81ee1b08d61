//! The kernel's symbol table, from the text of `/proc/kallsyms`.
//!
//! Does not know types: the caller combines symbols with the type model.
//!
//! Many symbols share an address with another one. Which of them names an address is decided here,
//! once, by the order of the table (see [`Symbols::all`]); everybody else takes the first.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address; for per-CPU variables before Linux 6.16, the offset in the per-CPU section.
    pub address: u64,
    /// The letter of `nm`: `T`/`t` code, `D`/`d` data, `B`/`b` zeroed data, `R`/`r` read-only data,
    /// `A` absolute, …
    pub letter: char,
    /// Its name; several symbols may share one.
    pub name: String,
    /// The module it belongs to; `None` for the kernel itself.
    pub module: Option<String>,
}

impl Symbol {
    /// The function that this code belongs to: see [`function_of`].
    pub fn function(&self) -> &str {
        function_of(&self.name)
    }
}

/// The function of a code symbol: `f` for what the compiler split off or cloned from it (`f.cold`,
/// `f.part.0`, `f.isra.0`).
pub fn function_of(symbol: &str) -> &str {
    match symbol.split('.').next() {
        Some(name) if !name.is_empty() => name,
        _ => symbol,
    }
}

/// Why a symbol table is rejected.
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
    /// In the order of [`Symbols::all`].
    symbols: Vec<Symbol>,
    /// Indices into `symbols`, sorted by name.
    by_name: Vec<u32>,
    /// Functions of programs with their ends, by code address.
    programs: Vec<(Symbol, u64)>,
}

/// Per-CPU offsets are small, kernel addresses are not: below this an `A` symbol is an offset.
const PERCPU_OFFSET_MAX: u64 = 1 << 20;

impl Symbols {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    /// The first line that is not a symbol, or a table whose addresses are all hidden.
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
        let order = |s: &Symbol| (s.address, Claim::of(&s.name), s.letter.is_ascii_lowercase());
        symbols.sort_by(|a, b| {
            (order(a), &a.name, &a.module, a.letter).cmp(&(order(b), &b.name, &b.module, b.letter))
        });
        let count = u32::try_from(symbols.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        by_name.sort_by(|a, b| {
            symbols[*a as usize]
                .name
                .cmp(&symbols[*b as usize].name)
                .then(a.cmp(b))
        });
        Symbols {
            symbols,
            by_name,
            programs: Vec::new(),
        }
    }

    /// The same with the functions of recorded programs: each with the address after its last byte.
    /// They are looked up separately ([`Symbols::of_program`]), because their code addresses would
    /// fall among the kernel's offsets.
    #[must_use]
    pub fn with_programs(mut self, mut functions: Vec<(Symbol, u64)>) -> Symbols {
        functions.sort_by(|(a, a_end), (b, b_end)| {
            (a.address, a_end, &a.name, &a.module).cmp(&(b.address, b_end, &b.name, &b.module))
        });
        // Of several at one address, the one that ends first, and of these the first by name.
        functions.dedup_by_key(|(symbol, _)| symbol.address);
        self.programs = functions;
        self
    }

    /// The function of a program that contains the code at `address`.
    pub fn of_program(&self, address: u64) -> Option<&Symbol> {
        let after = self.programs.partition_point(|(s, _)| s.address <= address);
        let (symbol, end) = self.programs.get(after.checked_sub(1)?)?;
        (address < *end).then_some(symbol)
    }

    /// All symbols, by address. Of several at one address, the first names the address:
    ///
    /// 1. an object or function before what a compiler or build step adds, and that before the
    ///    linker script's marks;
    /// 2. among equals a global symbol before a local one;
    /// 3. among equals the first by name.
    ///
    /// Two symbols can have one address only if one of them has no bytes (a mark between sections,
    /// an empty struct) or if they are two names of one thing. So a name that reads like a mark is
    /// taken as one if another name is available, and an object called `…_end` that is alone at its
    /// address keeps its name.
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

    /// The address of the kernel's own symbol `name`, if there is exactly one.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let mut found = self
            .named(name)
            .filter(|s| s.module.is_none())
            .map(|s| s.address);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The symbol that `address` belongs to (the nearest at or below it; of several at one address
    /// the first of [`Symbols::all`]) and the offset from its start. `None` below the first symbol.
    pub fn at(&self, address: u64) -> Option<(&Symbol, u64)> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        let start = self.symbols.get(after.checked_sub(1)?)?.address;
        // Back to the first at that address.
        let first = self.symbols.partition_point(|s| s.address < start);
        self.symbols
            .get(first)
            .map(|symbol| (symbol, address - start))
    }

    /// Bytes from `symbol` to the next higher address: an upper bound of its size, which the table
    /// does not have. `None` for the last one.
    pub fn size_estimate(&self, symbol: &Symbol) -> Option<u64> {
        let next = self
            .symbols
            .partition_point(|s| s.address <= symbol.address);
        self.symbols
            .get(next)
            .map(|next| next.address - symbol.address)
    }

    /// Where the per-CPU section starts in symbol addresses: 0 before Linux 6.16 (symbols are
    /// offsets), `__per_cpu_start` since. A variable's symbol = this + its offset in BTF's
    /// `.data..percpu`.
    pub fn percpu_base(&self) -> u64 {
        match self.address_of("__per_cpu_start") {
            // Before Linux 6.16 the symbol exists as well, as the offset 0.
            Some(start) if start >= PERCPU_OFFSET_MAX => start,
            _ => 0,
        }
    }
}

/// How much a name says about what is at its address. The order is that of [`Symbols::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// An object or a function.
    Thing,
    /// Aliases, and objects without bytes.
    Aside,
    /// A mark of the linker script.
    Mark,
}

impl Claim {
    /// * Aliases: `__pi_…` (arch/x86/boot/startup, for code that runs before the kernel is mapped),
    ///   `__BTF_ID__…` (each entry of a list that has a name of its own). Without bytes:
    ///   `struct lock_class_key`, unless lockdep is built in.
    /// * Marks: include/asm-generic/vmlinux.lds.h and arch/x86/kernel/vmlinux.lds.S name the ends
    ///   of sections `__start_…`, `__stop_…`, `__end_…`, `…_start`, `…_end`, `…_begin`, or as in
    ///   `_sdata`, `_etext`.
    fn of(name: &str) -> Claim {
        const PREFIXES: [&str; 3] = ["__start_", "__stop_", "__end_"];
        const SUFFIXES: [&str; 3] = ["_start", "_end", "_begin"];
        const WHOLE: [&str; 15] = [
            "_text",
            "_stext",
            "_etext",
            "_sdata",
            "_edata",
            "_end",
            "_sinittext",
            "_einittext",
            "__bss_stop",
            "__brk_base",
            "__brk_limit",
            "__per_cpu_load",
            "__sched_class_highest",
            "__sched_class_lowest",
            "__vvar_beginning_hack",
        ];
        let plain = name.strip_prefix("__pi_").unwrap_or(name);
        // `__key.12`: the compiler numbers static variables of one name.
        let stem = plain
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches('.');
        if WHOLE.contains(&plain)
            || PREFIXES.iter().any(|p| plain.starts_with(p))
            || SUFFIXES.iter().any(|s| plain.ends_with(s))
        {
            Claim::Mark
        } else if plain != name || plain.starts_with("__BTF_ID__") || stem.ends_with("_key") {
            Claim::Aside
        } else {
            Claim::Thing
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
            "the global one"
        );
        assert_eq!(at(0), Some(("fixed_percpu_data", 0)), "not the mark");
        let (symbol, _) = symbols.at(0xffff_ffff_8100_0050).unwrap();
        assert_eq!(symbols.size_estimate(symbol), Some(0xc0));
        let (last, _) = symbols.at(u64::MAX).unwrap();
        assert_eq!(symbols.size_estimate(last), None);
    }

    /// What Debian's kernels 6.1, 6.12, 6.19 and 7.3 have at one address, and which name it gets.
    #[test]
    fn an_address_goes_by_the_object_not_by_the_mark() {
        let groups = [
            "D init_stack D init_thread_union D _sdata D __end_rodata_aligned D __end_rodata_hpage_align D __start_init_stack",
            "D init_stack D init_thread_union D _sdata D __end_rodata_aligned D __end_rodata_hpage_align D __start_init_task",
            "D vmemmap_base D __sched_class_lowest D __start_ro_after_init",
            "D stop_sched_class D __sched_class_highest",
            "d bringup_idt_table D __end_init_task",
            "A fixed_percpu_data A __per_cpu_start",
            "d old_setup_percpu_clockev d early_stack_end",
            "D real_mode_relocs D real_mode_blob_end",
            "d canary d gdt_end",
            "B orc_lookup R __stop_orc_unwind",
            "D in_suspend D __nosave_begin R __smp_locks_end",
            "B empty_zero_page B __bss_start D __nosave_end",
            "b wall_clock B __start_bss_decrypted",
            "d sme_workarea D __init_scratch_begin",
            "D physical_mask D __pi_physical_mask",
            "b boot_ghcb_page B __pi___start_bss_decrypted B __start_bss_decrypted",
            "b file_systems_lock b __key.0",
            "b tstamping_devices_lock b qdisc_tx_busylock_key.1 b qdisc_tx_busylock_key.5",
            "r bpf_rstat_kfunc_ids r __BTF_ID__set8__bpf_rstat_kfunc_ids",
            "D jiffies D jiffies_64",
            "B __brk_base B __bss_stop B __end_bss_decrypted",
        ];
        for group in groups {
            let words: Vec<&str> = group.split(' ').collect();
            let mut lines: Vec<String> = words
                .chunks(2)
                .map(|w| format!("ffffffff82c00000 {} {}\n", w[0], w[1]))
                .collect();
            for _ in 0..2 {
                lines.reverse();
                let symbols = Symbols::parse_kallsyms(&lines.concat()).unwrap();
                let (found, _) = symbols.at(0xffff_ffff_82c0_0010).unwrap();
                assert_eq!(found.name, words[1], "{group}");
            }
        }
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
