//! Compiles a definition in its tree, patched and unpatched, and reads the layout back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use linemate_layout::Layout;
use linemate_source::{Sought, proof};
use linemate_types::{KernelImage, TypeId, TypeModel};
use tempfile::TempDir;

pub(super) enum Means {
    Command(String),
    /// The compiler with a kernel's flags and generated headers.
    Kernel {
        /// A build or headers folder.
        folder: PathBuf,
        /// Below `arch/`.
        arch: String,
    },
    Compiler,
}

impl Means {
    pub(super) fn kernel(folder: &Path, arch: &str) -> anyhow::Result<Means> {
        let folder = fs::canonicalize(folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let generated = folder.join("include/generated/autoconf.h");
        if !generated.is_file() {
            bail!(
                "{} is missing: --config takes a kernel's build or headers folder",
                generated.display()
            );
        }
        Ok(Means::Kernel {
            folder,
            arch: arch.to_owned(),
        })
    }

    /// What the patch's message calls it.
    fn name(&self) -> String {
        match self {
            Means::Command(command) => format!("`{command}`"),
            Means::Kernel { folder, .. } => {
                let release = fs::read_to_string(folder.join("include/generated/utsrelease.h"))
                    .unwrap_or_default();
                match release.split('"').nth(1) {
                    Some(release) => format!("the config of {release}"),
                    None => "the given config".to_owned(),
                }
            }
            Means::Compiler => "the system's compiler".to_owned(),
        }
    }
}

/// What a compiled unit has to contain.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) sought: &'a Sought,
    pub(super) path: &'a str,
    pub(super) model: &'a TypeModel,
    pub(super) layout: &'a Layout,
    /// The members' order: indices of the recorded ones.
    pub(super) order: &'a [usize],
}

/// A compiled type that is as it was to be.
pub(super) struct Proof {
    pub(super) model: TypeModel,
    pub(super) id: TypeId,
    /// What it was compiled with.
    pub(super) means: String,
    /// What it is like under other configs.
    pub(super) also: Vec<OtherConfig>,
}

/// A patched definition under a config that was not recorded, where its groups keep together.
pub(super) struct OtherConfig {
    /// What the message calls it.
    pub(super) name: String,
    /// New neighbours outside of groups that are there.
    pub(super) neighbours: usize,
    /// Those of them that are on one line there, too.
    pub(super) on_one_line: usize,
}

/// Members that start a line together.
pub(super) struct Together {
    /// Their names, in order; of an anonymous one the first inside.
    pub(super) members: Vec<String>,
    /// Whether nothing else is on their lines.
    pub(super) sealed: bool,
    /// Whether they have one line in the recorded kernel.
    pub(super) one_line: bool,
}

/// A place to compile at: the tree again, as links, with the changed files in place.
pub(super) struct Bench {
    folder: TempDir,
    patched: PathBuf,
    means: Means,
}

impl Bench {
    /// `files` are the changed ones with their new texts.
    pub(super) fn new(
        tree: &Path,
        files: &BTreeMap<&str, &str>,
        means: Means,
    ) -> anyhow::Result<Bench> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let patched = folder.path().join("tree");
        let tree =
            fs::canonicalize(tree).with_context(|| format!("cannot read {}", tree.display()))?;
        let mut own: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::new()]);
        for path in files.keys() {
            own.extend(Path::new(path).ancestors().skip(1).map(Path::to_path_buf));
        }
        for folder in &own {
            link(&tree.join(folder), &patched.join(folder), |name| {
                let path = folder.join(name);
                own.contains(&path) || files.keys().any(|file| Path::new(file) == path)
            })?;
        }
        for (path, text) in files {
            let path = patched.join(path);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Bench {
            folder,
            patched,
            means,
        })
    }

    /// The root of the patched tree.
    pub(super) fn patched(&self) -> &Path {
        &self.patched
    }

    /// Compiles the definition in `tree` and compares.
    pub(super) fn check(&self, tree: &Path, expected: &Expected<'_>) -> anyhow::Result<Proof> {
        let (model, id) = self.compiled(tree, expected.path, expected.sought)?;
        proof::compare(&model, id, expected.model, expected.layout, expected.order)?;
        Ok(Proof {
            model,
            id,
            means: self.means.name(),
            also: Vec::new(),
        })
    }

    /// Compiles with something else from here on.
    pub(super) fn compile_with(&mut self, means: Means) {
        self.means = means;
    }

    /// Compiles the patched definition under a config that was not recorded, and looks whether what is there of each group starts a line,
    /// with nothing else between and, where it has one line in the recorded kernel and fits, on one line. Of `neighbours`, which are on
    /// one line in the recorded kernel, it tells how many are there.
    pub(super) fn keeps_together(
        &self,
        sought: &Sought,
        path: &str,
        groups: &[Together],
        neighbours: &[(String, String)],
        line: u64,
    ) -> anyhow::Result<OtherConfig> {
        let name = self.means.name();
        let (model, id) = self.compiled(&self.patched, path, sought)?;
        let wrong = |group: &Together, what: &str| {
            anyhow!(
                "with {name}, the field group of `{}` {what}; nothing is written",
                group.members.first().map_or("", String::as_str)
            )
        };
        let places = proof::places(&model, id);
        let place = |name: &String| places.iter().find(|place| place.name == *name);
        let there: Vec<bool> = neighbours
            .iter()
            .filter_map(|(first, second)| Some((place(first)?, place(second)?)))
            .map(|(first, second)| (first.end - 1) / line == second.start / line)
            .collect();
        for group in groups {
            let inside: Vec<usize> = (0..places.len())
                .filter(|i| group.members.contains(&places[*i].name))
                .collect();
            let (Some(first), Some(last)) = (inside.first(), inside.last()) else {
                continue;
            };
            let (start, end) = (places[*first].start, places[*last].end);
            if start % line != 0 {
                return Err(wrong(group, "does not start a cache line"));
            }
            if last - first + 1 != inside.len() {
                return Err(wrong(group, "has other members between"));
            }
            let bytes: u64 = inside
                .iter()
                .map(|i| places[*i].end - places[*i].start)
                .sum();
            if group.one_line && bytes <= line && end > start + line {
                return Err(wrong(
                    group,
                    "has more than one cache line, though it would fit",
                ));
            }
            let next = places.get(last + 1);
            if group.sealed && next.is_some_and(|next| next.start / line == (end - 1) / line) {
                return Err(wrong(
                    group,
                    "shares its last cache line with what comes after it",
                ));
            }
        }
        Ok(OtherConfig {
            name,
            neighbours: there.len(),
            on_one_line: there.iter().filter(|on_one| **on_one).count(),
        })
    }

    /// The types of the definition's file as it is in `tree`, and the definition's.
    fn compiled(
        &self,
        tree: &Path,
        path: &str,
        sought: &Sought,
    ) -> anyhow::Result<(TypeModel, TypeId)> {
        let tree =
            fs::canonicalize(tree).with_context(|| format!("cannot read {}", tree.display()))?;
        let (unit, object) = (
            self.folder.path().join("unit.c"),
            self.folder.path().join("unit.o"),
        );
        let file = tree.join(path).display().to_string();
        let compile = |text: String| {
            fs::write(&unit, text).with_context(|| format!("cannot write {}", unit.display()))?;
            let _ = fs::remove_file(&object);
            run(&mut self.compiler(&tree, &unit, &object, sought))
        };
        let first = compile(proof::unit(&file, sought));
        match (first, &self.means) {
            // What the header itself lacks is the complaint to show.
            (Err(alone), Means::Kernel { .. }) => {
                compile(proof::unit_after_basics(&file, sought)).map_err(|_| alone)?;
            }
            (first, _) => first?,
        }
        if !object.is_file() {
            bail!("the build command left nothing at $LINEMATE_OBJECT");
        }
        let model = read(&object)?;
        let id = proof::compiled_type(&model, sought)?;
        Ok((model, id))
    }

    fn compiler(&self, tree: &Path, unit: &Path, object: &Path, sought: &Sought) -> Command {
        let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-g", "-gdwarf-4", "-c", "-o"])
            .arg(object)
            .arg(unit);
        if matches!(sought, Sought::Members(_)) {
            cc.arg("-fno-eliminate-unused-debug-types");
        }
        match &self.means {
            Means::Command(command) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]).current_dir(tree);
                shell
                    .env("LINEMATE_TREE", tree)
                    .env("LINEMATE_UNIT", unit)
                    .env("LINEMATE_OBJECT", object);
                shell
            }
            Means::Kernel { folder, arch } => {
                let (tree, folder) = (tree.display().to_string(), folder.display().to_string());
                cc.args(proof::kernel_flags(&tree, &folder, arch));
                cc
            }
            Means::Compiler => {
                cc.arg("-w")
                    .arg("-I")
                    .arg(tree)
                    .arg("-I")
                    .arg(tree.join("include"));
                cc
            }
        }
    }
}

/// Links everything in `from` into the new folder `to`, but what `skips`.
fn link(from: &Path, to: &Path, skips: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(&skips) {
            let target = to.join(&name);
            symlink(entry.path(), &target)
                .with_context(|| format!("cannot link {}", target.display()))?;
        }
    }
    Ok(())
}

/// A program that patches are proven with and that this computer does not have: it says nothing of the tree.
#[derive(Debug, thiserror::Error)]
#[error("{program} is not installed, and the proof needs it: {remedy}")]
pub(super) struct MissingTool {
    program: String,
    remedy: &'static str,
}

/// Runs a command; when it fails, its first line of complaint is the error.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!(MissingTool {
            remedy: match program.as_str() {
                "pahole" => "install Debian's package dwarves",
                _ => "install a C compiler (Debian's package gcc), or set CC to one",
            },
            program: program.clone(),
        }),
        _ => anyhow!(error).context(format!("cannot run {program}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said
        .lines()
        .find(|line| line.contains("error"))
        .or_else(|| said.lines().next());
    bail!(
        "{program} failed ({}): {}",
        output.status,
        complaint.unwrap_or("no output").trim()
    );
}

/// The types of an object file: its BTF, else what pahole makes of its DWARF.
fn read(object: &Path) -> anyhow::Result<TypeModel> {
    let bytes =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let name = || object.display().to_string();
    if let Ok(image) = KernelImage::parse(&bytes(object)?) {
        return image.types().with_context(name);
    }
    // A file of its own instead of a section in the object: for the section pahole 1.24 runs llvm-objcopy, which few machines have.
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let btf = folder.path().join("types.btf");
    run(Command::new("pahole")
        .arg(format!("--btf_encode_detached={}", btf.display()))
        .arg(object))?;
    let image = KernelImage::parse(&bytes(&btf)?)
        .context("the object has no debug information: compile with -g")?;
    image.types().with_context(name)
}
