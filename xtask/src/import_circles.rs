//! Checks that the files of a crate do not import each other in circles.
//!
//! A file may import from the files of the folders that it is in, and these from it: a folder and its
//! parts belong together. A name that the file of a folder hands on comes from where it is defined.
//! Names that the root of a crate hands on are no arrows, because most of them are for everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::files::{files_under, read_text};

/// The folders whose packages the rule applies to.
const UNDER_THE_RULE: [&str; 2] = ["crates", "proving"];

/// The path of a module in its crate.
type Module = Vec<String>;

/// The paths in each module that name something in another one.
type Imports<'a> = BTreeMap<&'a Module, Vec<String>>;

/// The circles, a sentence each.
pub(crate) fn circles(workspace: &Path) -> Result<Vec<String>, String> {
    let mut crates: BTreeMap<PathBuf, BTreeMap<Module, String>> = BTreeMap::new();
    for folder in UNDER_THE_RULE {
        for file in files_under(&workspace.join(folder))? {
            let name = file.strip_prefix(workspace).unwrap_or(&file);
            if let Some((source, module)) = module_of(name) {
                crates.entry(source).or_default().insert(module, read_text(&file)?);
            }
        }
    }
    let found = crates.iter().flat_map(|(source, modules)| {
        circles_of(modules).into_iter().map(move |circle| {
            let names: Vec<_> = circle.iter().map(|module| module.join("/")).collect();
            format!("{}: {} import each other in a circle", source.display(), names.join(", "))
        })
    });
    Ok(found.collect())
}

/// The source folder of a file, and its module; `None` if it is a test or no source of a crate.
fn module_of(file: &Path) -> Option<(PathBuf, Module)> {
    let words: Vec<_> =
        file.with_extension("").iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let source = words.iter().position(|word| word == "src")? + 1;
    let mut module = words[source..].to_vec();
    if file.extension()? != "rs" || module.iter().any(|word| word == "tests") {
        return None;
    }
    module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    Some((words[..source].iter().collect(), module))
}

/// The groups of modules that reach each other.
fn circles_of(texts: &BTreeMap<Module, String>) -> BTreeSet<BTreeSet<&Module>> {
    let modules: Imports<'_> =
        texts.iter().map(|(module, text)| (module, paths_in(module, text, texts))).collect();
    let arrows: BTreeMap<_, BTreeSet<_>> = modules
        .iter()
        .map(|(module, paths)| {
            let targets = paths.iter().filter_map(|path| target(module, path, &modules));
            (*module, targets.filter(|target| !module.starts_with(target)).collect())
        })
        .collect();
    let reached_from = |from| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(arrows[module].iter().filter(|to| reached.insert(**to)));
        }
        reached
    };
    let reached: BTreeMap<_, _> = texts.keys().map(|module| (module, reached_from(module))).collect();
    let in_a_circle = texts.keys().filter(|module| reached[module].contains(module));
    in_a_circle
        .map(|module| {
            reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect()
        })
        .collect()
}

/// The paths in a module's text that begin at the crate, at its folder, or at a part of it.
fn paths_in(module: &Module, text: &str, texts: &BTreeMap<Module, String>) -> Vec<String> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<_> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join(" ");
    let parts = texts.keys().filter(|other| other.split_last().is_some_and(|(_, of)| of == module));
    let parts = parts.filter_map(|part| part.last()).map(String::as_str);
    let mut found = Vec::new();
    for begin in parts.chain(["crate", "super", "self"]) {
        for (at, _) in code.match_indices(&format!("{begin}::")) {
            let is_name = |c: char| c.is_alphanumeric() || "_:.$".contains(c);
            if !code[..at].ends_with(is_name) {
                paths(&code[at..], "", &mut |path| found.push(path.to_owned()));
            }
        }
    }
    found
}

/// The paths of the tree of imports at the beginning of a text. Returns the length of the tree.
fn paths(text: &str, before: &str, tell: &mut impl FnMut(&str)) -> usize {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let path = format!("{before}{}", &text[..end]);
    if !(path.ends_with("::") && text[end..].starts_with('{')) {
        tell(&path);
        return end;
    }
    let mut at = end + 1;
    while let Some(next) = text[at..].find(|c: char| !c.is_whitespace() && c != ',') {
        at += next;
        if text[at..].starts_with('}') {
            break;
        }
        at += paths(&text[at..], &path, tell).max(1);
    }
    at + 1
}

/// The module that a path names, or that has what it names.
fn target<'a>(from: &Module, path: &str, modules: &Imports<'a>) -> Option<&'a Module> {
    let mut at = from.clone();
    for word in path.split("::") {
        match word {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            part => {
                at.push(part.to_owned());
                if modules.contains_key(&at) {
                    continue;
                }
                at.pop();
                let hands_on = |path: &&String| path.rsplit("::").next() == Some(part);
                match modules.get(&at)?.iter().find(hands_on) {
                    Some(path) if !from.starts_with(&at) => return target(&at, path, modules),
                    _ => break,
                }
            }
        }
    }
    modules.get_key_value(&at).map(|(module, _)| *module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
        let modules = files.iter().map(|(name, text)| {
            let (_, module) = module_of(Path::new(name)).expect("a source");
            (module, (*text).to_owned())
        });
        let modules = modules.collect();
        let circles = circles_of(&modules);
        circles
            .iter()
            .map(|circle| circle.iter().map(|module| module.join("/")).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn circles_are_found_whatever_the_form_of_the_imports() {
        for one in
            ["use crate::b::B;", "use crate::{\n    c::C,\n    b::{B, D},\n};", "fn f() { super::b::f() }"]
        {
            let found =
                circles_in(&[("x/src/a.rs", one), ("x/src/b.rs", "use super::a::A;"), ("x/src/c.rs", "")]);
            assert_eq!(found, ["a b"], "{one}");
        }
        let by_three = [
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b/mod.rs", "use c::C;"),
            ("x/src/b/c.rs", "use crate::a::A;"),
        ];
        assert_eq!(circles_in(&by_three), ["a b b/c"]);
        let handed_on = [
            ("x/src/a.rs", "use crate::b::C;"),
            ("x/src/b.rs", "pub use self::c::{C, D};"),
            ("x/src/b/c.rs", "use crate::a::A;"),
        ];
        assert_eq!(circles_in(&handed_on), ["a b/c"]);
    }

    #[test]
    fn a_part_may_import_from_its_folder_and_a_comment_or_a_test_imports_nothing() {
        let found = circles_in(&[
            ("x/src/lib.rs", "mod a; use a::A; pub struct B;"),
            ("x/src/a.rs", "use crate::B; use super::b::C; use b::D;"),
            ("x/src/a/b.rs", "use super::A;"),
            (
                "x/src/b.rs",
                "// use crate::a::A;\nlet x = other::crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
