//! The folder for everything that can be recreated: pinned kernel images and boot snapshots.

use std::env;
use std::path::PathBuf;

use linemate_files::check_trusted;

use crate::error::GuestError;

/// `LINEMATE_CACHE`, else `linemate` in `XDG_CACHE_HOME`, else `~/.cache/linemate`; without `HOME`,
/// the user database gives the home folder.
///
/// # Errors
/// None of them is known, or others could have written to the folder: its contents are booted.
pub fn cache_folder() -> Result<PathBuf, GuestError> {
    // An empty variable counts as unset: it would make the current folder the cache.
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let folder = choose(|name| variable(name).map(PathBuf::from), user_home);
    let folder = folder.ok_or(GuestError::NoCache)?;
    let folder = std::path::absolute(&folder).map_err(GuestError::io("find", &folder))?;
    check_trusted(&folder)?;
    Ok(folder)
}

/// The home folder of the user database.
fn user_home() -> Option<PathBuf> {
    // Deprecated because of its behaviour on Windows before Rust 1.85.
    #[allow(deprecated)]
    env::home_dir().filter(|home| home.is_absolute())
}

fn choose(
    variable: impl Fn(&str) -> Option<PathBuf>,
    home: impl FnOnce() -> Option<PathBuf>,
) -> Option<PathBuf> {
    if let Some(folder) = variable("LINEMATE_CACHE") {
        return Some(folder);
    }
    let caches = variable("XDG_CACHE_HOME").or_else(|| {
        let home = variable("HOME").or_else(home)?;
        Some(home.join(".cache"))
    })?;
    Some(caches.join("linemate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_particular_variable_wins() {
        let all = [
            ("LINEMATE_CACHE", "/l"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        let chosen = |from: usize, home: Option<&str>| {
            let set = all.get(from..).unwrap_or_default();
            choose(
                |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()),
                || home.map(PathBuf::from),
            )
        };
        assert_eq!(chosen(0, None), Some("/l".into()));
        assert_eq!(chosen(1, None), Some("/x/linemate".into()));
        assert_eq!(chosen(2, Some("/other")), Some("/h/.cache/linemate".into()));
        assert_eq!(chosen(3, Some("/p")), Some("/p/.cache/linemate".into()));
        // Never a name in a folder that everybody can write to.
        assert_eq!(chosen(3, None), None);
    }
}
