//! A copy of the source that bugs are put into.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use servers::Flavor;

use super::bug::Bug;
use crate::{
    files::{self, error_at},
    source_copy,
    step::target,
};

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
        copy.link_the_servers()?;
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
        let whole = files::read_text(&file)?;
        files::write(&file, bug.planted_in(&whole)?)?;
        Ok(SeededBug { file, whole })
    }

    /// Links the servers, because the tests look for them in the `target` of their own workspace.
    fn link_the_servers(&self) -> Result<(), String> {
        let there = files::directory(&self.tree, "target")?.join("servers");
        match symlink(Flavor::fetched_into(), &there) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error_at(&there)(error)),
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
