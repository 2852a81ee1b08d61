//! Packages and `.dwo` files of split units.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use linemate_dwarf::{Skeleton, skeletons, split_ids};
use linemate_files::read_file;

use crate::places;

/// Split units in no file, by the `.dwo` files that should contain them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSplit {
    /// The first of the files, where the compiler wrote it.
    pub first: PathBuf,
    /// How many files there are.
    pub count: usize,
}

impl std::error::Error for MissingSplit {}

impl fmt::Display for MissingSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "split debug information is missing: ")?;
        match self.count {
            0 | 1 => write!(f, "{} was not found", self.first.display()),
            2 => write!(
                f,
                "{} and another file were not found",
                self.first.display()
            ),
            n => {
                let others = n - 1;
                write!(
                    f,
                    "{} and {others} other files were not found",
                    self.first.display()
                )
            }
        }
    }
}

/// The files with the split units of `told`, a program or its debug file; `paths` are their
/// locations.
pub(crate) fn find(told: &[u8], paths: &[&Path]) -> (Vec<Vec<u8>>, Option<MissingSplit>) {
    // Broken debug information is reported when it is read.
    let skeletons = skeletons(told).unwrap_or_default();
    let mut search = Search {
        wanted: skeletons.iter().map(|skeleton| skeleton.id).collect(),
        looked: BTreeSet::new(),
        files: Vec::new(),
    };
    if skeletons.is_empty() {
        return (Vec::new(), None);
    }
    for place in places::packages(paths) {
        search.look(place);
    }
    let mut missing: Option<MissingSplit> = None;
    let mut missed = BTreeSet::new();
    for skeleton in &skeletons {
        let places = places::objects(&skeleton.name, skeleton.folder.as_deref(), paths);
        for place in places {
            if !search.wanted.contains(&skeleton.id) {
                break;
            }
            search.look(place);
        }
        let named = named(skeleton);
        if search.wanted.contains(&skeleton.id) && missed.insert(named.clone()) {
            missing
                .get_or_insert(MissingSplit {
                    first: named,
                    count: 0,
                })
                .count += 1;
        }
    }
    (search.files, missing)
}

/// The file that a skeleton names.
fn named(skeleton: &Skeleton) -> PathBuf {
    match &skeleton.folder {
        Some(folder) => Path::new(folder).join(&skeleton.name),
        None => PathBuf::from(&skeleton.name),
    }
}

struct Search {
    /// Units that are not found yet.
    wanted: BTreeSet<u64>,
    /// Files that were read, each once.
    looked: BTreeSet<PathBuf>,
    files: Vec<Vec<u8>>,
}

impl Search {
    /// Uses the file at `place`, if it has a wanted unit.
    fn look(&mut self, place: PathBuf) {
        if !self.looked.insert(place.clone()) {
            return;
        }
        let Ok(bytes) = read_file(&place) else {
            return;
        };
        let has = split_ids(&bytes, &self.wanted).unwrap_or_default();
        if !has.is_empty() {
            self.files.push(bytes);
            for id in &has {
                self.wanted.remove(id);
            }
        }
    }
}
