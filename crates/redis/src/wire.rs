//! How a lease is written at its key, and what is read there.

use std::time::Duration;

use leasehold_core::{Channel, Fence, Holder, Key, Label, News, Tenant, Ttl};

/// What all our values begin with: the version of the format.
const MARK: &[u8] = b"lh1";

/// One byte after it. `-`: nothing special. `+`: somebody waits. `?`: provisional. Only the first is written today; a lease
/// that a later version wrote with another is a lease all the same.
const PLAIN: u8 = b'-';
const FLAGS: &[u8] = b"-+?";

/// The length of a value without label.
const BARE: usize = MARK.len() + 1 + Holder::DIGITS;

/// The value of a lease: the mark, a flag, the holder's digits, and then, where there is a label, a space and the label.
#[must_use]
pub fn value_of(holder: Holder, label: Option<&Label>) -> Vec<u8> {
    let mut value = Vec::with_capacity(BARE + 1 + label.map_or(0, |label| label.as_str().len()));
    value.extend_from_slice(MARK);
    value.push(PLAIN);
    value.extend_from_slice(holder.digits().as_bytes());
    if let Some(label) = label {
        value.push(b' ');
        value.extend_from_slice(label.as_str().as_bytes());
    }
    value
}

/// Who a value says holds the key. What is not exactly of our form is another program's.
#[must_use]
pub fn read(value: &[u8]) -> Tenant {
    ours(value).unwrap_or_else(|| Tenant::Foreign { value: value.into() })
}

fn ours(value: &[u8]) -> Option<Tenant> {
    let (flag, rest) = value.strip_prefix(MARK)?.split_first()?;
    let (digits, rest) = rest.split_at_checked(Holder::DIGITS).filter(|_| FLAGS.contains(flag))?;
    let holder = Holder::from_digits(digits)?;
    let label = match rest {
        [] => None,
        [b' ', label @ ..] => Some(Label::read(label)),
        _ => return None,
    };
    Some(Tenant::Holder { holder, label })
}

/// The channel of a connection, drawn afresh for each: `leasehold:` and 32 digits of random bits. Whoever knows it could tell the
/// connection lies.
#[must_use]
pub fn channel_of(bits: u128) -> Channel {
    Channel::new(format!("{}{bits:032x}", Key::RESERVED))
}

/// What a push says, and whom it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever is told must handle all of it")]
pub struct Told {
    /// Whom it concerns.
    pub holder: Holder,
    /// Which key.
    pub key: Key,
    /// What happened.
    pub news: News,
}

/// Reads what was published to a channel of ours; `None` for what is no push: anybody may publish.
///
/// A letter and 32 digits of the holder, then for `g` (granted) the fence and for how many milliseconds, for `f` (first) how many
/// milliseconds are left, for `a` (ask again) nothing, and then the key, verbatim; a space between each two.
#[must_use]
pub fn read_push(payload: &[u8]) -> Option<Told> {
    let mut words = payload.splitn(3, |&byte| byte == b' ');
    let (letter, digits, rest) = (words.next()?, words.next()?, words.next()?);
    let numbers = match letter {
        b"g" => 2,
        b"f" => 1,
        b"a" => 0,
        _ => return None,
    };
    let mut words = rest.splitn(numbers + 1, |&byte| byte == b' ');
    let news = match letter {
        b"g" => News::Granted {
            fence: Fence::new(number(words.next()?)?)?,
            lasts: Ttl::new(ms(words.next()?)?).ok()?,
        },
        b"f" => News::First { left: ms(words.next()?)? },
        _ => News::AskAgain,
    };
    Some(Told { holder: Holder::from_digits(digits)?, key: Key::new(words.next()?).ok()?, news })
}

fn ms(digits: &[u8]) -> Option<Duration> {
    number(digits).map(Duration::from_millis)
}

/// Digits only: no sign.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|d| d.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLDER: Holder = Holder::from_bits(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    const DIGITS: &str = "0123456789abcdef0011223344556677";

    fn holder(label: Option<&str>) -> Tenant {
        Tenant::Holder { holder: HOLDER, label: label.map(|label| Label::read(label.as_bytes())) }
    }

    #[test]
    fn a_lease_has_these_bytes() {
        assert_eq!(value_of(HOLDER, None), format!("lh1-{DIGITS}").as_bytes());
        let label = Label::new("web-3 größe").unwrap();
        assert_eq!(value_of(HOLDER, Some(&label)), format!("lh1-{DIGITS} web-3 größe").as_bytes());
        assert_eq!(value_of(HOLDER, Label::new("").ok().as_ref()), format!("lh1-{DIGITS} ").as_bytes());
    }

    #[test]
    fn the_flags_of_later_versions_are_leases_too() {
        for flag in ["-", "+", "?"] {
            assert_eq!(read(format!("lh1{flag}{DIGITS}").as_bytes()), holder(None));
            assert_eq!(read(format!("lh1{flag}{DIGITS} a b").as_bytes()), holder(Some("a b")));
            assert_eq!(read(format!("lh1{flag}{DIGITS} ").as_bytes()), holder(Some("")));
        }
    }

    #[test]
    fn all_else_is_another_programs() {
        let foreign = [
            String::new(),
            "lh1".into(),
            "lh1-".into(),
            format!("lh1!{DIGITS}"),
            format!("lh2-{DIGITS}"),
            format!("lh1-{}", &DIGITS[1..]),
            format!("lh1-{DIGITS}8"),
            format!("lh1-{DIGITS}\n"),
            format!("lh1-{}", DIGITS.to_uppercase()),
            DIGITS.into(),
        ];
        for value in foreign {
            let value = value.as_bytes();
            assert_eq!(read(value), Tenant::Foreign { value: value.into() });
        }
    }

    #[test]
    fn pushes_have_these_bytes() {
        let told = |news| Some(Told { holder: HOLDER, key: Key::new("a b").unwrap(), news });
        let (fence, lasts) =
            (Fence::new(1_700_000_000_000_000).unwrap(), Ttl::new(Duration::from_secs(2)).unwrap());
        let granted = format!("g {DIGITS} 1700000000000000 2000 a b");
        assert_eq!(read_push(granted.as_bytes()), told(News::Granted { fence, lasts }));
        let first = News::First { left: Duration::from_millis(1500) };
        assert_eq!(read_push(format!("f {DIGITS} 1500 a b").as_bytes()), told(first));
        assert_eq!(read_push(format!("a {DIGITS} a b").as_bytes()), told(News::AskAgain));
    }

    #[test]
    fn what_is_no_push_is_passed_over() {
        let strange = [
            String::new(),
            "g".into(),
            format!("x {DIGITS} a"),
            format!("a {DIGITS}"),
            format!("a {DIGITS} "),
            format!("a {} a", &DIGITS[1..]),
            format!("f {DIGITS} a"),
            format!("f {DIGITS} -1 a"),
            format!("f {DIGITS} +1 a"),
            format!("g {DIGITS} 1 a"),
            format!("g {DIGITS} 9007199254740992 2000 a"),
            format!("g {DIGITS} 1 0 a"),
        ];
        for payload in strange {
            assert_eq!(read_push(payload.as_bytes()), None, "{payload}");
        }
    }

    #[test]
    fn a_channel_has_these_bytes() {
        assert_eq!(channel_of(HOLDER.bits()).as_bytes(), format!("leasehold:{DIGITS}").as_bytes());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits: u128, label in proptest::option::of("[ -~äß€]{0,40}")) {
            let holder = Holder::from_bits(bits);
            let label = label.map(|label| Label::new(&label).unwrap());
            prop_assert_eq!(read(&value_of(holder, label.as_ref())), Tenant::Holder { holder, label });
        }

        #[test]
        fn no_bytes_make_reading_panic(value: Vec<u8>) {
            let _ = read(&value);
            let _ = read_push(&value);
        }
    }
}
