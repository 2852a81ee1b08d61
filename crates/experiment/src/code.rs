//! Where the code of a function is.

use std::ops::Range;

use linemate_recording::GuestAddr;
use linemate_types::{Symbol, Symbols};

use crate::error::VariantError;

/// The code of a function: its own symbol, and what the compiler split off or cloned (`f.cold`,
/// `f.isra.0`).
pub(crate) fn code_of(
    symbols: &Symbols,
    name: &str,
) -> Result<Vec<Range<GuestAddr>>, VariantError> {
    let part_of = |symbol: &str| {
        symbol == name
            || symbol
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
    };
    let code: Vec<Range<GuestAddr>> = symbols
        .all()
        .iter()
        // Code that is local, global or weak, as `nm` has it.
        .filter(|s| matches!(s.letter, 't' | 'T' | 'w' | 'W') && part_of(&s.name))
        .filter_map(|s| {
            let end = s.address.checked_add(symbols.size_estimate(s)?)?;
            Some(GuestAddr(s.address)..GuestAddr(end))
        })
        .collect();
    if code.is_empty() {
        let names = symbols
            .all()
            .iter()
            .filter(|s| matches!(s.letter, 't' | 'T'))
            .map(Symbol::function);
        return Err(VariantError::NoFunction {
            name: name.to_owned(),
            nearest: linemate_text::nearest(name, names),
        });
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_take_their_clones_along() {
        let text = "ffffffff81000000 T f\nffffffff81000010 t f.isra.0\nffffffff81000030 t fa\n\
                    ffffffff81000040 t f.cold\nffffffff81000050 T end\n";
        let symbols = Symbols::parse_kallsyms(text).unwrap();
        let addr = |offset: u64| GuestAddr(0xffff_ffff_8100_0000 + offset);
        let at = |a: u64, b: u64| addr(a)..addr(b);
        assert_eq!(
            code_of(&symbols, "f"),
            Ok(vec![at(0, 0x10), at(0x10, 0x30), at(0x40, 0x50)])
        );
        let missing = VariantError::NoFunction {
            name: "fb".into(),
            nearest: vec!["f".into(), "fa".into()],
        };
        assert_eq!(code_of(&symbols, "fb"), Err(missing));
    }
}
