//! TLS by rustls for the client library: the trusted authorities, and the causes of failed
//! handshakes.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

use crate::address::Tls;
use crate::secret::open_secret;

/// Makes TLS connections; without a configuration it makes none.
#[derive(Clone)]
pub(crate) struct Rustls(TlsConnector);

impl Rustls {
    /// Trusts the authorities of the system, or those in a PEM file and no others. Presents a
    /// client certificate if there is one.
    pub(crate) fn new(tls: &Tls) -> Result<Self, String> {
        let roots = match &tls.authority {
            Some(file) => {
                roots_in(file).map_err(|error| format!("sslrootcert={}: {error}", file.display()))?
            }
            None => system_roots()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match &tls.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let of =
                    |name: &str, file: &Path, error: String| format!("{name}={}: {error}", file.display());
                let chain = chain_in(certificate).map_err(|error| of("sslcert", certificate, error))?;
                let private = key_in(key).map_err(|error| of("sslkey", key, error))?;
                config
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| of("sslkey", key, error.to_string()))?
            }
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Rustls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(format!("no certificate can be for a host of the name {host}")))?;
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

/// A handshake to be made.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

/// A stream within TLS.
pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// The certificate was verified, so the password need not detect an attacker in between.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The cause of a failed handshake, if it is the certificate or the protocol and not the network.
pub(crate) fn cause(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is of an authority that is not trusted here: name its PEM file as sslrootcert".into()
        }
        rustls::Error::InvalidCertificate(cause) => format!("the server's certificate is refused: {cause}"),
        rustls::Error::AlertReceived(alert) => {
            format!("the server refuses the TLS handshake ({alert:?}): it may ask for a client certificate (sslcert, sslkey)")
        }
        error => format!("the TLS handshake failed: {error}"),
    })
}

fn chain_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if chain.is_empty() { Err("there is no certificate in it".into()) } else { Ok(chain) }
}

fn key_in(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_reader(open_secret(file)?).map_err(|error| error.to_string())
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
        return Err("this system trusts no certificate authority: install its CA certificates, or name an sslrootcert".into());
    }
    Ok(roots)
}
