//! TLS: the trusted authorities, and the causes of failed handshakes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::address::access::{Identity, Tls, open_secret};

/// Trusts the authorities of the system, or those in a PEM file and no others.
/// Presents a client certificate if there is one.
pub(crate) fn connector(tls: &Tls) -> Result<TlsConnector, String> {
    let roots = match &tls.authority {
        Some(file) => roots_in(file).map_err(|error| format!("ca={}: {error}", file.display()))?,
        None => system_roots()?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &tls.identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain =
                chain_in(certificate).map_err(|error| format!("cert={}: {error}", certificate.display()))?;
            let private = key_in(key).map_err(|error| format!("key={}: {error}", key.display()))?;
            config.with_client_auth_cert(chain, private).map_err(|error| {
                format!("key={}: it does not belong to the client certificate (cert): {error}", key.display())
            })?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that the server's certificate must contain.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("no certificate can be for a host of the name {host}"))
}

/// The cause of a failed handshake, if it is the certificate or the protocol and not the network.
pub(crate) fn cause(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is of an authority that is not trusted here: name its PEM file as ca"
                .into()
        }
        rustls::Error::InvalidCertificate(cause) => format!("the server's certificate is refused: {cause}"),
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS on this port".into(),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a client certificate: add cert=FILE and key=FILE to the URL".into()
        }
        rustls::Error::AlertReceived(AlertDescription::UnknownCA) => {
            "the server does not trust the authority of our client certificate (cert)".into()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the server says that our client certificate (cert) has expired".into()
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown),
        ) => format!("the server refuses our client certificate (cert): {alert:?}"),
        rustls::Error::AlertReceived(alert) => format!("the server refuses the TLS handshake: {alert:?}"),
        error => format!("the TLS handshake failed: {error}"),
    })
}

fn chain_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
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

/// An unreadable certificate of the system is skipped, as browsers do; having none at all is an
/// error.
fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this system trusts no certificate authority: install its CA certificates, or name a ca".into()
        );
    }
    Ok(roots)
}
