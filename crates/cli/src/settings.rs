//! What the words and the environment come to.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use leasehold::{Key, Label, Ttl};

use crate::args::RunArgs;
use crate::default_store::default_store;
use crate::environment;
use crate::exit::Failure;
use crate::store_url::StoreUrl;
use crate::time;

/// A run, with everything settled.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) key: Key,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) patience: Patience,
    pub(crate) ttl: Ttl,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    pub(crate) label: String,
    pub(crate) store: StoreUrl,
    pub(crate) store_from: Origin,
    /// Whether the terminal is nothing to us.
    pub(crate) no_tty: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

/// How long to wait for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    OneTry,
    Within(Duration),
    Endless,
}

/// Who named the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Argument,
    Environment,
    Nobody,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Argument => "--store",
            Self::Environment => environment::STORE,
            Self::Nobody => "the default store",
        })
    }
}

impl Settings {
    /// Settles a run. Everything that was typed wrong is found here, before anything is opened.
    pub(crate) fn of(args: RunArgs) -> Result<Self, Failure> {
        let ttl = time_of("--ttl", args.ttl)?.map_or(Ok(Ttl::DEFAULT), |ttl| {
            Ttl::new(ttl).map_err(|misuse| Failure::from(misuse).about("--ttl"))
        })?;
        let grace = grace(time_of("--grace", args.grace)?, ttl)?;
        let patience = match time_of("--within", args.within)? {
            _ if args.once => Patience::OneTry,
            Some(Duration::ZERO) => Patience::OneTry,
            Some(within) => Patience::Within(within),
            None => Patience::Endless,
        };
        let label = args.label.unwrap_or_else(default_label);
        Label::new(&label).map_err(|misuse| Failure::from(misuse).about("--label"))?;
        let key = args.keys.into_iter().next().unwrap_or_default();
        let key = Key::new(key.into_vec())?;
        let mut command = args.command.into_iter();
        let program = command.next().unwrap_or_default();
        let (store, store_from) = store(args.store)?;
        Ok(Self {
            key,
            program,
            arguments: command.collect(),
            patience,
            ttl,
            grace,
            label,
            store,
            store_from,
            no_tty: args.no_tty,
            quiet: args.quiet,
            verbose: args.verbose,
        })
    }
}

fn time_of(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let time = text.as_deref().map(time::parse).transpose();
    time.map_err(|error| Failure::usage(error.to_string()).about(option))
}

/// Five seconds are enough for most programs to end in good order. A quarter of a shorter ttl leaves time for at least one
/// renewal to be tried again before the command is told to end, as renewals begin when a third of the ttl is gone.
fn grace(asked: Option<Duration>, ttl: Ttl) -> Result<Duration, Failure> {
    const DEFAULT: Duration = Duration::from_secs(5);
    let most = ttl.duration() / 2;
    match asked {
        None => Ok(DEFAULT.min(ttl.duration() / 4)),
        Some(asked) if asked <= most => Ok(asked),
        Some(asked) => Err(Failure::usage(format!(
            "--grace: {asked:?} is more than half of the ttl of {ttl}, which leaves too little time to renew: shorten it, or \
             lengthen --ttl"
        ))),
    }
}

fn default_label() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}", std::process::id())
}

fn store(argument: Option<String>) -> Result<(StoreUrl, Origin), Failure> {
    let about = |origin: Origin| move |failure: Failure| failure.about(origin);
    if let Some(url) = argument {
        return Ok((StoreUrl::new(&url).map_err(about(Origin::Argument))?, Origin::Argument));
    }
    match env::var(environment::STORE) {
        // Not as if it were unset: a script whose variable was empty must not lock elsewhere than it meant to.
        Ok(url) if url.is_empty() => {
            Err(Failure::usage("it is empty: unset it for the default store, or give it a URL")
                .about(Origin::Environment))
        }
        Ok(url) => Ok((StoreUrl::new(&url).map_err(about(Origin::Environment))?, Origin::Environment)),
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::usage("it is not UTF-8: write other bytes as %XX").about(Origin::Environment))
        }
        Err(VarError::NotPresent) => Ok((default_store()?, Origin::Nobody)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_is_five_seconds_or_a_quarter_of_a_short_ttl_and_at_most_half_of_it() {
        let ttl = |seconds| Ttl::new(Duration::from_secs(seconds)).unwrap();
        assert_eq!(grace(None, ttl(30)), Ok(Duration::from_secs(5)));
        assert_eq!(grace(None, ttl(8)), Ok(Duration::from_secs(2)));
        assert_eq!(grace(Some(Duration::from_secs(4)), ttl(8)), Ok(Duration::from_secs(4)));
        assert!(grace(Some(Duration::from_millis(4001)), ttl(8)).is_err());
    }
}
