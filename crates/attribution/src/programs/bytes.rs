//! Code that copies or clears bytes, whatever they mean.

use linemate_recording::{GuestAddr, Recording};
use linemate_types::Symbols;
use rustc_hash::FxHashSet;

use crate::functions::FunctionName;

/// Kernel functions that copy between its memory and a program's, or clear a program's
/// (arch/x86/lib/copy_user_64.S, copy_user_uncached_64.S and clear_page_64.S, lib/usercopy.c,
/// lib/iov_iter.c). The copy is inlined into most of the others.
const OF_KERNEL: [&str; 18] = [
    "__copy_user_nocache",
    "_copy_from_iter",
    "_copy_from_iter_nocache",
    "_copy_from_user",
    "_copy_to_iter",
    "_copy_to_user",
    "clear_user_erms",
    "clear_user_original",
    "copy_folio_from_iter_atomic",
    "copy_page_from_iter",
    "copy_page_from_iter_atomic",
    "copy_page_to_iter",
    "copy_user_enhanced_fast_string",
    "copy_user_generic_string",
    "copy_user_generic_unrolled",
    "iov_iter_zero",
    "rep_movs_alternative",
    "rep_stos_alternative",
];

/// The C library's, without leading underscores.
const OF_LIBC: [&str; 5] = ["memcpy", "memmove", "mempcpy", "memset", "bzero"];

/// What follows in the names of their variants for a processor (glibc, sysdeps/x86_64/multiarch)
/// and with checks.
const VARIANTS: [&str; 7] = [
    "_avx",
    "_chk",
    "_erms",
    "_evex",
    "_sse",
    "_ssse",
    "_unaligned",
];

/// The recorded instructions of such functions.
pub(super) fn copying(recording: &Recording, symbols: &Symbols) -> FxHashSet<GuestAddr> {
    let instructions = recording.instructions().iter().copied();
    let copying = instructions.filter(|pc| copies(FunctionName::at(symbols, *pc)));
    copying.collect()
}

fn copies(function: FunctionName<'_>) -> bool {
    match function {
        FunctionName::Kernel(name) => OF_KERNEL.contains(&name),
        FunctionName::Program(name) => {
            let name = name.trim_start_matches('_');
            let rest = OF_LIBC.iter().find_map(|start| name.strip_prefix(start));
            rest.is_some_and(|rest| {
                rest.is_empty() || VARIANTS.iter().any(|variant| rest.starts_with(variant))
            })
        }
        FunctionName::UserCode | FunctionName::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_functions_are_known_by_their_names() {
        for name in ["memcpy", "__memmove_avx_unaligned_erms", "__memset_chk"] {
            assert!(copies(FunctionName::Program(name)), "{name}");
        }
        for name in ["memcpy_queue_push", "memcmp", "__memmove_", "strcpy"] {
            assert!(!copies(FunctionName::Program(name)), "{name}");
        }
        assert!(copies(FunctionName::Kernel("_copy_to_iter")));
        assert!(!copies(FunctionName::Kernel("__get_user_8")));
        assert!(!copies(FunctionName::Program("_copy_to_iter")));
        assert!(!copies(FunctionName::UserCode));
    }
}
