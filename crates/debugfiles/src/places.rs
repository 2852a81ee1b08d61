//! Where files with debug information can be, in gdb's order.

use std::path::{Path, PathBuf};

use linemate_dwarf::Companions;

/// Where distributions put the debug information of their packages.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Where the separate debug file of a program at `path` can be.
pub(crate) fn debug(companions: &Companions, path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    places.extend(by_build_id(&companions.build_id_text()));
    let folder = folder(path);
    if let Some((name, _)) = &companions.debug_link {
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
        if let Ok(inside) = folder.strip_prefix("/") {
            places.push(Path::new(DEBUG_FOLDER).join(inside).join(name));
        }
    }
    // A program can name itself.
    places.retain(|place| place != path);
    places
}

/// Where the file of common types of a debug file at `path` can be.
pub(crate) fn alternate(name: &str, id: &[u8], path: &Path) -> Vec<PathBuf> {
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut places = vec![folder(path).join(name)];
    places.extend(by_build_id(&id));
    places
}

/// Where the package of a program or debug file at one of `paths` can be.
pub(crate) fn packages(paths: &[&Path]) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for path in paths {
        let mut name = path.as_os_str().to_owned();
        name.push(".dwp");
        add(&mut places, name.into());
        // `server.debug` is the debug file of `server`.
        if path
            .extension()
            .is_some_and(|extension| extension == "debug")
        {
            add(&mut places, path.with_extension("dwp"));
        }
    }
    places
}

/// Where the `.dwo` file that a skeleton names can be: where the compiler wrote it, else next to a
/// program or debug file of `paths`.
pub(crate) fn objects(name: &str, compiled_in: Option<&str>, paths: &[&Path]) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let named = match compiled_in {
        Some(folder) => Path::new(folder).join(name),
        None => PathBuf::from(name),
    };
    if named.is_absolute() {
        places.push(named.clone());
    }
    for path in paths {
        if named.is_relative() {
            add(&mut places, folder(path).join(&named));
        }
        if Path::new(name).is_relative() {
            add(&mut places, folder(path).join(name));
        }
        if let Some(file) = Path::new(name).file_name() {
            add(&mut places, folder(path).join(file));
        }
    }
    places
}

fn add(places: &mut Vec<PathBuf>, place: PathBuf) {
    if !places.contains(&place) {
        places.push(place);
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    let name = format!("{rest}.debug");
    (!rest.is_empty()).then(|| {
        Path::new(DEBUG_FOLDER)
            .join(".build-id")
            .join(first)
            .join(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(places: Vec<PathBuf>) -> Vec<String> {
        places.iter().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn packages_are_beside_the_program_and_its_debug_file() {
        let paths = ["/bin/a", "/bin/a", "/lib/a.debug"].map(Path::new);
        assert_eq!(
            texts(packages(&paths)),
            ["/bin/a.dwp", "/lib/a.debug.dwp", "/lib/a.dwp"]
        );
    }

    #[test]
    fn objects_are_where_the_compiler_wrote_them_or_beside_the_program() {
        let paths = ["/bin/a"].map(Path::new);
        assert_eq!(
            texts(objects("o/a.dwo", Some("/src"), &paths)),
            ["/src/o/a.dwo", "/bin/o/a.dwo", "/bin/a.dwo"]
        );
        assert_eq!(
            texts(objects("/o/a.dwo", Some("/src"), &paths)),
            ["/o/a.dwo", "/bin/a.dwo"]
        );
        assert_eq!(texts(objects("a.dwo", Some("."), &paths)), ["/bin/./a.dwo"]);
        assert_eq!(texts(objects("a.dwo", None, &paths)), ["/bin/a.dwo"]);
    }
}
