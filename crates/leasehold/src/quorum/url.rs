//! A quorum in one string.

use std::time::Duration;

use leasehold_core::{Misuse, url_duration};

/// The URLs of the members, and the longest TTL if there is one.
pub(super) type Members<'a> = (Vec<&'a str>, Option<Duration>);

/// The scheme of a quorum's URL.
const SCHEME: &str = "quorum:";

/// The parameter with the longest ttl, before the members.
const MAX_TTL: &str = "max-ttl=";

/// The members in `quorum:[max-ttl=TIME,]URL,URL…`, and the longest ttl if it is there; `None` for
/// any other URL.
///
/// A comma or white space ends a member only if another URL begins behind it: clusters and
/// sentinels have hosts with commas, and paths may have either.
pub(super) fn members_in(url: &str) -> Result<Option<Members<'_>>, Misuse> {
    let Some(rest) = url.strip_prefix(SCHEME) else { return Ok(None) };
    let mut rest = rest.trim();
    let mut max_ttl = None;
    if let Some(behind) = rest.strip_prefix(MAX_TTL) {
        let (time, behind) = behind.split_at(behind.find(separates).unwrap_or(behind.len()));
        max_ttl = Some(time_of(time)?);
        rest = behind.trim_start_matches(separates);
    }
    if rest.split(separates).any(|word| word.starts_with(MAX_TTL)) {
        return Err(misuse("is given once, before its members"));
    }
    let mut members = Vec::new();
    while !rest.is_empty() {
        let separators = rest.char_indices().filter(|(_, character)| separates(*character));
        let next = |at: usize| rest[at..].trim_start_matches(separates);
        let end = separators.map(|(at, _)| at).find(|at| begins_a_url(next(*at)));
        members.push(&rest[..end.unwrap_or(rest.len())]);
        rest = end.map_or("", next);
    }
    Ok(Some((members, max_ttl)))
}

fn separates(character: char) -> bool {
    character == ',' || character.is_whitespace()
}

/// True if a URL begins here, of a known kind or not. A host with its port does not count as one.
fn begins_a_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    is_scheme && (rest.starts_with(['/', '~']) || matches!(scheme, "memory" | "quorum"))
}

fn time_of(text: &str) -> Result<Duration, Misuse> {
    url_duration(text).ok_or_else(|| misuse("must be a number, and then ms, s or m"))
}

/// Does not quote the URL: in one that is wrong, anything may be a password.
fn misuse(rule: &str) -> Misuse {
    Misuse::Url { reason: format!("max-ttl of a quorum's URL {rule}: quorum:max-ttl=60s,URL,URL,URL") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(url: &str) -> Vec<&str> {
        members_in(url).unwrap().unwrap().0
    }

    #[test]
    fn members_are_apart_by_commas_or_white_space_where_a_url_begins() {
        assert_eq!(members("quorum:redis://a,redis://b,redis://c"), ["redis://a", "redis://b", "redis://c"]);
        assert_eq!(
            members("quorum: redis://a,\n  file:/x y,z , memory:b\n"),
            ["redis://a", "file:/x y,z", "memory:b"]
        );
        assert_eq!(
            members("quorum:redis+cluster://redis:7,redis:8,rediss+sentinel://a,b:1/locks?db=1,file:~/l.db"),
            ["redis+cluster://redis:7,redis:8", "rediss+sentinel://a,b:1/locks?db=1", "file:~/l.db"]
        );
        // Of no known kind, and so refused by itself, and not as a part of the one before.
        assert_eq!(members("quorum:redis://a,etcd://b"), ["redis://a", "etcd://b"]);
        assert_eq!(members("quorum:"), [""; 0]);
        assert_eq!(members_in("redis://a,redis://b"), Ok(None));
    }

    #[test]
    fn the_longest_ttl_comes_before_the_members() {
        let of = |url| members_in(url).unwrap().unwrap();
        assert_eq!(of("quorum:max-ttl=90s,redis://a"), (vec!["redis://a"], Some(Duration::from_secs(90))));
        assert_eq!(of("quorum:max-ttl=2m redis://a").1, Some(Duration::from_secs(120)));
        assert_eq!(of("quorum:max-ttl=5500ms,redis://a").1, Some(Duration::from_millis(5500)));
        assert_eq!(of("quorum:redis://a").1, None);
        // Regression: behind a file or a cluster it was part of the path or a node.
        for misplaced in [
            "file:/a,max-ttl=90s,file:/b",
            "file:/a,file:/b max-ttl=90s",
            "redis+cluster://a,max-ttl=90s",
            "max-ttl=60s,max-ttl=90s,file:/b",
        ] {
            let error = members_in(&format!("quorum:{misplaced}")).unwrap_err().to_string();
            assert!(error.contains("max-ttl of a quorum's URL is given once"), "{misplaced}: {error}");
        }
        for time in ["", "90", "s", "+1s", "1h", "99999999999999999999s", "99999999999999m"] {
            let error = members_in(&format!("quorum:max-ttl={time},redis://u:s3cret@a")).unwrap_err();
            assert!(
                error.to_string().contains("max-ttl") && !error.to_string().contains("s3cret"),
                "{error}"
            );
        }
    }
}
