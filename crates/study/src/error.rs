//! Why edits do not fit a recording.

/// Why a plan does not fit a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// A function without code of its own.
    #[error(
        "there is no function `{name}` in this kernel (is it inlined everywhere?){}",
        linemate_text::suggestion(nearest)
    )]
    NoFunction {
        /// Its name.
        name: String,
        /// The names most like it.
        nearest: Vec<String>,
    },
    /// The recording has no object of the type.
    #[error("the recording has no access to any {0}")]
    NoObjects(String),
    /// No array was found that a pointer leads to.
    #[error(
        "no array of `{path}` to skip: of {owners} objects whose `{path}` is loaded, none can be identified by what is accessed next"
    )]
    NoArray {
        /// The pointer.
        path: String,
        /// Objects.
        owners: usize,
    },
}
