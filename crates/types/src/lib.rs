//! One type model over BTF, kernel images and symbols.
