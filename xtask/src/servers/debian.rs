//! Programs from Debian's packages (Redis 7.0, PgBouncer and libfaketime), unpacked without being
//! installed and without root.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use servers::Flavor;

use crate::{files, tool};

/// The package with the server; the one called redis-server contains only the service.
const PACKAGE: &str = "redis-tools";

/// The server's name in that package: one program, which acts according to the name that it is
/// called by.
const PROGRAM: &str = "usr/bin/redis-check-rdb";

/// The package of PgBouncer.
const POOLER: &str = "pgbouncer";

/// The package of each shared library, by the start of the library's name.
const LIBRARIES: [(&str, &str); 14] = [
    ("libatomic.", "libatomic1"),
    ("libcap.", "libcap2"),
    ("libcares.", "libc-ares2"),
    ("libcrypto.", "libssl3"),
    ("libevent-", "libevent-2.1-7"),
    ("libgcrypt.", "libgcrypt20"),
    ("libgpg-error.", "libgpg-error0"),
    ("libjemalloc.", "libjemalloc2"),
    ("liblz4.", "liblz4-1"),
    ("liblzf.", "liblzf1"),
    ("libpam.", "libpam0g"),
    ("libssl.", "libssl3"),
    ("libsystemd.", "libsystemd0"),
    ("libzstd.", "libzstd1"),
];

/// A script that makes the downloaded libraries available and then becomes the server, so that its
/// process id stays the same.
const WRAPPER: &str = r#"#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/bin/$(basename "$0")" "$@"
"#;

/// Returns a directory with the server, the libraries that this machine lacks, and a script that
/// starts it with them.
pub(super) fn make(flavor: Flavor, workshop: &Path) -> Result<PathBuf, String> {
    make_of(PACKAGE, PROGRAM, flavor.program(), workshop)
}

/// The same for PgBouncer.
pub(super) fn make_pooler(workshop: &Path) -> Result<PathBuf, String> {
    make_of(POOLER, "usr/sbin/pgbouncer", POOLER, workshop)
}

/// A directory with the library that gives a program another clock. It needs no other library.
pub(super) fn make_fake_clock(workshop: &Path) -> Result<PathBuf, String> {
    const LIBRARY: &str = "libfaketime.so.1";
    let made = files::directory(workshop, "made")?;
    let files = files::files_under(&Apt::new(workshop).unpack("libfaketime")?)?;
    let library = files.iter().find(|file| file.file_name().is_some_and(|name| name == LIBRARY));
    files::put(library.ok_or("the package has no such library")?, &made.join(LIBRARY))?;
    Ok(made)
}

fn make_of(package: &str, path: &str, name: &str, workshop: &Path) -> Result<PathBuf, String> {
    let made = files::directory(workshop, "made")?;
    let program = files::directory(&made, "bin")?.join(name);
    let libraries = files::directory(&made, "lib")?;
    let mut apt = Apt::new(workshop);

    let unpacked = apt.unpack(package)?;
    files::put(&unpacked.join(path), &program)?;

    // A library may need others, which shows only once it is there.
    let mut had: Vec<&str> = Vec::new();
    while let Some(library) = missing(&program, &libraries)?.first() {
        let known = LIBRARIES.iter().find(|(start, _)| library.starts_with(start));
        let Some((_, library_package)) = known.filter(|(_, package)| !had.contains(package)) else {
            return Err(format!("{package} needs {library}, and xtask knows no package with it"));
        };
        had.push(library_package);
        for file in files::files_under(&apt.unpack(library_package)?)? {
            let name = file.file_name().unwrap_or_default();
            if name.to_string_lossy().starts_with("lib") && name.to_string_lossy().contains(".so") {
                files::put(&file, &libraries.join(name))?;
            }
        }
    }

    let wrapper = made.join(name);
    files::write(&wrapper, WRAPPER)?;
    files::make_executable(&wrapper)?;
    Ok(made)
}

/// The shared libraries that are neither on the machine nor in `libraries`.
fn missing(program: &Path, libraries: &Path) -> Result<Vec<String>, String> {
    let listed = tool::run(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", libraries))?;
    let names = listed.lines().filter_map(|line| line.trim().strip_suffix(" => not found"));
    Ok(names.map(str::to_owned).collect())
}

/// apt with this machine's settings, but writing only into the workshop.
struct Apt<'a> {
    workshop: &'a Path,
    options: Vec<OsString>,
    fresh: bool,
}

/// Downloads a package for an architecture, and returns the directory in the workshop that it is
/// unpacked in.
pub(crate) fn unpacked(package: &str, architecture: &str, workshop: &Path) -> Result<PathBuf, String> {
    let mut apt = Apt::new(workshop);
    apt.options.extend(["-o".into(), format!("APT::Architecture={architecture}").into()]);
    apt.options.extend(["-o".into(), format!("APT::Architectures={architecture}").into()]);
    apt.unpack(package)
}

impl<'a> Apt<'a> {
    fn new(workshop: &'a Path) -> Self {
        Self { workshop, options: vec!["-o".into(), "APT::Sandbox::User=root".into()], fresh: false }
    }

    /// Downloads a package and returns the directory that it is unpacked in.
    fn unpack(&mut self, package: &str) -> Result<PathBuf, String> {
        let download = files::directory(self.workshop, &format!("{package}.download"))?;
        self.download(package, &download)?;
        let archives = files::files_under(&download)?;
        let [archive] = archives.as_slice() else {
            return Err(format!("apt-get left {} files for {package} instead of one", archives.len()));
        };
        let unpacked = files::directory(self.workshop, package)?;
        tool::run(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&unpacked))?;
        Ok(unpacked)
    }

    fn download(&mut self, package: &str, into: &Path) -> Result<(), String> {
        let Err(first) = self.try_download(package, into) else { return Ok(()) };
        if self.fresh {
            return Err(first);
        }
        // The machine's package lists are missing, or older than the archive: download our own.
        let update = self.update();
        self.try_download(package, into).map_err(|second| match update {
            Ok(()) => second,
            Err(update) => format!("{second}, after {update}"),
        })
    }

    fn try_download(&self, package: &str, into: &Path) -> Result<(), String> {
        let mut command = Command::new("apt-get");
        command.args(&self.options).arg("download").arg(package).current_dir(into);
        tool::run(&mut command).map(drop)
    }

    /// Downloads package lists into the workshop. Whether that worked shows in the next download:
    /// hooks of the machine that only root can run fail here, harmlessly.
    fn update(&mut self) -> Result<(), String> {
        self.fresh = true;
        files::directory(self.workshop, "apt/lists/partial")?;
        files::directory(self.workshop, "apt/cache/archives/partial")?;
        for (setting, path) in [("Dir::State::Lists", "apt/lists"), ("Dir::Cache", "apt/cache")] {
            let mut option = OsString::from(format!("{setting}="));
            option.push(self.workshop.join(path));
            self.options.extend(["-o".into(), option]);
        }
        let mut command = Command::new("apt-get");
        command.args(&self.options).arg("update");
        tool::run(&mut command).map(drop)
    }
}
