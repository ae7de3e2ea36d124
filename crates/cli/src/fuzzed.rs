//! Input that people and scripts may pass to the command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use fuzz::{holds, hunt, text_near, words_near};

use crate::store_url::StoreUrl;
use crate::time;
use crate::usage::{ParseError, understand};

/// A password that occurs nowhere else in the words.
const SECRET: &str = "Zq7Zq7";

const LINES: [&[&str]; 23] = [
    &["leasehold", "run", "nightly", "--", "echo", "hi"],
    &["leasehold", "run", "-n", "nightly", "--", "./report"],
    &["leasehold", "run", "-nqE0", "nightly", "--", "./report"],
    &["leasehold", "run", "-w", "30s", "--ttl", "1m", "deploy", "--", "./deploy"],
    &["leasehold", "run", "-w5", "--store", "redis://web:Zq7Zq7@h:7000/3", "k", "--", "true"],
    &["leasehold", "run", "--store=rediss://:Zq7Zq7@h?call-limit=1s", "k", "true"],
    &["leasehold", "run", "--permits", "1/4", "gpus", "--", "./train", "--x"],
    &["leasehold", "run", "--shared", "account:1", "account:2", "--", "./transfer"],
    &["leasehold", "run", "--max-hold", "1h30m", "--grace=2s", "--label", "web-3", "k", "--", "x"],
    &["leasehold", "every", "23h", "nightly", "--", "./report"],
    &["leasehold", "once", "migrate:0042", "--", "./migrate", "0042"],
    &["leasehold", "hold", "deploy", "--status-fd", "3"],
    &["leasehold", "show", "nightly", "--json"],
    &["leasehold", "ls", "--all", "--store", "redis+unix:///s?password=Zq7Zq7"],
    &["leasehold", "break", "deploy", "--fence", "1763713011000000"],
    &["leasehold", "doctor", "--store", "redis://10.0.0.5", "--store", "redis://10.0.0.6", "--max-ttl", "1m"],
    &["leasehold", "bench", "redis://u:Zq7Zq7@10.0.0.5"],
    &["leasehold", "top", "invoice:"],
    &["leasehold", "init", "--group", "deployers", "/var/lib/leasehold"],
    &["leasehold", "help", "exit-codes"],
    &["leasehold", "pages", "target/pages"],
    &["leasehold", "--version"],
    &["leasehold"],
];

/// Any line of words is a task, a page, or an error with code 64 that repeats no password.
#[test]
fn every_command_line_is_parsed_or_refused_without_its_password() {
    hunt(3_000, words_near(&LINES), |words| {
        let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
        match understand(&words) {
            Ok(_) => Ok(()),
            Err(ParseError::Page(page)) => {
                holds(!page.to_string().contains(SECRET), || "it is on a page".into())
            }
            Err(ParseError::Wrong(failure)) => {
                holds(failure.code() == 64 && !failure.reason().is_empty(), || format!("{failure:?}"))?;
                // A word may be repeated if it is in a place where no URL belongs, or if it no
                // longer looks like a URL.
                let whole =
                    words.iter().filter_map(|word| word.to_str()).filter(|word| word.contains(SECRET));
                let known = |word: &str| {
                    word.contains("://") && (word.contains(":Zq7Zq7@") || word.contains("?password=Zq7"))
                };
                let told = format!("{failure:?}").contains(SECRET);
                holds(!told || !whole.clone().all(known), || format!("{failure:?}"))
            }
        }
    });
}

/// A word that is not an option, because it contains a byte that is not a letter, was repeated in
/// the error with the URL that followed it.
#[test]
fn an_option_that_is_none_is_named_without_the_password_behind_it() {
    let word = OsString::from_vec(b"-\x80store=rediss://:Zq7Zq7@h".to_vec());
    let words = ["leasehold".into(), "run".into(), word, "k".into(), "--".into(), "true".into()];
    let Err(ParseError::Wrong(failure)) = understand(&words) else { panic!("it is understood") };
    assert!(
        failure.reason().starts_with("there is no option") && !failure.reason().contains(SECRET),
        "{failure:?}"
    );
}

const URLS: [&str; 10] = [
    "file:/var/lib/app/leases.db",
    "redis://web:Zq7Zq7@h:7000/3?protocol=resp2",
    "redis://:Zq7Zq7@h",
    "rediss://u:Zq7Zq7@[::1]:7/1?ca=/etc/ca.pem",
    "redis+unix://web:Zq7Zq7@/run/r.sock?db=2",
    "redis+unix:///s?user=web&password=Zq7Zq7&db=2",
    "redis+sentinel://w:Zq7Zq7@a,b:7/locks?sentinel-user=l&sentinel-password=Zq7Zq7",
    "redis+cluster://web:Zq7Zq7@a:7001,b",
    "memory:",
    "",
];

/// A printed URL contains nothing that the library takes for a password.
#[test]
fn the_shown_url_of_a_store_contains_no_part_of_a_password() {
    hunt(10_000, text_near(&URLS), |text| {
        let Ok(url) = StoreUrl::new(&text) else { return Ok(()) };
        // A file has no password.
        if text.starts_with("file:") || leasehold::AnyStore::from_url(&text).is_err() {
            return Ok(());
        }
        let shown = url.to_string();
        holds(format!("{url:?}") == format!("StoreUrl({shown})"), || "Debug shows something else".into())?;
        let (before, query) = text.split_once('?').unwrap_or((&text, ""));
        let authority =
            before.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
        let in_login = login.split_once(':').map_or(0, |(_, password)| password.matches(SECRET).count());
        let is_one = |name: &str| ["password", "sentinel-password"].contains(&name);
        let parameters =
            query.split('&').filter_map(|it| it.split_once('=')).filter(|(name, _)| is_one(name));
        let secret = in_login + parameters.map(|(_, value)| value.matches(SECRET).count()).sum::<usize>();
        let public = text.matches(SECRET).count() - secret;
        holds(shown.matches(SECRET).count() <= public, || format!("it shows {shown:?}"))?;
        holds(url.is_same_place_as(&url.clone()), || "it is not the place that it is".into())
    });
}

const TIMES: [&str; 9] = ["30", "500ms", "30s", "2m", "1h30m", "1.5s", "0.1", "36500d", "18446744073s"];

#[test]
fn a_time_is_read_as_its_parts_say_or_refused() {
    hunt(10_000, text_near(&TIMES), |text| {
        let Some(read) = time::parse(&text) else { return Ok(()) };
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
        holds(plain && !text.is_empty(), || format!("{text:?} is not a time"))?;
        let whole = text.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()));
        holds(whole.is_none_or(|whole| whole == read), || format!("{read:?}"))
    });
}
