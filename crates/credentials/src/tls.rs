//! TLS by rustls: the trusted authorities, the client certificate, and the causes of failed
//! handshakes.

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use tokio_rustls::TlsConnector;
pub use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
pub use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::secret::{open_secret, refuse_pipe};
use crate::{Identity, Tls};

/// The names of a store's URL parameters, for the reasons that its users read.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "each store names its parameters")]
pub struct Parameters {
    /// The trusted authorities.
    pub authority: &'static str,
    /// The client certificate.
    pub certificate: &'static str,
    /// Its private key.
    pub key: &'static str,
}

impl Parameters {
    /// Makes TLS connections that trust the authorities of the system, or those in a PEM file and no
    /// others, and that present a client certificate if there is one. `protocols` are the protocols
    /// that the server is told (ALPN).
    ///
    /// # Errors
    ///
    /// The reason, for a person, if a file cannot be used.
    pub fn connector(self, tls: &Tls, protocols: &[&[u8]]) -> Result<TlsConnector, String> {
        let of = |name: &str, file: &Path, reason: String| format!("{name}={}: {reason}", file.display());
        let roots = match &tls.authority {
            Some(file) => roots_in(file).map_err(|reason| of(self.authority, file, reason))?,
            None => self.system_roots()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match &tls.identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain =
                    chain_in(certificate).map_err(|reason| of(self.certificate, certificate, reason))?;
                let private = key_in(key).map_err(|reason| of(self.key, key, reason))?;
                config.with_client_auth_cert(chain, private).map_err(|error| match error {
                    rustls::Error::InvalidCertificate(cause) => {
                        of(self.certificate, certificate, format!("it cannot be used: {}", in_words(&cause)))
                    }
                    error => {
                        let belongs =
                            format!("it does not belong to the client certificate ({})", self.certificate);
                        of(self.key, key, format!("{belongs}: {error}"))
                    }
                })?
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// The cause of a failed handshake, if it is the certificate or the protocol and not the network.
    #[must_use]
    pub fn cause(self, error: &io::Error) -> Option<String> {
        let Self { authority, certificate, key } = self;
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
                "the server's certificate is of an authority that is not trusted here: name its PEM file as {authority}"
            ),
            rustls::Error::InvalidCertificate(cause) => {
                format!("the server's certificate is refused: {}", in_words(cause))
            }
            rustls::Error::InvalidMessage(_) => "the server does not speak TLS on this port".into(),
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => format!(
                "the server asks for a client certificate: add {certificate}=FILE and {key}=FILE to the URL"
            ),
            rustls::Error::AlertReceived(AlertDescription::UnknownCA) => {
                format!("the server does not trust the authority of our client certificate ({certificate})")
            }
            rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
                format!("the server says that our client certificate ({certificate}) has expired")
            }
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown),
            ) => format!("the server refuses our client certificate ({certificate}): {alert:?}"),
            rustls::Error::AlertReceived(alert) => {
                format!("the server refuses the TLS handshake: {alert:?}")
            }
            error => format!("the TLS handshake failed: {error}"),
        })
    }

    /// An unreadable certificate of the system is skipped, as browsers do; having none at all is an
    /// error.
    fn system_roots(self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(format!(
                "this system trusts no certificate authority: install its CA certificates, or name one as {}",
                self.authority
            ));
        }
        Ok(roots)
    }
}

/// Some tools still make certificates of the first version by default, or of an authority.
fn in_words(cause: &CertificateError) -> String {
    let cause = cause.to_string();
    if cause.contains("UnsupportedCertVersion") {
        "it is of X.509 version 1: make one of version 3, with openssl by -extfile".into()
    } else if cause.contains("CaUsedAsEndEntity") {
        "it is that of an authority: make one that is not, with openssl req -x509 by -addext basicConstraints=CA:FALSE"
            .into()
    } else {
        cause
    }
}

/// The name that the server's certificate must contain.
///
/// # Errors
///
/// The reason, for a person, if no certificate can contain it.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("no certificate can be for a host of the name {host}"))
}

fn chain_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    refuse_pipe(file)?;
    let chain = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if chain.is_empty() { Err("there is no certificate in it".into()) } else { Ok(chain) }
}

fn key_in(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_reader(open_secret(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => "there is no private key in it".into(),
        error => error.to_string(),
    })
}

fn roots_in(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in chain_in(file)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}
