//! Credentials, TLS settings and channels: what holds for every connection.

use std::sync::Arc;

use leasehold_core::{Channel, Claim, Key, Misuse};
use leasehold_credentials::{Password, Secret, Tls};
use redis::{Cmd, RedisConnectionInfo, cmd};

use super::text::refuse;

/// The settings of every connection, to any server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) db: u32,
    pub(crate) protocol: Protocol,
    /// `None` for plain text.
    pub(crate) tls: Option<Tls>,
    pub(crate) channels: Channels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, or RESP2 if the server refuses RESP3.
    Either,
    Resp2,
    Resp3,
}

impl Access {
    /// The current password.
    ///
    /// A user without one needs none; but the protocol requires an argument.
    pub(crate) fn password(&self) -> Result<Option<Password>, String> {
        match &self.password {
            Some(secret) => secret.password().map(Some),
            None => Ok(self.user.as_ref().map(|_| Password(String::new()))),
        }
    }

    /// The login that redis-rs sends when it connects.
    pub(crate) fn login(&self, password: Option<&Password>) -> RedisConnectionInfo {
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let login = self.user.iter().fold(login, RedisConnectionInfo::set_username);
        password.iter().fold(login, |login, password| login.set_password(&password.0))
    }

    pub(crate) fn auth(&self, Password(password): &Password) -> Cmd {
        let user = self.user.iter();
        user.fold(cmd("AUTH"), |mut auth, user| auth.arg(user).take()).arg(password).take()
    }
}

/// The prefix of the process's channels after `leasehold:`, so that an ACL can separate the tenants
/// of one server. It is empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channels(Arc<str>);

/// The key prefix of a tenant is not longer than this.
const LONGEST: usize = 128;

impl Channels {
    pub(crate) fn for_keys(prefix: &str) -> Result<Self, Misuse> {
        // An ACL contains it as part of a pattern, and a waiter's record has it between spaces.
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "*?[]\\".contains(c);
        if prefix.is_empty() || prefix.len() > LONGEST || prefix.contains(is_odd) {
            return refuse(format!(
                "the store URL's channels must be the prefix of your keys, as in channels=app: - up to {LONGEST} bytes without \
                 spaces and without * ? [ ] \\"
            ));
        }
        Ok(Self(prefix.into()))
    }

    pub(crate) fn draw(&self, bits: u128) -> Channel {
        Channel::new(format!("{}{}{bits:032x}", Key::RESERVED, self.0))
    }

    /// The channel on which holders are notified of broken leases.
    pub(crate) fn broken(&self) -> Vec<u8> {
        format!("{}{}broken", Key::RESERVED, self.0).into_bytes()
    }

    /// Returns true if releases of all these keys may be expected to publish here.
    pub(crate) fn are_for(&self, claim: &Claim) -> bool {
        claim.keys().all(|key| key.as_bytes().starts_with(self.0.as_bytes()))
    }

    /// The rule that an ACL needs.
    pub(crate) fn rule(&self) -> String {
        format!("&{}{}*", Key::RESERVED, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BROKEN, channel_of};

    #[test]
    fn channels_begin_with_the_prefix_of_the_keys() {
        let of_app = Channels::for_keys("app:").unwrap();
        let digits = format!("{:032x}", 7);
        assert_eq!(of_app.draw(7).as_bytes(), format!("leasehold:app:{digits}").as_bytes());
        assert_eq!((&*of_app.broken(), &*of_app.rule()), (&b"leasehold:app:broken"[..], "&leasehold:app:*"));
        let of_all = Channels::default();
        assert_eq!(of_all.draw(7), channel_of(7));
        assert_eq!((&*of_all.broken(), &*of_all.rule()), (BROKEN, "&leasehold:*"));
    }

    #[test]
    fn only_releases_within_the_prefix_are_received() {
        let claim =
            |keys: &[&str]| Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
        let of_app = Channels::for_keys("app:").unwrap();
        assert!(of_app.are_for(&claim(&["app:a", "app:b"])));
        assert!(!of_app.are_for(&claim(&["app:a", "other:b"])) && !of_app.are_for(&claim(&["app"])));
        assert!(Channels::default().are_for(&claim(&["anything"])));
    }

    #[test]
    fn a_prefix_that_a_pattern_or_a_record_would_misread_is_refused() {
        for prefix in ["", "a b", "a*", "a?", "[a]", "a\\", "a\n", &"a".repeat(129)] {
            assert!(Channels::for_keys(prefix).is_err(), "{prefix:?}");
        }
        assert!(Channels::for_keys("größe:{1}").is_ok());
    }
}
