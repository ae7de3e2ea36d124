//! How stores on servers log in: passwords, the files that contain secrets, and TLS.
//!
//! This is a part of [Leasehold](https://docs.rs/leasehold); programs use that crate.

mod secret;
#[cfg(feature = "tls")]
pub mod tls;

use std::path::PathBuf;

pub use secret::{Password, Secret};

/// The trusted authorities, and the client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the stores make it from their URLs")]
pub struct Tls {
    /// The PEM file of the trusted authorities; `None` for those of the system.
    pub authority: Option<PathBuf>,
    /// The client certificate, if there is one.
    pub identity: Option<Identity>,
}

/// The PEM files of a client certificate and of its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the stores make it from their URLs")]
pub struct Identity {
    /// The certificate, and those of the authorities between it and a trusted one.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}
