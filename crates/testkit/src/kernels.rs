//! The kernels that `make setup` puts into the cache. A missing one fails the test that asks for
//! it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use linemate_types::{KernelImage, TypeModel};

/// `${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}`, as in `make setup`.
fn cache() -> PathBuf {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    variable("LINEMATE_CACHE").unwrap_or_else(|| {
        let caches = variable("XDG_CACHE_HOME")
            .unwrap_or_else(|| variable("HOME").expect("HOME is set").join(".cache"));
        caches.join("linemate")
    })
}

/// The image of the newest x86-64 kernel whose release starts with `release`.
pub fn image(release: &str) -> PathBuf {
    image_in("kernels", release)
}

/// The image of the newest kernel of another architecture whose release starts with `release`.
pub fn foreign_image(release: &str) -> PathBuf {
    image_in("foreign-kernels", release)
}

fn image_in(folder: &str, release: &str) -> PathBuf {
    let kernels = cache().join(folder);
    let missing = || {
        format!(
            "no kernel {release}* in {}: run `make setup`",
            kernels.display()
        )
    };
    let mut images: Vec<PathBuf> = std::fs::read_dir(&kernels)
        .unwrap_or_else(|_| panic!("{}", missing()))
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let image = kernels
                .join(&name)
                .join("boot")
                .join(format!("vmlinuz-{name}"));
            (name.starts_with(release) && image.exists()).then_some(image)
        })
        .collect();
    images.sort();
    images.pop().unwrap_or_else(|| panic!("{}", missing()))
}

/// The types of the newest x86-64 kernel whose release starts with `release`.
pub fn kernel(release: &str) -> TypeModel {
    let bytes = std::fs::read(image(release)).unwrap();
    KernelImage::parse(&bytes).unwrap().types().unwrap()
}
