//! The image: only the binary and the licences, as a tar archive of an OCI image layout, which
//! `docker load` accepts as well.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{
    archive::{Entry, gzip, sha256, tar},
    deb::SUMMARY,
    release::Release,
};

/// The user `nobody`, on every Linux: the program needs no privileges.
const USER: &str = "65534:65534";

pub(super) fn name(release: &Release) -> String {
    format!("leasehold-{}-image-{}.tar", release.version, release.platform.debian)
}

pub(super) fn pack(release: &Release) -> Result<Vec<u8>, String> {
    let mut files = vec![Entry::program("leasehold", release.binary.clone())];
    files.extend(
        release.licences().map(|file| Entry { path: format!("licenses/{}", file.path), ..file.clone() }),
    );
    let layer = tar(files, release.epoch)?;
    let difference = format!("sha256:{}", sha256(&layer));
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer, release.level)?);
    let config = config(release, &difference);
    let config = Blob::new("application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    });
    let manifest = Blob::new("application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
    let tag = format!("leasehold:{}", release.version);
    let mut described = manifest.descriptor();
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": format!("docker.io/library/{tag}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    // For versions of Docker before 25.
    let docker = json!([{ "Config": config.path(), "RepoTags": [tag], "Layers": [layer.path()] }]);
    let mut entries = vec![
        Entry::file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string()),
        Entry::file("index.json", index.to_string()),
        Entry::file("manifest.json", docker.to_string()),
    ];
    entries.extend([layer, config, manifest].map(|blob| Entry::file(blob.path(), blob.bytes)));
    tar(entries, release.epoch)
}

pub(super) fn config(release: &Release, difference: &str) -> Value {
    let created = UNIX_EPOCH + Duration::from_secs(release.epoch);
    let created = humantime::format_rfc3339_seconds(created).to_string();
    json!({
        "created": created,
        "architecture": release.platform.debian,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ["/leasehold"],
            "Cmd": ["--help"],
            "Labels": {
                "org.opencontainers.image.title": "leasehold",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [difference] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    })
}

/// A part of an image, named by its checksum.
struct Blob {
    kind: &'static str,
    bytes: Vec<u8>,
    sum: String,
}

impl Blob {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Self {
        let sum = sha256(&bytes);
        Self { kind, bytes, sum }
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.sum)
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.kind, "digest": format!("sha256:{}", self.sum), "size": self.bytes.len() })
    }
}
