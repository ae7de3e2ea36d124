//! Resolves the links of the book's pages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::step::workspace;

/// The possible targets of links.
pub(super) struct Links {
    /// rustdoc's output.
    pub(super) doc: PathBuf,
    /// The pages of the book, each with its file.
    pub(super) pages: Vec<(&'static str, &'static str)>,
}

/// The repository, for links to files that are not pages of the book, relative to the book in
/// `target/book`.
const REPOSITORY: &str = "../..";
/// rustdoc's output, relative to the book.
const DOC: &str = "../doc";

impl Links {
    /// The page with its links rewritten for the book, and the links that lead nowhere.
    pub(super) fn follow(&self, page: &str, file: &str) -> (String, Vec<String>) {
        let (mut followed, mut lost) = (String::with_capacity(page.len()), Vec::new());
        let mut in_code = false;
        for line in page.split_inclusive('\n') {
            in_code ^= line.starts_with("```");
            let mut rest = line;
            while let Some((before, after)) = rest.split_once("](").filter(|_| !in_code) {
                let Some((to, behind)) = after.split_once(')') else { break };
                followed.push_str(before);
                match self.place_of(to, file) {
                    Some(place) => followed.push_str(&format!("]({place})")),
                    None => {
                        lost.push(to.to_owned());
                        followed.push_str(&format!("]({to})"));
                    }
                }
                rest = behind;
            }
            followed.push_str(rest);
        }
        (followed, lost)
    }

    fn place_of(&self, to: &str, file: &str) -> Option<String> {
        if let Some(item) = to.strip_prefix("crate::") {
            return self.item(item);
        }
        if to.starts_with("https://") || to.starts_with('#') {
            return Some(to.into());
        }
        let (path, anchor) =
            to.split_once('#').map_or((to, String::new()), |(path, anchor)| (path, format!("#{anchor}")));
        let path = plain(&Path::new(file).parent()?.join(path))?;
        if let Some((name, _)) = self.pages.iter().find(|(_, page)| *page == path) {
            return Some(format!("{name}.md{anchor}"));
        }
        workspace().join(&path).exists().then(|| format!("{REPOSITORY}/{path}{anchor}"))
    }

    /// rustdoc's page of an item, and the anchor in it. A page of the manual is a page of the book.
    fn item(&self, item: &str) -> Option<String> {
        if let Some(page) = item.strip_prefix("manual::") {
            return self.pages.iter().any(|(name, _)| *name == page).then(|| format!("{page}.md"));
        }
        let names: Vec<_> = item.split("::").collect();
        // Many items of the library are re-exported from core, and documented there.
        for (member, of) in [(0, "leasehold"), (0, "leasehold_core"), (1, "leasehold"), (1, "leasehold_core")]
        {
            let (path, of_it) = names.split_at(names.len().checked_sub(member)?);
            let Some((name, modules)) = path.split_last() else { continue };
            let directory = [&[of][..], modules].concat().join("/");
            let kinds =
                ["struct", "enum", "trait", "fn"].map(|kind| format!("{directory}/{kind}.{name}.html"));
            for page in kinds.into_iter().chain([format!("{directory}/{name}/index.html")]) {
                let Ok(text) = fs::read_to_string(self.doc.join(&page)) else { continue };
                let Some(of_it) = of_it.first() else { return Some(format!("{DOC}/{page}")) };
                let anchors = ["method", "variant", "associatedconstant", "tymethod"]
                    .map(|kind| format!("{kind}.{of_it}"));
                if let Some(anchor) = anchors.iter().find(|anchor| text.contains(&format!("id=\"{anchor}\"")))
                {
                    return Some(format!("{DOC}/{page}#{anchor}"));
                }
            }
        }
        None
    }
}

/// The path without `.` and `..`; `None` if it leads out of the repository.
fn plain(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str()?.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library with one type, which has one method.
    fn links() -> (tempfile::TempDir, Links) {
        let directory = tempfile::tempdir().unwrap();
        let doc = directory.path().join("leasehold");
        fs::create_dir_all(doc.join("blocking")).unwrap();
        fs::write(doc.join("struct.Locks.html"), "<section id=\"method.close\">").unwrap();
        fs::write(doc.join("blocking/index.html"), "").unwrap();
        let links = Links {
            doc: directory.path().into(),
            pages: vec![("fences", "crates/leasehold/manual/fences.md")],
        };
        (directory, links)
    }

    fn followed(text: &str) -> String {
        let (text, lost) = links().1.follow(text, "docs/guide.md");
        assert_eq!(lost, [""; 0]);
        text
    }

    #[test]
    fn items_pages_and_files_are_found() {
        for (from, to) in [
            ("[`x`](crate::Locks)", "[`x`](../doc/leasehold/struct.Locks.html)"),
            ("[x](crate::Locks::close), y", "[x](../doc/leasehold/struct.Locks.html#method.close), y"),
            ("[x](crate::blocking)", "[x](../doc/leasehold/blocking/index.html)"),
            ("[x](crate::manual::fences) [y](#z)", "[x](fences.md) [y](#z)"),
            ("[x](../crates/leasehold/manual/fences.md#pg)", "[x](fences.md#pg)"),
            ("[x](wire.md#keys)", "[x](../../docs/wire.md#keys)"),
            ("[x](https://example.com)", "[x](https://example.com)"),
            ("```\na[i](crate::no)\n```\n", "```\na[i](crate::no)\n```\n"),
        ] {
            assert_eq!(followed(from), to);
        }
    }

    #[test]
    fn a_missing_link_target_is_named() {
        let (_directory, links) = links();
        for nowhere in
            ["crate::Lock", "crate::Locks::shut", "crate::manual::fence", "no.md", "../../etc/passwd"]
        {
            let (_, lost) = links.follow(&format!("see [x]({nowhere})"), "docs/guide.md");
            assert_eq!(lost, [nowhere]);
        }
    }
}
