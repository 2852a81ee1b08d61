//! What compiles a definition: a trait, and the compiler, kernel config or command that users have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use linemate_dwarf::{DwarfError, ProgramFiles, ProgramTypes};
use linemate_source::tree::SourceTree;
use linemate_source::{Dialect, Sought, proof};
use linemate_types::btf::BtfError;
use linemate_types::kernel_image::ImageError;
use linemate_types::{KernelImage, TypeModel};
use tempfile::TempDir;

use crate::folder::{FolderError, cannot};
use crate::kernel_config::KernelConfig;

/// The unit to compile: something that includes `file` and has the type in its debug information.
#[derive(Clone, Copy, Debug)]
pub struct CompileUnit<'u> {
    /// The root of the sources.
    pub tree: &'u Path,
    /// The file of the definition.
    pub file: &'u Path,
    pub sought: &'u Sought,
}

pub trait Compiler {
    /// Its name in the patch's message: `the config of 6.12.117`.
    fn name(&self) -> String;

    /// Its name in a table of configs: `6.12.117`.
    fn config(&self) -> String {
        self.name()
    }

    /// The types of the compiled unit.
    ///
    /// # Errors
    /// If it does not compile, or there is no compiler.
    fn types(&self, unit: &CompileUnit<'_>) -> Result<TypeModel, CompileError>;
}

/// The compilers that prove a patch.
#[derive(Clone, Debug)]
pub struct Compilers<C> {
    /// Compiles as the recorded kernel was: every member has to be where predicted.
    pub recorded: C,
    /// Other configs: field groups have to stay together.
    pub others: Vec<C>,
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// This computer lacks something: the tree is not to blame.
    #[error("{program} is not installed, and the proof needs it: {remedy}")]
    MissingTool {
        program: String,
        remedy: &'static str,
    },
    #[error("cannot run {program}")]
    Run { program: String, source: io::Error },
    #[error("{program} failed ({status}): {complaint}")]
    Failed {
        program: String,
        status: ExitStatus,
        complaint: String,
    },
    #[error("the build command left nothing at $LINEMATE_OBJECT")]
    NoObject,
    #[error(
        "{compiler} makes pointers of {bits} bits, and the kernel of {config} has others: its layouts would be wrong"
    )]
    Pointers {
        compiler: String,
        /// Bits of a compiled pointer.
        bits: u32,
        config: String,
    },
    #[error("the object has no debug information: compile with -g")]
    NoDebugInformation(#[source] ImageError),
    #[error("{}", object.display())]
    Types { object: PathBuf, source: BtfError },
    #[error("the compiled program")]
    Program(#[from] DwarfError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// What users compile with.
#[derive(Clone, Debug)]
pub enum Toolchain {
    /// A command that compiles `$LINEMATE_UNIT` to `$LINEMATE_OBJECT`.
    Command(String),
    /// The compiler with a kernel's flags and generated headers.
    Kernel(KernelConfig),
    /// The compiler with its own flags.
    System,
}

#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    #[error(
        "nothing to prove the patch with: give --config (a build or headers folder of that kernel) or --build"
    )]
    Missing,
    #[error("{} is not a Linux tree: prove with --build instead of --config", .0.display())]
    NotLinux(PathBuf),
    #[error("{} is missing: --config takes a kernel's build or headers folder", .0.display())]
    NotBuilt(PathBuf),
    #[error(
        "{} is for {arch} and names no cross compiler: prepare a build folder with `make ARCH={arch} CROSS_COMPILE=…` and gcc",
        folder.display()
    )]
    NoCrossCompiler { folder: PathBuf, arch: String },
    #[error(
        "{} has CONFIG_RANDSTRUCT (before 5.19 CONFIG_GCC_PLUGIN_RANDSTRUCT), with which each build folder has its own order of members: prepare one without it",
        .0.display()
    )]
    RandomLayout(PathBuf),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Toolchain {
    /// The compilers for a tree from the commands or else the configs, the first one for the
    /// recorded kernel; the system's compiler if there are none.
    ///
    /// # Errors
    /// If a kernel's tree has no config, another tree has one, or a config is unusable.
    pub fn all<P: AsRef<Path>>(
        tree: &SourceTree,
        arch: &str,
        builds: &[String],
        configs: &[P],
    ) -> Result<Compilers<Toolchain>, ToolchainError> {
        if let [first, others @ ..] = builds {
            return Ok(Compilers {
                recorded: Toolchain::Command(first.clone()),
                others: others.iter().cloned().map(Toolchain::Command).collect(),
            });
        }
        match (tree.is_kernel(), configs) {
            (true, []) => Err(ToolchainError::Missing),
            (false, []) => Ok(Compilers {
                recorded: Toolchain::System,
                others: Vec::new(),
            }),
            (false, _) => Err(ToolchainError::NotLinux(tree.root().to_owned())),
            (true, [first, others @ ..]) => {
                let kernel =
                    |folder: &P| KernelConfig::read(folder.as_ref(), arch).map(Toolchain::Kernel);
                Ok(Compilers {
                    recorded: kernel(first)?,
                    others: others.iter().map(kernel).collect::<Result<_, _>>()?,
                })
            }
        }
    }

    /// The system's compiler of a language, or the C compiler of another architecture.
    fn compiler(&self, dialect: Dialect) -> Command {
        let cross = match self {
            Toolchain::Kernel(config) if dialect == Dialect::C => config.cross_compiler.as_deref(),
            _ => None,
        };
        compiler(dialect, cross)
    }

    /// Few architectures have flags here, so the compiler may make code for another kind of kernel.
    fn check_pointers(&self, model: &TypeModel, dialect: Dialect) -> Result<(), CompileError> {
        let Toolchain::Kernel(config) = self else {
            return Ok(());
        };
        let bits = 8 * model.pointer_size();
        match (bits == 64) == config.target.has_64_bits {
            true => Ok(()),
            false => Err(CompileError::Pointers {
                compiler: self
                    .compiler(dialect)
                    .get_program()
                    .to_string_lossy()
                    .into_owned(),
                bits,
                config: config.name.clone(),
            }),
        }
    }

    fn command(&self, unit: &CompileUnit<'_>, place: &CompileFolder) -> Command {
        let mut cc = self.compiler(unit.sought.dialect());
        cc.arg("-o").arg(&place.object).arg(&place.unit);
        if matches!(unit.sought, Sought::Members(_)) {
            cc.arg("-fno-eliminate-unused-debug-types");
        }
        match self {
            Toolchain::Command(command) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]).current_dir(unit.tree);
                shell
                    .env("LINEMATE_TREE", unit.tree)
                    .env("LINEMATE_UNIT", &place.unit)
                    .env("LINEMATE_OBJECT", &place.object);
                if unit.sought.dialect() == Dialect::Rust {
                    // What cargo builds for both trees would get in each other's way.
                    shell.env("CARGO_TARGET_DIR", place.folder.path().join("target"));
                }
                return shell;
            }
            Toolchain::Kernel(config) => {
                let (tree, folder) = (
                    unit.tree.display().to_string(),
                    config.folder.display().to_string(),
                );
                cc.args(proof::kernel_flags(&tree, &folder, &config.target));
            }
            Toolchain::System if place.unit.file_name() == Some("lib.rs".as_ref()) => {
                cc.args(["--crate-type", "lib", "--emit", "obj"]);
            }
            Toolchain::System if unit.sought.dialect() == Dialect::Rust => {}
            Toolchain::System => {
                cc.arg("-w").arg("-I").arg(unit.tree);
                cc.arg("-I").arg(unit.tree.join("include"));
            }
        }
        cc
    }
}

impl Compiler for Toolchain {
    fn name(&self) -> String {
        match self {
            Toolchain::Command(command) => format!("`{command}`"),
            Toolchain::Kernel(config) => format!("the config of {}", config.name),
            Toolchain::System => "the system's compiler".to_owned(),
        }
    }

    fn config(&self) -> String {
        match self {
            Toolchain::Kernel(config) => config.name.clone(),
            _ => self.name(),
        }
    }

    fn types(&self, unit: &CompileUnit<'_>) -> Result<TypeModel, CompileError> {
        let place = CompileFolder::new(unit)?;
        let compile = |text: Option<String>| {
            if let Some(text) = text {
                fs::write(&place.unit, text)
                    .map_err(cannot(|| format!("write {}", place.unit.display())))?;
            }
            // Leftovers of a failed attempt must not be taken for this one's.
            let _ = fs::remove_file(&place.object);
            run(&mut self.command(unit, &place))
        };
        let file = unit.file.display().to_string();
        let dialect = unit.sought.dialect();
        let end = match self {
            Toolchain::Kernel(_) => proof::line_unit(),
            _ => String::new(),
        };
        let named = (dialect != Dialect::Rust).then(|| proof::unit(&file, unit.sought) + &end);
        match (compile(named), self, dialect) {
            // The error to show is what the header itself lacks.
            (Err(alone), Toolchain::Kernel(_), _) => {
                let after = proof::unit_after_basics(&file, unit.sought);
                compile(Some(after + &end)).map_err(|_| alone)?;
            }
            // Nothing outside can name what is private, or local to a function.
            (Err(_), _, Dialect::Cpp) => compile(Some(proof::include(&file)))?,
            (first, ..) => first?,
        }
        let model = match (place.object.is_file(), dialect) {
            // BTF lacks atomic types, which programs in C may have: pahole 1.24 gives such members
            // no size.
            (true, Dialect::C) if matches!(self, Toolchain::Kernel(_)) => read(&place),
            (true, _) => read_program(&place),
            (false, _) => Err(CompileError::NoObject),
        }?;
        self.check_pointers(&model, dialect)?;
        Ok(model)
    }
}

/// Where a unit is compiled.
struct CompileFolder {
    folder: TempDir,
    unit: PathBuf,
    object: PathBuf,
}

impl CompileFolder {
    fn new(unit: &CompileUnit<'_>) -> Result<CompileFolder, FolderError> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(cannot(|| "make a temporary folder".to_owned()))?;
        Ok(CompileFolder {
            unit: match unit.sought.dialect() {
                Dialect::C => folder.path().join("unit.c"),
                Dialect::Cpp => folder.path().join("unit.cpp"),
                Dialect::Rust => crate_root(unit.tree, unit.file),
            },
            object: folder.path().join("unit.o"),
            folder,
        })
    }
}

/// The named compiler, else the system's compiler of a language.
fn compiler(dialect: Dialect, named: Option<&str>) -> Command {
    let named = |variable: &str, program: &str| match named {
        Some(named) => Command::new(named),
        None => Command::new(std::env::var_os(variable).unwrap_or_else(|| program.into())),
    };
    let mut command = match dialect {
        Dialect::C => named("CC", "cc"),
        Dialect::Cpp => named("CXX", "c++"),
        Dialect::Rust => named("RUSTC", "rustc"),
    };
    match dialect {
        Dialect::Rust => command.args(["-g", "--edition", "2024", "-A", "warnings"]),
        _ => command.args(["-g", "-gdwarf-4", "-c"]),
    };
    command
}

/// The file to give to rustc for a module: the next `main.rs` or `lib.rs` around it, else itself.
fn crate_root(tree: &Path, file: &Path) -> PathBuf {
    let folders = file
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(tree));
    let roots = folders.flat_map(|folder| ["main.rs", "lib.rs"].map(|name| folder.join(name)));
    let mut roots = roots.filter(|root| root.is_file());
    roots.next().unwrap_or_else(|| file.to_owned())
}

/// What to do about a missing program.
fn remedy(program: &str) -> &'static str {
    match program {
        "pahole" => "install Debian's package dwarves",
        "rustc" => "install Rust, or set RUSTC to its compiler",
        cxx if cxx.contains("++") => {
            "install a C++ compiler (Debian's package g++), or set CXX to one"
        }
        cross if cross.contains("-gcc") => {
            "install the cross compiler of the kernel of --config (Debian's packages gcc-aarch64-linux-gnu and the like)"
        }
        _ => "install a C compiler (Debian's package gcc), or set CC to one",
    }
}

/// Runs a command; if it fails, its first line of output is the error.
fn run(command: &mut Command) -> Result<(), CompileError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let remedy = remedy(&program);
            return Err(CompileError::MissingTool { program, remedy });
        }
        Err(source) => return Err(CompileError::Run { program, source }),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // A compiler may begin with `In file included from …`, which is not the reason.
    let complaint = said
        .lines()
        .find(|line| line.contains("error"))
        .or_else(|| said.lines().next());
    Err(CompileError::Failed {
        program,
        status: output.status,
        complaint: complaint.unwrap_or("no output").trim().to_owned(),
    })
}

/// The types of a program, or of an object file of a language that BTF does not describe.
fn read_program(place: &CompileFolder) -> Result<TypeModel, CompileError> {
    let bytes =
        fs::read(&place.object).map_err(cannot(|| format!("read {}", place.object.display())))?;
    let program = linemate_dwarf::relocated(bytes)?;
    let files = ProgramFiles::new(&program, None, None)?;
    Ok(ProgramTypes::read(&files)?.into_model())
}

/// The types of a kernel's object file: its BTF, else what pahole makes of its DWARF.
fn read(place: &CompileFolder) -> Result<TypeModel, CompileError> {
    let bytes = |path: &Path| fs::read(path).map_err(cannot(|| format!("read {}", path.display())));
    let types = |image: KernelImage| {
        image.types().map_err(|source| CompileError::Types {
            object: place.object.clone(),
            source,
        })
    };
    if let Ok(image) = KernelImage::parse(&bytes(&place.object)?) {
        return types(image);
    }
    // A separate file instead of a section in the object: for the section pahole 1.24 runs
    // llvm-objcopy, which few machines have.
    let btf = place.folder.path().join("types.btf");
    run(Command::new("pahole")
        .arg(format!("--btf_encode_detached={}", btf.display()))
        .arg(&place.object))?;
    types(KernelImage::parse(&bytes(&btf)?).map_err(CompileError::NoDebugInformation)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named_with_its_package() {
        for (program, expected) in [
            ("cc", "gcc"),
            ("c++", "CXX"),
            ("rustc", "RUSTC"),
            ("s390x-linux-gnu-gcc", "--config"),
        ] {
            let said = remedy(program);
            assert!(said.contains(expected), "{said}");
        }
    }
}
