//! Parses a URL into settings. No I/O, except that each connection reads a password file.

pub(crate) mod access;
pub(crate) mod parameters;
pub(crate) mod server;
pub(crate) mod text;

use std::time::Duration;

use leasehold_core::Misuse;
use leasehold_credentials::{Secret, Tls};
use url::Url;

use self::access::{Access, Protocol};
use self::parameters::{Confirmation, Parameters};
use self::server::{PORT, SENTINEL_PORT, ServerAddr};
use self::text::{ENCODE, db_number, decode, refuse};

/// The content of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The URL without the password and without the parameters that do not identify the server.
    pub(crate) name: String,
    pub(crate) site: Site,
    pub(crate) access: Access,
    pub(crate) call_limit: Duration,
    /// True if the server, as a member of a quorum, abstains after it may have forgotten leases.
    pub(crate) quarantine: bool,
    pub(crate) confirmation: Option<Confirmation>,
}

/// The servers in the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    One(ServerAddr),
    /// The master that these sentinels report.
    Sentinels {
        addrs: Vec<ServerAddr>,
        master: String,
        /// The login at the sentinels, which may differ from that at the server.
        user: Option<String>,
        password: Option<Secret>,
    },
    /// Some nodes of a cluster, which know the other nodes.
    Cluster(Vec<ServerAddr>),
}

/// The kind of servers that a scheme stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Socket,
    Sentinels,
    Cluster,
}

/// A server answers in a millisecond. Half a second is a stall that occurs in practice (a fork,
/// somebody else's slow command), and is still small compared with the default TTL of 30 s.
pub(crate) const CALL_LIMIT: Duration = Duration::from_millis(500);

impl Address {
    /// Parses a URL. An error never repeats any part of it but a scheme: in a wrong URL, nobody
    /// knows which part is the password.
    pub(crate) fn parse(text: &str) -> Result<Self, Misuse> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return refuse(format!("the store URL has no scheme: {SCHEMES}"));
        };
        let scheme = scheme.to_ascii_lowercase();
        let (kind, tls) = match &*scheme {
            // A server has one name, whichever of them it is called by.
            "redis" | "valkey" => (Kind::Host, false),
            "rediss" | "valkeys" => (Kind::Host, true),
            "redis+unix" | "valkey+unix" | "unix" => (Kind::Socket, false),
            "redis+sentinel" | "valkey+sentinel" => (Kind::Sentinels, false),
            "rediss+sentinel" | "valkeys+sentinel" => (Kind::Sentinels, true),
            "redis+cluster" | "valkey+cluster" => (Kind::Cluster, false),
            "rediss+cluster" | "valkeys+cluster" => (Kind::Cluster, true),
            name if name.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                return refuse(format!("the store URL has an unknown scheme, {name}: {SCHEMES}"));
            }
            _ => return refuse(format!("the store URL has an unknown scheme: {SCHEMES}")),
        };
        if tls && cfg!(not(feature = "tls")) {
            return refuse(format!(
                "this program was built without TLS, which {scheme}: needs: enable the feature tls of leasehold"
            ));
        }
        let unix = kind == Kind::Socket;
        // The URL standard allows one host, and no user without a host, as the URL of a socket has.
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let hostless = unix && hosts.is_empty() && !login.is_empty();
        let host = if hostless { "socket" } else { hosts.split(',').next().unwrap_or_default() };
        let url = match Url::parse(&format!("{scheme}://{login}{host}{tail}")) {
            Ok(url) => url,
            Err(error) => return refuse(format!("the store URL cannot be read ({error}): {ENCODE}")),
        };
        if url.fragment().is_some() {
            return refuse(format!("the store URL has a fragment (#), which means nothing here: {ENCODE}"));
        }
        let mut parameters = Parameters::read(url.query().unwrap_or_default())?;
        let site = match kind {
            Kind::Host => match ServerAddr::several(hosts, PORT)?.pop() {
                Some(addr) if !hosts.contains(',') => Site::One(addr),
                _ => {
                    return refuse(
                        "the store URL names several hosts, which only some schemes take: name one",
                    );
                }
            },
            Kind::Socket => Site::One(ServerAddr::socket_of(&url, hostless)?),
            Kind::Sentinels => Site::Sentinels {
                addrs: ServerAddr::several(hosts, SENTINEL_PORT)?,
                master: master_in_path(url.path())?,
                password: parameters.sentinel_secret()?,
                user: parameters.sentinel_user.take(),
            },
            Kind::Cluster => Site::Cluster(ServerAddr::several(hosts, PORT)?),
        };
        if parameters.is_for_sentinels() {
            return refuse(
                "a user or password for sentinels is only for redis+sentinel: and rediss+sentinel: URLs",
            );
        }
        let identity = parameters.identity()?;
        if (parameters.ca.is_some() || identity.is_some()) && !tls {
            return refuse(
                "the store URL names a certificate (ca, cert or key), which only rediss: has use for",
            );
        }
        if (parameters.user.is_some() || parameters.password.is_some()) && !unix {
            return refuse("user and password are parameters of redis+unix: only: put them before the host");
        }
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(decode).transpose()?;
        let password = url.password().map(decode).transpose()?;
        if user.is_some() && parameters.user.is_some() {
            return refuse("the store URL has the user or the password twice: leave one out");
        }
        let in_path = match kind {
            Kind::Host | Kind::Cluster => db_in_path(url.path())?,
            Kind::Socket | Kind::Sentinels => None,
        };
        let db = match (in_path, parameters.db) {
            (Some(one), Some(other)) if one != other => {
                return refuse("the store URL names two databases, in its path and as db: leave one out");
            }
            (in_path, parameter) => in_path.or(parameter).unwrap_or(0),
        };
        let access = Access {
            user: user.or(parameters.user.take()),
            password: parameters.secret(password)?,
            db,
            protocol: parameters.protocol.unwrap_or(Protocol::Either),
            tls: tls.then_some(Tls { authority: parameters.ca.take(), identity }),
            channels: parameters.channels.take().unwrap_or_default(),
        };
        let call_limit = parameters.call_limit.unwrap_or(CALL_LIMIT);
        let mut address = Self {
            name: String::new(),
            site,
            access,
            call_limit,
            confirmation: parameters.confirmation(call_limit)?,
            quarantine: parameters.quarantine.unwrap_or(true),
        };
        address.name = address.describe();
        Ok(address)
    }

    fn describe(&self) -> String {
        let Access { user, db, tls, .. } = &self.access;
        let user = user.as_ref().map(|user| format!("{}@", user.escape_debug())).unwrap_or_default();
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        let (addr, before_db) = match &self.site {
            Site::One(addr @ ServerAddr::Tcp { .. }) => {
                (format!("{scheme}://{user}{}", addr.written(PORT)), "/")
            }
            Site::Cluster(addrs) => {
                let addrs: Vec<_> = addrs.iter().map(|addr| addr.written(PORT)).collect();
                (format!("{scheme}+cluster://{user}{}", addrs.join(",")), "/")
            }
            Site::One(addr @ ServerAddr::Unix { .. }) => {
                (format!("{scheme}+unix://{user}{}", addr.written(PORT)), "?db=")
            }
            Site::Sentinels { addrs, master, .. } => {
                let addrs: Vec<_> = addrs.iter().map(|addr| addr.written(SENTINEL_PORT)).collect();
                let master = master.escape_debug();
                (format!("{scheme}+sentinel://{user}{}/{master}", addrs.join(",")), "?db=")
            }
        };
        if *db == 0 { addr } else { format!("{addr}{before_db}{db}") }
    }
}

const SCHEMES: &str = "use redis://, rediss://, valkey://, valkeys://, redis+unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or \
    rediss+cluster://";
fn master_in_path(path: &str) -> Result<String, Misuse> {
    let master = decode(path.strip_prefix('/').unwrap_or(path))?;
    if master.is_empty() {
        return refuse("the store URL names no master: redis+sentinel://HOST,HOST/MASTER-NAME");
    }
    if master.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return refuse(format!(
            "the store URL has a master's name that cannot be one (a database is named by ?db=N): {ENCODE}"
        ));
    }
    Ok(master)
}

fn db_in_path(path: &str) -> Result<Option<u32>, Misuse> {
    match path.trim_start_matches('/') {
        "" => Ok(None),
        number => db_number(number).map(Some),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "tls")]
    use leasehold_credentials::Identity;
    use leasehold_credentials::Password;

    use super::*;

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_says_which_feature_it_lacks() {
        for scheme in ["rediss", "valkeys", "rediss+sentinel", "rediss+cluster"] {
            let refused = Address::parse(&format!("{scheme}://h")).unwrap_err().to_string();
            assert!(refused.contains("enable the feature tls of leasehold"), "{refused}");
        }
        assert!(Address::parse("redis://h").is_ok());
    }

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn tcp(host: &str, port: u16) -> Site {
        Site::One(ServerAddr::Tcp { host: host.into(), port })
    }

    #[test]
    fn a_host_is_enough() {
        let address = parse("redis://localhost");
        assert_eq!(
            (&address.site, address.access.db, address.access.protocol),
            (&tcp("localhost", 6379), 0, Protocol::Either)
        );
        assert_eq!((&address.access.user, &address.access.password), (&None, &None));
        assert_eq!((&*address.name, address.call_limit), ("redis://localhost", CALL_LIMIT));
        assert_eq!(parse("REDIS://localhost/").name, "redis://localhost");
    }

    #[test]
    fn the_schemes_of_valkeys_clients_and_of_sockets_name_the_same_stores() {
        for (theirs, ours) in [
            ("valkey://u:secret@h:7000/3", "redis://u@h:7000/3"),
            ("unix:///run/v.sock?db=2", "redis+unix:///run/v.sock?db=2"),
            ("valkey+unix:///run/v.sock", "redis+unix:///run/v.sock"),
            ("valkey+sentinel://a,b/locks", "redis+sentinel://a,b/locks"),
            ("valkey+cluster://a,b", "redis+cluster://a,b"),
        ] {
            assert_eq!(parse(theirs).name, ours);
        }
        #[cfg(feature = "tls")]
        for (theirs, ours) in [
            ("valkeys://h?ca=/etc/ca.pem", "rediss://h"),
            ("valkeys+sentinel://a/locks", "rediss+sentinel://a/locks"),
            ("valkeys+cluster://a", "rediss+cluster://a"),
        ] {
            assert_eq!(parse(theirs).name, ours);
        }
    }

    #[test]
    fn everything_can_be_said_and_the_name_leaves_out_the_password() {
        let address = parse("redis://web:s%2F%40c%20ret@example.org:7000/3?protocol=resp2&call-limit=250ms");
        assert_eq!(address.site, tcp("example.org", 7000));
        assert_eq!(address.access.user.as_deref(), Some("web"));
        assert_eq!(address.access.password, Some(Secret::Text(Password("s/@c ret".into()))));
        assert_eq!((address.access.db, address.access.protocol), (3, Protocol::Resp2));
        assert_eq!(address.call_limit, Duration::from_millis(250));
        assert!(address.quarantine && !parse("redis://h?quarantine=no").quarantine);
        assert_eq!(address.name, "redis://web@example.org:7000/3");
        assert_eq!(parse("redis://:secret@h").name, "redis://h");
    }

    #[test]
    fn a_host_may_be_an_address_of_version_six() {
        let address = parse("redis://[::1]:7000");
        assert_eq!((&address.site, &*address.name), (&tcp("::1", 7000), "redis://[::1]:7000"));
        assert_eq!(parse("redis://[2001:db8::7]").name, "redis://[2001:db8::7]");
    }

    /// Regression: the path of a socket was printed unescaped, and could begin a line of a log.
    #[test]
    fn a_name_is_one_line_whatever_the_path_of_the_socket() {
        assert_eq!(parse("redis+unix:///run/a%0Ab%1B[2J.sock").name, r"redis+unix:///run/a\nb\u{1b}[2J.sock");
        assert_eq!(parse("redis+unix:///run/l%C3%B6ck's").name, "redis+unix:///run/löck's");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn only_tls_has_an_authority() {
        let tls = Some(Tls { authority: Some("/etc/lock ca+1.pem".into()), identity: None });
        let address = parse("rediss://h:6380?ca=/etc/lock%20ca+1.pem");
        assert_eq!((&address.access.tls, &*address.name), (&tls, "rediss://h:6380"));
        assert!(Address::parse("redis://h?ca=/etc/ca.pem").is_err());
    }

    #[test]
    #[cfg(feature = "tls")]
    fn sentinels_have_a_master_and_a_login_of_their_own() {
        let address = parse(
            "rediss+sentinel://web:secret@a,[::1]:7/lo%2Dcks?db=2&sentinel-user=look&sentinel-password-file=/run/p&cert=/c&key=/k",
        );
        assert_eq!(address.name, "rediss+sentinel://web@a,[::1]:7/lo-cks?db=2");
        let addr = |host: &str, port| ServerAddr::Tcp { host: host.into(), port };
        let (user, password) = (Some("look".into()), Some(Secret::File("/run/p".into())));
        let addrs = vec![addr("a", 26379), addr("::1", 7)];
        assert_eq!(address.site, Site::Sentinels { addrs, master: "lo-cks".into(), user, password });
        let identity = Some(Identity { certificate: "/c".into(), key: "/k".into() });
        assert_eq!(address.access.tls, Some(Tls { authority: None, identity }));
        assert_eq!((address.access.db, address.confirmation), (2, None));
    }

    #[test]
    fn replicas_have_less_time_than_calls() {
        let confirmation = |query: &str| parse(&format!("redis://h?{query}")).confirmation;
        let of = |replicas, on_disk, ms| {
            Some(Confirmation { replicas, on_disk, limit: Duration::from_millis(ms) })
        };
        assert_eq!(confirmation("replicas=2"), of(2, false, 250));
        assert_eq!(confirmation("fsync=yes&call-limit=100ms"), of(0, true, 50));
        assert_eq!(confirmation("replicas=1&fsync=yes&replicas-limit=400ms"), of(1, true, 400));
        assert_eq!(confirmation("replicas=0&fsync=no"), None);
    }

    #[test]
    fn a_socket_has_its_user_before_its_path_or_behind_it() {
        for url in [
            "redis+unix://web:secret@/run/redis%20a.sock?db=2",
            "redis+unix:///run/redis%20a.sock?user=web&password=secret&db=2",
        ] {
            let address = parse(url);
            assert_eq!(address.site, Site::One(ServerAddr::Unix { path: "/run/redis a.sock".into() }));
            assert_eq!(address.access.user.as_deref(), Some("web"));
            assert_eq!(address.access.password, Some(Secret::Text(Password("secret".into()))));
            assert_eq!(address.name, "redis+unix://web@/run/redis a.sock?db=2");
        }
        assert_eq!(parse("redis+unix:///s").name, "redis+unix:///s");
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong_and_never_the_password() {
        let wrong = [
            "",
            "localhost",
            "s3cret@localhost",
            "http://u:s3cret@h",
            "redis:u:s3cret@h",
            "redis:u:s3cret@h?x=://y",
            "redis://",
            "redis://:s3cret@",
            "redis:///0",
            "redis://u:s3c ret@:notaport",
            "redis://user:pa s3cret@:notaport",
            "redis://u:s3cret@h:notaport",
            "redis://u:s3cret@h:0",
            "redis://u:s3cret@h:70000",
            "redis://u:s3cret@h,g",
            "redis://u:s3cret@h,",
            "redis://u:s3cret@h/x",
            "redis://u:s3cret@h/-1",
            "redis://u:s3cret@h/+1",
            "redis://u:s3cret@h/1/2",
            "redis://u:s3cret@h/99999999999",
            "redis://u:s3cret@h/1?db=2",
            "redis://u:s3cret@h#top",
            "redis://u:12#s3cret@h",
            "redis://u:12/s3cret@h",
            "redis://u:12?s3cret@h",
            "redis://u:12?s3cret=1@h",
            "redis://h?password=s3cret",
            "redis://u:s3cret@h?protocol=resp4",
            "redis://u:s3cret@h?protocol=resp2&protocol=resp3",
            "redis://u:s3cret@h?call-limit=5",
            "redis://u:s3cret@h?call-limit=0ms",
            "redis://u:s3cret@h?call-limit=+5s",
            "redis://u:s3cret@h?quarantine=never",
            "redis://u:s3cret@h?quarantine=no&quarantine=no",
            "redis://u:s3cret%ff@h",
            "redis+unix://u:s3cret@",
            "redis+unix://u:s3cret@h/path",
            "redis+unix://u:s3cret@/path?password=s3cret",
            "redis+unix:///s?user=upassword=s3cret",
            "redis+unix://",
            "redis+unix:///",
            "rediss://u:s3cret@h?ca=",
            "rediss://u:s3cret@h?cert=/c",
            "rediss://u:s3cret@h?key=/k",
            "redis://u:s3cret@h?cert=/c&key=/k",
            "redis://u:s3cret@h?password-file=/p",
            "redis://u@h?password-file=",
            "redis+unix:///s?password=s3cret&password-file=/p",
            "redis://u:s3cret@h?sentinel-user=s3cret",
            "redis://u:s3cret@h?replicas=-1",
            "redis://u:s3cret@h?replicas=101",
            "redis://u:s3cret@h?replicas-limit=1s",
            "redis://u:s3cret@h?replicas=1&replicas-limit=500ms",
            "redis://u:s3cret@h?fsync=maybe",
            "redis://u:s3cret@h?channels=",
            "redis://u:s3cret@h?channels=a*",
            "redis+sentinel://u:s3cret@h",
            "redis+sentinel://u:s3cret@h/",
            "redis+sentinel://u:s3cret@h/locks/2",
            "redis+sentinel://u:s3cret@h,h:26379/locks",
            "redis+sentinel://u:s3cret@h,/locks",
            "redis+sentinel://u:s3cret@/locks",
            "redis+sentinel://u:s3cret@h,g:s3cret/locks",
            "redis+sentinel://h/locks?sentinel-password=s3cret&sentinel-password-file=/p",
            "redis+cluster:u:s3cret@h",
            "redis+unix+cluster://u:s3cret@h",
            "redis+cluster://u:s3cret@,a",
            "redis+cluster://a,u:s3cret@b@c,d e",
            "redis+cluster://u:12/s3cret@a,b",
            "redis+cluster://u:s3cret@a,b?quarantine=s3c",
            "redis+cluster://u:s3cret@a,b?password=x",
        ];
        for url in wrong {
            let error = Address::parse(url).expect_err(url);
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("s3c"), "{url}: {text}");
                assert!(text.contains(':') && !text.contains('\n') && !text.ends_with('.'), "{url}: {text}");
            }
        }
    }
}
