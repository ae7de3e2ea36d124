//! URLs of stores: any text is parsed, or refused in one line, and its password is never printed.

use std::sync::Arc;

use fuzz::{Asleep, Verdict, holds, hunt, text_near};
use leasehold::AnyStore;
use leasehold_redis::RedisStore;
use proptest::strategy::Strategy as _;

/// A password that occurs nowhere else in a URL.
const SECRET: &str = "Zq7Zq7";

const URLS: [&str; 27] = [
    "memory:",
    "file:/var/lib/app/leases.db",
    "file:///var/lib/app/leases.db",
    "redis://localhost",
    "redis://web:Zq7Zq7@example.org:7000/3?protocol=resp2&call-limit=250ms",
    "redis://:Zq7Zq7@[::1]:7000",
    "redis://web:a%2F%40bZq7Zq7@h/0?replicas=2&replicas-limit=100ms&fsync=yes&quarantine=no",
    "redis://h?password-file=/run/secret",
    "redis://h?channels=app:",
    "rediss://web:Zq7Zq7@h:6380?ca=/etc/ca.pem&cert=/c&key=/k",
    "redis+unix:///run/redis.sock?user=web&password=Zq7Zq7&db=3",
    "redis+unix://web:Zq7Zq7@/run/redis.sock",
    "redis+sentinel://web:Zq7Zq7@a,[::1]:7/locks?db=2&sentinel-user=look&sentinel-password=Zq7Zq7",
    "rediss+sentinel://a:26379,b/lo%2Dcks?sentinel-password-file=/run/p",
    "redis+cluster://web:Zq7Zq7@a:7001,b:7002",
    "rediss+cluster://a,b,c?protocol=resp3",
    "valkey://web:Zq7Zq7@h:7000/3",
    "valkeys+sentinel://web:Zq7Zq7@a,b/locks",
    "unix:///run/redis.sock?user=web&password=Zq7Zq7&db=3",
    "quorum:max-ttl=60s,redis://web:Zq7Zq7@a,redis+cluster://web:Zq7Zq7@b,c:1,file:/d",
    "REDIS://localhost/",
    "redis://user@h",
    "redis://h/15",
    "redis://[2001:db8::7]:1",
    "redis:",
    "://",
    "",
];

/// The URL without possible passwords: after a login's first colon, and the parameter of that name.
fn without_passwords(url: &str) -> String {
    // URL parsers ignore these characters.
    let url = url.replace(['\n', '\r', '\t'], "");
    let Some((scheme, rest)) = url.split_once("://") else { return url };
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, host) = authority.split_at(authority.rfind('@').unwrap_or(0));
    let user = login.split(':').next().unwrap_or_default();
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let parameters: Vec<_> = query.split('&').filter(|it| !it.contains("password")).collect();
    format!("{scheme}://{user}{host}{path}?{}", parameters.join("&"))
}

fn one_line_without_the_secret(what: &str, said: &str) -> Verdict {
    holds(!said.chars().any(char::is_control), || format!("{what} is not one line: {said:?}"))?;
    holds(!said.contains(SECRET), || format!("{what} tells the password: {said:?}"))
}

#[test]
fn a_url_is_read_or_refused_in_one_line_without_its_password() {
    hunt(10_000, text_near(&URLS), |url| match AnyStore::from_url(&url) {
        Ok(store) => holds(!format!("{store:?}").contains(SECRET), || "Debug tells the password".into()),
        Err(misuse) => one_line_without_the_secret("the refusal", &misuse.to_string()),
    });
}

/// A host or a user name can be any text, so text outside of a password's position may be printed.
#[test]
fn the_name_of_a_server_has_nothing_of_a_password() {
    // The stores are never used.
    let runtime = Arc::new(Asleep::default());
    let near = text_near(&URLS).prop_filter("a server", |url| url.starts_with("redis"));
    hunt(10_000, near, |url| {
        let Ok(store) = RedisStore::from_url(&url, runtime.clone()) else { return Ok(()) };
        let name = leasehold_core::Store::name(&store).to_owned();
        holds(!name.chars().any(char::is_control), || format!("the name is not one line: {name:?}"))?;
        if without_passwords(&url).contains(SECRET) {
            return Ok(());
        }
        one_line_without_the_secret("the name", &name)?;
        one_line_without_the_secret("Debug", &format!("{store:?}"))
    });
}
