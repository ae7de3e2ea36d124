//! TLS, with authorities of our own.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_core::Store;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use servers::{Flavor, Server, TlsFiles};
use tempfile::TempDir;

use crate::world::{attempt, grant, granted, lasting, passing, store};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pem: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pem = directory.join(format!("{name}.pem"));
        fs::write(&pem, issuer.pem()).unwrap();
        Self { issuer, pem }
    }

    fn certify(&self, directory: &Path, host: &str, expired: bool) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, host);
        if expired {
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let files = TlsFiles::new(directory.join("server.pem"), directory.join("server.key"));
        fs::write(&files.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

fn url(server: &Server, host: &str, authority: &Authority) -> String {
    format!("rediss://{host}:{}?ca={}", server.port(), authority.pem.display())
}

#[tokio::test]
async fn the_right_authority_is_trusted_and_another_is_not() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let other = Authority::new(directory.path(), "other");
    let files = authority.certify(directory.path(), "127.0.0.1", false);
    let server = Server::setup(Flavor::Redis70).tls(files).start();

    let trusting = store(&url(&server, "127.0.0.1", &authority));
    trusting.open().await.unwrap();
    let ours = attempt(&["k"]);
    granted(grant(&trusting, &ours).await);
    trusting.give_up(&ours).await.unwrap();
    let resp2 = store(&format!("{}&protocol=resp2", url(&server, "127.0.0.1", &authority)));
    resp2.open().await.unwrap();

    lasting(store(&url(&server, "127.0.0.1", &other)).open().await, &["authority", "not trusted"]);
    let system = store(&server.url()).open().await;
    lasting(system, &["authority"]);
    lasting(store(&url(&server, "localhost", &authority)).open().await, &["certificate", "localhost"]);
    let nowhere = format!("{}?ca={}/none.pem", server.url(), directory.path().display());
    lasting(store(&nowhere).open().await, &["none.pem"]);
    let empty = directory.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    lasting(store(&format!("{}?ca={}", server.url(), empty.display())).open().await, &["no certificate"]);
    // Without TLS the server only closes the connection, which might be anything.
    passing(store(&server.url().replace("rediss", "redis")).open().await, &[]);
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let files = authority.certify(directory.path(), "127.0.0.1", true);
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    lasting(store(&url(&server, "127.0.0.1", &authority)).open().await, &["certificate", "expired"]);
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_plainly() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let server = Server::start(Flavor::Valkey91);
    let answer = store(&url(&server, "127.0.0.1", &authority)).open().await;
    assert!(answer.is_err());
}
