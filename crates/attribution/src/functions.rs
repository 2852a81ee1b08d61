//! The name of an instruction's function, the same in every table.

use std::fmt;

use linemate_recording::GuestAddr;
use linemate_types::Symbols;

/// The function of an instruction. Code that the compiler split off or cloned (`f.part.0`,
/// `f.cold`) belongs to its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FunctionName<'a> {
    /// Code of a user program without symbols in the recording.
    UserCode,
    /// A function of a program.
    Program(&'a str),
    /// A function of the kernel or of a module.
    Kernel(&'a str),
    /// Kernel code before the first symbol, or of a kernel without symbols.
    Unknown,
}

impl<'a> FunctionName<'a> {
    /// The function that the instruction at `pc` belongs to.
    pub fn at(symbols: &'a Symbols, pc: GuestAddr) -> FunctionName<'a> {
        // Kernel addresses have their highest bit set.
        if pc.0 >> 63 == 0 {
            let symbol = symbols.of_program(pc.0);
            return symbol.map_or(FunctionName::UserCode, |s| FunctionName::Program(&s.name));
        }
        let symbol = symbols.at(pc.0).map(|(symbol, _)| symbol.function());
        symbol.map_or(FunctionName::Unknown, FunctionName::Kernel)
    }

    /// Whether it is code of a program rather than the kernel.
    pub fn is_user(self) -> bool {
        matches!(self, FunctionName::UserCode | FunctionName::Program(_))
    }

    /// The name as tables print it.
    pub fn as_str(self) -> &'a str {
        match self {
            FunctionName::UserCode => "(user code)",
            FunctionName::Program(name) | FunctionName::Kernel(name) => name,
            FunctionName::Unknown => "(unknown)",
        }
    }
}

impl fmt::Display for FunctionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use linemate_types::Symbol;

    use super::*;

    #[test]
    fn parts_and_clones_go_by_their_functions_name() {
        let text = "ffffffff81000000 T f\nffffffff81000010 t f.isra.0\nffffffff81000030 t f.part.0.cold\n\
                    ffffffff81000040 t .L42\n";
        let symbols = Symbols::parse_kallsyms(text).unwrap();
        let name = |pc| FunctionName::at(&symbols, GuestAddr(pc)).to_string();
        assert_eq!(name(0xffff_ffff_8100_0004), "f");
        assert_eq!(name(0xffff_ffff_8100_0014), "f");
        assert_eq!(name(0xffff_ffff_8100_0034), "f");
        assert_eq!(name(0xffff_ffff_8100_0044), ".L42", "a name is not nothing");
        assert_eq!(name(0x40_1000), "(user code)");
        assert_eq!(name(0xffff_ffff_8000_0000), "(unknown)");
    }

    #[test]
    fn a_function_of_a_program_is_user_code_with_and_without_a_name() {
        let named = Symbol {
            address: 0x40_1000,
            letter: 't',
            name: "f".into(),
            module: None,
        };
        let symbols = Symbols::parse_kallsyms("ffffffff81000000 T f\n").unwrap();
        let symbols = symbols.with_programs(vec![(named, 0x40_1010)]);
        let at = |pc| FunctionName::at(&symbols, GuestAddr(pc));
        for (pc, name, user) in [
            (0x40_1004, "f", true),
            (0x40_1010, "(user code)", true),
            (0xffff_ffff_8100_0004, "f", false),
            (0xffff_ffff_8000_0000, "(unknown)", false),
        ] {
            assert_eq!((at(pc).as_str(), at(pc).is_user()), (name, user));
        }
        assert_ne!(at(0x40_1004), at(0xffff_ffff_8100_0004));
    }
}
