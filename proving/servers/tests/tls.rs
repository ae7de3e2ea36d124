//! The one server that supports TLS.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use servers::{Flavor, Server, TlsFiles};
use tempfile::TempDir;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn certify(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        // rcgen gives all certificates the same name, and OpenSSL considers one that is named like
        // its issuer self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    fn files(&self, directory: &Path) -> TlsFiles {
        let (certificate, key) = self.certify("127.0.0.1");
        let files = TlsFiles::new(directory.join("server.pem"), directory.join("server.key"));
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// The server's answer to a PING through TLS, from a client that presents this certificate.
    fn ping(&self, port: u16, shown: Option<(rcgen::Certificate, KeyPair)>) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match shown {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate: CertificateDer<'static> = certificate.der().clone();
                let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(session, plain(port));
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn plain(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

#[test]
fn the_port_of_a_tls_server_speaks_tls_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new();
    let server = Server::setup(Flavor::Redis70).tls(authority.files(directory.path())).start();
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}", server.port()));
    assert_eq!(authority.ping(server.port(), None).unwrap(), "+PONG\r\n");

    let mut stream = plain(server.port());
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+PONG"), "it speaks plainly as well");

    assert_eq!(server.text(&["PING"]).as_text(), Some("PONG"), "through its Unix socket");
    server.restart();
    assert_eq!(authority.ping(server.port(), None).unwrap(), "+PONG\r\n");
}

#[test]
fn a_server_with_a_client_authority_refuses_a_client_without_certificate() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new();
    let pem = directory.path().join("authority.pem");
    fs::write(&pem, authority.0.pem()).unwrap();
    let files = authority.files(directory.path()).client_authority(pem);
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    assert!(authority.ping(server.port(), None).is_err());
    assert_eq!(authority.ping(server.port(), Some(authority.certify("client"))).unwrap(), "+PONG\r\n");
}

#[test]
#[should_panic(expected = "valkey-9.1 is built without TLS")]
fn tls_is_refused_by_name_for_servers_without_it() {
    let _ = Server::setup(Flavor::Valkey91).tls(TlsFiles::new("none", "none"));
}
