//! What stands behind the question mark of a URL.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::Misuse;

use crate::access::Protocol;
use crate::address::{ENCODE, db_number, decode, refuse};

/// Each parameter that was given.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) db: Option<u32>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) call_limit: Option<Duration>,
    pub(crate) quarantine: Option<bool>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl Parameters {
    pub(crate) fn read(query: &str) -> Result<Self, Misuse> {
        let mut read = Self::default();
        for (nth, parameter) in query.split('&').filter(|parameter| !parameter.is_empty()).enumerate() {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decode(value)?;
            let twice = match name {
                "protocol" => read.protocol.replace(protocol(&value)?).is_some(),
                "db" => read.db.replace(db_number(&value)?).is_some(),
                "ca" if value.is_empty() => return refuse("the store URL's ca is empty: name a PEM file"),
                "ca" => read.ca.replace(value.into()).is_some(),
                "call-limit" => read.call_limit.replace(limit(&value)?).is_some(),
                "quarantine" => read.quarantine.replace(quarantine(&value)?).is_some(),
                "user" => read.user.replace(value).is_some(),
                "password" => read.password.replace(value).is_some(),
                _ => {
                    return refuse(format!(
                        "parameter {} of the store URL is unknown: protocol, db, ca, call-limit, quarantine, and for \
                         redis+unix: user and password are known; and if that was meant to be a password, {ENCODE}",
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
}

fn protocol(value: &str) -> Result<Protocol, Misuse> {
    match value {
        "resp2" => Ok(Protocol::Resp2),
        "resp3" => Ok(Protocol::Resp3),
        _ => refuse("the store URL has an unknown protocol: resp2 or resp3; without it both are tried"),
    }
}

fn quarantine(value: &str) -> Result<bool, Misuse> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => refuse(
            "the store URL's quarantine must be yes or no: no only where the server cannot forget (appendfsync always)",
        ),
    }
}

/// From 10 ms, below which every hiccup is a fault, to a minute, beyond which it limits nothing.
fn limit(value: &str) -> Result<Duration, Misuse> {
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+'));
    let limit = match value.strip_suffix("ms") {
        Some(digits) => number(digits).map(Duration::from_millis),
        None => value.strip_suffix('s').and_then(number).map(Duration::from_secs),
    };
    match limit {
        Some(limit) if (Duration::from_millis(10)..=Duration::from_mins(1)).contains(&limit) => Ok(limit),
        _ => refuse("the store URL's call-limit must be from 10ms to 60s: a number, and then ms or s"),
    }
}
