//! Tests that the documents name files, headings and modules that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{files::files_under, step::workspace};

/// The paths and the texts of the documents.
fn documents() -> Vec<(PathBuf, String)> {
    let of_root = fs::read_dir(workspace()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = of_root.filter(|path| path.is_file()).collect();
    for directory in ["docs", "packaging", "crates/leasehold/manual"] {
        files.extend(files_under(&workspace().join(directory)).unwrap());
    }
    let pages = files.into_iter().filter(|path| path.extension() == Some("md".as_ref()));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The lines outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let (mut links, mut lost) = (0, Vec::new());
    for (path, page) in documents() {
        let text = prose(&page).collect::<Vec<_>>().join(" ");
        for to in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to) {
            if to.starts_with("crate::") || to.starts_with("https://") {
                continue;
            }
            links += 1;
            let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let has_heading =
                || fs::read_to_string(&target).is_ok_and(|page| anchors(&page).contains(anchor));
            if !target.exists() || !anchor.is_empty() && !has_heading() {
                lost.push(format!("{}: {to}", path.display()));
            }
        }
    }
    assert!(links > 150, "{links}");
    assert!(lost.is_empty(), "links that lead nowhere: {lost:#?}");
}

/// The names in a directory of source without the extension of Rust files; not the roots of crates.
fn modules(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned());
    names.filter(|name| !["lib", "main"].contains(&name.as_str())).collect()
}

#[test]
fn the_map_of_the_code_names_each_module_and_no_other() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = page.split_once("## Code map").unwrap();
    let map = map.split("```").nth(1).unwrap();
    let (mut source, mut last, mut named) = (PathBuf::new(), String::new(), BTreeSet::new());
    let mut all = BTreeSet::new();
    for line in map.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with(' ') {
            source = workspace().join(line).join("src");
            all.extend(modules(&source).into_iter().map(|name| source.join(name)));
            continue;
        }
        let (names, _) = line.trim().split_once("  ").unwrap_or_else(|| panic!("{line:?} says nothing"));
        for name in names.trim_start().split(' ').map(|name| name.trim_end_matches(".rs")) {
            if line.starts_with("    ") {
                assert!(modules(&source.join(&last)).contains(name), "there is no {last}/{name}");
            } else {
                assert!(modules(&source).contains(name), "there is no {}/{name}", source.display());
                named.insert(source.join(name));
                last = name.to_owned();
            }
        }
    }
    let missing: Vec<_> = all.difference(&named).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name {missing:#?}");
}

#[test]
fn each_file_on_the_path_of_a_lock_exists() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let paths = page.split('`').skip(1).step_by(2).filter(|code| code.contains('/') && code.contains(".rs"));
    let lost: Vec<_> = paths.filter(|path| !workspace().join("crates").join(path).is_file()).collect();
    assert!(lost.is_empty(), "ARCHITECTURE.md names files that do not exist: {lost:?}");
}
