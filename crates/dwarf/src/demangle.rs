//! Names of functions and variables as their language writes them.

/// The name that `linkage` encodes, without parameters and hashes; `None` if it is not mangled.
///
/// `_ZN3net4Conn4pushEi` is `net::Conn::push`.
pub fn demangled(linkage: &str) -> Option<String> {
    // Hostile names can encode texts that grow with every substitution.
    const SHOWN: usize = 4096;
    if linkage.len() > SHOWN {
        return None;
    }
    // First: Rust's older names look like C++'s, and their hash would show up as part of the name.
    if let Ok(name) = rustc_demangle::try_demangle(linkage) {
        // The alternate form omits the hash.
        return Some(cut(format!("{name:#}"), SHOWN));
    }
    if !linkage.starts_with("_Z") {
        return None;
    }
    // The library recurses, and a name of 4096 bytes can nest deep enough to overflow a thread's
    // stack. 64 is a guess.
    let limits = cpp_demangle::ParseOptions::default().recursion_limit(64);
    let symbol = cpp_demangle::Symbol::new_with_options(linkage, &limits).ok()?;
    let shown = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type()
        .recursion_limit(64);
    // A text that grows too long ends in an error, and the name stays mangled.
    let mut text = Bounded {
        text: String::new(),
        left: SHOWN,
    };
    symbol.structured_demangle(&mut text, &shown).ok()?;
    Some(text.text)
}

fn cut(mut text: String, length: usize) -> String {
    if let Some((at, _)) = text.char_indices().find(|(at, _)| *at >= length) {
        text.truncate(at);
    }
    text
}

/// A text that may not grow beyond its budget.
struct Bounded {
    text: String,
    left: usize,
}

impl cpp_demangle::DemangleWrite for Bounded {
    fn write_string(&mut self, piece: &str) -> std::fmt::Result {
        self.left = self.left.checked_sub(piece.len()).ok_or(std::fmt::Error)?;
        self.text.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_are_those_of_the_source() {
        let shown = |name| demangled(name).unwrap_or_default();
        assert_eq!(shown("_ZN3net7Derived1fEi"), "net::Derived::f");
        assert_eq!(
            shown("_ZN4core3ptr13drop_in_place17h0123456789abcdefE"),
            "core::ptr::drop_in_place"
        );
        assert_eq!(shown("_RNvC7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("main"), None);
        assert_eq!(demangled("_Zbroken"), None);
        assert_eq!(demangled(&format!("_ZN{}", "1a".repeat(5000))), None);
    }
}
