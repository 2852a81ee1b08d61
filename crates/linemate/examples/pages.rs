//! Writes the manual pages and shell completions of `linemate` into a folder: `pages FOLDER`. They
//! come from the command's own definition. This is an example, because only `make install` needs
//! it, and the command itself does not need its dependencies.

use std::path::PathBuf;

use anyhow::Context;
use clap_complete::Shell;

fn main() -> anyhow::Result<()> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .context("give the folder to write to")?
        .into();
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut linemate::command(), "linemate", &folder)
            .with_context(|| folder.display().to_string())?;
    }
    clap_mangen::generate_to(linemate::command(), &folder)
        .with_context(|| folder.display().to_string())?;
    Ok(())
}
