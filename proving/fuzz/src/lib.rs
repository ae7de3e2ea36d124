//! Fuzzing: inputs close to valid ones that may come from outside (URLs, a command line's words,
//! values, answers, records of a pipe, events in any order), in search of one that breaks a
//! promise. The daily run is short and always the same; `cargo xtask fuzz` starts with other
//! inputs, until its time is up.

mod asleep;
mod edit;

use std::{
    env,
    fmt::Debug,
    str::FromStr,
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

pub use asleep::Asleep;
pub use edit::{bytes_near, text_near, words_near};

/// The number of inputs that share one seed.
const ROUND: u32 = 500;

/// The environment variable with the duration of the search, in seconds.
const SECONDS: &str = "LEASEHOLD_FUZZ_SECONDS";

/// The environment variable with a seed: only its round is run.
const SEED: &str = "LEASEHOLD_FUZZ_SEED";

/// `Ok`, or a description of what an input breaks; a panic counts as breaking, too.
pub type Verdict = Result<(), String>;

/// Searches so many inputs for one that breaks something; panics with the smallest and its seed.
pub fn hunt<S: Strategy<Value: Debug>>(inputs: u32, near: S, verdict: impl Fn(S::Value) -> Verdict) {
    let begun = Instant::now();
    let (first, rounds, limit) = match (setting(SEED), setting(SECONDS).map(Duration::from_secs)) {
        (Some(seed), _) => (seed, 1, Duration::MAX),
        (None, Some(limit)) => (UNIX_EPOCH.elapsed().map_or(0, |it| it.as_secs() << 16), u64::MAX, limit),
        (None, None) => (0, inputs.div_ceil(ROUND).into(), Duration::MAX),
    };
    let mut seed = first;
    while seed - first < rounds && begun.elapsed() < limit {
        if let Some(found) = round(seed, &near, &verdict) {
            panic!("{found}");
        }
        seed += 1;
    }
    println!("{} inputs from seed {first} on, {:.0?}", (seed - first) * u64::from(ROUND), begun.elapsed());
}

/// The error of the first input of a seed that breaks something.
fn round<S: Strategy<Value: Debug>>(
    seed: u64,
    near: &S,
    verdict: &impl Fn(S::Value) -> Verdict,
) -> Option<String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { cases: ROUND, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (why, input) = match runner.run(near, |input| verdict(input).map_err(TestCaseError::fail)) {
        Ok(()) => return None,
        Err(TestError::Fail(why, input)) => (why, format!("{input:?}")),
        Err(TestError::Abort(why)) => (why, "none that could be made".into()),
    };
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "fuzz".into());
    let test = thread::current().name().unwrap_or_default().to_owned();
    Some(format!("{why}\ninput: {input}\nagain: {SEED}={seed} cargo test -p {package} -- {test}"))
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(u64::from_str(&text).unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}

/// Turns a condition into a verdict.
///
/// # Errors
///
/// If the condition is false.
pub fn holds(it: bool, what: impl FnOnce() -> String) -> Verdict {
    if it { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_input_is_found_and_how_to_see_it_again() {
        let near = text_near(&["redis://h:6379/0"]);
        let verdict = |text: String| holds(!text.contains('['), || "a bracket".into());
        let said = (0..20).find_map(|seed| round(seed, &near, &verdict)).unwrap();
        assert!(said.contains("a bracket") && said.contains("again: LEASEHOLD_FUZZ_SEED="), "{said}");
        let input = said.lines().find(|line| line.starts_with("input: ")).unwrap();
        assert!(input.len() < 40, "{input}");
    }

    #[test]
    fn a_panic_is_found_too_and_the_same_seed_finds_the_same() {
        let near = bytes_near(&[b"lh1-0123"]);
        let verdict = |bytes: Vec<u8>| holds(bytes[3] != 0, String::new);
        let first = (0..20).find_map(|seed| round(seed, &near, &verdict)).unwrap();
        assert!(first.contains("index out of bounds"), "{first}");
        assert_eq!((0..20).find_map(|seed| round(seed, &near, &verdict)), Some(first));
    }
}
