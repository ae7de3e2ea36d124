//! Logging in: passwords in the URL and in a file, Unix sockets, TLS, and client certificates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use leasehold::Locks;
use servers::{Authority, Postgres, TlsFiles};
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio_postgres::Client;

use crate::world::{db, served, server, take, terminate, until, until_found};

/// Others than the tests' own user must show this.
const TRUST: &str = "local all all trust\nhost all postgres 127.0.0.1/32 trust\n";

/// Writes a file of the server, as the server's user.
async fn put(db: &Client, name: &str, text: &str) {
    let lines = format!("SELECT unnest(string_to_array($text${}$text$, E'\\n'))", text.trim_end());
    db.batch_execute(&format!("COPY ({lines}) TO PROGRAM 'umask 077; cat > {name}'")).await.unwrap();
}

/// The role `web` may use the locks, and must log in in this way.
async fn admits(db: &Client, web: &str) {
    put(db, "pg_hba.conf", &format!("{TRUST}{web}\n")).await;
    db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let rules = "SELECT FROM pg_hba_file_rules WHERE auth_method <> 'trust' AND error IS NULL";
    until_found("the new rules", db, rules).await;
}

/// The role `web` with a password.
async fn role(db: &Client, server: &Postgres) {
    crate::world::role(db, server, &[]).await;
    db.batch_execute("ALTER ROLE web PASSWORD 's3cret'").await.unwrap();
}

async fn connect(url: &str) -> Result<Locks, String> {
    let outage_limit = Duration::from_secs(2);
    Locks::builder().outage_limit(outage_limit).connect(url).await.map_err(|error| error.to_string())
}

async fn works(url: &str) -> Locks {
    let locks = connect(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    take(&locks, "k").await.release().await.unwrap();
    locks
}

async fn is_refused(url: &str, because: &[&str]) {
    let error = connect(url).await.expect_err(url);
    assert!(because.iter().all(|word| error.contains(word)), "{url}: {error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_may_be_in_the_url_or_in_a_file_that_is_read_again_for_each_connection() {
    let (server, db) = served().await;
    role(&db, &server).await;
    admits(&db, "host all web 127.0.0.1/32 scram-sha-256").await;
    let web = |login: &str| server.url().replace("postgres@", login);
    until("a password is demanded", async || connect(&web("web@")).await.is_err()).await;
    is_refused(&web("web@"), &["password"]).await;
    is_refused(&web("web:s3cret2@"), &["password authentication failed"]).await;
    works(&web("web:s3cret@")).await;
    works(&format!("{}?password=s3cret", web("web@"))).await;

    let directory = TempDir::new().unwrap();
    let file = directory.path().join("password");
    let url = format!("{}?password-file={}", web("web@"), file.display());
    is_refused(&url, &["password-file=", "No such file"]).await;
    fs::write(&file, "s3cret\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    is_refused(&url, &["others can read", "chmod 600"]).await;
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let locks = works(&url).await;

    db.batch_execute("ALTER ROLE web PASSWORD 's3cret3'").await.unwrap();
    fs::write(&file, "s3cret3\n").unwrap();
    terminate(&db, "usename = 'web'").await;
    take(&locks, "k").await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_named_by_its_directory() {
    let server = server(&[]).await;
    let directory = server.directory().to_str().unwrap();
    let socket = directory.replace('/', "%2F");
    works(&format!("postgres://postgres@{socket}:{}/postgres", server.port())).await;
    works(&format!("postgres:///postgres?host={directory}&port={}&user=postgres", server.port())).await;
    let nowhere = format!("postgres://postgres@{socket}:{}/postgres", server.port() - 1);
    is_refused(&nowhere, &["cannot reach the server"]).await;
}

async fn put_certificate(db: &Client, files: &TlsFiles) {
    put(db, "server.crt", &fs::read_to_string(&files.certificate).unwrap()).await;
    put(db, "server.key", &fs::read_to_string(&files.key).unwrap()).await;
}

/// A server of the oldest version that is built with TLS, which not every build is.
async fn encrypted(authority: &Authority) -> (Postgres, Client) {
    for programs in Postgres::all_programs().into_values() {
        let server = block_in_place(|| Postgres::of(&programs, &[]));
        let db = db(&server).await;
        put_certificate(&db, &authority.certify("127.0.0.1")).await;
        put(&db, "root.crt", &fs::read_to_string(&authority.pem).unwrap()).await;
        if db.batch_execute("ALTER SYSTEM SET ssl = on").await.is_ok() {
            db.batch_execute("ALTER SYSTEM SET ssl_ca_file = 'root.crt'").await.unwrap();
            leasehold::postgres::init(&server.url()).await.unwrap();
            role(&db, &server).await;
            admits(&db, "hostssl all web 127.0.0.1/32 scram-sha-256").await;
            return (server, db);
        }
    }
    panic!("no PostgreSQL with TLS is there: install your system's");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_trusts_the_right_authority_for_the_right_host_and_nobody_else() {
    let [right, other] = ["right", "other"].map(Authority::new);
    let (server, db) = encrypted(&right).await;
    let web = server.url().replace("postgres@", "web:s3cret@");
    let trusting =
        |authority: &Authority| format!("{web}?sslmode=verify-full&sslrootcert={}", authority.pem.display());
    let _locks = works(&trusting(&right)).await;
    let ssl = "SELECT FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'web' AND ssl";
    assert!(!db.query(ssl, &[]).await.unwrap().is_empty(), "the connection is not encrypted");

    is_refused(&trusting(&other), &["authority that is not trusted", "sslrootcert"]).await;
    is_refused(&trusting(&right).replace("127.0.0.1", "localhost"), &["certificate is refused"]).await;
    is_refused(&format!("{web}?sslmode=verify-full"), &["authority"]).await;
    is_refused(&web, &["no encryption"]).await;

    put_certificate(&db, &right.certify_expired("127.0.0.1")).await;
    db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until("the new certificate", async || connect(&trusting(&right)).await.is_err()).await;
    is_refused(&trusting(&right), &["certificate", "expired"]).await;
}

/// Regression: it counted as a connection that broke, so a command without `--wait` waited for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_at_once_and_the_error_says_what_to_do() {
    let authority = Authority::new("right");
    let server = server(&[]).await;
    let verified = format!("verify-full&sslrootcert={}", authority.pem.display());
    for mode in ["require", &verified] {
        let url = format!("{}?sslmode={mode}", server.url());
        let Err(error) = Locks::connect(&url).await else { panic!("connected") };
        let said = error.to_string();
        assert!(said.contains("turn on ssl") && !said.contains("no answer"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_demands_a_certificate_is_shown_one() {
    let [right, other] = ["right", "other"].map(Authority::new);
    let (server, db) = encrypted(&right).await;
    admits(&db, "hostssl all web 127.0.0.1/32 cert").await;
    let plain = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), right.pem.display());
    let plain = plain.replace("postgres@", "web@");
    let shows = |authority: &Authority, name: &str| {
        let TlsFiles { certificate, key, .. } = authority.certify(name);
        format!("{plain}&sslcert={}&sslkey={}", certificate.display(), key.display())
    };
    until("a certificate is demanded", async || connect(&shows(&right, "web")).await.is_ok()).await;
    works(&shows(&right, "web")).await;
    is_refused(&plain, &["certificate"]).await;
    is_refused(&shows(&right, "somebody"), &["certificate authentication failed"]).await;
    is_refused(&shows(&other, "web"), &["does not trust the authority of our client certificate (sslcert)"])
        .await;
}
