//! `cargo xtask wine`: runs the tests of the library that need no server as Windows programs, under
//! Wine.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    files,
    step::{Step, account},
    stop::Stop,
    targets, tool,
};

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// The library from which Rust's standard library takes random bytes. Wine has it since version 9;
/// an older one has the function that this calls.
const PRNG: &str = "
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return SystemFunction036(data, size);
}
";

pub(crate) fn run() -> Result<ExitCode, Stop> {
    Ok(account("wine", &[tests(&prepare()?)]))
}

/// Checks that all programs are there, and returns the directory of the library that Wine may lack.
fn prepare() -> Result<PathBuf, String> {
    let needs = |program: &str, package: &str| {
        let version = tool::run(Command::new(program).arg("--version"));
        version.map_err(|why| format!("{why}; remedy: install {package}"))
    };
    needs("wine", "wine64 and wine")?;
    needs(COMPILER, "gcc-mingw-w64-x86-64")?;
    targets::add(TARGET)?;
    let place = files::directory(&crate::step::target(), "wine-libraries")?;
    let source = place.join("prng.c");
    files::write(&source, PRNG)?;
    let mut compile = Command::new(COMPILER);
    compile.args(["-shared", "-o"]).arg(place.join("bcryptprimitives.dll")).arg(&source).arg("-ladvapi32");
    tool::run(&mut compile)?;
    Ok(place)
}

fn tests(libraries: &Path) -> Step {
    // Wine's own files are kept apart from those of the user.
    let (own, libraries) = (crate::step::target().join("wine"), libraries.display().to_string());
    let environment = [
        ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine"),
        ("WINEPREFIX", &own.display().to_string()),
        ("WINEPATH", &libraries),
        ("WINEDEBUG", "-all"),
    ];
    let line = ["test", "--locked", "--target", TARGET, "-p", "leasehold-core", "-p", "leasehold"];
    Step::cargo(&[&line[..], &["--lib", "--tests"]].concat(), &environment)
}
