//! The URL of a store, as far as the command must understand it: its password, its form without a
//! password, and whether two URLs name the same store. The library interprets everything else.

use std::borrow::Cow;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::exit::Failure;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    /// Reads a store URL as written, with the absolute path of a file. Refuses mistakes that only a
    /// command can notice. The error never quotes the URL: in an invalid one, any part may be the
    /// password.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let path_like = text.starts_with(['/', '.', '~']) || !text.contains(':');
        if text.is_empty() {
            return Err(Failure::usage(format!("the store URL is empty: {WRITE}")));
        }
        if path_like {
            return Err(Failure::usage("the store is not a URL; to use a file, write file:PATH"));
        }
        if text.starts_with("memory:") {
            return Err(Failure::usage(format!(
                "memory: is the memory of one process, which no other command would see: {WRITE}"
            )));
        }
        if !Self::is_begun_by(text) {
            return Err(Failure::usage(format!("the kind of this store URL is not known: {WRITE}")));
        }
        if !text.starts_with("file:") && text.contains(char::is_control) {
            // URL parsers silently drop line breaks, and the rest names another host.
            return Err(Failure::usage(
                "the store URL has a control character, maybe a line break: leave it out, or write it as %XX",
            ));
        }
        let Some(path) = text.strip_prefix("file:") else { return Ok(Self(text.into())) };
        Ok(Self::file(&leasehold_file::path_in_url(path)?))
    }

    /// True if a text begins like a URL of a store.
    pub(crate) fn is_begun_by(text: &str) -> bool {
        let Some((kind, _)) = text.split_once(':') else { return false };
        match kind.split_once('+') {
            Some(("redis" | "valkey", "unix" | "sentinel" | "cluster")) => true,
            Some(("rediss" | "valkeys", "sentinel" | "cluster")) => true,
            Some(_) => false,
            None => ["file", "unix", "redis", "rediss", "valkey", "valkeys", "postgres", "postgresql"]
                .contains(&kind),
        }
    }

    /// The file store at an absolute path.
    pub(crate) fn file(path: &Path) -> Self {
        Self(leasehold_file::url_of_path(path))
    }

    /// The path of a file store.
    fn path(&self) -> Option<PathBuf> {
        leasehold_file::path_in_url(self.0.strip_prefix("file:")?).ok()
    }

    /// True if this is a file, and nothing is at its path.
    pub(crate) fn is_missing(&self) -> bool {
        let found = self.path().map(|path| path.symlink_metadata());
        matches!(found, Some(Err(error)) if error.kind() == ErrorKind::NotFound)
    }

    /// All of it, for the library only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn has_password(&self) -> bool {
        self.parts().is_some_and(|parts| {
            parts.user_info.is_some_and(|user_info| user_info.contains(':'))
                || parts.parameters().any(is_secret)
        })
    }

    pub(crate) fn without_password(&self) -> String {
        let Some(parts) = self.parts() else { return self.0.clone() };
        let user = parts.user_info.map(|user_info| user_info.split(':').next().unwrap_or_default());
        let user = user.filter(|user| !user.is_empty()).map(|user| format!("{user}@")).unwrap_or_default();
        let parameters: Vec<_> = parts.parameters().filter(|parameter| !is_secret(parameter)).collect();
        let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
        format!("{}://{user}{}{}{query}", parts.scheme, parts.host, parts.path)
    }

    pub(crate) fn is_same_place_as(&self, other: &Self) -> bool {
        self.place() == other.place()
    }

    /// True if a text begins like the URL of a PostgreSQL database, whose tables `init` creates.
    pub(crate) fn is_begun_as_postgres(text: &str) -> bool {
        matches!(text.split_once(':'), Some(("postgres" | "postgresql", _)))
    }

    fn place(&self) -> String {
        if let Some(path) = self.path() {
            if let Ok(found) = path.symlink_metadata() {
                return format!("file {} {}", found.dev(), found.ino());
            }
            let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
            let path = directory
                .zip(path.file_name())
                .map_or_else(|| path.clone(), |(directory, name)| directory.join(name));
            return format!("file:{}", path.display());
        }
        let Some(parts) = self.parts() else { return self.0.clone() };
        if Self::is_begun_as_postgres(&self.0) {
            return place_of_postgres(&parts);
        }
        let scheme = redis_scheme(parts.scheme);
        let in_query = parts.parameters().find_map(|parameter| parameter.strip_prefix("db="));
        if scheme == "redis+unix" {
            return format!("{scheme}:{}?{}", parts.path, in_query.unwrap_or("0"));
        }
        if scheme.ends_with("+sentinel") {
            let hosts = with_ports(parts.host, "26379");
            return format!("{scheme}:{hosts}{}?{}", parts.path, in_query.unwrap_or("0"));
        }
        let in_path = Some(parts.path.trim_matches('/')).filter(|db| !db.is_empty());
        let hosts = with_ports(parts.host, "6379");
        format!("{scheme}:{hosts}/{}", in_path.or(in_query).unwrap_or("0"))
    }

    /// `None` for a file, and for a text without `//`: neither has a user or a password.
    fn parts(&self) -> Option<Parts<'_>> {
        let (scheme, rest) = self.0.split_once("://").filter(|_| !self.0.starts_with("file:"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        Some(Parts { scheme, user_info, host, path, query })
    }
}

const WRITE: &str = "write file:PATH, redis://HOST, rediss://HOST, redis+unix:///SOCKET, redis+sentinel://HOST,HOST/MASTER, \
    redis+cluster://HOST,HOST, postgres://HOST/DATABASE or quorum:URL,URL,URL";

struct Parts<'a> {
    scheme: &'a str,
    user_info: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn parameters(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.query.split('&').filter(|parameter| !parameter.is_empty())
    }
}

/// The servers in any order, the database (by default named like the user), and the schema.
fn place_of_postgres(parts: &Parts<'_>) -> String {
    let of = |name: &str| {
        let named = |parameter: &&str| parameter.split_once('=').is_some_and(|(given, _)| given == name);
        parts.parameters().find(named).and_then(|parameter| parameter.split_once('=')).map(|(_, value)| value)
    };
    let port = of("port").unwrap_or("5432");
    let hosts = match of("host") {
        Some(host) if parts.host.is_empty() => at_port(&decoded(host), port),
        _ => with_ports(parts.host, port),
    };
    let user = parts.user_info.and_then(|user_info| user_info.split(':').next()).or(of("user"));
    let database = Some(parts.path.trim_matches('/')).filter(|name| !name.is_empty()).or(user);
    let schema = of("schema").unwrap_or("leasehold");
    format!("postgres:{hosts}/{}?{schema}", decoded(database.unwrap_or_default()))
}

/// The scheme of Redis that means the same.
fn redis_scheme(scheme: &str) -> String {
    match scheme.strip_prefix("valkey") {
        Some(rest) => format!("redis{rest}"),
        None if scheme == "unix" => "redis+unix".into(),
        None => scheme.into(),
    }
}

/// Several hosts in any order: a cluster is named by any of its nodes.
fn with_ports(hosts: &str, default: &str) -> String {
    let mut hosts: Vec<_> = hosts.split(',').map(|host| with_port(host, default)).collect();
    hosts.sort_unstable();
    hosts.join(",")
}

fn with_port(host: &str, default: &str) -> String {
    let with_port = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let (host, port) = with_port.unwrap_or((host, default));
    let host = decoded(host);
    at_port(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host), port)
}

fn at_port(host: &str, port: &str) -> String {
    if host.starts_with('/') {
        // The directory of a server's sockets.
        return format!("{}:{port}", host.trim_end_matches('/'));
    }
    let host = host.to_ascii_lowercase();
    let host = if host == "localhost" { "127.0.0.1" } else { &host };
    format!("{host}:{port}")
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

fn is_secret(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    ["password", "sentinel-password"].iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_password())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        StoreUrl::new(text).unwrap_or_else(|failure| panic!("{text}: {failure:?}"))
    }

    #[test]
    fn a_password_is_left_out_wherever_it_stands_and_the_rest_stays() {
        for (with, without) in [
            ("redis://web:s3cret@h:7000/3?protocol=resp2", "redis://web@h:7000/3?protocol=resp2"),
            ("redis://:s3cret@h", "redis://h"),
            ("redis+cluster://web:s3cret@a,b:7", "redis+cluster://web@a,b:7"),
            ("redis://:s3:cr@et@h", "redis://h"),
            ("rediss://u:s3cret@[::1]:7/1?ca=/etc/ca.pem", "rediss://u@[::1]:7/1?ca=/etc/ca.pem"),
            ("postgres://web:s3cret@h:7000/app?schema=locks", "postgres://web@h:7000/app?schema=locks"),
            ("postgresql://h/app?user=web&password=s3cret", "postgresql://h/app?user=web"),
            ("redis+unix://web:s3cret@/run/r.sock?db=2", "redis+unix://web@/run/r.sock?db=2"),
            (
                "redis+unix:///run/r.sock?user=web&password=s3cret&db=2",
                "redis+unix:///run/r.sock?user=web&db=2",
            ),
            ("unix:///run/r.sock?password=s3cret&db=2", "unix:///run/r.sock?db=2"),
            ("valkeys://web:s3cret@h", "valkeys://web@h"),
            (
                "redis+sentinel://web:s3cret@a:1,b:2/locks?sentinel-user=w&sentinel-password=s3cret",
                "redis+sentinel://web@a:1,b:2/locks?sentinel-user=w",
            ),
        ] {
            assert!(url(with).has_password(), "{with}");
            assert_eq!(url(with).without_password(), without);
            assert_eq!(format!("{} {:?}", url(with), url(with)), format!("{without} StoreUrl({without})"));
            assert!(!url(without).has_password(), "{without}");
            assert_eq!(url(without).without_password(), without);
        }
        // This path only looks like a login.
        let file = "file:/a://web:x@b/leases.db";
        assert!(!url(file).has_password());
        assert_eq!(url(file).without_password(), file);
    }

    /// Regression: compared as written, in any case, a nested run waited for the outer one.
    #[test]
    fn a_directory_of_sockets_is_one_place_however_it_is_encoded() {
        let place = url("postgres://web@%2Frun%2FMy%20pg:7/app");
        for same in [
            "postgres://web@/app?host=/run/My%20pg&port=7",
            "postgres://web@%2frun%2fMy%20pg%2f:7/a%70p",
            "postgres:///app?host=%2Frun/My%20pg/&port=7&user=web",
        ] {
            assert!(place.is_same_place_as(&url(same)), "{same}");
        }
        assert!(!place.is_same_place_as(&url("postgres://web@%2Frun%2Fmy%20pg:7/app")));
        assert!(url("postgres://[::1]/app").is_same_place_as(&url("postgres:///app?host=::1")));
    }

    /// Regression: files were compared by their paths. A run that reached the file of the run around it
    /// through a bind mount waited for that run. A hard link, which a store refuses, is here in place of
    /// the mount.
    #[test]
    fn a_file_is_one_place_whatever_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| url(&format!("file:{}/{name}", directory.path().display()));
        for name in ["a", "b"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::fs::hard_link(directory.path().join("a"), directory.path().join("mounted")).unwrap();
        assert!(at("a").is_same_place_as(&at("mounted")));
        assert!(!at("a").is_same_place_as(&at("b")) && !at("a").is_same_place_as(&at("nowhere")));
    }

    #[test]
    fn two_ways_to_write_a_place_are_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = format!("file:{}/leases.db", directory.path().display());
        let dotted = format!("file:{}/./leases.db", directory.path().display());
        for (one, other) in [
            ("redis://h", "redis://u:pw@H:6379/0"),
            ("redis://localhost/2", "redis://127.0.0.1?db=2"),
            ("redis+unix:///s", "redis+unix:///s?db=0"),
            ("redis+unix:///s", "unix:///s"),
            ("redis://h", "valkey://H:6379"),
            ("rediss+cluster://a,b", "valkeys+cluster://b,a"),
            ("redis://[::1]", "redis://[::1]:6379/"),
            ("redis+sentinel://a:1,b:2/locks", "redis+sentinel://u:pw@B:2,a:1/locks?db=0"),
            ("redis+sentinel://a,localhost/locks", "redis+sentinel://127.0.0.1:26379,a:26379/locks"),
            ("redis+cluster://a,localhost:7", "redis+cluster://u:pw@127.0.0.1:7,A:6379"),
            ("postgres://h/app", "postgresql://u:pw@H:5432/app?schema=leasehold&sslmode=require"),
            ("postgres://a,localhost:7/app", "postgres://127.0.0.1:7,A/app"),
            ("postgres://web@h", "postgres:///web?host=h"),
            (&file, &dotted),
            ("file:///nowhere/a.db", "file:/nowhere/a.db"),
        ] {
            assert!(url(one).is_same_place_as(&url(other)), "{one} {other}");
        }
        for (one, other) in [
            ("redis://h", "redis://h/1"),
            ("redis://h", "redis://h:7"),
            ("postgres://h/app", "postgres://h/app?schema=locks"),
            ("postgres://h/app", "postgres://h/other"),
            ("file:/a", "file:/b"),
            ("redis+sentinel://a/locks", "redis+sentinel://a/cache"),
            ("redis+sentinel://a/locks", "redis+sentinel://a/locks?db=1"),
        ] {
            assert!(!url(one).is_same_place_as(&url(other)), "{one} {other}");
        }
    }
}
