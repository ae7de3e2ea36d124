//! Messages between processes: pushes about one key to one process, as the bytes of a datagram.

use std::time::Duration;

use leasehold_core::{Fence, Holder, Key, PushEvent, Stamp, Ttl};

/// The first byte of every message. Programs that know another form ignore these, and poll.
const FORM: u8 = 2;

/// The most bytes of a message, as every system sends them. Pushes travel together because Linux
/// keeps only some ten datagrams that were not received yet.
pub(crate) const LONGEST: usize = 2048;

/// The bytes before the key: the form, the time and the length of the key.
const HEADER: usize = 1 + 8 + 2;

/// The bytes of one push.
const PUSH: usize = 16 + 1 + 8 + 8;

/// Encodes pushes and their time: all processes of a machine read the same clock.
pub(crate) fn write(key: &Key, at: Stamp, pushes: &[(Holder, PushEvent)]) -> impl Iterator<Item = Vec<u8>> {
    let room = (LONGEST - HEADER - key.as_bytes().len()) / PUSH;
    pushes.chunks(room).map(move |pushes| {
        let mut bytes = Vec::with_capacity(HEADER + key.as_bytes().len() + pushes.len() * PUSH);
        bytes.push(FORM);
        bytes.extend(at.as_micros().to_be_bytes());
        bytes.extend((key.as_bytes().len() as u16).to_be_bytes());
        bytes.extend(key.as_bytes());
        for (holder, event) in pushes {
            let (kind, one, two) = match event {
                PushEvent::Granted { fence, lasts } => (b'g', fence.get(), lasts.as_millis()),
                PushEvent::AskAgain => (b'a', 0, 0),
                PushEvent::Broken => (b'b', 0, 0),
                PushEvent::First { left } => (b'f', u64::try_from(left.as_micros()).unwrap_or(u64::MAX), 0),
            };
            bytes.extend(holder.bits().to_be_bytes());
            bytes.push(kind);
            bytes.extend(one.to_be_bytes());
            bytes.extend(two.to_be_bytes());
        }
        bytes
    })
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) key: Key,
    pub(crate) at: Stamp,
    pub(crate) pushes: Vec<(Holder, PushEvent)>,
}

/// Decodes a message; `None` if the bytes are not one.
pub(crate) fn read(bytes: &[u8]) -> Option<Message> {
    let rest = bytes.strip_prefix(&[FORM])?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (key, pushes) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let pushes = pushes.chunks(PUSH).map(read_push).collect::<Option<_>>()?;
    Some(Message { key: Key::new(key).ok()?, at: Stamp::from_micros(u64::from_be_bytes(*at)), pushes })
}

fn read_push(bytes: &[u8]) -> Option<(Holder, PushEvent)> {
    let (holder, rest) = bytes.split_first_chunk::<16>()?;
    let (kind, rest) = rest.split_first()?;
    let (one, rest) = rest.split_first_chunk::<8>()?;
    let (one, two) = (u64::from_be_bytes(*one), u64::from_be_bytes(rest.try_into().ok()?));
    let event = match kind {
        b'g' => {
            PushEvent::Granted { fence: Fence::new(one)?, lasts: Ttl::new(Duration::from_millis(two)).ok()? }
        }
        b'a' => PushEvent::AskAgain,
        b'b' => PushEvent::Broken,
        b'f' => PushEvent::First { left: Duration::from_micros(one) },
        _ => return None,
    };
    Some((Holder::from_bits(u128::from_be_bytes(*holder)), event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_messages_are_read_back() {
        let lasts = Ttl::new(Duration::from_millis(1500)).unwrap();
        let holder = Holder::from_bits(u128::MAX - 5);
        let pushes = [
            PushEvent::Granted { fence: Fence::new(17).unwrap(), lasts },
            PushEvent::AskAgain,
            PushEvent::Broken,
            PushEvent::First { left: Duration::from_micros(77) },
        ]
        .map(|event| (holder, event));
        let message = Message {
            key: Key::new([b'k'; Key::MAX_LEN]).unwrap(),
            at: Stamp::from_micros(99),
            pushes: pushes.to_vec(),
        };
        let bytes = write(&message.key, message.at, &message.pushes).next().unwrap();
        let ends =
            |short: usize| short >= HEADER + Key::MAX_LEN && (bytes.len() - short).is_multiple_of(PUSH);
        assert!((0..bytes.len()).all(|short| ends(short) || read(&bytes[..short]).is_none()));
        assert_eq!(read(&bytes), Some(message));
        assert_eq!(read(&[&[FORM - 1], &bytes[1..]].concat()), None);
    }

    #[test]
    fn many_pushes_fit_into_few_datagrams_and_keep_their_order() {
        for length in [1, Key::MAX_LEN] {
            let key = Key::new(vec![b'k'; length]).unwrap();
            let pushes: Vec<_> =
                (0..100).map(|bits| (Holder::from_bits(bits), PushEvent::AskAgain)).collect();
            let written: Vec<_> = write(&key, Stamp::from_micros(1), &pushes).collect();
            assert!(written.len() <= 4 && written.iter().all(|bytes| bytes.len() <= LONGEST));
            let read: Vec<_> = written.iter().flat_map(|bytes| read(bytes).unwrap().pushes).collect();
            assert_eq!(read, pushes);
        }
    }
}
