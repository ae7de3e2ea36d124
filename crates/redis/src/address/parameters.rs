//! The query parameters of a URL.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::{Misuse, url_duration};
use leasehold_credentials::{Identity, Password, Secret};

use super::access::{Channels, Protocol};
use super::text::{ENCODE, db_number, decode, refuse};

#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) db: Option<u32>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) call_limit: Option<Duration>,
    pub(crate) quarantine: Option<bool>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) channels: Option<Channels>,
    pub(crate) sentinel_user: Option<String>,
    sentinel_password: Option<String>,
    sentinel_password_file: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    replicas: Option<u32>,
    replicas_limit: Option<Duration>,
    fsync: Option<bool>,
}

/// The confirmation that a write needs before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) replicas: u32,
    /// True if it must be on disk there, and on the master's disk too.
    pub(crate) on_disk: bool,
    pub(crate) limit: Duration,
}

/// How long replicas may take to confirm: many round trips within a data centre, and half of the
/// limit of the other calls on the connection, which the server delays meanwhile.
const REPLICAS_LIMIT: Duration = Duration::from_millis(250);

/// More than anybody has; a greater number is a mistake.
const MOST_REPLICAS: u32 = 100;

impl Parameters {
    pub(crate) fn read(query: &str) -> Result<Self, Misuse> {
        let mut read = Self::default();
        for (nth, parameter) in query.split('&').filter(|parameter| !parameter.is_empty()).enumerate() {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            // A user name is shown to people, and the part after a second `=` may be the password.
            if matches!(name, "user" | "sentinel-user") && value.contains('=') {
                return refuse(format!(
                    "{name} in the store URL has an = in it, as where an & is missing: write a = that is part of it as %3D"
                ));
            }
            let value = decode(value)?;
            let twice = match name {
                "protocol" => read.protocol.replace(protocol(&value)?).is_some(),
                "db" => read.db.replace(db_number(&value)?).is_some(),
                "ca" => read.ca.replace(file(name, value, PEM)?).is_some(),
                "cert" => read.cert.replace(file(name, value, PEM)?).is_some(),
                "key" => read.key.replace(file(name, value, PEM)?).is_some(),
                "call-limit" => read.call_limit.replace(limit(name, &value)?).is_some(),
                "quarantine" => read.quarantine.replace(yes_or_no(name, &value, QUARANTINE)?).is_some(),
                "replicas" => read.replicas.replace(replicas(&value)?).is_some(),
                "replicas-limit" => read.replicas_limit.replace(limit(name, &value)?).is_some(),
                "fsync" => read.fsync.replace(yes_or_no(name, &value, FSYNC)?).is_some(),
                "channels" => read.channels.replace(Channels::for_keys(&value)?).is_some(),
                "user" => read.user.replace(value).is_some(),
                "password" => read.password.replace(value).is_some(),
                "password-file" => read.password_file.replace(file(name, value, SECRET)?).is_some(),
                "sentinel-user" => read.sentinel_user.replace(value).is_some(),
                "sentinel-password" => read.sentinel_password.replace(value).is_some(),
                "sentinel-password-file" => {
                    read.sentinel_password_file.replace(file(name, value, SECRET)?).is_some()
                }
                _ => {
                    return refuse(format!(
                        "parameter {} of the store URL is unknown: protocol, db, ca, cert, key, call-limit, quarantine, replicas, \
                         replicas-limit, fsync, channels, password-file, for redis+unix: user and password, and for sentinels sentinel-user, \
                         sentinel-password and sentinel-password-file are known; and if that was meant to be a password, {ENCODE}",
                        nth + 1
                    ));
                }
            };
            if twice {
                return refuse(format!("the store URL has {name} twice: leave one out"));
            }
        }
        Ok(read)
    }

    pub(crate) fn identity(&mut self) -> Result<Option<Identity>, Misuse> {
        match (self.cert.take(), self.key.take()) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                refuse("the store URL has a client certificate (cert) without its key: add key=FILE")
            }
            (None, Some(_)) => {
                refuse("the store URL has a key without its client certificate: add cert=FILE")
            }
        }
    }

    /// The password, from the URL itself or from the parameters.
    pub(crate) fn secret(&mut self, in_url: Option<String>) -> Result<Option<Secret>, Misuse> {
        one_secret([in_url, self.password.take()], self.password_file.take())
    }

    pub(crate) fn sentinel_secret(&mut self) -> Result<Option<Secret>, Misuse> {
        one_secret([self.sentinel_password.take(), None], self.sentinel_password_file.take())
    }

    pub(crate) const fn is_for_sentinels(&self) -> bool {
        self.sentinel_user.is_some()
            || self.sentinel_password.is_some()
            || self.sentinel_password_file.is_some()
    }

    pub(crate) fn confirmation(&self, call_limit: Duration) -> Result<Option<Confirmation>, Misuse> {
        let (replicas, on_disk) = (self.replicas.unwrap_or(0), self.fsync.unwrap_or(false));
        if replicas == 0 && !on_disk {
            return match self.replicas_limit {
                Some(_) => refuse("the store URL has a replicas-limit without replicas: add replicas=N"),
                None => Ok(None),
            };
        }
        let limit = self.replicas_limit.unwrap_or(REPLICAS_LIMIT.min(call_limit / 2));
        if limit >= call_limit {
            return refuse(
                "the store URL's replicas-limit must be below its call-limit: the server holds up the other calls meanwhile",
            );
        }
        Ok(Some(Confirmation { replicas, on_disk, limit }))
    }
}

fn one_secret(texts: [Option<String>; 2], file: Option<PathBuf>) -> Result<Option<Secret>, Misuse> {
    let texts = texts.into_iter().flatten().map(|text| Secret::Text(Password(text)));
    let mut secrets = texts.chain(file.map(Secret::File));
    let secret = secrets.next();
    if secrets.next().is_some() {
        return refuse("the store URL has the user or the password twice: leave one out");
    }
    Ok(secret)
}

const PEM: &str = "a PEM file";
const SECRET: &str = "the file with the password in it";

fn file(name: &str, value: String, which: &str) -> Result<PathBuf, Misuse> {
    if value.is_empty() {
        return refuse(format!("the store URL's {name} is empty: name {which}"));
    }
    Ok(value.into())
}

fn replicas(value: &str) -> Result<u32, Misuse> {
    match value.parse() {
        Ok(replicas) if replicas <= MOST_REPLICAS && !value.starts_with('+') => Ok(replicas),
        _ => refuse(format!(
            "the store URL's replicas must be a number from 0 to {MOST_REPLICAS}: how many must confirm"
        )),
    }
}

const FSYNC: &str = "whether a lease counts only when it is on disk";
const QUARANTINE: &str = "no only where the server cannot forget (appendfsync always)";

fn yes_or_no(name: &str, value: &str, meaning: &str) -> Result<bool, Misuse> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => refuse(format!("the store URL's {name} must be yes or no: {meaning}")),
    }
}

fn protocol(value: &str) -> Result<Protocol, Misuse> {
    match value {
        "resp2" => Ok(Protocol::Resp2),
        "resp3" => Ok(Protocol::Resp3),
        _ => refuse("the store URL has an unknown protocol: resp2 or resp3; without it both are tried"),
    }
}

/// From 10 ms, below which every delay is a fault, to a minute, above which it limits nothing.
fn limit(name: &str, value: &str) -> Result<Duration, Misuse> {
    match url_duration(value) {
        Some(limit) if (Duration::from_millis(10)..=Duration::from_secs(60)).contains(&limit) => Ok(limit),
        _ => {
            refuse(format!("the store URL's {name} must be from 10ms to 60s: a number, and then ms, s or m"))
        }
    }
}
