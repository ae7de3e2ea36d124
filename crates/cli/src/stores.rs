//! One store, or several that are one by majority.

use std::fmt;
use std::time::Duration;

use crate::exit::Failure;
use crate::store_url::StoreUrl;

/// One store, or several that are one by majority.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    all: Vec<StoreUrl>,
    /// The longest ttl of everybody who uses these stores together.
    pub(crate) max_ttl: Duration,
}

impl Stores {
    /// A minute is twice the ttl that locks have by default. It is also how long a server that was restarted without its state
    /// is missed.
    pub(crate) const MAX_TTL: Duration = Duration::from_secs(60);

    /// The store at a URL, or the stores at several.
    ///
    /// # Errors
    ///
    /// [`Failure`], when one can be none.
    pub(crate) fn new<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        max_ttl: Option<Duration>,
    ) -> Result<Self, Failure> {
        let all = urls.into_iter().map(StoreUrl::new).collect::<Result<Vec<_>, _>>()?;
        if max_ttl.is_some() && all.len() < 2 {
            return Err(Failure::usage(
                "--max-ttl: it is for several stores, and there is one: leave it out, or name the others",
            ));
        }
        Ok(Self { all, max_ttl: max_ttl.unwrap_or(Self::MAX_TTL) })
    }

    /// The URLs in a text, with white space between them. A path may have white space in it, too: only what begins as a URL does
    /// is the next one.
    pub(crate) fn urls_in(text: &str) -> Vec<&str> {
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

    /// The URLs, with the passwords in them.
    pub(crate) fn reveal(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(StoreUrl::reveal)
    }

    pub(crate) const fn is_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether it is a file, or files.
    pub(crate) fn is_a_file(&self) -> bool {
        self.reveal().all(|url| url.starts_with("file:"))
    }

    pub(crate) fn has_password(&self) -> bool {
        self.all.iter().any(StoreUrl::has_password)
    }

    pub(crate) fn without_password(&self) -> String {
        let all: Vec<_> = self.all.iter().map(StoreUrl::without_password).collect();
        all.join(" ")
    }

    /// Whether they are the same stores, in whatever order.
    pub(crate) fn is_same_place_as(&self, other: &Self) -> bool {
        let has = |stores: &Self, one: &StoreUrl| stores.all.iter().any(|other| other.is_same_place_as(one));
        self.all.iter().all(|one| has(other, one)) && other.all.iter().all(|one| has(self, one))
    }
}

impl From<StoreUrl> for Stores {
    fn from(store: StoreUrl) -> Self {
        Self { all: vec![store], max_ttl: Self::MAX_TTL }
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
    fn urls_stand_apart_by_white_space_and_a_path_may_have_some() {
        let urls = |text| Stores::urls_in(text);
        assert_eq!(urls("redis://a"), ["redis://a"]);
        assert_eq!(urls("redis://a  rediss://b\nfile:/c d"), ["redis://a", "rediss://b", "file:/c d"]);
        assert_eq!(urls("file:/my dir/redis x "), ["file:/my dir/redis x "]);
        assert_eq!(urls(" redis://a"), ["redis://a"]);
        assert_eq!(urls("redis://a\nb"), ["redis://a\nb"]);
    }

    #[test]
    fn the_same_stores_in_another_order_are_the_same_place() {
        let stores = |urls: &[&str]| Stores::new(urls.iter().copied(), None).unwrap();
        let three = stores(&["redis://a", "redis://b", "redis://c"]);
        assert!(three.is_same_place_as(&stores(&["redis://c", "redis://a", "redis://b"])));
        assert!(!three.is_same_place_as(&stores(&["redis://a", "redis://b"])));
        assert!(!stores(&["redis://a"]).is_same_place_as(&three));
    }
}
