//! The package for Debian and Ubuntu: an `ar` archive of a format version, a control archive and
//! the files.

use super::{
    archive::{Entry, gzip, tar},
    release::Release,
};

/// The description of the program in every package, in one line.
pub(super) const SUMMARY: &str = "distributed lock manager: run a command under a lock";

pub(super) fn name(release: &Release) -> String {
    format!("leasehold_{}_{}.deb", version(release), release.platform.debian)
}

/// The version in Debian's notation: a tilde sorts a pre-release before the release.
fn version(release: &Release) -> String {
    release.version.replacen('-', "~", 1)
}

pub(super) fn pack(release: &Release) -> Result<Vec<u8>, String> {
    let files = files(release)?;
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let control =
        gzip(&tar(vec![Entry::file("control", control(release, size))], release.epoch)?, release.level)?;
    let data = gzip(&tar(files, release.epoch)?, release.level)?;
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), ("data.tar.gz", &data)]
    {
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", release.epoch, 0, 0, "100644", bytes.len());
        package.extend(header.bytes());
        package.extend(bytes);
        if bytes.len() % 2 == 1 {
            package.push(b'\n');
        }
    }
    Ok(package)
}

fn control(release: &Release, size: usize) -> String {
    let depends = if release.is_static { "" } else { "Depends: libc6\n" };
    format!(
        "Package: leasehold\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Leasehold developers\n\
         Installed-Size: {size}\n\
         {depends}\
         Section: utils\n\
         Priority: optional\n\
         Description: {SUMMARY}\n\
         \x20A process takes a lease on a key, and while the lease lasts nobody else is granted\n\
         \x20that key. Locks are in a file, in Redis, Valkey or KeyDB, or in PostgreSQL.\n",
        version(release),
        release.platform.debian,
    )
}

fn files(release: &Release) -> Result<Vec<Entry>, String> {
    let mut files = vec![Entry::program("usr/bin/leasehold", release.binary.clone())];
    for page in release.installed_pages("usr/", "vendor-completions") {
        // Debian compresses manual pages, and `man` finds both.
        let manual = page.path.contains("/man/");
        files.push(if manual { compressed(&page.path, &page.bytes, release)? } else { page });
    }
    let mut copyright = b"Leasehold is licensed under MIT or Apache 2.0, as you choose.\n".to_vec();
    for licence in release.licences() {
        copyright.extend(format!("\n{}\n\n", licence.path).bytes());
        copyright.extend(&licence.bytes);
    }
    files.push(Entry::file("usr/share/doc/leasehold/copyright", copyright));
    for document in &release.documents {
        let path = format!("usr/share/doc/leasehold/{}", document.path);
        match document.path.as_str() {
            name if name.starts_with("LICENSE") => {}
            "CHANGELOG.md" => {
                files.push(compressed("usr/share/doc/leasehold/changelog", &document.bytes, release)?);
            }
            _ => files.push(Entry { path, ..document.clone() }),
        }
    }
    Ok(files)
}

fn compressed(path: &str, bytes: &[u8], release: &Release) -> Result<Entry, String> {
    Ok(Entry::file(format!("{path}.gz"), gzip(bytes, release.level)?))
}
