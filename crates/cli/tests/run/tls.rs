//! Servers that are spoken to by TLS, with certificate authorities of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use servers::{Flavor, Server, TlsFiles};

use crate::harness::Site;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// An authority, and the file with its certificate.
fn authority(site: &Site, name: &str) -> (Authority, PathBuf) {
    let issuer = CertifiedIssuer::self_signed(of_authority(name), KeyPair::generate().unwrap()).unwrap();
    let file = site.path(name);
    fs::write(&file, issuer.pem()).unwrap();
    (issuer, file)
}

fn certificate_of(site: &Site, issuer: &Authority, whose: &str) -> TlsFiles {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles::new(site.path(&format!("{whose}.pem")), site.path(&format!("{whose}.key")));
    fs::write(&files.certificate, params.signed_by(&key, issuer).unwrap().pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    files
}

/// `SSL_CERT_FILE` names the authorities of the system.
#[test]
fn the_systems_authorities_are_trusted_unless_the_url_names_others() {
    let site = Site::new();
    let (issuer, right) = authority(&site, "right");
    let (_, other) = authority(&site, "other");
    let both = site.path("both");
    fs::write(&both, [fs::read(&other).unwrap(), fs::read(&right).unwrap()].concat()).unwrap();
    let server = Server::setup(Flavor::Redis70).tls(certificate_of(&site, &issuer, "server")).start();
    let show = |system: &PathBuf, named: Option<&PathBuf>| {
        let query = named.map(|file| format!("?ca={}", file.display())).unwrap_or_default();
        let store = format!("rediss://127.0.0.1:{}{query}", server.port());
        let mut show = site.leasehold(&["show", "-q", "--store", &store, "k"]);
        show.env("SSL_CERT_FILE", system);
        site.finish(show)
    };
    for (system, named) in [(&right, None), (&both, None), (&other, Some(&right)), (&other, Some(&both))] {
        show(system, named).silent(1);
    }
    for (system, named) in [(&other, None), (&right, Some(&other))] {
        show(system, named).says(69, &["an authority that is not trusted here"]);
    }
}

/// The server knows only the uppermost.
#[test]
fn a_client_certificate_is_shown_with_the_authorities_in_its_file() {
    let site = Site::new();
    let (issuer, top) = authority(&site, "top");
    let below =
        CertifiedIssuer::signed_by(of_authority("below"), KeyPair::generate().unwrap(), &issuer).unwrap();
    let files = certificate_of(&site, &issuer, "server").client_authority(&top);
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    let client = certificate_of(&site, &below, "client");
    let show = || {
        let files = [&top, &client.certificate, &client.key].map(|file| file.display());
        let query = format!("ca={}&cert={}&key={}", files[0], files[1], files[2]);
        let store = format!("rediss://127.0.0.1:{}?{query}", server.port());
        site.finish(site.leasehold(&["show", "-q", "--store", &store, "k"]))
    };
    show().says(69, &["the server does not trust the authority of our client certificate"]);
    let chain = [fs::read_to_string(&client.certificate).unwrap(), below.pem()].concat();
    fs::write(&client.certificate, chain).unwrap();
    show().silent(1);
}
