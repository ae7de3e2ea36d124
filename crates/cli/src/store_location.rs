//! The store of the locks: its URL, who named it, and connecting to it.

use std::env::VarError;
use std::pin::pin;
use std::time::Duration;
use std::{env, fmt};

use leasehold::{AnyStore, ConnectError, Key, Locks, LocksBuilder, Misuse, Ttl};
use nix::unistd::{Uid, User};
use tokio::time::timeout;

use crate::args::{KeyArgs, PrefixArgs, StoreArgs};
use crate::exit::Failure;
use crate::keys::{beginning, only_key};
use crate::options::{or_variable, time_of};
use crate::store_url::StoreUrl;
use crate::stores::Stores;
use crate::{environment, say};

#[derive(Clone, Debug)]
pub(crate) struct StoreLocation {
    pub(crate) store: Stores,
    origin: Origin,
    /// The option or variable that named the longest TTL.
    max_ttl_origin: Option<&'static str>,
    /// The same of the TTL, for tasks that acquire a lock.
    pub(crate) ttl_origin: Option<String>,
    pub(crate) outage_limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Of this name.
    Argument(&'static str),
    Environment,
    Nobody,
}

/// How long a store may be silent: the library's default, which a short wait shortens.
pub(crate) const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

/// The same for tasks that only look, or try once: they should answer soon.
pub(crate) const SHORT_OUTAGE_LIMIT: Duration = Duration::from_secs(2);

/// A store that has not answered after this time is reported.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

impl StoreLocation {
    /// The store of `--store`, otherwise of the environment, otherwise the default.
    pub(crate) fn of(args: StoreArgs) -> Result<Self, Failure> {
        Self::named_in("--store", args)
    }

    /// The same if the URLs come from another argument than `--store`.
    pub(crate) fn named_in(argument: &'static str, args: StoreArgs) -> Result<Self, Failure> {
        let (name, outage_limit) = or_variable("--outage-limit", args.outage_limit);
        let outage_limit = time_of(&name, outage_limit)?;
        if outage_limit == Some(Duration::ZERO) {
            return Err(Failure::usage(format!(
                "{name}: in no time, no store answers: allow 1s or more; to wait for no lock, use --try"
            )));
        }
        let max_ttl = time_of("--max-ttl", args.max_ttl)?;
        let args_name_it = max_ttl.is_some();
        let max_ttl = max_ttl.map_or_else(environment::max_ttl, |max_ttl| Ok(Some(max_ttl)));
        let several = |urls: &[&str]| urls.len() > 1 || urls.iter().any(|url| Stores::is_a_quorum(url));
        let named = |urls: &[&str], origin: Origin| {
            // A URL from a run around this one names its longest TTL.
            let from_outer_run = origin == Origin::Environment
                && environment::is_nested()
                && urls.iter().any(|url| Stores::names_its_longest_ttl(url));
            let is_meant = args_name_it || several(urls) && !from_outer_run;
            let max_ttl = max_ttl.clone()?.filter(|_| is_meant);
            let store = Stores::new(urls.iter().copied(), max_ttl).and_then(|store| {
                // Before anything shows the URL: in an invalid one, any part may be the password.
                store.reveal().try_for_each(|url| AnyStore::from_url(url).map(drop))?;
                Ok(store)
            });
            let store = store.map_err(|failure| failure.about(origin))?;
            let from = if args_name_it { "--max-ttl" } else { environment::MAX_TTL };
            let max_ttl_origin = max_ttl.map(|_| from);
            Ok(Self { store, origin, max_ttl_origin, ttl_origin: None, outage_limit })
        };
        if !args.store.is_empty() {
            let urls: Vec<_> = args.store.iter().map(String::as_str).collect();
            return named(&urls, Origin::Argument(argument));
        }
        match env::var(environment::STORE) {
            // Not the same as unset: a script with an empty variable meant some other store.
            Ok(url) if url.trim().is_empty() => {
                Err(Failure::usage("it is empty: unset it for the default store, or give it a URL")
                    .about(Origin::Environment))
            }
            Ok(urls) => named(&Stores::urls_in(&urls), Origin::Environment),
            Err(VarError::NotUnicode(_)) => {
                Err(Failure::usage("it is not UTF-8: write other bytes as %XX").about(Origin::Environment))
            }
            Err(VarError::NotPresent) => {
                let store = default_store()?;
                named(&[store.reveal()], Origin::Nobody)
            }
        }
    }

    /// The builder for tasks that take no lock: no TTL may be an error.
    pub(crate) fn to_look_at(&self) -> LocksBuilder {
        let limit = self.outage_limit.unwrap_or(SHORT_OUTAGE_LIMIT);
        Locks::builder().outage_limit(limit).ttl(Ttl::DEFAULT.duration().min(self.store.max_ttl))
    }

    /// Connects to look, and warns of a password that others can see. Creates nothing, and refuses a
    /// file that was named and is not there: in a file with a misspelt name every lock is free.
    pub(crate) async fn look(&self, quiet: bool) -> Result<Locks, Failure> {
        if self.origin != Origin::Nobody
            && let Some(file) = self.store.missing_file()
        {
            let line = format!("there is no {file}: check the path; the first lock creates the file");
            return Err(Failure::refused(line).about(self.origin));
        }
        let limit = self.outage_limit.unwrap_or(SHORT_OUTAGE_LIMIT);
        self.ready_within(limit, self.to_look_at(), true, quiet).await
    }

    /// Connects within a time limit, reports if that takes a while, and warns of a password that
    /// others can see, and of a store that others will not find.
    pub(crate) async fn connect(
        &self,
        builder: LocksBuilder,
        limit: Duration,
        quiet: bool,
    ) -> Result<Locks, Failure> {
        // Some of several stores may be down.
        let must_answer = !self.store.is_several();
        self.ready_within(limit, builder.outage_limit(limit), must_answer, quiet).await
    }

    async fn ready_within(
        &self,
        limit: Duration,
        builder: LocksBuilder,
        must_answer: bool,
        quiet: bool,
    ) -> Result<Locks, Failure> {
        let mut connecting = pin!(async {
            let locks = self.made(builder)?;
            if must_answer {
                locks.ready().await?;
            }
            Ok::<_, ConnectError>(locks)
        });
        let locks = match timeout(SILENCE, &mut connecting).await {
            Ok(locks) => locks,
            Err(_) => {
                if !quiet && limit > SILENCE {
                    say::silence(&self.store, None, Some(limit));
                }
                connecting.await
            }
        };
        let locks = locks.map_err(|error| self.not_connected(error))?;
        if !quiet {
            locks.warnings().iter().for_each(say::line);
        }
        self.warn(quiet);
        Ok(locks)
    }

    /// The same without connecting, because a store that refuses can be diagnosed too.
    pub(crate) fn unopened(&self, builder: LocksBuilder, quiet: bool) -> Result<Locks, Failure> {
        let locks = self.made(builder).map_err(|error| self.not_connected(error))?;
        self.warn(quiet);
        Ok(locks)
    }

    fn made(&self, builder: LocksBuilder) -> Result<Locks, ConnectError> {
        let mut urls = self.store.reveal();
        match (urls.next(), urls.len()) {
            (Some(url), 0) => builder.unopened(url),
            _ => {
                let members: Result<Vec<_>, _> = self.store.reveal().map(AnyStore::from_url).collect();
                builder.quorum(members?, self.store.max_ttl)
            }
        }
    }

    fn warn(&self, quiet: bool) {
        if quiet {
            return;
        }
        if let Some(name) = other_user_of_sudo().filter(|_| self.origin == Origin::Nobody) {
            say::line(format_args!(
                "{} is the store of this user, and not the one of {name}: they do not exclude each other",
                self.store
            ));
            say::hint(
                "leasehold init --group NAME DIR makes a store for several users: see `leasehold help init`",
            );
        }
        if let Origin::Argument(argument) = self.origin
            && self.store.has_password()
        {
            say::line(format_args!(
                "every user of this machine can see the password in {argument} (ps): put the URL into {} instead",
                environment::STORE
            ));
        }
    }

    /// The option or variable that is at fault. The URL may name the longest TTL, too.
    fn origin_of(&self, misuse: &Misuse) -> String {
        let longest = self.max_ttl_origin.map(str::to_owned);
        let origin = match misuse {
            Misuse::MaxTtlTooShort { .. } | Misuse::TtlTooLong { .. } => longest,
            Misuse::TtlOverLongest { .. } => self.ttl_origin.clone().or(longest),
            _ => None,
        };
        origin.unwrap_or_else(|| self.origin.to_string())
    }

    fn not_connected(&self, error: ConnectError) -> Failure {
        let variable = environment::STORE;
        let hint = match &error {
            ConnectError::Misuse(misuse) => {
                let origin = self.origin_of(misuse);
                return Failure::from(error).about(origin);
            }
            ConnectError::Refused(_) if self.origin == Origin::Environment && environment::is_nested() => {
                format!("the run around this one took the password out of {variable}: give this one its own")
            }
            ConnectError::Refused(_) if error.to_string().contains("asks for a password") => {
                "put it into a file that only you can read, and name that: redis://HOST?password-file=FILE"
                    .into()
            }
            // Nobody chose this store, so the reader may not know that there are others.
            ConnectError::Refused(_) if self.origin == Origin::Nobody => {
                format!("name another store with --store or {variable}")
            }
            _ => return Failure::from(error),
        };
        Failure::from(error).hint(hint)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Argument(argument) => argument,
            Self::Environment => environment::STORE,
            Self::Nobody => "the default store",
        })
    }
}

impl PrefixArgs {
    pub(crate) fn resolve(self) -> Result<(Vec<u8>, StoreLocation), Failure> {
        Ok((beginning(self.prefixes, self.place.naming)?, StoreLocation::of(self.place.store)?))
    }
}

impl KeyArgs {
    pub(crate) fn resolve(self) -> Result<(Key, StoreLocation), Failure> {
        Ok((only_key(self.keys, self.place.naming)?, StoreLocation::of(self.place.store)?))
    }
}

/// This user's file store on this machine, in the home directory of the effective user in the user
/// database.
fn default_store() -> Result<StoreUrl, Failure> {
    let home = leasehold_file::home().map_err(|fact| {
        Failure::usage(format!(
            "{fact}, so there is no default store: name one with --store or LEASEHOLD_STORE"
        ))
    })?;
    Ok(StoreUrl::file(&home.join(".local/state/leasehold/leases.db")))
}

/// The user who called sudo to run this as another user, whose default store is a different one.
fn other_user_of_sudo() -> Option<String> {
    let name = env::var("SUDO_USER").ok().filter(|name| !name.is_empty())?;
    let is_same = matches!(User::from_name(&name), Ok(Some(entry)) if entry.uid == Uid::effective());
    (!is_same).then_some(name)
}
