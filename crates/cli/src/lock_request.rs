//! The requested lock, its mode and its store, for every task that acquires a lock.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Label, Misuse, Mode, Signal, Ttl};

use crate::args::AcquireArgs;
use crate::environment;
use crate::exit::{End, Failure};
use crate::keys::{Keys, naming};
use crate::label::default_label;
use crate::options::{default_time, digits, exit_code, or_variable, time_of};
use crate::status::Status;
use crate::store_location::{OUTAGE_LIMIT, SHORT_OUTAGE_LIMIT, StoreLocation};

#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub(crate) keys: Keys,
    pub(crate) mode: Mode,
    pub(crate) patience: Patience,
    pub(crate) busy: End,
    pub(crate) ttl: Ttl,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) label: String,
    pub(crate) place: StoreLocation,
    /// The signal that its release sends to waiters of another library.
    pub(crate) signal: Option<Signal>,
    pub(crate) status: Arc<Status>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    OneTry,
    Within(Duration),
    /// One try for a key that a run around this one holds too, with the time of an endless wait to
    /// reach the store.
    Beside,
    Endless,
}

impl LockRequest {
    /// Resolves the settings, and finds all that was mistyped before anything is opened. `program`
    /// holds the lock; it is part of the default label.
    pub(crate) fn of(args: AcquireArgs, program: &OsStr) -> Result<Self, Failure> {
        let AcquireArgs { waiting, shared, permits, lease, quiet, keys } = args;
        let mode = mode(shared, permits)?;
        let (name, text) = or_variable("--max-hold", lease.max_hold);
        let max_hold = time_of(&name, text)?;
        let (ttl_origin, text) = or_variable("--ttl", lease.ttl);
        let asked = time_of(&ttl_origin, text)?;
        let ttl = ttl(asked, &ttl_origin, max_hold, &name)?;
        let at_once = Some(Duration::ZERO);
        let within = if waiting.one_try { at_once } else { default_time("--within", waiting.within)? };
        let patience = match within {
            Some(Duration::ZERO) => Patience::OneTry,
            Some(within) => Patience::Within(within),
            None => Patience::Endless,
        };
        let busy = exit_code("--busy-exit-code", waiting.busy_exit_code)?.map_or(End::BUSY, End::Code);
        let name = if lease.label.is_some() { "--label" } else { environment::LABEL };
        let label = lease.label.or_else(environment::label).unwrap_or_else(|| default_label(program));
        Label::new(&label).map_err(|misuse| Failure::from(misuse).about(name))?;
        let naming = naming(lease.place.naming)?;
        let keys = Keys::of(keys, &naming)?;
        let signal = naming.signal();
        let mut place = StoreLocation::of(lease.place.store)?;
        place.ttl_origin = asked.map(|_| ttl_origin);
        if let Mode::Permits { .. } = mode
            && place.store.is_several()
        {
            let name = format!("quorum of {}", place.store);
            return Err(Failure::from(Misuse::PermitsOfAQuorum { name }).about("--permits"));
        }
        let status =
            Arc::new(lease.status_fd.map_or(Ok(Status::to_nobody()), |text| Status::to(&text, &keys))?);
        let verbose = lease.verbose;
        Ok(Self { keys, mode, patience, busy, ttl, max_hold, label, place, signal, status, quiet, verbose })
    }

    /// How long a store may be silent before its first answer: whoever waits two seconds for a lock
    /// does not want to wait ten for a server, and a second is enough for one that is up.
    pub(crate) fn first_outage_limit(&self) -> Duration {
        let default = match self.patience {
            Patience::OneTry => SHORT_OUTAGE_LIMIT,
            Patience::Within(within) => within.clamp(Duration::from_secs(1), OUTAGE_LIMIT),
            Patience::Beside | Patience::Endless => OUTAGE_LIMIT,
        };
        self.place.outage_limit.unwrap_or(default)
    }

    /// The same after that; `None`: without a limit.
    pub(crate) fn outage_limit(&self) -> Option<Duration> {
        let is_endless = self.patience == Patience::Endless && self.place.outage_limit.is_none();
        (!is_endless).then(|| self.first_outage_limit())
    }

    /// True if messages that are not errors are printed.
    pub(crate) fn is_aloud(&self) -> bool {
        !self.quiet && (self.verbose || io::stderr().is_terminal())
    }
}

impl Patience {
    /// The time left to wait, of which connecting is part; if that took all of it, one try is left.
    pub(crate) fn left(self, since: Instant) -> Option<Duration> {
        match self {
            Self::OneTry | Self::Beside => Some(Duration::ZERO),
            Self::Within(within) => Some(within.saturating_sub(since.elapsed())),
            Self::Endless => None,
        }
    }
}

fn mode(shared: bool, permits: Option<String>) -> Result<Mode, Failure> {
    let Some(text) = permits else { return Ok(if shared { Mode::Shared } else { Mode::Exclusive }) };
    let (weight, of) = text.split_once('/').unwrap_or(("1", &text));
    let (Some(weight), Some(of)) = (digits(weight), digits(of)) else {
        return Err(Failure::usage(format!(
            "--permits: {text:?} is not a number of permits: write how many of how many, as in 1/4"
        )));
    };
    Mode::permits(weight, of).map_err(|misuse| Failure::from(misuse).about("--permits"))
}

/// The TTL, at most as long as the lock may be held; one given explicitly may not be longer.
fn ttl(
    asked: Option<Duration>,
    origin: &str,
    max_hold: Option<Duration>,
    limit: &str,
) -> Result<Ttl, Failure> {
    let ttl = asked.map_or(Ok(Ttl::DEFAULT), Ttl::new);
    let ttl = ttl.map_err(|misuse| Failure::from(misuse).about(origin))?;
    match max_hold.filter(|max_hold| *max_hold < ttl.duration()) {
        None => Ok(ttl),
        Some(max_hold) if origin == "--ttl" => Err(Failure::usage(format!(
            "{limit}: {max_hold:?} is shorter than the ttl of {ttl}: shorten --ttl, or lengthen {limit}"
        ))),
        Some(max_hold) => Ttl::new(max_hold).map_err(|_| {
            Failure::usage(format!("{limit}: {max_hold:?} is too short to do anything: 10 ms is the least"))
        }),
    }
}
