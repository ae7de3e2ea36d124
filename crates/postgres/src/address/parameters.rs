//! The parameters of a URL, behind its question mark.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::{Misuse, url_duration};
use leasehold_credentials::{Identity, Tls};

use super::{ENCODE, decode, port, refuse};

const KNOWN: &str = "sslmode, sslrootcert, sslcert, sslkey, schema, password-file, call-limit, target_session_attrs, \
    host, port, user and password are known";

/// The parameters that were given.
#[derive(Default)]
pub(super) struct Given {
    tls: Option<bool>,
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    pub(super) schema: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) call_limit: Option<Duration>,
    pub(super) read_write: Option<bool>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

impl Given {
    pub(super) fn read(query: &str) -> Result<Self, Misuse> {
        let mut given = Self::default();
        for (nth, parameter) in query.split('&').filter(|parameter| !parameter.is_empty()).enumerate() {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decode(value)?;
            if value.is_empty() || value.contains(char::is_control) {
                return refuse(format!(
                    "parameter {} of the store URL has no value that it could have",
                    nth + 1
                ));
            }
            let twice = match name {
                "sslmode" => given.tls.replace(encrypted(&value)?).is_some(),
                "sslrootcert" => given.authority.replace(file(name, value)?).is_some(),
                "sslcert" => given.certificate.replace(file(name, value)?).is_some(),
                "sslkey" => given.key.replace(file(name, value)?).is_some(),
                "schema" => given.schema.replace(schema(value)?).is_some(),
                "password-file" => given.password_file.replace(file(name, value)?).is_some(),
                "call-limit" => given.call_limit.replace(limit(&value)?).is_some(),
                "target_session_attrs" => given.read_write.replace(writes(&value)?).is_some(),
                "host" => given.host.replace(value).is_some(),
                "port" => given.port.replace(port(&value)?).is_some(),
                "user" => given.user.replace(value).is_some(),
                "password" => given.password.replace(value).is_some(),
                _ => {
                    return refuse(format!(
                        "parameter {} of the store URL is unknown: {KNOWN}; and if that was meant to be a password, {ENCODE}",
                        nth + 1
                    ));
                }
            };
            if twice {
                return refuse(format!("the store URL has {name} twice: leave one out"));
            }
        }
        Ok(given)
    }

    pub(super) fn tls(&mut self) -> Result<Option<Tls>, Misuse> {
        let identity = match (self.certificate.take(), self.key.take()) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => {
                return refuse("the store URL has one of sslcert and sslkey: add the other, or leave it out");
            }
        };
        let tls = Tls { authority: self.authority.take(), identity };
        match self.tls {
            Some(true) => Ok(Some(tls)),
            _ if tls != Tls::default() => refuse(
                "the store URL names a certificate, which only sslmode=verify-full has use for: add that",
            ),
            _ => Ok(None),
        }
    }
}

fn encrypted(mode: &str) -> Result<bool, Misuse> {
    match mode {
        "disable" => Ok(false),
        "require" | "verify-full" => Ok(true),
        "prefer" | "allow" | "verify-ca" => refuse(
            "sslmode in the store URL is one that protects from nobody who is in between: write sslmode=verify-full, or disable",
        ),
        _ => refuse("sslmode in the store URL is unknown: write verify-full, require or disable"),
    }
}

fn writes(attributes: &str) -> Result<bool, Misuse> {
    match attributes {
        "any" => Ok(false),
        "read-write" | "primary" => Ok(true),
        _ => refuse("target_session_attrs in the store URL must be read-write or any: locks are written"),
    }
}

/// A name that needs no quotes, so that people can type it.
fn schema(name: String) -> Result<String, Misuse> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.len() < 64 && name.chars().all(is_plain) && !name.starts_with("pg_") {
        return Ok(name);
    }
    refuse(
        "schema in the store URL is a name of lower-case letters, digits and underscores, as in schema=leasehold",
    )
}

fn file(name: &str, path: String) -> Result<PathBuf, Misuse> {
    if path.starts_with('/') {
        Ok(path.into())
    } else {
        refuse(format!("{name} in the store URL takes an absolute path"))
    }
}

fn limit(text: &str) -> Result<Duration, Misuse> {
    let bounds = Duration::from_millis(10)..=Duration::from_secs(60);
    match url_duration(text).filter(|limit| bounds.contains(limit)) {
        Some(limit) => Ok(limit),
        None => refuse("call-limit in the store URL is a time from 10ms to 60s, as in call-limit=500ms"),
    }
}
