//! `cargo xtask faults`: runs the tests that measure one fault at a time, in their long form.

use std::process::ExitCode;

use crate::{
    servers,
    step::{Step, account},
    stop::Stop,
};

/// Runs one test after the other, so that they do not disturb each other's measurements; the
/// arguments select among them.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    servers::fetch()?;
    let harness = ["test", "-p", "faults", "--tests", "--", "--nocapture", "--test-threads=1"];
    let line: Vec<_> = harness.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Ok(account("faults", &[Step::cargo(&line, &[("LEASEHOLD_FAULTS_LONG", "1")])]))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use crate::{files::files_under, step::workspace};

    /// A package, and a part of a test's path, or `--test` and a test program.
    fn named(page: &str) -> Vec<(String, String)> {
        let mut named = Vec::new();
        for row in page.lines().filter(|line| line.starts_with("| ")) {
            let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
            let mut package = String::new();
            for command in last.split('`').skip(1).step_by(2) {
                let words: Vec<_> = command.split(' ').collect();
                match words[..] {
                    ["cargo", "test", "-p", of, "--test", program] => named.push((of.into(), program.into())),
                    ["cargo", "test", "-p", of, ref filter @ ..] => {
                        package = of.to_owned();
                        named.push((package.clone(), filter.concat()));
                    }
                    ["…", filter] => named.push((package.clone(), filter.into())),
                    _ => {}
                }
            }
        }
        named
    }

    /// The paths of the tests of a package: directories, files and functions.
    fn tests_of(package: &str) -> BTreeSet<String> {
        let short = package.strip_prefix("leasehold-").unwrap_or(package);
        let roots = [workspace().join("crates").join(short), workspace().join("proving").join(short)];
        let mut tests = BTreeSet::new();
        for root in roots.iter().filter(|root| root.is_dir()) {
            for file in
                files_under(root).unwrap().into_iter().filter(|file| file.extension() == Some("rs".as_ref()))
            {
                let path = file.strip_prefix(root).unwrap().with_extension("");
                let path = path.to_string_lossy().replace('/', "::");
                let text = fs::read_to_string(&file).unwrap();
                let functions = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
                let names = functions.map(|(_, name)| name.split(['(', '<']).next().unwrap_or_default());
                tests.extend(names.map(|name| format!("{path}::{name}")));
            }
        }
        tests
    }

    #[test]
    fn each_command_of_the_page_of_faults_finds_a_test() {
        let page = fs::read_to_string(workspace().join("docs/faults.md")).unwrap();
        let named = named(&page);
        assert!(named.len() > 60, "{named:?}");
        let lost: Vec<_> = named
            .iter()
            .filter(|(package, filter)| !tests_of(package).iter().any(|test| test.contains(filter.as_str())))
            .collect();
        assert!(lost.is_empty(), "docs/faults.md names tests that do not exist: {lost:?}");
    }
}
