//! Credentials and TLS settings for logging in to a server.

use leasehold_credentials::{Password, Secret, Tls};
use redis::{Cmd, RedisConnectionInfo, cmd};

use super::channels::Channels;

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
