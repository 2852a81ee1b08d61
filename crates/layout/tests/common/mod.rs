//! What several tests need: the kernels that `make setup` put into the cache.

use std::path::PathBuf;

use linemate_types::{KernelImage, TypeModel};

fn cache() -> PathBuf {
    if let Some(cache) = std::env::var_os("LINEMATE_CACHE") {
        return PathBuf::from(cache);
    }
    match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache).join("linemate"),
        None => PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/linemate"),
    }
}

/// The path of the image of the kernel whose release starts with `release`.
pub(crate) fn image(release: &str) -> PathBuf {
    let kernels = cache().join("kernels");
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

/// The types of the kernel whose release starts with `release`.
pub(crate) fn kernel(release: &str) -> TypeModel {
    let bytes = std::fs::read(image(release)).unwrap();
    KernelImage::parse(&bytes).unwrap().types().unwrap()
}
