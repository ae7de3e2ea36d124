//! `cargo xtask book`: renders the library's manual and the command's guide as one book, in
//! `target/book`.
//!
//! The pages are the same files that rustdoc and the repository show. Each link to an item of the
//! library, another page, or a file of the repository is checked, and a broken link is an error.

mod link;

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use self::link::Links;
use crate::{
    files::{self, read_text, write},
    step::{Step, target, workspace},
    stop::Stop,
    tool,
};

/// The tool that renders the book. It is not a library here, because its dependencies would then be
/// in the lock file.
const MDBOOK: &str = "0.5.4";

/// A page: its name in the book, its title, and its file.
struct Page {
    name: &'static str,
    title: &'static str,
    file: &'static str,
}

const fn page(name: &'static str, title: &'static str, file: &'static str) -> Page {
    Page { name, title, file }
}

/// The pages of `leasehold::manual` in reading order, followed by those for operators.
const PAGES: [Page; 21] = [
    page("first_steps", "First steps", "crates/leasehold/manual/first_steps.md"),
    page("guarantees", "Guarantees", "crates/leasehold/manual/guarantees.md"),
    page("stores", "Choosing a store", "crates/leasehold/manual/stores.md"),
    page("defaults", "Defaults, and why", "crates/leasehold/manual/defaults.md"),
    page("cancelling", "Cancelling", "crates/leasehold/manual/cancelling.md"),
    page("fences", "Fences at the resource", "crates/leasehold/manual/fences.md"),
    page("running", "Runtime and shutdown", "crates/leasehold/manual/running.md"),
    page("stuck", "A lock that is stuck", "crates/leasehold/manual/stuck.md"),
    page("lock_delay", "A delay after a crash", "crates/leasehold/manual/lock_delay.md"),
    page("coming_from", "Coming from other libraries", "crates/leasehold/manual/coming_from.md"),
    page("guide", "The command in use", "docs/guide.md"),
    page("operating", "Operating the stores", "docs/operating.md"),
    page("json", "JSON for programs", "docs/json.md"),
    page("observing", "Observing a program's locks", "docs/observing.md"),
    page("doctor", "Unsafe store settings", "docs/doctor.md"),
    page("interop", "Other libraries on the same keys", "docs/interop.md"),
    page("replacing", "Replacing five libraries", "docs/replacing.md"),
    page("faults", "What a lock survives", "docs/faults.md"),
    page("promises", "What is promised, and what is not", "docs/promises.md"),
    page("comparison", "How it compares", "docs/comparison.md"),
    page("glossary", "Glossary", "docs/glossary.md"),
];

pub(crate) fn run() -> Result<ExitCode, Stop> {
    // rustdoc's output shows where the items of the library are.
    let doc = Step::cargo(&["doc", "-p", "leasehold", "-p", "leasehold-core", "--no-deps"], &[]);
    doc.must_pass("book")?;
    make(&target())?;
    println!("{}", target().join("book/index.html").display());
    Ok(ExitCode::SUCCESS)
}

fn make(target: &Path) -> Result<(), String> {
    let source = target.join("book-source");
    files::remove(&source)?;
    let text = files::directory(&source, "src")?;
    let links = Links { doc: target.join("doc"), pages: PAGES.map(|page| (page.name, page.file)).into() };
    let mut contents = String::from("# Leasehold\n\n");
    let mut broken = Vec::new();
    for Page { name, title, file } in PAGES {
        let page = read_text(&workspace().join(file))?;
        // Pages of the library have no title of their own, because rustdoc shows the name of the
        // module.
        let head = if page.starts_with("# ") || page.contains("\n# ") && file.starts_with("docs/") {
            String::new()
        } else {
            format!("# {title}\n\n")
        };
        let (page, lost) = links.follow(&page, file);
        broken.extend(lost.into_iter().map(|link| format!("{file}: {link} leads nowhere")));
        write(&text.join(format!("{name}.md")), head + &page)?;
        contents += &format!("- [{title}]({name}.md)\n");
    }
    if !broken.is_empty() {
        return Err(broken.join("\n"));
    }
    write(&text.join("SUMMARY.md"), &contents)?;
    let into = target.join("book");
    let settings =
        "[book]\ntitle = \"Leasehold\"\nlanguage = \"en\"\n\n[output.html]\nno-section-label = true\n";
    write(&source.join("book.toml"), settings)?;
    let mdbook = tool::installed("mdbook", MDBOOK, &["--version"], &["--no-default-features"], None)?;
    tool::run(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&into)).map(drop)
}
