//! Messages between processes: a push as the bytes of a datagram.

use std::time::Duration;

use leasehold_core::{Fence, Holder, Key, Push, PushEvent, Stamp, Ttl};

/// The first byte of every message. Programs that know another form ignore these messages, and find
/// out by polling.
const FORM: u8 = 1;

/// The most bytes of a message.
pub(crate) const LONGEST: usize = 1 + 16 + 8 + 1 + 8 + 8 + Key::MAX_LEN;

/// Encodes a push and its time: all processes of a machine read the same clock.
pub(crate) fn write(push: &Push, at: Stamp) -> Vec<u8> {
    let (kind, one, two) = match push.event {
        PushEvent::Granted { fence, lasts } => (b'g', fence.get(), lasts.as_millis()),
        PushEvent::AskAgain => (b'a', 0, 0),
        PushEvent::Broken => (b'b', 0, 0),
        PushEvent::First { left } => (b'f', u64::try_from(left.as_micros()).unwrap_or(u64::MAX), 0),
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
pub(crate) fn read(bytes: &[u8]) -> Option<(Holder, Key, PushEvent, Stamp)> {
    let rest = bytes.strip_prefix(&[FORM])?;
    let (holder, rest) = rest.split_first_chunk::<16>()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let (one, rest) = rest.split_first_chunk::<8>()?;
    let (two, key) = rest.split_first_chunk::<8>()?;
    let (one, two) = (u64::from_be_bytes(*one), u64::from_be_bytes(*two));
    let event = match kind {
        b'g' => {
            PushEvent::Granted { fence: Fence::new(one)?, lasts: Ttl::new(Duration::from_millis(two)).ok()? }
        }
        b'a' => PushEvent::AskAgain,
        b'b' => PushEvent::Broken,
        b'f' => PushEvent::First { left: Duration::from_micros(one) },
        _ => return None,
    };
    let holder = Holder::from_bits(u128::from_be_bytes(*holder));
    Some((holder, Key::new(key).ok()?, event, Stamp::from_micros(u64::from_be_bytes(*at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_messages_are_read_back() {
        let key = Key::new([b'k'; Key::MAX_LEN]).unwrap();
        let lasts = Ttl::new(Duration::from_millis(1500)).unwrap();
        for event in [
            PushEvent::Granted { fence: Fence::new(17).unwrap(), lasts },
            PushEvent::AskAgain,
            PushEvent::Broken,
            PushEvent::First { left: Duration::from_micros(77) },
        ] {
            let holder = Holder::from_bits(u128::MAX - 5);
            let push = Push { to: None, holder, key: key.clone(), event, nonce: None };
            let bytes = write(&push, Stamp::from_micros(99));
            assert_eq!(read(&bytes), Some((holder, key.clone(), event, Stamp::from_micros(99))));
            assert!((0..43).all(|short| read(&bytes[..short]).is_none()));
            assert!(bytes.len() <= LONGEST && read(&[&[2], &bytes[1..]].concat()).is_none());
        }
    }
}
