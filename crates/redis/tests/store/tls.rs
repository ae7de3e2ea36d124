//! TLS, with certificate authorities of the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold_core::Store;
use servers::{Authority, Flavor, Server, TlsFiles, Watched};

use crate::world::{attempt, grant, granted, lasting, passing, store};

fn url(server: &Server, host: &str, authority: &Authority) -> String {
    format!("rediss://{host}:{}?ca={}", server.port(), authority.pem.display())
}

#[tokio::test]
async fn the_right_authority_is_trusted_and_another_is_not() {
    let authority = Authority::new("right");
    let other = Authority::new("other");
    let files = authority.certify("127.0.0.1");
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
    let nowhere = format!("{}?ca={}", server.url(), authority.pem.with_file_name("none.pem").display());
    lasting(store(&nowhere).open().await, &["none.pem"]);
    let empty = authority.pem.with_file_name("empty.pem");
    fs::write(&empty, "").unwrap();
    lasting(store(&format!("{}?ca={}", server.url(), empty.display())).open().await, &["no certificate"]);
    // Regression: without TLS the server only closes the connection, which may have any cause, and the
    // error did not say that this may be it.
    let plain = server.url().replace("rediss", "redis");
    for query in ["", "?protocol=resp2"] {
        passing(store(&format!("{plain}{query}")).open().await, &["broke", "if it expects TLS", "rediss"]);
    }
    let sentinel = plain.replace("redis:", "redis+sentinel:") + "/locks";
    passing(store(&sentinel).open().await, &["connection", "if it expects TLS", "rediss"]);
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_name() {
    let authority = Authority::new("right");
    let files = authority.certify_expired("127.0.0.1");
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    lasting(store(&url(&server, "127.0.0.1", &authority)).open().await, &["certificate", "expired"]);
}

/// Regression: the reason was `Other(OtherError(CaUsedAsEndEntity))`, and there was no remedy.
#[tokio::test]
async fn a_certificate_that_is_an_authoritys_is_refused_with_the_remedy() {
    let authority = Authority::new("right");
    let files = authority.certify_as_authority("127.0.0.1");
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    let refused = store(&url(&server, "127.0.0.1", &authority)).open().await;
    lasting(refused, &["certificate is refused", "of an authority", "CA:FALSE"]);
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_plainly() {
    let authority = Authority::new("right");
    let server = Server::start(Flavor::Valkey91);
    let refused = store(&url(&server, "127.0.0.1", &authority)).open().await.unwrap_err();
    assert!(refused.to_string().contains("a server without TLS never answers"), "{refused}");
    // Regression: of a sentinel, only that it does not answer was said.
    let sentinel =
        format!("rediss+sentinel://127.0.0.1:{}/locks?ca={}", server.port(), authority.pem.display());
    passing(store(&sentinel).open().await, &["no answer within 900ms", "rediss+sentinel:"]);
}

/// The client's own certificate and key, in a URL.
fn showing(files: &TlsFiles) -> String {
    format!("&cert={}&key={}", files.certificate.display(), files.key.display())
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let authority = Authority::new("right");
    let other = Authority::new("other");
    let files = authority.certify("127.0.0.1").client_authority(&authority.pem);
    let server = Server::setup(Flavor::Redis70).tls(files).start();
    let client = authority.certify("web-3");
    let url = url(&server, "127.0.0.1", &authority);

    for protocol in ["resp2", "resp3"] {
        let query = format!("&protocol={protocol}");
        let known = store(&format!("{url}{}{query}", showing(&client)));
        known.open().await.unwrap();
        let ours = attempt(&["k"]);
        granted(grant(&known, &ours).await);
        known.give_up(&ours).await.unwrap();

        let nobody = store(&format!("{url}{query}")).open().await;
        lasting(nobody, &["client certificate", "cert=FILE"]);
        let stranger = other.certify("web-3");
        let stranger = store(&format!("{url}{}{query}", showing(&stranger))).open().await;
        lasting(stranger, &["client certificate", "authority"]);
        let expired = authority.certify_expired("expired");
        let expired = store(&format!("{url}{}{query}", showing(&expired))).open().await;
        lasting(expired, &["client certificate", "expired"]);
    }
}

/// What `openssl x509 -req` makes without `-extfile`.
const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHDCBwwIUb0Z0maVf9Xdc3PHLEvEK/KeJ3+4wCgYIKoZIzj0EAwIwETEPMA0G
A1UEAwwGdGVzdGNhMB4XDTI2MTAwMTAzMTIzOFoXDTI2MTAxMTAzMTIzOFowETEP
MA0GA1UEAwwGY2xpZW50MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEvMnqY7SU
GomHhMd9gOQ42IEawbbkBPY7HtpeUpE/1Ai2A3t90jkENUfL4k+ep8h2W7WV1NI4
3bGKGrG9BDkMKzAKBggqhkjOPQQDAgNIADBFAiEAqCVwWyL1PtVHr9GTiGHEE7SK
N9mXn2sLOMUmCAiv5EECIATUQWBTsU2tFAOiPB6mPBSoa0b/bKvD3tBIj5IqKwMJ
-----END CERTIFICATE-----
";

#[tokio::test]
async fn a_client_certificate_that_cannot_be_used_is_named_before_anything_is_sent() {
    let authority = Authority::new("right");
    let one = authority.certify("one");
    let other = authority.certify("other");
    let url = format!("rediss://127.0.0.1:1?ca={}", authority.pem.display());
    let with = |certificate: &Path, key: &Path| {
        store(&format!("{url}&cert={}&key={}", certificate.display(), key.display()))
    };
    lasting(with(&authority.pem.with_file_name("none"), &one.key).open().await, &["cert=", "none"]);
    lasting(with(&one.key, &one.key).open().await, &["cert=", "no certificate"]);
    lasting(with(&one.certificate, &one.certificate).open().await, &["key=", "others can read", "chmod 600"]);
    fs::set_permissions(&one.certificate, fs::Permissions::from_mode(0o600)).unwrap();
    lasting(with(&one.certificate, &one.certificate).open().await, &["key=", "no private key"]);
    lasting(with(&one.certificate, &other.key).open().await, &["key=", "does not belong"]);
    // Regression: the key was blamed.
    let old = authority.pem.with_file_name("old");
    fs::write(&old, OF_VERSION_1).unwrap();
    lasting(with(&old, &one.key).open().await, &["cert=", "version 1", "-extfile"]);
    fs::set_permissions(&one.key, fs::Permissions::from_mode(0o644)).unwrap();
    lasting(with(&one.certificate, &one.key).open().await, &["key=", "others can read", "chmod 600"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_servers_are_both_spoken_to_by_tls_alone() {
    let authority = Authority::new("right");
    let files = authority.certify("127.0.0.1").client_authority(&authority.pem);
    let client = authority.certify("web-3");
    let setup = || Server::setup(Flavor::Redis70).tls(files.clone());
    let watched = Watched::with(setup(), setup());
    let ca = |pem: &Path| format!("{}?ca={}", watched.url(), pem.display());
    let ours = store(&format!("{}{}", ca(&authority.pem), showing(&client)));
    let holder = attempt(&["k"]);
    granted(grant(&ours, &holder).await);
    ours.release(&holder).await.unwrap();

    let other = Authority::new("other");
    let untrusted = store(&format!("{}{}", ca(&other.pem), showing(&client))).open().await;
    lasting(untrusted, &[&watched.sentinels[0].port().to_string(), "authority", "not trusted"]);
    let nobody = store(&ca(&authority.pem)).open().await;
    lasting(nobody, &["sentinel 127.0.0.1", "client certificate", "cert=FILE"]);
}
