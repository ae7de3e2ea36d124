//! A copy of the source in another directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    files::{self, error_at, files_under},
    step::workspace,
};

/// The parts of the repository that cargo builds from.
const PARTS: [&str; 8] =
    ["crates", "proving", "xtask", "docs", ".cargo", "Cargo.toml", "Cargo.lock", "README.md"];

/// Updates a copy to the current source. Unchanged files are not touched, so that cargo does not
/// rebuild them.
pub(crate) fn update(copy: &Path) -> Result<(), String> {
    let mut wanted = Vec::new();
    for part in PARTS {
        let path = workspace().join(part);
        if path.is_dir() { wanted.extend(files_under(&path)?) } else { wanted.push(path) }
    }
    let name = |path: &Path, of: &Path| path.strip_prefix(of).unwrap_or(path).to_owned();
    let names: Vec<PathBuf> = wanted.iter().map(|path| name(path, workspace())).collect();
    for (from, name) in wanted.iter().zip(&names) {
        let (to, bytes) = (copy.join(name), files::read(from)?);
        if fs::read(&to).ok().as_deref() != Some(&bytes) {
            files::create_directory(to.parent().unwrap_or(copy))?;
            files::write(&to, bytes)?;
        }
    }
    for part in PARTS.iter().map(|part| copy.join(part)).filter(|part| part.is_dir()) {
        for file in files_under(&part)? {
            if !names.contains(&name(&file, copy)) {
                fs::remove_file(&file).map_err(error_at(&file))?;
            }
        }
    }
    Ok(())
}
