//! The package for npm. The binary itself is the command, so no Node process runs between the shell
//! and it.

use serde_json::json;

use super::{
    archive::{Entry, gzip, tar},
    deb::SUMMARY,
    release::Release,
};

pub(super) fn name(release: &Release) -> String {
    format!("leasehold-{}-npm-{}.tgz", release.version, release.platform.node)
}

pub(super) fn pack(release: &Release) -> Result<Vec<u8>, String> {
    let manuals: Vec<_> = release.pages.iter().filter(|page| page.path.starts_with("man/")).collect();
    let description = json!({
        "name": "leasehold",
        "version": release.version,
        "description": SUMMARY,
        "keywords": ["lock", "mutex", "distributed", "redis", "lease", "cron", "flock"],
        "author": "The Leasehold developers",
        "license": "MIT OR Apache-2.0",
        "bin": { "leasehold": "bin/leasehold" },
        // npm links manual pages only with `--global`.
        "man": manuals.iter().map(|page| &page.path).collect::<Vec<_>>(),
        "os": ["linux"],
        "cpu": [release.platform.node],
        // Otherwise, Yarn would keep the program in a zip file.
        "preferUnplugged": true,
    });
    let description = serde_json::to_string_pretty(&description).map_err(|error| error.to_string())? + "\n";
    let mut entries = vec![
        Entry::file("package.json", description),
        Entry::program("bin/leasehold", release.binary.clone()),
        release.document("README.md").clone(),
    ];
    entries.extend(release.licences().cloned());
    entries.extend(release.pages.iter().cloned());
    for entry in &mut entries {
        entry.path = format!("package/{}", entry.path);
    }
    gzip(&tar(entries, release.epoch)?, release.level)
}
