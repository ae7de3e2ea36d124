//! How to be let in by a server.

use std::fmt;
use std::path::PathBuf;

/// What a connection begins with, wherever it leads.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) db: u32,
    pub(crate) protocol: Protocol,
    /// `None`: in plain text.
    pub(crate) tls: Option<Tls>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, unless the server refuses it.
    Either,
    Resp2,
    Resp3,
}

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The PEM file of the authorities; `None`: those of the system.
    pub(crate) authority: Option<PathBuf>,
}

/// Shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
