//! The package for pip: a wheel with the binary as a script, and a module, so that `python -m
//! leasehold` finds it.

use std::io::{Cursor, Write as _};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::Compression;
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use super::{
    archive::{Entry, sha256_bytes},
    deb::SUMMARY,
    release::Release,
};

const INIT: &str = "\"\"\"The leasehold command, which this package carries.\"\"\"\n";

const MAIN: &str = r#"import os
import sys
import sysconfig

command = os.path.join(sysconfig.get_path("scripts"), "leasehold")
if not os.path.exists(command):  # pip install --target
    command = os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin", "leasehold")
os.execv(command, [command, *sys.argv[1:]])
"#;

pub(super) fn name(release: &Release) -> String {
    format!("leasehold-{}-py3-none-{}.whl", version(release), tags(release).join("."))
}

/// The version in Python's notation: the pre-release 1.0.0-rc.1 is 1.0.0rc1 there.
fn version(release: &Release) -> String {
    let replaced = [("-alpha.", "a"), ("-beta.", "b"), ("-rc.", "rc")];
    replaced
        .iter()
        .fold(release.version.clone(), |version, (theirs, pythons)| version.replace(theirs, pythons))
}

/// The platforms that the wheel is for. A static binary runs with either C library. Another binary
/// is only known to run where it was built; pip installs such a wheel, but an index refuses it.
fn tags(release: &Release) -> Vec<String> {
    let platforms: &[&str] =
        if release.is_static { &["manylinux_2_17", "manylinux2014", "musllinux_1_1"] } else { &["linux"] };
    platforms.iter().map(|platform| format!("{platform}_{}", release.platform.rust)).collect()
}

pub(super) fn pack(release: &Release) -> Result<Vec<u8>, String> {
    let mut entries = entries(release);
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    // pip requires the record, which lists itself without a checksum; it comes last.
    let info = format!("leasehold-{}.dist-info", version(release));
    let mut record: String = entries.iter().map(recorded).collect();
    record += &format!("{info}/RECORD,,\n");
    entries.push(Entry::file(format!("{info}/RECORD"), record));
    zipped(&entries, release).map_err(|error| error.to_string())
}

fn recorded(entry: &Entry) -> String {
    let sum = URL_SAFE_NO_PAD.encode(sha256_bytes(&entry.bytes));
    format!("{},sha256={sum},{}\n", entry.path, entry.bytes.len())
}

fn zipped(entries: &[Entry], release: &Release) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let level = if release.level == Compression::best() { 9 } else { 1 };
    for Entry { path, mode, bytes } in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level))
            .last_modified_time(DateTime::default())
            .unix_permissions(*mode);
        archive.start_file(path, options)?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

fn entries(release: &Release) -> Vec<Entry> {
    let version = version(release);
    let (info, data) = (format!("leasehold-{version}.dist-info"), format!("leasehold-{version}.data"));
    let mut entries = vec![
        Entry::file("leasehold/__init__.py", INIT),
        Entry::file("leasehold/__main__.py", MAIN),
        Entry::program(format!("{data}/scripts/leasehold"), release.binary.clone()),
        Entry::file(format!("{info}/METADATA"), metadata(release, &version)),
        Entry::file(format!("{info}/WHEEL"), wheel(release)),
    ];
    entries.extend(release.installed_pages(&format!("{data}/data/"), "site-functions"));
    entries.extend(
        release
            .licences()
            .map(|file| Entry { path: format!("{info}/licenses/{}", file.path), ..file.clone() }),
    );
    entries
}

fn metadata(release: &Release, version: &str) -> String {
    let readme = String::from_utf8_lossy(&release.document("README.md").bytes);
    format!(
        "Metadata-Version: 2.4\n\
         Name: leasehold\n\
         Version: {version}\n\
         Summary: {SUMMARY}\n\
         Author: The Leasehold developers\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\n\
         License-File: LICENSE-MIT\n\
         License-File: LICENSES-THIRD-PARTY\n\
         Keywords: lock,mutex,distributed,redis,lease\n\
         Classifier: Environment :: Console\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Classifier: Programming Language :: Rust\n\
         Requires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\
         \n\
         {readme}"
    )
}

fn wheel(release: &Release) -> String {
    let tags: String = tags(release).iter().map(|tag| format!("Tag: py3-none-{tag}\n")).collect();
    format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\n{tags}")
}
