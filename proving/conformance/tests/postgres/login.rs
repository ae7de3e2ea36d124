//! Logging in: passwords in the URL and in a file, Unix sockets, TLS, and client certificates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::Locks;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use servers::Postgres;
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

/// Regression: it counted as a connection that broke, so a command without `--wait` waited for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_at_once_and_the_error_says_what_to_do() {
    let server = server(&[]).await;
    let url = format!("{}?sslmode=require", server.url());
    let Err(error) = Locks::connect(&url).await else { panic!("connected") };
    let said = error.to_string();
    assert!(said.contains("turn on ssl") && !said.contains("no answer"), "{said}");
}

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

    /// A certificate for a host or a user, and its key.
    fn certify(&self, name: &str, expired: bool) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if expired {
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        [params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem()]
    }
}

/// A server of the oldest version that is built with TLS, which not every build is.
async fn encrypted(authority: &Authority, [certificate, key]: &[String; 2]) -> (Postgres, Client) {
    for programs in Postgres::all_programs().into_values() {
        let server = block_in_place(|| Postgres::of(&programs, &[]));
        let db = db(&server).await;
        put(&db, "server.crt", certificate).await;
        put(&db, "server.key", key).await;
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
    let directory = TempDir::new().unwrap();
    let [right, other] = ["right", "other"].map(|name| Authority::new(directory.path(), name));
    let (server, db) = encrypted(&right, &right.certify("127.0.0.1", false)).await;
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

    let [certificate, key] = right.certify("127.0.0.1", true);
    put(&db, "server.crt", &certificate).await;
    put(&db, "server.key", &key).await;
    db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until("the new certificate", async || connect(&trusting(&right)).await.is_err()).await;
    is_refused(&trusting(&right), &["certificate", "expired"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_not_spoken_to_plainly() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let server = server(&[]).await;
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.pem.display());
    is_refused(&url, &["TLS"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_demands_a_certificate_is_shown_one() {
    let directory = TempDir::new().unwrap();
    let [right, other] = ["right", "other"].map(|name| Authority::new(directory.path(), name));
    let (server, db) = encrypted(&right, &right.certify("127.0.0.1", false)).await;
    admits(&db, "hostssl all web 127.0.0.1/32 cert").await;
    let plain = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), right.pem.display());
    let plain = plain.replace("postgres@", "web@");
    let shows = |authority: &Authority, name: &str| {
        let [certificate, key] = authority.certify(name, false);
        let file = |ending: &str| directory.path().join(format!("{name}.{ending}"));
        fs::write(file("crt"), certificate).unwrap();
        fs::write(file("key"), key).unwrap();
        fs::set_permissions(file("key"), Permissions::from_mode(0o600)).unwrap();
        format!("{plain}&sslcert={}&sslkey={}", file("crt").display(), file("key").display())
    };
    until("a certificate is demanded", async || connect(&shows(&right, "web")).await.is_ok()).await;
    works(&shows(&right, "web")).await;
    is_refused(&plain, &["certificate"]).await;
    is_refused(&shows(&right, "somebody"), &["certificate authentication failed"]).await;
    is_refused(&shows(&other, "web"), &["does not trust the authority of our client certificate (sslcert)"])
        .await;
}
