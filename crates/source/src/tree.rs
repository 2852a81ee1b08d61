//! Finds the definition of a recorded type in a source tree.
//!
//! Reads only files below the tree's root; follows no links. In a Linux tree it skips what is not
//! compiled into the kernel: other architectures, tools, samples, documentation.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::definition::{self, Definition, Sought};
use crate::dialect::{Dialect, is_header};
use crate::rewrite::{self, RewriteError};
use crate::uses::{self, UsesByName};
use crate::wanted::Wanted;

/// Folders of a Linux tree whose code is not the kernel's.
const NOT_KERNEL: [&str; 8] = [
    "Documentation",
    "LICENSES",
    "debian",
    "rust",
    "samples",
    "scripts",
    "tools",
    "usr",
];
/// The largest file that is read, in bytes: larger ones are generated (lists of registers), and
/// contain no hand-written struct.
const MAX_FILE: u64 = 4 << 20;
/// The maximum number of places that an error names.
const MAX_PLACES: usize = 4;

#[derive(Clone, Debug)]
pub struct SourceTree {
    root: PathBuf,
    kernel: bool,
    files: Vec<PathBuf>,
}

/// A definition with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDefinition {
    /// Relative to the tree's root, with `/`.
    pub path: String,
    pub text: String,
    /// The definition in it.
    pub definition: Definition,
}

/// Why a definition is not found, or not unique.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or folder that cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Not in the tree.
    #[error("no definition of {what} in {}{hint}", root.display())]
    NotFound {
        /// The definition sought.
        what: String,
        root: PathBuf,
        /// Where a macro may generate it.
        hint: String,
    },
    /// Made by a macro.
    #[error("{place}: this macro generates {what}: its members cannot be moved here")]
    InMacro {
        /// File and line.
        place: String,
        /// The definition sought.
        what: String,
    },
    #[error(
        "{what} is defined in several places that all fit the recording: {places}; name the file (--file)"
    )]
    Several {
        /// The definition sought.
        what: String,
        /// Files and lines.
        places: String,
    },
    /// One, which does not match.
    #[error("{path}:{error}")]
    Unfit {
        path: String,
        /// Line and reason.
        error: RewriteError,
    },
    /// Several, none of which matches.
    #[error("none of the definitions of {what} fits the recording: {places}")]
    NoneFits {
        /// The definition sought.
        what: String,
        /// Files, lines and reasons.
        places: String,
    },
    /// A file that git would change in transit.
    #[error("{place}: the line ends with CR LF, which git am would change")]
    CarriageReturn {
        /// File and line.
        place: String,
    },
}

impl SourceTree {
    /// Lists the C files below `root`; `arch` is the folder below `arch/` that counts in a Linux
    /// tree.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn open(root: &Path, arch: &str) -> Result<SourceTree, TreeError> {
        let kernel = root.join("include/linux/cache.h").is_file() && root.join("Kbuild").is_file();
        let mut tree = SourceTree {
            root: root.to_owned(),
            kernel,
            files: Vec::new(),
        };
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let read = |source| TreeError::Read {
                path: folder.clone(),
                source,
            };
            for entry in fs::read_dir(&folder).map_err(read)? {
                let entry = entry.map_err(read)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(read)?);
                let name = entry.file_name();
                let name = name.to_str().unwrap_or("");
                if kind.is_dir() && tree.enters(&folder, name, arch) {
                    folders.push(path);
                } else if kind.is_file() && tree.has(&path) {
                    tree.files.push(path);
                }
            }
        }
        tree.files.sort();
        Ok(tree)
    }

    fn has(&self, path: &Path) -> bool {
        let others = || Dialect::Cpp.reads(path) || Dialect::Rust.reads(path);
        Dialect::C.reads(path) || (!self.kernel && others())
    }

    fn enters(&self, folder: &Path, name: &str, arch: &str) -> bool {
        // What cargo builds is not source.
        if name.starts_with('.') || folder.join(name).join("CACHEDIR.TAG").is_file() {
            return false;
        }
        let top = folder == self.root;
        !self.kernel
            || if folder == self.root.join("arch") {
                name == arch
            } else {
                !(top && NOT_KERNEL.contains(&name))
            }
    }

    /// Whether this is a Linux tree.
    pub fn is_kernel(&self) -> bool {
        self.kernel
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The one definition matching `sought` that has the members of the recorded kernel. With
    /// `only`, searches only that file (relative to the root).
    ///
    /// # Errors
    /// If there is none, or several.
    pub fn find(
        &self,
        sought: &Sought,
        wanted: &Wanted,
        only: Option<&Path>,
    ) -> Result<FoundDefinition, TreeError> {
        let what = describe(sought);
        let (mut fitting, mut unfit) = (Vec::new(), Vec::new());
        // Headers first: a matching one in a header is not in a .c file too, or its units could not
        // be compiled.
        for files in self.order(sought, only) {
            for path in files {
                for found in self.search_file(&path, sought)? {
                    match rewrite::check(&found.text, &found.definition, wanted) {
                        Ok(()) => fitting.push(found),
                        Err(error) => unfit.push((found, error)),
                    }
                }
            }
            if !fitting.is_empty() {
                break;
            }
        }
        if let (Sought::Item(item), true) = (sought, fitting.len() > 1) {
            let declared = |f: &FoundDefinition| item.is_declared_at(&f.path, f.definition.line);
            if fitting.iter().any(declared) {
                fitting.retain(declared);
            }
        }
        let place = |found: &FoundDefinition| format!("{}:{}", found.path, found.definition.line);
        if fitting.len() > 1 {
            let places: Vec<String> = fitting.iter().take(MAX_PLACES).map(place).collect();
            return Err(TreeError::Several {
                what,
                places: places.join(", "),
            });
        }
        if let Some(found) = fitting.pop() {
            return no_carriage_returns(found);
        }
        if unfit.len() > 1 {
            let each = unfit
                .iter()
                .take(MAX_PLACES)
                .map(|(found, error)| format!("{}:{error}", found.path));
            return Err(TreeError::NoneFits {
                what,
                places: each.collect::<Vec<_>>().join("; "),
            });
        }
        match unfit.pop() {
            Some((found, error)) => Err(TreeError::Unfit {
                path: found.path,
                error,
            }),
            None => Err(self.not_found(sought, what)?),
        }
    }

    /// The texts of the files of a language that contain a word, with their paths.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn texts(&self, dialect: Dialect, word: &str) -> Result<Vec<(String, String)>, TreeError> {
        let mut found = Vec::new();
        let each = |path: &str, text: &str| found.push((path.to_owned(), text.to_owned()));
        self.each_text(dialect, &[word], each)?;
        Ok(found)
    }

    /// Hands over the files of a language that contain all of these words: path and text.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn each_text(
        &self,
        dialect: Dialect,
        words: &[&str],
        mut each: impl FnMut(&str, &str),
    ) -> Result<(), TreeError> {
        let (first, others) = words.split_first().unwrap_or((&"", &[]));
        for path in self.files.iter().filter(|path| dialect.reads(path)) {
            let text = self.text(path, [*first])?;
            let text = text.filter(|text| others.iter().all(|word| text.contains(word)));
            if let Some(text) = text {
                each(&self.relative(path), &text);
            }
        }
        Ok(())
    }

    /// The first `most` source files of C++ that mention a class.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn users(&self, sought: &Sought, most: usize) -> Result<Vec<String>, TreeError> {
        let mut found = Vec::new();
        if sought.dialect() != Dialect::Cpp {
            return Ok(found);
        }
        let sources = self
            .files
            .iter()
            .filter(|path| Dialect::Cpp.reads(path) && !is_header(path));
        for path in sources {
            if found.len() < most && self.text(path, [sought.needle()])?.is_some() {
                found.push(self.relative(path));
            }
        }
        Ok(found)
    }

    /// By member, the functions of the tree that use it, by its name alone.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn uses(&self, names: &BTreeSet<&str>) -> Result<UsesByName, TreeError> {
        let mut found = UsesByName::new();
        for path in &self.files {
            if let Some(text) = self.text(path, names.iter().copied())? {
                uses::add_uses(&text, names, &mut found);
            }
        }
        Ok(found)
    }

    /// The files in the order of search.
    fn order(&self, sought: &Sought, only: Option<&Path>) -> Vec<Vec<PathBuf>> {
        match only {
            Some(file) => vec![vec![self.root.join(file)]],
            None => {
                let read = self
                    .files
                    .iter()
                    .filter(|path| sought.dialect().reads(path));
                let (headers, others) = read.cloned().partition(|path| is_header(path));
                vec![headers, others]
            }
        }
    }

    fn search_file(&self, path: &Path, sought: &Sought) -> Result<Vec<FoundDefinition>, TreeError> {
        let Some(text) = self.text(path, [sought.needle()])? else {
            return Ok(Vec::new());
        };
        let definitions = definition::find(&text, sought);
        let found = |definition| FoundDefinition {
            path: self.relative(path),
            text: text.clone(),
            definition,
        };
        Ok(definitions.into_iter().map(found).collect())
    }

    /// The text of a file that contains one of `needles`; `None` if it does not, or is not UTF-8.
    fn text<'n>(
        &self,
        path: &Path,
        needles: impl IntoIterator<Item = &'n str>,
    ) -> Result<Option<String>, TreeError> {
        let read = |source| TreeError::Read {
            path: path.to_owned(),
            source,
        };
        if fs::metadata(path).map_err(read)?.len() > MAX_FILE {
            return Ok(None);
        }
        let bytes = fs::read(path).map_err(read)?;
        let is_in = |needle: &str| memchr::memmem::find(&bytes, needle.as_bytes()).is_some();
        let has = needles.into_iter().any(is_in);
        Ok(if has {
            String::from_utf8(bytes).ok()
        } else {
            None
        })
    }

    fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        parts.join("/")
    }

    /// The error for an undefined type: checks whether a macro defines it.
    fn not_found(&self, sought: &Sought, what: String) -> Result<TreeError, TreeError> {
        let mut best: Option<(usize, String)> = None;
        if let Sought::Tag(tag) = sought {
            for path in &self.files {
                let Some(text) = self.text(path, ["define"])? else {
                    continue;
                };
                for made in definition::in_macros(&text, tag) {
                    if best
                        .as_ref()
                        .is_none_or(|(most, _)| made.characters > *most)
                    {
                        let place = format!("{}:{}", self.relative(path), made.line);
                        best = Some((made.characters, place));
                    }
                }
            }
            if let Some((_, place)) = best.take_if(|(characters, _)| *characters == tag.len()) {
                return Ok(TreeError::InMacro { place, what });
            }
        }
        let hint = best.map_or(String::new(), |(_, place)| {
            format!("; a macro may make it: {place}")
        });
        Ok(TreeError::NotFound {
            what,
            root: self.root.clone(),
            hint,
        })
    }
}

fn describe(sought: &Sought) -> String {
    match sought {
        Sought::Tag(tag) => format!("struct {tag}"),
        Sought::Typedef(name) => format!("typedef {name}"),
        Sought::Item(item) => item.full_name.clone(),
        Sought::Members(names) => format!("a struct without a tag with {}", names.join(", ")),
    }
}

fn no_carriage_returns(found: FoundDefinition) -> Result<FoundDefinition, TreeError> {
    match found.text.find("\r\n") {
        Some(at) => {
            let place = format!("{}:{}", found.path, definition::line_of(&found.text, at));
            Err(TreeError::CarriageReturn { place })
        }
        None => Ok(found),
    }
}
