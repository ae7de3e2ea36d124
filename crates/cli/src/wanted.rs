//! The lock that is wanted, how, and where: what every task that takes one has in common.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Key, Label, Ttl};

use crate::args::TakingArgs;
use crate::default_store::default_store;
use crate::environment;
use crate::exit::{End, Failure};
use crate::status::Status;
use crate::store_url::StoreUrl;
use crate::time;

/// A lock that is wanted, with everything settled.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) patience: Patience,
    /// How we end when it is held.
    pub(crate) busy: End,
    pub(crate) ttl: Ttl,
    /// How long it may be held in all.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) label: String,
    pub(crate) store: StoreUrl,
    pub(crate) store_from: Origin,
    pub(crate) status: Arc<Status>,
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

impl Wanted {
    /// Settles it. Everything that was typed wrong is found here, before anything is opened.
    pub(crate) fn of(args: TakingArgs, key: OsString) -> Result<Self, Failure> {
        let max_hold = time_of("--max-hold", args.max_hold)?;
        let ttl = ttl(time_of("--ttl", args.ttl)?, max_hold)?;
        let patience = match time_of("--within", args.within)? {
            _ if args.once => Patience::OneTry,
            Some(Duration::ZERO) => Patience::OneTry,
            Some(within) => Patience::Within(within),
            None => Patience::Endless,
        };
        let busy = args.busy_exit_code.map_or(Ok(End::BUSY), |text| exit_code(&text))?;
        let label = args.label.unwrap_or_else(default_label);
        Label::new(&label).map_err(|misuse| Failure::from(misuse).about("--label"))?;
        let key = Key::new(key.into_vec())?;
        let (store, store_from) = store(args.store)?;
        let status = Arc::new(args.status_fd.map_or(Ok(Status::to_nobody()), |text| Status::to(&text))?);
        let (quiet, verbose) = (args.quiet, args.verbose);
        Ok(Self { key, patience, busy, ttl, max_hold, label, store, store_from, status, quiet, verbose })
    }
}

/// A lease is no longer than the lock may be held; asked for a longer one, we ask back.
fn ttl(asked: Option<Duration>, max_hold: Option<Duration>) -> Result<Ttl, Failure> {
    match (asked, max_hold) {
        (Some(asked), Some(max_hold)) if asked > max_hold => Err(Failure::usage(format!(
            "--max-hold: {max_hold:?} is shorter than the ttl of {asked:?}: shorten --ttl, or lengthen --max-hold"
        ))),
        (Some(asked), _) => Ttl::new(asked).map_err(|misuse| Failure::from(misuse).about("--ttl")),
        (None, Some(max_hold)) if max_hold < Ttl::DEFAULT.duration() => Ttl::new(max_hold).map_err(|_| {
            Failure::usage(format!(
                "--max-hold: {max_hold:?} is too short to do anything: 10 ms is the least"
            ))
        }),
        (None, _) => Ok(Ttl::DEFAULT),
    }
}

/// An option's length of time.
pub(crate) fn time_of(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let time = text.as_deref().map(time::parse).transpose();
    time.map_err(|error| Failure::usage(error.to_string()).about(option))
}

fn exit_code(text: &str) -> Result<End, Failure> {
    // Only digits: what reads `+5` or ` 5` as five hides a slip.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).map(End::Code).ok_or_else(|| {
        Failure::usage(format!("--busy-exit-code: {text:?} is no exit code: write a number from 0 to 255"))
    })
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
