//! Encodes and decodes the values of keys, side keys and pushes.

use std::borrow::Cow;
use std::time::Duration;

use leasehold_core::{
    BreakNote, BreakRecord, Channel, Family, Fence, Holder, Key, Label, LeaseBreak, Mark, Mode, Nonce, Owner,
    PushEvent, Stamp, Ttl,
};

/// The prefix of all our values: the version of the format.
pub(crate) const MARK: &[u8] = b"lh1";

/// The latest end of a share, in ms since 1970: a number of 13 digits. Shares with later ends were
/// written by another program.
pub const ENDS_MAX: u64 = 9_999_999_999_999;

/// The byte after the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flag {
    /// No flag.
    Plain,
    /// Somebody waits for it.
    Awaited,
    /// It was taken without reading the queue, and no script has seen it since.
    Provisional,
}

impl Flag {
    const fn byte(self) -> u8 {
        match self {
            Self::Plain => b'-',
            Self::Awaited => b'+',
            Self::Provisional => b'?',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Plain, Self::Awaited, Self::Provisional].into_iter().find(|flag| flag.byte() == byte)
    }
}

/// The value of a lease: the prefix, a flag, the holder's digits, a point and the fence if it has
/// one, and, if there is a label, a space and the label.
#[must_use]
pub fn value_of(flag: Flag, holder: Holder, fence: Option<Fence>, label: Option<&Label>) -> Vec<u8> {
    let (beginning, fence) = (beginning_of(flag, holder), fence.map(|fence| fence.to_string()));
    let [space, label] = tail_parts(label);
    match &fence {
        Some(fence) => [&beginning, fence.as_bytes(), space, label].concat(),
        None => [&beginning[..beginning.len() - 1], space, label].concat(),
    }
}

/// The part of a value before the fence, which no other attempt's value has.
#[must_use]
pub fn beginning_of(flag: Flag, holder: Holder) -> [u8; 37] {
    let mut beginning = [b'.'; 37];
    beginning[..3].copy_from_slice(MARK);
    beginning[3] = flag.byte();
    beginning[4..36].copy_from_slice(&holder.digit_bytes());
    beginning
}

/// The part of a value after the fence: nothing, or a space and the label. Scripts write the part
/// before it.
#[must_use]
pub fn tail_of(label: Option<&Label>) -> Vec<u8> {
    tail_parts(label).concat()
}

pub(crate) fn tail_parts(label: Option<&Label>) -> [&[u8]; 2] {
    label.map_or([b"", b""], |label| [b" ", label.as_str().as_bytes()])
}

/// The holder that a value names, and the fence of its lease. A value that does not have exactly
/// our form belongs to another program.
#[must_use]
pub fn read(value: &[u8]) -> (Owner, Option<Fence>) {
    match ours(value) {
        Some((_, holder, fence, label)) => (Owner::Holder { holder, label }, fence),
        None => (Owner::Foreign { value: value.into() }, None),
    }
}

/// The flag of our lease.
#[must_use]
pub fn flag(value: &[u8]) -> Option<Flag> {
    ours(value).map(|(flag, ..)| flag)
}

fn ours(value: &[u8]) -> Option<(Flag, Holder, Option<Fence>, Option<Label>)> {
    let (flag, rest) = value.strip_prefix(MARK)?.split_first()?;
    let (digits, rest) = rest.split_at_checked(Holder::DIGITS)?;
    let (fence, rest) = match rest {
        [b'.', rest @ ..] => {
            let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (fence, rest) = rest.split_at_checked(len).filter(|_| (1..=16).contains(&len))?;
            (Some(Fence::new(number(fence)?)?), rest)
        }
        _ => (None, rest),
    };
    let label = match rest {
        [] => None,
        // A label that no holder may have was not written by one. Scripts check it by the same rule
        // (`is_label` in `state.lua`).
        [b' ', label @ ..] => Some(Label::new(std::str::from_utf8(label).ok()?).ok()?),
        _ => return None,
    };
    Some((Flag::of(*flag)?, Holder::from_digits(digits)?, fence, label))
}

/// The value of a mark: the time, a space and the fence, a space and the period or `-`, and, if
/// there is a label, a space and the label.
#[must_use]
pub fn mark_of(mark: &Mark) -> Vec<u8> {
    let period = mark.period.map_or_else(|| "-".into(), |period| period.as_micros().to_string());
    let done = format!("{} {} {period}", mark.at.as_micros(), mark.fence);
    [done.as_bytes(), &tail_of(mark.label.as_ref())].concat()
}

/// Decodes a mark; `None` if it is not one of ours.
#[must_use]
pub fn read_mark(value: &[u8]) -> Option<Mark> {
    let mut words = value.splitn(4, |&byte| byte == b' ');
    let at = number(words.next()?).map(Stamp::from_micros)?;
    let fence = number(words.next()?).and_then(Fence::new)?;
    let period = match words.next()? {
        b"-" => None,
        micros => Some(Duration::from_micros(number(micros)?)),
    };
    let mark = Mark::new(at, fence, words.next().map(Label::read));
    Some(match period {
        Some(period) => mark.every(period),
        None => mark,
    })
}

/// The part of a break's record that the caller knows: the fence, a space, who, a line feed, why. A
/// label contains no line feed.
#[must_use]
pub fn break_record(lease: &LeaseBreak) -> Vec<u8> {
    let said = |label: &Option<Label>| label.as_ref().map_or_else(String::new, |label| label.as_str().into());
    let LeaseBreak { recorded, note, .. } = lease;
    format!("{recorded} {}\n{}", said(&note.by), said(&note.reason)).into_bytes()
}

/// Decodes the record of a break; `None` if it is not one of ours.
#[must_use]
pub fn read_break(key: &Key, value: &[u8]) -> Option<BreakRecord> {
    let mut words = value.splitn(3, |&byte| byte == b' ');
    let at = number(words.next()?).map(Stamp::from_micros)?;
    let fence = number(words.next()?).and_then(Fence::new)?;
    let mut said = words.next()?.splitn(3, |&byte| byte == b'\n').map(Label::read);
    let (by, reason, held_by) = (said.next(), said.next(), said.next()?);
    Some(BreakRecord::new(key.clone(), at, fence, Some(held_by), BreakNote { by, reason }))
}

/// The value of a key that several holders share: to earlier versions, another program's lock.
#[must_use]
pub fn marker_of(family: Family) -> Vec<u8> {
    [MARK, b" ", family.to_string().as_bytes()].concat()
}

/// The family that shares the key, if the value is exactly a marker.
#[must_use]
pub fn family(value: &[u8]) -> Option<Family> {
    Family::read(std::str::from_utf8(value.strip_prefix(MARK)?.strip_prefix(b" ")?).ok()?)
}

/// The mode of a key in the arguments of scripts.
#[must_use]
pub fn mode_of(mode: Mode) -> Cow<'static, str> {
    match mode {
        Mode::Shared => "s".into(),
        Mode::Permits { weight, of } => format!("p{weight}/{of}").into(),
        _ => "x".into(),
    }
}

/// The mode in a waiter's record: as in the arguments of scripts, but nothing for exclusive.
pub(crate) fn read_mode(text: &[u8]) -> Option<Mode> {
    match text {
        b"" => Some(Mode::Exclusive),
        b"s" => Some(Mode::Shared),
        _ => Mode::read(&format!("permits {}", std::str::from_utf8(text.strip_prefix(b"p")?).ok()?)),
    }
}

/// The channel of a connection: `leasehold:` and 32 digits of random bits, new for each connection.
/// A program that knows it could send false messages to the connection.
#[must_use]
pub fn channel_of(bits: u128) -> Channel {
    Channel::new(format!("{}{bits:032x}", Key::RESERVED))
}

/// The channel on which all holders are notified of broken leases. It is one channel for all, so
/// that breaking a lease does not require knowing its holder's channel.
pub const BROKEN: &[u8] = b"leasehold:broken";

/// The content of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "receivers must handle every field")]
pub struct PushMessage {
    /// The attempt that it concerns.
    pub holder: Holder,
    /// The event.
    pub event: PushEvent,
    /// The proof of a grant.
    pub nonce: Option<Nonce>,
}

/// Decodes a message on one of our channels; `None` if it is no push: anybody may publish.
///
/// It is a letter and 32 digits of the holder; then for `g` (granted) the fence, the number of
/// milliseconds and the 32 digits of the nonce, for `f` (first) the number of milliseconds that are
/// left, for `a` (ask again) and `b` (broken) nothing; separated by spaces. In place of the last
/// field, or behind it, older builds write the key: that proves nothing and is ignored.
#[must_use]
pub fn read_push(payload: &[u8]) -> Option<PushMessage> {
    let mut words = payload.split(|&byte| byte == b' ');
    let (letter, digits) = (words.next()?, words.next()?);
    let event = match letter {
        b"g" => PushEvent::Granted {
            fence: Fence::new(number(words.next()?)?)?,
            lasts: Ttl::new(ms(words.next()?)?).ok()?,
        },
        b"f" => PushEvent::First { left: ms(words.next()?)? },
        b"a" => PushEvent::AskAgain,
        b"b" => PushEvent::Broken,
        _ => return None,
    };
    let granted = matches!(event, PushEvent::Granted { .. });
    let nonce = words.next().filter(|_| granted).and_then(Nonce::from_digits);
    Some(PushMessage { holder: Holder::from_digits(digits)?, event, nonce })
}

fn ms(digits: &[u8]) -> Option<Duration> {
    number(digits).map(Duration::from_millis)
}

/// Only digits, without a sign.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let next = |number: u64, &digit: &u8| {
        let digit = char::from(digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    digits.iter().try_fold(0, next).filter(|_| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLDER: Holder = Holder::from_bits(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    const DIGITS: &str = "0123456789abcdef0011223344556677";

    fn lease(fence: Option<u64>, label: Option<&str>) -> (Owner, Option<Fence>) {
        let label = label.map(|label| Label::read(label.as_bytes()));
        (Owner::Holder { holder: HOLDER, label }, fence.map(|fence| Fence::new(fence).unwrap()))
    }

    #[test]
    fn a_lease_has_these_bytes() {
        let plain = |label| value_of(Flag::Plain, HOLDER, Fence::new(1_700_000_000_000_007), label);
        assert_eq!(plain(None), format!("lh1-{DIGITS}.1700000000000007").as_bytes());
        let label = Label::new("web-3 größe").unwrap();
        assert_eq!(plain(Some(&label)), format!("lh1-{DIGITS}.1700000000000007 web-3 größe").as_bytes());
        let empty = Label::new("").ok();
        assert_eq!(plain(empty.as_ref()), format!("lh1-{DIGITS}.1700000000000007 ").as_bytes());
        let of = |flag| value_of(flag, HOLDER, None, empty.as_ref());
        assert_eq!(of(Flag::Awaited), format!("lh1+{DIGITS} ").as_bytes());
        assert_eq!(of(Flag::Provisional), format!("lh1?{DIGITS} ").as_bytes());
        assert_eq!(beginning_of(Flag::Plain, HOLDER)[..], *format!("lh1-{DIGITS}.").as_bytes());
    }

    #[test]
    fn a_mark_has_these_bytes() {
        let mark = |label| {
            let (at, fence) = (Stamp::from_micros(1_700_000_000_000_000), Fence::new(1_700_000_000_000_007));
            Mark::new(at, fence.unwrap(), label)
        };
        assert_eq!(mark_of(&mark(None)), b"1700000000000000 1700000000000007 -");
        let labelled = mark(Label::new("web-3 a").ok());
        assert_eq!(mark_of(&labelled), b"1700000000000000 1700000000000007 - web-3 a");
        let hourly = mark(Label::new("web-3 a").ok()).every(Duration::from_secs(3600));
        assert_eq!(mark_of(&hourly), b"1700000000000000 1700000000000007 3600000000 web-3 a");
        for mark in [mark(None), labelled, hourly] {
            assert_eq!(read_mark(&mark_of(&mark)), Some(mark));
        }
        for strange in
            ["", "1", "1 ", " 1", "1 1", "-1 1 -", "1 9007199254740992 -", "a b -", "1 1 web-3", "1 1 "]
        {
            assert_eq!(read_mark(strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn the_record_of_a_break_has_these_bytes() {
        let key = Key::new("k").unwrap();
        let label = |text| Label::new(text).ok();
        let record = |by: Option<Label>, reason: Option<Label>, held_by: Option<Label>| {
            let note = BreakNote { by, reason };
            BreakRecord::new(key.clone(), Stamp::from_micros(5), Fence::new(7).unwrap(), held_by, note)
        };
        let note = BreakNote { by: label("ada@h:1"), reason: label("hangs since noon") };
        let lease = |note| LeaseBreak { fence: Fence::MAX, recorded: Fence::new(7).unwrap(), note };
        assert_eq!(break_record(&lease(note)), b"7 ada@h:1\nhangs since noon");
        assert_eq!(break_record(&lease(BreakNote::default())), b"7 \n");
        let full = record(label("ada@h:1"), label("hangs since noon"), label("web-3 deploy"));
        assert_eq!(read_break(&key, b"5 7 ada@h:1\nhangs since noon\nweb-3 deploy"), Some(full));
        assert_eq!(read_break(&key, b"5 7 \n\n"), Some(record(None, None, None)));
        for strange in ["", "5", "5 7", "5 7 ", "5 7 a\nb", "5 -7 a\nb\nc", "x 7 a\nb\nc"] {
            assert_eq!(read_break(&key, strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn a_lease_is_one_with_every_flag() {
        for (flag, read_as) in [("-", Flag::Plain), ("+", Flag::Awaited), ("?", Flag::Provisional)] {
            assert_eq!(super::flag(format!("lh1{flag}{DIGITS} a").as_bytes()), Some(read_as));
            let read = |rest: &str| read(format!("lh1{flag}{DIGITS}{rest}").as_bytes());
            assert_eq!(read(""), lease(None, None));
            assert_eq!(read(" a b"), lease(None, Some("a b")));
            assert_eq!(read(" "), lease(None, Some("")));
            assert_eq!(read(" .7"), lease(None, Some(".7")));
            assert_eq!(read(".7"), lease(Some(7), None));
            assert_eq!(read(".9007199254740991 a .8"), lease(Some(Fence::MAX.get()), Some("a .8")));
        }
    }

    #[test]
    fn any_other_value_belongs_to_another_program() {
        let [above, long] = [".9007199254740992", ".00000000000000007"];
        let label = format!(" {}", "x".repeat(Label::MAX_LEN + 1));
        let behind = ["8", "\n", ".", ". a", ".-7", ".7a", above, long, " a\nb", " a\u{85}b", &label];
        let ours = behind.map(|rest| format!("lh1-{DIGITS}{rest}"));
        let [upper, short] = [&*DIGITS.to_uppercase(), &DIGITS[1..]].map(|digits| format!("lh1-{digits}"));
        let [flag, version] = ["lh1!", "lh2-"].map(|prefix| format!("{prefix}{DIGITS}"));
        let others =
            ["", "lh1", "lh1-", DIGITS, "lh1 shared", "lh1 permits 4", &upper, &short, &flag, &version];
        for value in ours.iter().map(String::as_str).chain(others) {
            let value = value.as_bytes();
            assert_eq!(read(value), (Owner::Foreign { value: value.into() }, None));
        }
    }

    #[test]
    fn a_marker_has_these_bytes_and_nothing_else_is_one() {
        let most = Mode::MOST_PERMITS;
        for (kind, bytes) in [
            (Family::Shared, "lh1 shared".to_owned()),
            (Family::Permits { of: 4 }, "lh1 permits 4".into()),
            (Family::Permits { of: most }, format!("lh1 permits {most}")),
        ] {
            assert_eq!(marker_of(kind), bytes.as_bytes());
            assert_eq!(family(bytes.as_bytes()), Some(kind));
        }
        for value in
            ["lh1shared", "lh1 shared ", "lh1 Shared", "lh2 shared", "lh1 permits 0", "lh1 permits 04"]
        {
            assert_eq!(family(value.as_bytes()), None, "{value}");
        }
        assert_eq!(family(format!("lh1 permits {}", most + 1).as_bytes()), None);
    }

    #[test]
    fn modes_have_these_bytes() {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::permits(2, 4).unwrap()];
        assert_eq!(modes.map(mode_of), ["x", "s", "p2/4"]);
        assert_eq!([&b""[..], b"s", b"p2/4"].map(read_mode), modes.map(Some));
        for text in ["x", "p", "p0/4", "p5/4", "p2/", "ss"] {
            assert_eq!(read_mode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn pushes_have_these_bytes() {
        let told = |event| Some(PushMessage { holder: HOLDER, event, nonce: None });
        let (fence, lasts) =
            (Fence::new(1_700_000_000_000_000).unwrap(), Ttl::new(Duration::from_secs(2)).unwrap());
        let granted = format!("g {DIGITS} 1700000000000000 2000");
        let nonce = Some(Nonce::from_bits(0xef));
        let proven = format!("{granted} {}ef", "0".repeat(30));
        let proof = PushMessage { holder: HOLDER, event: PushEvent::Granted { fence, lasts }, nonce };
        assert_eq!(read_push(proven.as_bytes()), Some(proof));
        assert_eq!(read_push(format!("{proven}0").as_bytes()), told(PushEvent::Granted { fence, lasts }));
        let first = PushEvent::First { left: Duration::from_millis(1500) };
        // Older builds send the key too, which proves nothing.
        for key in ["", " a b"] {
            let said = |what: String| read_push(format!("{what}{key}").as_bytes());
            assert_eq!(said(granted.clone()), told(PushEvent::Granted { fence, lasts }));
            assert_eq!(said(format!("f {DIGITS} 1500")), told(first));
            assert_eq!(said(format!("a {DIGITS}")), told(PushEvent::AskAgain));
            assert_eq!(said(format!("b {DIGITS}")), told(PushEvent::Broken));
        }
    }

    #[test]
    fn a_message_that_is_not_a_push_is_ignored() {
        let strange = [
            String::new(),
            "g".into(),
            format!("x {DIGITS} a"),
            format!("a{DIGITS}"),
            format!("a {}", &DIGITS[1..]),
            format!("f {DIGITS}"),
            format!("f {DIGITS} -1"),
            format!("f {DIGITS} +1"),
            format!("g {DIGITS} 1"),
            format!("g {DIGITS} 9007199254740992 2000"),
            format!("g {DIGITS} 1 0"),
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
        fn no_bytes_make_reading_panic(value: Vec<u8>) {
            let _ = read(&value);
            let _ = read_push(&value);
            let _ = (read_mark(&value), read_break(&Key::new("k").unwrap(), &value));
        }
    }
}
