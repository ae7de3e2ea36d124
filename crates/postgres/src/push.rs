//! Messages between processes: a push as the payload of a notification.
//!
//! Anybody who may connect to the database may notify. So a payload is parsed with care, and a
//! grant is accepted only with its secret.

use std::time::Duration;

use leasehold_core::{Fence, Holder, Nonce, PushEvent, Stamp, Ttl};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushMessage {
    pub(crate) holder: Holder,
    pub(crate) event: PushEvent,
    pub(crate) nonce: Option<Nonce>,
    /// The server's clock at the time of the event.
    pub(crate) at: Stamp,
}

/// A payload: the holder, the event, its time, and further data, separated by spaces.
pub(crate) fn write(told: &PushMessage) -> String {
    let (holder, at) = (told.holder.digits(), told.at.as_micros());
    match told.event {
        PushEvent::Granted { fence, lasts } => {
            let nonce = told.nonce.map(|nonce| nonce.digit_bytes().into_iter().map(char::from).collect());
            let nonce: String = nonce.unwrap_or_else(|| "-".into());
            format!("{holder} granted {at} {fence} {} {nonce}", lasts.as_millis())
        }
        PushEvent::AskAgain => format!("{holder} ask {at}"),
        PushEvent::First { left } => format!("{holder} first {at} {}", left.as_micros()),
        PushEvent::Broken => format!("{holder} broken {at}"),
    }
}

/// Decodes a payload; `None` for anything else.
pub(crate) fn read(payload: &str) -> Option<PushMessage> {
    let mut words = payload.split(' ');
    let holder = Holder::from_digits(words.next()?.as_bytes())?;
    let kind = words.next()?;
    let at = Stamp::from_micros(words.next()?.parse().ok()?);
    let mut nonce = None;
    let event = match kind {
        "granted" => {
            let fence = Fence::new(words.next()?.parse().ok()?)?;
            let lasts = Ttl::new(Duration::from_millis(words.next()?.parse().ok()?)).ok()?;
            nonce = Nonce::from_digits(words.next()?.as_bytes());
            PushEvent::Granted { fence, lasts }
        }
        "ask" => PushEvent::AskAgain,
        "first" => PushEvent::First { left: Duration::from_micros(words.next()?.parse().ok()?) },
        "broken" => PushEvent::Broken,
        _ => return None,
    };
    words.next().is_none().then_some(PushMessage { holder, event, nonce, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_messages_are_read_back() {
        let lasts = Ttl::new(Duration::from_millis(1500)).unwrap();
        let granted = PushEvent::Granted { fence: Fence::new(17).unwrap(), lasts };
        for (event, nonce) in [
            (granted, Some(Nonce::from_bits(77))),
            (granted, None),
            (PushEvent::AskAgain, None),
            (PushEvent::Broken, None),
            (PushEvent::First { left: Duration::from_micros(77) }, None),
        ] {
            let told = PushMessage {
                holder: Holder::from_bits(u128::MAX - 5),
                event,
                nonce,
                at: Stamp::from_micros(99),
            };
            let payload = write(&told);
            assert_eq!(read(&payload), Some(told));
            assert_eq!(read(&format!("{payload} x")), None);
            assert_eq!(read(&payload[1..]), None);
        }
        for payload in ["", " ", "granted", "\u{0}", "00000000000000000000000000000001 granted 1 1 0 -"] {
            assert_eq!(read(payload), None, "{payload:?}");
        }
    }
}
