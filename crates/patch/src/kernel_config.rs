//! What a kernel's build or headers folder says of the kernel that it is for.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use linemate_source::proof::KernelTarget;

use crate::compiler::ToolchainError;
use crate::folder::cannot;

/// The option that names each architecture: a config has one of them.
const ARCHITECTURES: [(&str, &str); 8] = [
    ("CONFIG_X86", "x86"),
    ("CONFIG_ARM64", "arm64"),
    ("CONFIG_ARM", "arm"),
    ("CONFIG_PPC", "powerpc"),
    ("CONFIG_S390", "s390"),
    ("CONFIG_RISCV", "riscv"),
    ("CONFIG_LOONGARCH", "loongarch"),
    ("CONFIG_MIPS", "mips"),
];

/// The options with which structs that allow it have their members in a random order: since 5.19,
/// and before.
const RANDOM_LAYOUT: [&str; 2] = ["CONFIG_RANDSTRUCT", "CONFIG_GCC_PLUGIN_RANDSTRUCT"];

/// A folder with generated headers, and how to compile for its kernel.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    pub(crate) folder: PathBuf,
    /// Its release, and its folder's name where that is another one.
    pub(crate) name: String,
    pub(crate) target: KernelTarget,
    /// The C compiler, if it is for another architecture than this computer's.
    pub(crate) cross_compiler: Option<String>,
}

impl KernelConfig {
    /// `arch` (below `arch/`) is the architecture if the folder does not say.
    ///
    /// # Errors
    /// If the folder does not exist, nothing was generated in it, its kernel orders members at
    /// random, or is of another architecture and was not built by a cross compiler.
    pub(crate) fn read(folder: &Path, arch: &str) -> Result<KernelConfig, ToolchainError> {
        let real = fs::canonicalize(folder);
        let folder = real.map_err(cannot(|| format!("read {}", folder.display())))?;
        let generated = folder.join("include/generated");
        let Ok(options) = fs::read_to_string(generated.join("autoconf.h")) else {
            return Err(ToolchainError::NotBuilt(generated.join("autoconf.h")));
        };
        // The order comes from a seed that `make` makes for each folder, by a plugin (gcc) or a
        // flag (clang), neither of which is used here.
        if RANDOM_LAYOUT
            .iter()
            .any(|option| defines(&options, option).is_some())
        {
            return Err(ToolchainError::RandomLayout(folder));
        }
        let release = fs::read_to_string(generated.join("utsrelease.h")).unwrap_or_default();
        let target = KernelTarget {
            arch: arch_of(&options, &folder).unwrap_or_else(|| arch.to_owned()),
            has_64_bits: defines(&options, "CONFIG_64BIT").is_some(),
        };
        let cross_compiler =
            match target.arch == this_arch() {
                true => None,
                false => Some(cross_compiler(&options).ok_or_else(|| {
                    ToolchainError::NoCrossCompiler {
                        folder: folder.clone(),
                        arch: target.arch.clone(),
                    }
                })?),
            };
        Ok(KernelConfig {
            name: name(release.split('"').nth(1), &folder),
            cross_compiler,
            target,
            folder,
        })
    }
}

/// The architecture by the options, else the only one for which headers were generated.
fn arch_of(options: &str, folder: &Path) -> Option<String> {
    let mut named = ARCHITECTURES.iter();
    if let Some((_, arch)) = named.find(|(option, _)| defines(options, option).is_some()) {
        return Some((*arch).to_owned());
    }
    let archs = fs::read_dir(folder.join("arch")).ok()?.flatten();
    let mut generated = archs.filter(|arch| arch.path().join("include/generated").is_dir());
    match (generated.next(), generated.next()) {
        (Some(only), None) => only.file_name().into_string().ok(),
        _ => None,
    }
}

/// `7.3.4` of `/usr/src/linux-headers-7.3.4`, `7.3.4 (rt)` of `/builds/rt`.
fn name(release: Option<&str>, folder: &Path) -> String {
    let own = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_named = |release: &str| {
        let mut prefixes = ["", "linux-", "linux-headers-"].iter();
        prefixes.any(|prefix| own.strip_prefix(prefix) == Some(release))
    };
    match release {
        None | Some("") => own.into_owned(),
        Some(release) if is_named(release) => release.to_owned(),
        Some(release) => format!("{release} ({own})"),
    }
}

/// What an option is defined as.
fn defines<'o>(options: &'o str, option: &str) -> Option<&'o str> {
    let defined = |line: &'o str| {
        let rest = line.strip_prefix("#define ")?.strip_prefix(option)?;
        rest.strip_prefix(' ').map(str::trim)
    };
    options.lines().find_map(defined)
}

/// `aarch64-linux-gnu-gcc` of `"aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0"`. The folder does
/// not choose any other program: neither a path nor another name. Clang is none, because its name
/// has no target.
fn cross_compiler(options: &str) -> Option<String> {
    let version = defines(options, "CONFIG_CC_VERSION_TEXT")?.trim_matches('"');
    let program = version.split_whitespace().next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let (target, _) = program.split_once("-gcc")?;
    (target.contains('-') && program.chars().all(is_name)).then(|| program.to_owned())
}

/// This computer's architecture, as the kernel's folders are named.
fn this_arch() -> &'static str {
    match ARCH {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        "riscv64" => "riscv",
        "loongarch64" => "loongarch",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(options: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let generated = folder.path().join("include/generated");
        fs::create_dir_all(&generated).unwrap();
        fs::write(generated.join("autoconf.h"), options).unwrap();
        let release = "#define UTS_RELEASE \"7.3.4\"\n";
        fs::write(generated.join("utsrelease.h"), release).unwrap();
        folder
    }

    #[test]
    fn options_say_which_kernel_it_is_and_what_built_it() {
        let gcc = "#define CONFIG_CC_VERSION_TEXT \"a-linux-gnu-gcc-12 (Debian 12) 12.2.0\"\n";
        let (foreign, option) = match this_arch() {
            "mips" => ("s390", "#define CONFIG_S390 1\n"),
            _ => ("mips", "#define CONFIG_MIPS 1\n"),
        };
        let wide = "#define CONFIG_64BIT 1\n";
        for (options, arch, has_64_bits) in [
            (format!("{option}{wide}{gcc}"), foreign, true),
            (format!("{option}{gcc}"), foreign, false),
            (wide.to_owned(), this_arch(), true),
        ] {
            let folder = folder(&options);
            let config = KernelConfig::read(folder.path(), this_arch()).unwrap();
            let target = KernelTarget {
                arch: arch.to_owned(),
                has_64_bits,
            };
            assert_eq!(config.target, target);
            let cross = (arch == foreign).then_some("a-linux-gnu-gcc-12");
            assert_eq!(config.cross_compiler.as_deref(), cross, "{options}");
        }
        let unnamed = folder(gcc);
        let unnamed_arch = || {
            KernelConfig::read(unnamed.path(), "x86")
                .unwrap()
                .target
                .arch
        };
        fs::create_dir_all(unnamed.path().join("arch/zeta/include/generated")).unwrap();
        assert_eq!(unnamed_arch(), "zeta");
        fs::create_dir_all(unnamed.path().join("arch/eta/include/generated")).unwrap();
        assert_eq!(unnamed_arch(), "x86", "one of two");
        let native = folder(&format!(
            "{option}#define CONFIG_CC_VERSION_TEXT \"gcc-12 (Debian)\"\n"
        ));
        let error = KernelConfig::read(native.path(), "x86").unwrap_err();
        assert!(error.to_string().contains(foreign), "{error}");
    }

    #[test]
    fn a_folder_names_a_cross_compiler_and_no_other_program() {
        let named =
            |text: &str| cross_compiler(&format!("#define CONFIG_CC_VERSION_TEXT \"{text}\"\n"));
        let gcc = "aarch64-linux-gnu-gcc";
        assert_eq!(named("aarch64-linux-gnu-gcc (D) 12").as_deref(), Some(gcc));
        for other in [
            "gcc-12 (Debian 12)",
            "Debian clang version 16",
            "clang version 16",
            "/tmp/x-linux-gnu-gcc 1",
            "../x-linux-gnu-gcc 1",
            "x-linux;gnu-gcc 1",
            "rm -rf",
            "",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn members_in_a_random_order_are_refused() {
        for option in RANDOM_LAYOUT {
            let randomised = folder(&format!("#define {option} 1\n"));
            let error = KernelConfig::read(randomised.path(), "x86").unwrap_err();
            assert!(
                error.to_string().contains("its own order of members"),
                "{error}"
            );
        }
        let not = folder("#define CONFIG_HAVE_RANDSTRUCT 1\n#define CONFIG_RANDSTRUCT_NONE 1\n");
        assert!(KernelConfig::read(not.path(), "x86").is_ok());
    }

    #[test]
    fn options_are_whole_words() {
        let options = "#define CONFIG_64BITS 1\n#define CONFIG_NR 64\n";
        assert_eq!(defines(options, "CONFIG_64BIT"), None);
        assert_eq!(defines(options, "CONFIG_NR"), Some("64"));
    }

    #[test]
    fn a_name_has_the_release_once() {
        let named = |release, folder: &str| name(release, Path::new(folder));
        assert_eq!(named(Some("7.3.4"), "/c/rt"), "7.3.4 (rt)");
        assert_eq!(named(Some("7.3.4"), "/c/7.3.4-rt"), "7.3.4 (7.3.4-rt)");
        assert_eq!(named(Some("7.3.4"), "/c/rt-7.3.4"), "7.3.4 (rt-7.3.4)");
        assert_eq!(
            named(Some("7.3.4"), "/usr/src/linux-headers-7.3.4"),
            "7.3.4"
        );
        assert_eq!(named(Some(""), "/c/rt"), "rt");
        assert_eq!(named(None, "/c/rt"), "rt");
    }

    #[test]
    fn what_was_not_generated_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = KernelConfig::read(folder.path(), "x86").unwrap_err();
        assert!(error.to_string().contains("autoconf.h"), "{error}");
    }
}
