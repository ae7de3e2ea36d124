//! The groups of options that several tasks have. The options of one task are next to what it does.

use std::ffi::OsString;

use clap::Args;

/// The store of the locks, for every task about locks.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// The store of the locks [default: $LEASEHOLD_STORE, or a file in this user's home]
    ///
    /// `leasehold help stores` lists the kinds of URLs. Every user of this machine can see the
    /// command line, so keep a password in a file (?password-file=FILE). If given several times,
    /// the stores form a quorum: name the same ones everywhere, in the same order.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Vec<String>,

    /// How long to try a store that does not answer [default: 10s, or --within if less, but at least
    /// 1s; 2s with --try, for `every`, and for tasks that acquire no lock]
    ///
    /// Without --within and without this, `run`, `once` and `hold` keep waiting for a lock through
    /// any outage, once the store has answered.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) outage_limit: Option<String>,

    /// The longest TTL of all users of a quorum [default: $LEASEHOLD_MAX_TTL, or 60s]
    ///
    /// It must be the same everywhere. A store that was restarted without its data does not vote
    /// for this time.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) max_ttl: Option<String>,
}

/// Where the locks are: their store, and their keys there.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Use the keys of another library for these names: pottery, shedlock... [default: verbatim]
    ///
    /// Leasehold and that library then exclude each other. `leasehold help stores` lists the
    /// libraries and their keys. Messages, events and LEASEHOLD_KEY contain the key, not the name.
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) naming: Option<String>,
}

/// The locks whose names have a prefix.
#[derive(Args, Debug)]
pub(crate) struct PrefixArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The beginning of the names
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

/// One lock, for tasks whose answer is also their exit code.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

/// How to keep a lock, where, and what is reported, for every task that acquires one.
#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// How long the lock stays held if leasehold crashes [default: 30s]
    ///
    /// The lease is renewed after a third of this time, so this does not limit how long the lock
    /// can be held.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) ttl: Option<String>,

    /// End work that still holds the lock after this time, and exit with 70
    ///
    /// COMMAND gets SIGTERM, and SIGKILL after the grace; the lock is released when everything that
    /// it started is gone. Processes that leasehold may not kill, such as another user's (sudo),
    /// are named, and the lock is kept while they live. The TTL is at most this.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) max_hold: Option<String>,

    /// The holder's name, as shown to others [default: user@host:pid command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Write events to this descriptor, as lines of JSON
    ///
    /// 3 or greater, opened for writing by the shell, as in `3>events`. COMMAND does not inherit
    /// it. `leasehold help events` lists the events.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) status_fd: Option<String>,

    /// Print which store is used, who is waited for, and what is acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// How long to wait for a holder, and the exit code if that was in vain, for every task that may wait.
#[derive(Args, Debug)]
pub(crate) struct WaitingArgs {
    /// Try once, and exit with 75 if the lock is held
    #[arg(short = 'n', long = "try", conflicts_with = "within")]
    pub(crate) one_try: bool,

    /// Wait no longer than this, then exit with 75; without it, there is no limit
    ///
    /// If a store does not answer, it may still serve the request later. So the request is withdrawn
    /// there before leasehold exits, which takes up to 3 s more.
    #[arg(short, long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) within: Option<String>,

    /// Exit with this instead of 75 if the lock is held, also after --within
    #[arg(short = 'E', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) busy_exit_code: Option<String>,
}

/// How to acquire a lock in any mode: `run` and `hold`.
#[derive(Args, Debug)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    /// Share the lock with all others who pass --shared; exclude everybody else
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take N of the M permits of the lock, as in 1/4; M alone means one of them
    ///
    /// All users of the lock must name the same M: requests with another M wait until no permit of
    /// this M is held.
    #[arg(long, value_name = "N/M", allow_negative_numbers = true)]
    pub(crate) permits: Option<String>,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    /// Print nothing if the lock is held
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The name of the lock, or of several that are acquired together
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

/// The command and how to run it, for every task that runs one.
#[derive(Args, Debug)]
pub(crate) struct CommandArgs {
    /// From SIGTERM to SIGKILL when the lease is lost [default: 5s, or ttl/4 if less]
    ///
    /// COMMAND gets SIGTERM this long before the end of the lease. At most half of the TTL, so that
    /// there is time to renew.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) grace: Option<String>,

    /// Keep the lock until everything that COMMAND started has ended, as flock does
    ///
    /// Otherwise, the lock is released when COMMAND ends, and processes that it left running
    /// continue without the lock; -v prints how many there are. The exit code is COMMAND's in any
    /// case.
    #[arg(long)]
    pub(crate) wait_for_all: bool,

    /// Do not use the terminal: COMMAND gets its own process group, and leasehold passes signals on
    #[arg(long)]
    pub(crate) no_tty: bool,

    /// The command and its arguments; no shell interprets them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

/// How to run a command only when it is due, and the exit code if it is not: `once` and `every`.
#[derive(Args, Debug)]
pub(crate) struct JobArgs {
    /// Exit with this instead of 0 if COMMAND was not to be run
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) skip_exit_code: Option<String>,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    #[command(flatten)]
    pub(crate) running: CommandArgs,

    /// Print nothing if the lock is held, or COMMAND is not to be run
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
