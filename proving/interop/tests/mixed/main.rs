//! Each of the other libraries, together with Leasehold on one key of one real server. A test
//! fails, with the remedy, without its library; it is ignored, and listed, only if the language is
//! missing.

/// Functions, each with its name before it and with what it needs between them.
macro_rules! named {
    ($($function:ident: $needs:expr,)*) => {
        [$((stringify!($function), $needs, $function)),*]
    };
}

// After the macro, which they use.
mod hammer;
mod no_string;
mod pair;
mod profiles;
mod promises;
mod quorum;
mod several;
mod shares;

use std::{collections::HashMap, fs, process::ExitCode};

use hammer::{
    everybody_gets_in_and_nobody_is_there_at_once,
    everybody_gets_in_and_nobody_is_there_at_once_over_three_servers,
};
use interop::{Language, Peer};
use libtest_mimic::{Arguments, Trial};
use pair::on_each;
use several::redlock_holds_a_key_on_each_of_its_servers_and_one_of_ours_is_one_vote_against_it;

/// A test with its name, and the languages that it needs.
type Test = (&'static str, &'static [Language], fn());

const OTHERS: [Test; 4] = named! {
    redlock_holds_a_key_on_each_of_its_servers_and_one_of_ours_is_one_vote_against_it: &[Language::Node],
    everybody_gets_in_and_nobody_is_there_at_once: &Language::ALL,
    everybody_gets_in_and_nobody_is_there_at_once_over_three_servers: &[Language::Node],
    every_pinned_version_is_in_the_docs: &[],
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing: HashMap<Language, bool> =
        Language::ALL.map(|language| (language, is_missing(language))).into();
    let ignored = |languages: &[Language]| languages.iter().any(|language| missing[language]);

    let mut trials = Vec::new();
    for peer in Peer::ALL {
        for (name, flavors, promise) in promises::ALL {
            let trial = Trial::test(format!("{peer}::{name}"), move || on_each(flavors, peer, promise));
            trials.push(trial.with_ignored_flag(ignored(&[peer.language()])));
        }
    }
    for (name, languages, test) in no_string::ALL
        .into_iter()
        .chain(profiles::BY_NAME)
        .chain(profiles::BY_SIGNAL)
        .chain(quorum::ALL)
        .chain(shares::ALL)
        .chain(OTHERS)
    {
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        trials.push(trial.with_ignored_flag(ignored(languages)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// True if this machine has neither the libraries nor the programs to download them.
fn is_missing(language: Language) -> bool {
    !language.has_libraries() && !language.lacking().is_empty()
}

/// The docs name the versions that they describe.
fn every_pinned_version_is_in_the_docs() {
    let docs = include_str!("../../../../docs/interop.md");
    for language in Language::ALL {
        let manifest = fs::read_to_string(&language.manifests()[0]).expect("a manifest");
        let pinned: Vec<_> = manifest.lines().filter_map(version).collect();
        assert!(!pinned.is_empty(), "no version in {manifest}");
        for version in pinned {
            assert!(docs.contains(version), "docs/interop.md does not name {version}");
        }
    }
}

/// The version in a line of a manifest, if there is one: `"ioredis": "5.11.1",` or `redis==8.1.0`.
fn version(line: &str) -> Option<&str> {
    let (line, _condition) = line.split_once(';').unwrap_or((line, ""));
    let version = line.trim_end_matches(['"', ',']).rsplit(['"', '@', '=']).next()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then_some(version)
}
