//! The folder for what can be made again: pinned kernel images and boot snapshots.

use std::env;
use std::path::PathBuf;

/// `LINEMATE_CACHE`, else `linemate` in `XDG_CACHE_HOME`, else `~/.cache/linemate`.
#[must_use]
pub fn cache_folder() -> PathBuf {
    choose(|name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    })
}

fn choose(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    if let Some(folder) = variable("LINEMATE_CACHE") {
        return folder;
    }
    let caches = variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir);
    caches.join("linemate")
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
        let chosen = |from: usize| {
            let set = all.get(from..).unwrap_or_default();
            choose(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
        };
        assert_eq!(chosen(0), PathBuf::from("/l"));
        assert_eq!(chosen(1), PathBuf::from("/x/linemate"));
        assert_eq!(chosen(2), PathBuf::from("/h/.cache/linemate"));
    }
}
