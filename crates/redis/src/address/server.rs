//! The address of a server.

use std::path::PathBuf;

use leasehold_core::{Escaped, Misuse};
use url::Url;

use super::text::{ENCODE, decode, refuse};

pub(crate) const PORT: u16 = 6379;

pub(crate) const SENTINEL_PORT: u16 = 26379;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ServerAddr {
    Tcp { host: String, port: u16 },
    Unix { path: PathBuf },
}

impl ServerAddr {
    /// The host of a URL.
    pub(crate) fn of(url: &Url, default_port: u16) -> Result<Self, Misuse> {
        let host = decode(url.host_str().unwrap_or_default())?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return refuse("the store URL names no host: redis://HOST");
        }
        if host.contains(|c: char| c.is_control() || c.is_whitespace() || c == '@') {
            return refuse(format!("the store URL has a host that cannot be one: {ENCODE}"));
        }
        match url.port().unwrap_or(default_port) {
            0 => refuse("the store URL has port 0, where nobody listens: name the server's"),
            port => Ok(Self::Tcp { host, port }),
        }
    }

    /// The socket of a URL; `hostless` if the URL's host is only a placeholder.
    pub(crate) fn socket_of(url: &Url, hostless: bool) -> Result<Self, Misuse> {
        if !hostless && url.host_str().is_some_and(|host| !host.is_empty()) {
            return refuse("a Unix socket has no host: redis+unix:///PATH, with three slashes");
        }
        let path = decode(url.path())?;
        if path.len() < 2 || path.contains('\0') {
            return refuse("the store URL names no socket: redis+unix:///PATH");
        }
        Ok(Self::Unix { path: path.into() })
    }

    /// The hosts in the authority of a URL, separated by commas.
    pub(crate) fn several(hosts: &str, default_port: u16) -> Result<Vec<Self>, Misuse> {
        let mut addrs = Vec::new();
        for host in hosts.split(',') {
            let Ok(url) = Url::parse(&format!("redis://{host}")) else {
                return refuse(format!("the store URL has a host that cannot be read: {ENCODE}"));
            };
            let addr = Self::of(&url, default_port)?;
            if addrs.contains(&addr) {
                return refuse("the store URL names a host twice: leave one out");
            }
            addrs.push(addr);
        }
        Ok(addrs)
    }

    pub(crate) const fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp { .. })
    }

    /// The form in a URL: a default port is left out.
    pub(crate) fn written(&self, default_port: u16) -> String {
        match self {
            Self::Tcp { host, port } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == default_port { host } else { format!("{host}:{port}") }
            }
            // A name is one line, whatever the path contains.
            Self::Unix { path } => Escaped(path.as_os_str().as_encoded_bytes()).to_string(),
        }
    }
}
