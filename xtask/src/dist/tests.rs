//! Tests of the packers, with the binary of a debug build and with invented contents.

use std::{fs, process::Command};

use serde_json::Value;

use super::{archive::Entry, *};
use crate::step::workspace;

/// A release whose binary is only the ELF header for x86-64.
fn made_up() -> Release {
    let mut binary = b"\x7fELF".to_vec();
    binary.resize(64, 0);
    binary[18] = 62;
    Release {
        version: "1.2.3-rc.1".into(),
        platform: release::Platform::of(&binary).unwrap(),
        is_static: true,
        epoch: 1_700_000_000,
        level: Compression::best(),
        binary,
        pages: vec![
            Entry::file("man/man1/leasehold.1", "a manual"),
            Entry::file("bash/leasehold", "completions"),
            Entry::file("zsh/_leasehold", "completions"),
            Entry::file("fish/leasehold.fish", "completions"),
        ],
        documents: ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "guide.md", "operating.md"]
            .map(|name| Entry::file(name, "words"))
            .to_vec(),
    }
}

fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files::files_under(directory).unwrap();
    files.iter().map(|file| (file.strip_prefix(directory).unwrap().into(), fs::read(file).unwrap())).collect()
}

#[test]
fn packing_twice_gives_the_same_bytes_in_whatever_order_the_files_come() {
    let place = tempfile::tempdir().unwrap();
    let into = place.path().join("packages");
    pack(&made_up(), &into).unwrap();
    let first = contents(&into);
    assert_eq!(first.len(), 7, "{first:?}");

    let mut other = made_up();
    other.pages.reverse();
    fs::write(into.join("of an older version"), "").unwrap();
    pack(&other, &into).unwrap();
    for (one, other) in first.iter().zip(contents(&into)) {
        assert_eq!(one.0, other.0);
        assert!(one.1 == other.1, "{} differs", one.0.display());
    }
}

#[test]
fn names_and_versions_are_those_of_each_packager() {
    let release = made_up();
    assert_eq!(release.name(), "leasehold-1.2.3-rc.1-x86_64-unknown-linux-musl");
    assert_eq!(deb::name(&release), "leasehold_1.2.3~rc.1_amd64.deb");
    assert_eq!(
        wheel::name(&release),
        "leasehold-1.2.3rc1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl"
    );
    assert_eq!(npm::name(&release), "leasehold-1.2.3-rc.1-npm-x64.tgz");
    assert_eq!(oci::name(&release), "leasehold-1.2.3-rc.1-image-amd64.tar");
    assert!(release::Platform::of(b"#!/bin/sh").is_err());
}

#[test]
fn links_to_what_is_not_shipped_become_words() {
    let shipped = ["guide.md".to_owned()];
    let text = "[a](guide.md#b), [c d](../wire.md), [e](#f), [g](https://example.com) and [h](json.md)";
    let kept = "[a](guide.md#b), c d, [e](#f), [g](https://example.com) and h";
    assert_eq!(release::without_dead_links(text, &shipped), kept);
}

#[test]
fn binstall_finds_the_archive_and_the_binary_in_it() {
    let packages = tool::packages(&["--no-deps", "--offline"]).unwrap();
    let command = packages.iter().find(|package| package["name"] == "leasehold-cli").unwrap();
    let release = made_up();
    let filled = |template: &Value| {
        let fields = [
            ("version", &*release.version),
            ("target", "x86_64-unknown-linux-musl"),
            ("bin", "leasehold"),
            ("binary-ext", ""),
        ];
        fields.into_iter().fold(template.as_str().unwrap().to_owned(), |text, (field, value)| {
            text.replace(&format!("{{ {field} }}"), value)
        })
    };
    let binstall = &command["metadata"]["binstall"];
    let url = filled(&binstall["pkg-url"]);
    assert!(url.ends_with(&format!("/v{}/{}.tar.gz", release.version, release.name())), "{url}");
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    fs::write(&archive, release.archive().unwrap()).unwrap();
    trial::unpack_compressed(&archive, place.path()).unwrap();
    let binary = place.path().join(filled(&binstall["bin-dir"]));
    assert!(fs::read(&binary).unwrap() == release.binary, "{}", binary.display());
}

/// The Dockerfile itself is not built: that takes a container engine and an image from a registry.
#[test]
fn the_dockerfile_runs_the_same_program_as_the_image_of_dist() {
    let text = fs::read_to_string(workspace().join("packaging/Dockerfile")).unwrap();
    let instructions = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let image = oci::config(&made_up(), "sha256:0")["config"].clone();
    assert_eq!(instructions("USER"), [image["User"].as_str().unwrap()]);
    assert_eq!(instructions("ENTRYPOINT"), [image["Entrypoint"].to_string()]);
    assert_eq!(instructions("CMD"), [image["Cmd"].to_string()]);
    let copied = instructions("COPY");
    let from_source = copied.iter().filter(|line| !line.starts_with("--from"));
    for file in from_source.flat_map(|line| line.rsplit_once(' ').unwrap().0.split(' ')) {
        assert!(workspace().join(file).exists(), "{file}");
    }
}

#[test]
fn every_package_installs_from_its_file_and_runs_a_command_under_a_lock() {
    // The one that cargo built for the command's own tests. To build it here would take minutes,
    // with other features of its dependencies, and would replace it while those tests run.
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("leasehold");
    let debug = crate::step::target().join("debug/leasehold");
    assert!(debug.is_file(), "{} is missing: run `cargo xtask test`", debug.display());
    // Most of a debug build is symbols.
    tool::run(Command::new("strip").arg("-o").arg(&binary).arg(debug)).unwrap();

    let release = Release::gather(&binary, Compression::fast()).unwrap();
    let packages = pack(&release, &place.path().join("packages")).unwrap();
    let failed: Vec<_> = packages.tried(&release).iter().map(ToString::to_string).collect();
    assert!(failed.iter().all(|line| !line.contains("FAILED")), "{failed:#?}");
}
