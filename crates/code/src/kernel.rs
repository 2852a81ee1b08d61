//! A kernel's code: what a replay needs to know about the instructions in a recording.

use std::collections::BTreeSet;

use linemate_insn::{Dependence, Dependences};
use linemate_recording::GuestAddr;
use linemate_types::Symbols;
use linemate_types::kernel_image::CodeSection;

use crate::flow::address_sources;

/// The longest function that is analysed: kernels' are shorter. A symbol without a successor within
/// this distance is not a function.
const FUNCTION_MAX: u64 = 1 << 20;

/// The loads that the addresses accessed by `instructions` come from: for those in a section, in a
/// function that a symbol starts. `symbols` are those of the same kernel, at their linked
/// addresses.
pub fn dependences(
    sections: &[CodeSection],
    symbols: &Symbols,
    instructions: impl IntoIterator<Item = GuestAddr>,
) -> Dependences {
    let function_of = |instruction: GuestAddr| {
        let (symbol, _) = symbols.at(instruction.0)?;
        let end = symbol.address.checked_add(symbols.size_estimate(symbol)?)?;
        (symbol.module.is_none() && end - symbol.address <= FUNCTION_MAX)
            .then_some((symbol.address, end))
    };
    // Each function once, however many of its instructions a recording has.
    let functions: BTreeSet<(u64, u64)> =
        instructions.into_iter().filter_map(function_of).collect();
    let mut all = Dependences::default();
    for (start, end) in functions {
        let Some(code) = code_of(sections, start, end) else {
            continue;
        };
        for (instruction, sources) in address_sources(code, start) {
            let dependence = Dependence {
                loads: sources.loads.into_iter().map(GuestAddr).collect(),
                not_in: sources.outside.then_some(GuestAddr(start)..GuestAddr(end)),
            };
            all.insert(GuestAddr(instruction), dependence);
        }
    }
    all
}

/// The bytes from `start` to `end`, or to the section's end.
fn code_of(sections: &[CodeSection], start: u64, end: u64) -> Option<&[u8]> {
    sections.iter().find_map(|section| {
        let from = usize::try_from(start.checked_sub(section.address)?).ok()?;
        let rest = section.bytes.get(from..)?;
        let length = usize::try_from(end - start).ok()?.min(rest.len());
        rest.get(..length).filter(|code| !code.is_empty())
    })
}
