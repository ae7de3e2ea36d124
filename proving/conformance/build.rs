//! Prepares the examples of `leasehold` for their tests: removes the inner docs at the top of a crate.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let examples = Path::new("../../crates/leasehold/examples");
    println!("cargo::rerun-if-changed={}", examples.display());
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for file in fs::read_dir(examples)? {
        let file = file?;
        let source = fs::read_to_string(file.path())?;
        // Replaced by empty lines, so that a panic names the right line.
        let code: Vec<_> =
            source.lines().map(|line| if line.starts_with("//!") { "" } else { line }).collect();
        fs::write(Path::new(&out).join(file.file_name()), code.join("\n"))?;
    }
    Ok(())
}
