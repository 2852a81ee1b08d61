//! Both sides of each change, compiled and compared with the expected layouts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use linemate_layout::Layout;
use linemate_source::message::ConfigPlaces;
use linemate_source::proof;
use tempfile::TempDir;

use crate::change::{Change, ChangedFiles};
use crate::compiler::{CompileUnit, Compiler, Compilers};
use crate::draft::Draft;
use crate::error::{PatchError, ProofError};
use crate::folder::{FolderError, cannot};
use crate::places::{BothSides, Compiled};
use crate::together::StayTogether;

/// A compiled type with the expected layout.
pub struct Proof {
    pub(crate) patched: Compiled,
    pub(crate) compiler: String,
    pub(crate) places: ConfigPlaces,
    pub(crate) others: Vec<OtherConfig>,
}

/// A config that was not recorded, under which the field groups stay together.
pub(crate) struct OtherConfig {
    /// What it was compiled with.
    pub(crate) compiler: String,
    pub(crate) places: ConfigPlaces,
}

/// A patch whose layouts a compiler has produced.
pub struct Proven<'d> {
    pub(crate) draft: &'d Draft<'d>,
    /// In the order of the changes.
    pub(crate) proofs: Vec<Proof>,
}

impl Draft<'_> {
    /// Compiles both sides of each change as the recorded kernel was, and checks with the other
    /// compilers that field groups stay together.
    ///
    /// # Errors
    /// If the tree is not the recorded kernel's, or the compiled layout is not the edit's.
    pub fn prove<C: Compiler>(&self, compilers: &Compilers<C>) -> Result<Proven<'_>, PatchError> {
        let tree = PatchedTree::new(self.request.tree.root(), &self.files)?;
        let mut proofs = Vec::new();
        for change in &self.changes {
            proofs.push(self.proof(&tree, change, &compilers.recorded)?);
        }
        for other in &compilers.others {
            for (change, proof) in self.changes.iter().zip(&mut proofs) {
                let places = self.other_config(&tree, change, other);
                let places = places.map_err(|source| PatchError::OtherConfig {
                    path: change.path.clone(),
                    name: change.name.clone(),
                    source: Box::new(source),
                })?;
                proof.others.push(OtherConfig {
                    compiler: other.name(),
                    places,
                });
            }
        }
        Ok(Proven {
            draft: self,
            proofs,
        })
    }

    fn proof<C: Compiler>(
        &self,
        tree: &PatchedTree,
        change: &Change,
        compiler: &C,
    ) -> Result<Proof, PatchError> {
        let old_order: Vec<usize> = (0..change.wanted.members.len()).collect();
        let path = || change.path.clone();
        // The unpatched tree first: if that is not what was recorded, an error in the patched one
        // would blame the edit.
        let unpatched = self
            .compared(
                &tree.unpatched,
                change,
                compiler,
                &change.recorded,
                &old_order,
            )
            .map_err(|error| {
                error.blamed(|source| PatchError::Unpatched {
                    path: path(),
                    source: Box::new(source),
                })
            })?;
        let patched = self
            .compared(
                &tree.patched,
                change,
                compiler,
                &change.planned,
                &change.wanted.order,
            )
            .map_err(|error| {
                error.blamed(|source| PatchError::Patched {
                    path: path(),
                    name: change.name.clone(),
                    source: Box::new(source),
                })
            })?;
        let sides = BothSides {
            change,
            unpatched: &unpatched,
            patched: &patched,
        };
        let together = StayTogether::new(self.request.model, change);
        Ok(Proof {
            places: sides.places(compiler.config(), &together),
            patched,
            compiler: compiler.name(),
            others: Vec::new(),
        })
    }

    /// Compiles the definition in `tree` and compares it with a layout, its members in `order`.
    fn compared<C: Compiler>(
        &self,
        tree: &Path,
        change: &Change,
        compiler: &C,
        layout: &Layout,
        order: &[usize],
    ) -> Result<Compiled, ProofError> {
        let found = compiled(tree, change, compiler)?;
        let (model, id, recorded) = (&found.model, found.ty.id, self.request.model);
        match change.is_wrapped() && layout == &*change.planned {
            true => proof::compare_lines(model, id, recorded, layout, self.request.line)?,
            false => proof::compare(model, id, recorded, layout, order)?,
        }
        Ok(found)
    }

    /// Compiles both sides of a change with another compiler.
    fn other_config<C: Compiler>(
        &self,
        tree: &PatchedTree,
        change: &Change,
        compiler: &C,
    ) -> Result<ConfigPlaces, ProofError> {
        let sides = BothSides {
            change,
            unpatched: &compiled(&tree.unpatched, change, compiler)?,
            patched: &compiled(&tree.patched, change, compiler)?,
        };
        let together = StayTogether::new(self.request.model, change);
        together
            .check(&sides.patched.ty.members, sides.line())
            .map_err(|parted| ProofError::Parted {
                compiler: compiler.name(),
                parted,
            })?;
        Ok(sides.places(compiler.config(), &together))
    }
}

/// The definition as its file in `tree` has it.
fn compiled<C: Compiler>(
    tree: &Path,
    change: &Change,
    compiler: &C,
) -> Result<Compiled, ProofError> {
    let model = compiler.types(&CompileUnit {
        tree,
        file: &tree.join(&change.path),
        sought: &change.sought,
    })?;
    match proof::compiled_type(&model, &change.sought) {
        Ok(ty) => Ok(Compiled { model, ty }),
        Err(missing) => in_its_users(tree, change, compiler)?.ok_or(ProofError::Mismatch(missing)),
    }
}

/// Likewise, with a file that uses a class of C++: g++ describes one with virtual functions only
/// where it emits them.
fn in_its_users<C: Compiler>(
    tree: &Path,
    change: &Change,
    compiler: &C,
) -> Result<Option<Compiled>, ProofError> {
    for user in &change.users {
        let unit = CompileUnit {
            tree,
            file: &tree.join(user),
            sought: &change.sought,
        };
        let Ok(model) = compiler.types(&unit) else {
            continue;
        };
        if let Ok(ty) = proof::compiled_type(&model, &change.sought) {
            return Ok(Some(Compiled { model, ty }));
        }
    }
    Ok(None)
}

/// The unpatched tree, and the patched one: a folder of links to it, with the changed files in
/// place.
pub(crate) struct PatchedTree {
    pub(crate) unpatched: PathBuf,
    pub(crate) patched: PathBuf,
    /// Holds the patched tree, and removes it.
    _folder: TempDir,
}

impl PatchedTree {
    pub(crate) fn new(root: &Path, files: &ChangedFiles) -> Result<PatchedTree, FolderError> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(cannot(|| "make a temporary folder".to_owned()))?;
        let unpatched =
            fs::canonicalize(root).map_err(cannot(|| format!("read {}", root.display())))?;
        let patched = folder.path().join("tree");
        // Folders that contain a changed file are made, everything else is linked.
        let mut own: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::new()]);
        for path in files.keys() {
            own.extend(Path::new(path).ancestors().skip(1).map(Path::to_path_buf));
        }
        for folder in &own {
            link(&unpatched.join(folder), &patched.join(folder), |name| {
                let path = folder.join(name);
                own.contains(&path) || files.keys().any(|file| Path::new(file) == path)
            })?;
        }
        for (path, text) in files {
            let path = patched.join(path);
            fs::write(&path, &text.new).map_err(cannot(|| format!("write {}", path.display())))?;
        }
        Ok(PatchedTree {
            unpatched,
            patched: fs::canonicalize(&patched)
                .map_err(cannot(|| format!("read {}", patched.display())))?,
            _folder: folder,
        })
    }
}

/// Links everything in `from` into the new folder `to`, except what `skips`.
fn link(from: &Path, to: &Path, skips: impl Fn(&str) -> bool) -> Result<(), FolderError> {
    fs::create_dir_all(to).map_err(cannot(|| format!("make {}", to.display())))?;
    let read = || format!("read {}", from.display());
    for entry in fs::read_dir(from).map_err(cannot(read))? {
        let entry = entry.map_err(cannot(read))?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(&skips) {
            let target = to.join(&name);
            symlink(entry.path(), &target)
                .map_err(cannot(|| format!("link {}", target.display())))?;
        }
    }
    Ok(())
}
