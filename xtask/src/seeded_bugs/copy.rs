//! A copy of the source that bugs are put into.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use servers::Flavor;

use super::bug::Bug;
use crate::{source_copy, step::target};

/// The copy, and its target directory.
#[derive(Debug)]
pub(super) struct Copy {
    tree: PathBuf,
    build: PathBuf,
}

impl Copy {
    /// Updates the copy to the current source.
    pub(super) fn take() -> Result<Self, String> {
        let place = target().join("seeded-bugs");
        let copy = Self { tree: place.join("tree"), build: place.join("build") };
        source_copy::update(&copy.tree)?;
        copy.has_the_servers().map_err(|error| format!("{}: {error}", copy.tree.display()))?;
        Ok(copy)
    }

    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    pub(super) fn build(&self) -> &Path {
        &self.build
    }

    /// Plants a bug, until the returned value is dropped.
    pub(super) fn seed(&self, bug: &Bug) -> Result<SeededBug, String> {
        let file = self.tree.join(bug.file);
        let said = |error: io::Error| format!("{}: {error}", file.display());
        let whole = fs::read_to_string(&file).map_err(said)?;
        fs::write(&file, bug.planted_in(&whole)?).map_err(said)?;
        Ok(SeededBug { file, whole })
    }

    /// Links the servers, because the tests look for them in the `target` of their own workspace.
    fn has_the_servers(&self) -> io::Result<()> {
        let there = self.tree.join("target/servers");
        fs::create_dir_all(self.tree.join("target"))?;
        match std::os::unix::fs::symlink(Flavor::fetched_into(), there) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// A bug that is in the copy. Dropping this removes it.
#[derive(Debug)]
pub(super) struct SeededBug {
    file: PathBuf,
    whole: String,
}

impl Drop for SeededBug {
    fn drop(&mut self) {
        // If this fails, the next update of the copy repairs the file.
        let _ = fs::write(&self.file, &self.whole);
    }
}
