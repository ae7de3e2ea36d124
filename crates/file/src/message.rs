//! Messages between processes: a push as the bytes of a datagram.

use std::time::Duration;

use leasehold_core::{Fence, Holder, Key, News, Push, Stamp, Ttl};

/// The first byte of every message. Programs that know another form ignore these messages, and find
/// out by polling.
const FORM: u8 = 1;

/// The most bytes of a message.
pub(crate) const LONGEST: usize = 1 + 16 + 8 + 1 + 8 + 8 + Key::MAX_LEN;

/// Encodes a push and its time: all processes of a machine read the same clock.
pub(crate) fn write(push: &Push, at: Stamp) -> Vec<u8> {
    let (kind, one, two) = match push.news {
        News::Granted { fence, lasts } => (b'g', fence.get(), lasts.as_millis()),
        News::AskAgain => (b'a', 0, 0),
        News::Broken => (b'b', 0, 0),
        News::First { left } => (b'f', u64::try_from(left.as_micros()).unwrap_or(u64::MAX), 0),
    };
    let mut bytes = Vec::with_capacity(LONGEST);
    bytes.push(FORM);
    bytes.extend(push.holder.bits().to_be_bytes());
    bytes.extend(at.as_micros().to_be_bytes());
    bytes.push(kind);
    bytes.extend(one.to_be_bytes());
    bytes.extend(two.to_be_bytes());
    bytes.extend(push.key.as_bytes());
    bytes
}

/// Decodes a message and its time; `None` if the bytes are not a message.
pub(crate) fn read(bytes: &[u8]) -> Option<(Holder, Key, News, Stamp)> {
    let rest = bytes.strip_prefix(&[FORM])?;
    let (holder, rest) = rest.split_first_chunk::<16>()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let (one, rest) = rest.split_first_chunk::<8>()?;
    let (two, key) = rest.split_first_chunk::<8>()?;
    let (one, two) = (u64::from_be_bytes(*one), u64::from_be_bytes(*two));
    let news = match kind {
        b'g' => News::Granted { fence: Fence::new(one)?, lasts: Ttl::new(Duration::from_millis(two)).ok()? },
        b'a' => News::AskAgain,
        b'b' => News::Broken,
        b'f' => News::First { left: Duration::from_micros(one) },
        _ => return None,
    };
    let holder = Holder::from_bits(u128::from_be_bytes(*holder));
    Some((holder, Key::new(key).ok()?, news, Stamp::from_micros(u64::from_be_bytes(*at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let key = Key::new([b'k'; Key::MAX_LEN]).unwrap();
        let lasts = Ttl::new(Duration::from_millis(1500)).unwrap();
        for news in [
            News::Granted { fence: Fence::new(17).unwrap(), lasts },
            News::AskAgain,
            News::Broken,
            News::First { left: Duration::from_micros(77) },
        ] {
            let holder = Holder::from_bits(u128::MAX - 5);
            let push = Push { to: None, holder, key: key.clone(), news, nonce: None };
            let bytes = write(&push, Stamp::from_micros(99));
            assert_eq!(read(&bytes), Some((holder, key.clone(), news, Stamp::from_micros(99))));
            assert!((0..43).all(|short| read(&bytes[..short]).is_none()));
            assert!(bytes.len() <= LONGEST && read(&[&[2], &bytes[1..]].concat()).is_none());
        }
    }
}
