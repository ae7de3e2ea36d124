//! Parses a URL into settings.

mod parameters;

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::Misuse;
use leasehold_credentials::{Password, Secret, Tls};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use self::parameters::Given;

/// The content of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The URL without the password and without the parameters that do not identify the server. It
    /// is a URL again.
    pub(crate) name: String,
    pub(crate) server_addrs: Vec<ServerAddr>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: Option<String>,
    pub(crate) schema: String,
    pub(crate) tls: Option<Tls>,
    /// True if the server must accept writes.
    pub(crate) read_write: bool,
    pub(crate) call_limit: Duration,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerAddr {
    Tcp {
        host: String,
        port: u16,
    },
    /// The directory of its sockets.
    Unix {
        directory: PathBuf,
        port: u16,
    },
}

/// As for the other servers: a stall that occurs in practice, and still small compared with the
/// default TTL of 30 s.
const CALL_LIMIT: Duration = Duration::from_millis(500);

/// The default port of a server.
const PORT: u16 = 5432;

/// The default schema of the tables.
pub(crate) const SCHEMA: &str = "leasehold";

const ENCODE: &str =
    "write characters like / ? # @ and spaces in a user, password or database as %2F %3F %23 %40 and %20";

impl Address {
    /// Parses a URL. An error never repeats any part of it but names of parameters: in a wrong URL,
    /// nobody knows which part is the password.
    pub(crate) fn parse(text: &str) -> Result<Self, Misuse> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let Some(rest) = rest else {
            return refuse("the store URL begins with no known scheme: use postgres://");
        };
        if rest.contains('#') {
            return refuse(format!("the store URL has a fragment (#), which means nothing here: {ENCODE}"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return refuse(format!("the store URL has an @ behind a slash: {ENCODE}"));
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let mut given = Given::read(query)?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (nonempty(decode(user)?), nonempty(decode(password)?)),
            None => (None, None),
        };
        if user.is_some() && given.user.is_some() || password.is_some() && given.password.is_some() {
            return refuse("the store URL has the user or the password twice: leave one out");
        }
        let (user, password) = (user.or(given.user.take()), password.or(given.password.take()));
        let password = match (password, given.password_file.take()) {
            (Some(_), Some(_)) => {
                return refuse("the store URL has a password and a password-file: leave one out");
            }
            (Some(password), None) => Some(Secret::Text(Password(password))),
            (None, file) => file.map(Secret::File),
        };
        let server_addrs = server_addrs(hosts, given.host.take(), given.port)?;
        let several = server_addrs.len() > 1;
        let database = nonempty(decode(path)?);
        if database.as_ref().is_some_and(|name| name.contains('/')) {
            return refuse("the store URL has a path of several parts: write postgres://HOST/DATABASE");
        }
        let mut address = Self {
            name: String::new(),
            server_addrs,
            user,
            password,
            database,
            schema: given.schema.take().unwrap_or_else(|| SCHEMA.into()),
            tls: given.tls()?,
            read_write: given.read_write.unwrap_or(several),
            call_limit: given.call_limit.unwrap_or(CALL_LIMIT),
        };
        let is_local = |server_addr: &ServerAddr| matches!(server_addr, ServerAddr::Unix { .. });
        if address.tls.is_some() && address.server_addrs.iter().any(is_local) {
            return refuse(
                "the store URL asks for TLS over a Unix socket, which has none: leave sslmode out",
            );
        }
        address.name = address.describe();
        Ok(address)
    }

    fn describe(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{}@", encode(user))).unwrap_or_default();
        let server_addrs: Vec<_> = self.server_addrs.iter().map(ServerAddr::written).collect();
        let database = self.database.as_ref().map(|name| format!("/{}", encode(name))).unwrap_or_default();
        let schema = Some(&self.schema).filter(|schema| *schema != SCHEMA);
        let schema = schema.map(|schema| format!("?schema={schema}")).unwrap_or_default();
        format!("postgres://{user}{}{database}{schema}", server_addrs.join(","))
    }
}

impl ServerAddr {
    /// The host as in a URL.
    pub(crate) fn written(&self) -> String {
        match self {
            Self::Tcp { host, port } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == PORT { host } else { format!("{host}:{port}") }
            }
            Self::Unix { directory, port } => {
                let directory = encode(&directory.to_string_lossy());
                if *port == PORT { directory } else { format!("{directory}:{port}") }
            }
        }
    }
}

fn server_addrs(
    hosts: &str,
    host: Option<String>,
    default_port: Option<u16>,
) -> Result<Vec<ServerAddr>, Misuse> {
    if let Some(host) = host {
        if !hosts.is_empty() {
            return refuse("the store URL has the host twice: leave the parameter out");
        }
        if host.contains(',') && !host.starts_with('/') {
            return refuse("several hosts stand before the path: postgres://HOST:PORT,HOST:PORT/DATABASE");
        }
        return server_addr(&host, default_port.unwrap_or(PORT)).map(|server_addr| vec![server_addr]);
    }
    if hosts.is_empty() {
        return refuse(
            "the store URL names no host: postgres://HOST/DATABASE, or postgres://%2Frun%2Fpostgresql/DATABASE",
        );
    }
    let mut server_addrs = Vec::new();
    for text in hosts.split(',') {
        let (host, own_port) = match text.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, own_port)) => (host, Some(port(own_port)?)),
            None => (text, None),
        };
        let host = decode(host)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        let server_addr = server_addr(host, own_port.or(default_port).unwrap_or(PORT))?;
        if server_addrs.contains(&server_addr) {
            return refuse("the store URL names a host twice: leave one out");
        }
        server_addrs.push(server_addr);
    }
    Ok(server_addrs)
}

fn server_addr(host: &str, port: u16) -> Result<ServerAddr, Misuse> {
    if host.starts_with('/') {
        return Ok(ServerAddr::Unix { directory: host.into(), port });
    }
    if host.is_empty()
        || host.contains(|c: char| {
            c.is_control() || c.is_whitespace() || matches!(c, '@' | '/' | ',' | '?' | '#')
        })
    {
        return refuse(format!("the store URL has a host that cannot be one: {ENCODE}"));
    }
    Ok(ServerAddr::Tcp { host: host.into(), port })
}

fn port(text: &str) -> Result<u16, Misuse> {
    match text.parse() {
        Ok(port) if port > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => refuse(format!(
            "the store URL has a port that cannot be one; if it is meant to be a password, {ENCODE}"
        )),
    }
}

/// In a form, `+` is a space; in a path or a password it is a plus sign.
fn decode(text: &str) -> Result<String, Misuse> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) if text.contains('\0') => {
            refuse("the store URL has a zero byte (%00), which ends every text that is sent: leave it out")
        }
        Ok(text) => Ok(text.into_owned()),
        Err(_) => refuse("the store URL has something percent-encoded that is not UTF-8: encode it again"),
    }
}

/// The characters that mean themselves anywhere in a URL, and in a shell.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn nonempty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Misuse> {
    Err(Misuse::Url { reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn tcp(host: &str, port: u16) -> ServerAddr {
        ServerAddr::Tcp { host: host.into(), port }
    }

    #[test]
    fn a_host_is_enough() {
        let address = parse("postgres://localhost");
        assert_eq!(address.server_addrs, [tcp("localhost", 5432)]);
        assert_eq!((&*address.schema, &address.user, &address.database), ("leasehold", &None, &None));
        assert_eq!((&*address.name, address.call_limit), ("postgres://localhost", CALL_LIMIT));
        assert!(!address.read_write && address.tls.is_none());
    }

    #[test]
    fn everything_can_be_said_and_the_name_leaves_out_the_password() {
        let address = parse(
            "postgresql://web:s%2F%40c%20ret@a:7000,[::1]/app?schema=locks_2&sslmode=verify-full&sslrootcert=/ca&call-limit=2s",
        );
        assert_eq!(address.server_addrs, [tcp("a", 7000), tcp("::1", 5432)]);
        assert_eq!(address.password, Some(Secret::Text(Password("s/@c ret".into()))));
        assert_eq!(address.tls, Some(Tls { authority: Some("/ca".into()), identity: None }));
        assert_eq!(address.call_limit, Duration::from_secs(2));
        assert!(address.read_write, "of several, the one that takes writes");
        assert_eq!(address.name, "postgres://web@a:7000,[::1]/app?schema=locks_2");
        assert!(!format!("{address:?}").contains("ret"));
    }

    #[test]
    fn a_socket_is_named_by_its_directory() {
        let socket = ServerAddr::Unix { directory: "/run/postgresql".into(), port: 5433 };
        for url in
            ["postgres:///app?host=/run/postgresql&port=5433", "postgres://u@%2Frun%2Fpostgresql:5433/app"]
        {
            assert_eq!(parse(url).server_addrs, std::slice::from_ref(&socket), "{url}");
        }
        assert_eq!(parse("postgres:///app?host=/run/pg").name, "postgres://%2Frun%2Fpg/app");
    }

    /// Regression: a slash in a user's name ended the host of the store's name.
    #[test]
    fn the_name_is_a_url_of_the_same_store_whatever_is_in_it() {
        for url in [
            "postgres://dom%2Fweb%3F@h/a%23b%25%20c?schema=x",
            "postgres://w%40b%3Ac@[::1]:7/%C3%BC",
            "postgres:///app?host=/run/a%2520,@b%23c&port=7",
        ] {
            let (address, again) = (parse(url), parse(&parse(url).name));
            assert_eq!(format!("{address:?}"), format!("{again:?}"), "{url}");
        }
        assert_eq!(parse("postgres://dom%2Fw@h/a%20b").name, "postgres://dom%2Fw@h/a%20b");
    }

    /// Regression: the error was about characters to encode. libpq takes several hosts there.
    #[test]
    fn several_hosts_in_the_parameter_are_refused_and_the_error_says_where_they_stand() {
        let Err(Misuse::Url { reason }) = Address::parse("postgres:///app?host=a,b") else { panic!() };
        assert!(reason.contains("before the path"), "{reason}");
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in [
            "postgres://",
            "postgres:///app",
            "postgres://u:s3cret@",
            "postgres://u:s3cret/x@h",
            // Regression: digits before the slash counted as a port, and the rest was shown as a database.
            "postgres://u:123/s3cret@h",
            "postgres://u:s3cret#x@h",
            "postgres://h:s3cret",
            "postgres://h:0",
            "postgres://h/app/s3cret",
            "postgres://h?s3cret=1",
            "postgres://h?schema=S3cret",
            "postgres://h?schema=pg_s3cret",
            "postgres://h?sslmode=prefer",
            "postgres://h?sslmode=s3cret",
            "postgres://h?sslrootcert=/ca",
            "postgres://h?sslmode=require&sslcert=/s3cret",
            "postgres://h?password-file=s3cret",
            "postgres://u:s3cret@h?password-file=/x",
            "postgres://u:s3cret@h?password=s3cret",
            "postgres://h?call-limit=1ms",
            "postgres://h?target_session_attrs=read-only",
            "postgres://h,h",
            "postgres:///app?host=h,s3cret",
            "postgres:///app?host=/s3cret&sslmode=require",
            "postgres://h?user=%0A",
            "postgres://s3cret%00@h",
            "postgres://u:s3cret%00@h",
            "postgres://h/s3cret%00",
            "mysql://h",
        ] {
            let Misuse::Url { reason } = Address::parse(url).expect_err(url) else { panic!("{url}") };
            assert!(!reason.to_ascii_lowercase().contains("s3cret"), "{url}: {reason}");
        }
    }
}
