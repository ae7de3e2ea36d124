//! Servers that are spoken to by TLS, with certificate authorities of the test.

use std::fs;
use std::path::PathBuf;

use servers::{Authority, Flavor, Server};

use crate::harness::Site;

/// `SSL_CERT_FILE` names the authorities of the system.
#[test]
fn the_systems_authorities_are_trusted_unless_the_url_names_others() {
    let site = Site::new();
    let [ours, others] = ["right", "other"].map(Authority::new);
    let (right, other) = (&ours.pem, &others.pem);
    let both = site.path("both");
    fs::write(&both, [fs::read(other).unwrap(), fs::read(right).unwrap()].concat()).unwrap();
    let server = Server::setup(Flavor::Redis70).tls(ours.certify("127.0.0.1")).start();
    let show = |system: &PathBuf, named: Option<&PathBuf>| {
        let query = named.map(|file| format!("?ca={}", file.display())).unwrap_or_default();
        let store = format!("rediss://127.0.0.1:{}{query}", server.port());
        let mut show = site.leasehold(&["show", "-q", "--store", &store, "k"]);
        show.env("SSL_CERT_FILE", system);
        site.finish(show)
    };
    for (system, named) in [(right, None), (&both, None), (other, Some(right)), (other, Some(&both))] {
        show(system, named).silent(1);
    }
    for (system, named) in [(other, None), (right, Some(other))] {
        show(system, named).says(69, &["an authority that is not trusted here"]);
    }
}

/// The server knows only the uppermost.
#[test]
fn a_client_certificate_is_shown_with_the_authorities_in_its_file() {
    let site = Site::new();
    let top = Authority::new("top");
    let below = top.below("below");
    let files = top.certify("127.0.0.1").client_authority(&top.pem);
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    let client = below.certify("client");
    let show = || {
        let files = [&top.pem, &client.certificate, &client.key].map(|file| file.display());
        let query = format!("ca={}&cert={}&key={}", files[0], files[1], files[2]);
        let store = format!("rediss://127.0.0.1:{}?{query}", server.port());
        site.finish(site.leasehold(&["show", "-q", "--store", &store, "k"]))
    };
    show().says(69, &["the server does not trust the authority of our client certificate"]);
    let chain = [&client.certificate, &below.pem].map(|file| fs::read_to_string(file).unwrap()).concat();
    fs::write(&client.certificate, chain).unwrap();
    show().silent(1);
}
