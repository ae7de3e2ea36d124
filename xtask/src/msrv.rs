//! `cargo xtask msrv`: checks that each published crate compiles with the oldest Rust that it
//! declares.

use std::process::ExitCode;

use serde_json::Value;

use crate::{
    package::CRATES,
    step::{Step, account},
    stop::Stop,
    tool,
};

pub(crate) fn run() -> Result<ExitCode, Stop> {
    Ok(account("msrv", &steps(&published()?)?))
}

/// A published crate.
struct Published {
    name: String,
    /// The minor version of the oldest Rust that it declares: 88 for 1.88.
    minor: u32,
    /// Each feature, with what it enables.
    features: Vec<(String, Vec<String>)>,
}

fn published() -> Result<Vec<Published>, String> {
    let packages = tool::packages(&["--no-deps"])?;
    let ours =
        packages.iter().filter(|package| package["name"].as_str().is_some_and(|name| CRATES.contains(&name)));
    ours.map(Published::read).collect()
}

impl Published {
    fn read(package: &Value) -> Result<Self, String> {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let rust = package["rust_version"].as_str().and_then(|rust| rust.strip_prefix("1."));
        let minor = rust.and_then(|rust| rust.parse().ok());
        let minor = minor.ok_or_else(|| format!("{name} declares no rust-version of the form 1.88"))?;
        let enables = |list: &Value| {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.map(|(feature, list)| (feature.clone(), enables(list))).collect();
        Ok(Self { name, minor, features })
    }

    /// The features that compile with a Rust that is too old for the other crates, as cargo's
    /// `crate/feature`. The default features are among them by their own names.
    fn features_without(&self, others: &[&Self]) -> Vec<String> {
        let needs = |enabled: &String| others.iter().any(|other| *enabled == format!("dep:{}", other.name));
        let compiles =
            |(feature, list): &&(String, Vec<String>)| feature != "default" && !list.iter().any(needs);
        let features = self.features.iter().filter(compiles);
        features.map(|(feature, _)| format!("{}/{feature}", self.name)).collect()
    }
}

/// Checks with each declared version the crates that declare it or an older one.
fn steps(published: &[Published]) -> Result<Vec<Step>, String> {
    let mut versions: Vec<_> = published.iter().map(|krate| krate.minor).collect();
    versions.sort_unstable();
    versions.dedup();
    let check = |minor| {
        let (old, new): (Vec<_>, Vec<_>) = published.iter().partition(|krate| krate.minor <= minor);
        check(&format!("1.{minor}"), &old, &new)
    };
    versions.into_iter().map(check).collect()
}

/// Checks crates with every feature that does not need one of the newer crates: an optional
/// dependency may need a newer Rust than the crate itself.
fn check(rust: &str, crates: &[&Published], newer: &[&Published]) -> Result<Step, String> {
    tool::toolchain(rust)?;
    let target = crate::step::target().join("msrv").display().to_string();
    let features: Vec<_> = crates.iter().flat_map(|krate| krate.features_without(newer)).collect();
    let features = features.join(",");
    let mut line = vec!["run", rust, "cargo", "check", "--locked", "--target-dir", &target];
    line.extend(["--no-default-features", "--features", &features]);
    line.extend(crates.iter().flat_map(|krate| ["--package", &krate.name]));
    Ok(Step::program("rustup".as_ref(), &line))
}
