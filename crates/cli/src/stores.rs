//! One store, or several that form a quorum.

use std::fmt;
use std::time::Duration;

use leasehold::QuorumStore;

use crate::exit::Failure;
use crate::store_url::StoreUrl;

#[derive(Clone, Debug)]
pub(crate) struct Stores {
    all: Vec<StoreUrl>,
    /// The longest TTL of all users of these stores.
    pub(crate) max_ttl: Duration,
}

impl Stores {
    /// Twice the default TTL of locks, and how long a server that lost its state abstains.
    pub(crate) const MAX_TTL: Duration = QuorumStore::MAX_TTL_OF_URL;

    /// The store at a URL, or the stores at several URLs or in the URL of a quorum.
    pub(crate) fn new<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        max_ttl: Option<Duration>,
    ) -> Result<Self, Failure> {
        let (mut all, mut in_url): (_, Option<Duration>) = (Vec::new(), None);
        for url in urls {
            match QuorumStore::members_in(url)? {
                Some((members, longest)) => {
                    if let (Some(one), Some(other)) = (in_url, longest)
                        && one != other
                    {
                        return Err(Failure::usage(format!(
                            "the longest ttl is given twice, and differs: max-ttl={one:?} and max-ttl={other:?}: leave one \
                             out, or write the same in both"
                        )));
                    }
                    in_url = longest.or(in_url);
                    all.extend(members.into_iter().map(StoreUrl::new).collect::<Result<Vec<_>, _>>()?);
                }
                None => all.push(StoreUrl::new(url)?),
            }
        }
        if all.is_empty() {
            return Err(Failure::usage("a quorum of no stores: quorum:URL,URL,URL"));
        }
        if let (Some(one), Some(other)) = (max_ttl, in_url)
            && one != other
        {
            return Err(Failure::usage(
                "the longest ttl is given twice, and differs: leave out --max-ttl and LEASEHOLD_MAX_TTL, or max-ttl= of the URL",
            ));
        }
        let max_ttl = max_ttl.or(in_url);
        if max_ttl.is_some() && all.len() < 2 {
            let given = if in_url.is_some() { "max-ttl= of the URL" } else { "--max-ttl" };
            return Err(Failure::usage(format!(
                "{given}: it is for several stores, and there is one: leave it out, or name the others"
            )));
        }
        Ok(Self { all, max_ttl: max_ttl.unwrap_or(Self::MAX_TTL) })
    }

    /// The URLs in a text, separated by white space. A path may contain some too: only a word that
    /// begins like a URL starts the next one. A quorum is one URL, whatever is between its members.
    pub(crate) fn urls_in(text: &str) -> Vec<&str> {
        if Self::is_a_quorum(text.trim_start()) {
            return vec![text.trim_start()];
        }
        let mut urls = Vec::new();
        let mut rest = text.trim_start();
        let ends = |text: &str| {
            let blanks = text.char_indices().filter(|(_, character)| character.is_whitespace());
            blanks.map(|(at, _)| at).find(|at| StoreUrl::is_begun_by(text[*at..].trim_start()))
        };
        while let Some(end) = ends(rest) {
            urls.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
        urls.push(rest);
        urls
    }

    pub(crate) fn is_a_quorum(text: &str) -> bool {
        text.starts_with("quorum:")
    }

    /// True if a URL is that of a quorum, and has its longest TTL in it.
    pub(crate) fn names_its_longest_ttl(url: &str) -> bool {
        matches!(QuorumStore::members_in(url), Ok(Some((_, Some(_)))))
    }

    pub(crate) fn reveal(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(StoreUrl::reveal)
    }

    pub(crate) const fn is_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The first file that is not there, if so many are missing that no majority is left.
    pub(crate) fn missing_file(&self) -> Option<&StoreUrl> {
        let missing: Vec<_> = self.all.iter().map(StoreUrl::is_missing).collect();
        let first = missing.iter().position(|is_missing| *is_missing)?;
        (!self.most(|nth| !missing[nth])).then(|| &self.all[first])
    }

    pub(crate) fn is_a_file(&self) -> bool {
        self.reveal().all(|url| url.starts_with("file:"))
    }

    pub(crate) fn has_password(&self) -> bool {
        self.all.iter().any(StoreUrl::has_password)
    }

    /// One URL on one line, of a quorum with its longest TTL.
    pub(crate) fn without_password(&self) -> String {
        let all: Vec<_> = self.all.iter().map(StoreUrl::without_password).collect();
        let all = all.join(",");
        if self.is_several() { format!("quorum:max-ttl={}ms,{all}", self.max_ttl.as_millis()) } else { all }
    }

    /// For each of these stores, true if it is one of the others.
    pub(crate) fn each_in(&self, others: &Self) -> Vec<bool> {
        let is_other = |one: &StoreUrl| others.all.iter().any(|other| other.is_same_place_as(one));
        self.all.iter().map(is_other).collect()
    }

    /// True if more than half of these stores, by their numbers, are like this.
    pub(crate) fn most(&self, is_like_this: impl Fn(usize) -> bool) -> bool {
        2 * (0..self.all.len()).filter(|nth| is_like_this(*nth)).count() > self.all.len()
    }
}

impl fmt::Display for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.all.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_separated_by_white_space_and_a_path_may_contain_some() {
        let urls = |text| Stores::urls_in(text);
        assert_eq!(urls("redis://a"), ["redis://a"]);
        assert_eq!(urls("redis://a  rediss://b\nfile:/c d"), ["redis://a", "rediss://b", "file:/c d"]);
        assert_eq!(urls("file:/my dir/redis x "), ["file:/my dir/redis x "]);
        assert_eq!(urls(" redis://a"), ["redis://a"]);
        assert_eq!(urls("redis://a\nb"), ["redis://a\nb"]);
    }

    #[test]
    fn a_quorum_in_one_string_is_its_stores() {
        let text = " quorum:max-ttl=90s, redis://a,\nredis://b, redis://c ";
        let stores = Stores::new(Stores::urls_in(text), None).unwrap();
        assert_eq!(stores.reveal().collect::<Vec<_>>(), ["redis://a", "redis://b", "redis://c"]);
        assert_eq!(stores.max_ttl, Duration::from_secs(90));
        let with = |max_ttl| {
            Stores::new(["quorum:max-ttl=90s,redis://a,redis://b"], Some(Duration::from_secs(max_ttl)))
        };
        assert!(with(90).is_ok());
        let plain = Stores::new(["quorum:redis://a,redis://b"], None).unwrap();
        assert_eq!(plain.max_ttl, Stores::MAX_TTL);
        assert!(with(60).is_err());
        assert!(Stores::new(["quorum:"], None).is_err());
        // Regression: the error named --max-ttl, which nobody had passed.
        let of_one = format!("{:?}", Stores::new(["quorum:max-ttl=5s,redis://a"], None));
        assert!(of_one.contains("max-ttl= of the URL: ") && !of_one.contains("--max-ttl"), "{of_one}");
        assert!(Stores::new(["quorum:redis://a,memory:"], None).is_err());
    }

    /// Regression: the last one counted.
    #[test]
    fn two_quorums_with_different_longest_ttls_are_not_one_quorum() {
        let both = |one: &str, other: &str| {
            Stores::new([&*format!("quorum:{one}redis://a"), &*format!("quorum:{other}redis://b")], None)
        };
        for (one, other) in [("max-ttl=60s", "max-ttl=90s"), ("max-ttl=90s", "max-ttl=60s")] {
            let refused = format!("{:?}", both(&format!("{one},"), &format!("{other},")));
            assert!(refused.contains(&format!("{one} and {other}")), "{refused}");
        }
        for (one, other) in [("max-ttl=90s,", "max-ttl=90000ms,"), ("max-ttl=90s,", ""), ("", "max-ttl=90s,")]
        {
            assert_eq!(both(one, other).unwrap().max_ttl, Duration::from_secs(90));
        }
    }

    /// True if no majority of some stores is without one of the others.
    fn need(some: &Stores, others: &Stores) -> bool {
        let theirs = some.each_in(others);
        !some.most(|nth| !theirs[nth])
    }

    #[test]
    fn several_stores_are_written_as_one_url_without_passwords_and_read_back() {
        let urls = ["redis://u:s3cret@a", "redis+cluster://b,c:7", "file:/my dir/l.db"];
        let stores = Stores::new(urls, Some(Duration::from_millis(5500))).unwrap();
        let text = stores.without_password();
        assert_eq!(text, "quorum:max-ttl=5500ms,redis://u@a,redis+cluster://b,c:7,file:/my dir/l.db");
        let read = Stores::new(Stores::urls_in(&text), None).unwrap();
        assert!(need(&read, &stores) && need(&stores, &read) && read.max_ttl == stores.max_ttl, "{read:?}");
        assert_eq!(Stores::new(["redis://:s3cret@a"], None).unwrap().without_password(), "redis://a");
    }

    /// Regression: a run at a single member of an outer run's quorum waited for the outer run.
    #[test]
    fn stores_need_others_without_which_they_have_no_majority() {
        let stores = |urls: &[&str]| Stores::new(urls.iter().copied(), None).unwrap();
        let (a, three) = (stores(&["redis://a"]), stores(&["redis://a", "redis://b", "redis://c"]));
        assert!(need(&three, &stores(&["redis://c", "redis://a", "redis://b"])));
        assert!(need(&three, &stores(&["redis://a", "redis://b"])));
        assert!(need(&a, &three) && !need(&three, &a));
        assert!(need(&stores(&["redis://a", "redis://x"]), &three));
        assert!(need(&stores(&["redis://a", "redis://b", "redis://x"]), &three));
        assert!(!need(&stores(&["redis://a", "redis://x", "redis://y"]), &three));
        assert!(!need(&stores(&["redis://x"]), &three));
    }
}
