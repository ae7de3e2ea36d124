//! The token of a lock that waits for its next holder.

#[cfg(feature = "serde")]
mod serde;

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::{Claim, Fence, Holder, Key, Misuse, Mode};

/// A lock that was transferred and waits for a process to adopt it.
///
/// As a text, by [`Display`](fmt::Display) and [`FromStr`], it can be stored with a job and sent to
/// another process. Anybody who has the text can adopt or release the lock, so keep it as secret as
/// the job itself; `Debug` does not show all of it.
///
/// ```
/// # use leasehold_core::TransferToken;
/// fn receive(job: &str) -> Result<TransferToken, leasehold_core::Misuse> {
///     job.parse() // the text that `to_string` made in the other process
/// }
/// # assert!(receive("no token").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TransferToken {
    /// The keys that are held, and the mode of each.
    pub claim: Claim,
    /// The holder under which the store keeps the lock for the process that adopts it.
    pub holder: Holder,
    /// The fence of the lock, which remains that of the process that adopts it.
    pub fence: Fence,
}

/// The version of the text.
const VERSION: &str = "transfer1";

impl TransferToken {
    /// A token of these parts.
    #[must_use]
    pub const fn new(claim: Claim, holder: Holder, fence: Fence) -> Self {
        Self { claim, holder, fence }
    }
}

/// `transfer1:` and then the fence, the whole id of the holder, the mode, and the keys, separated
/// by commas. It is one word of printable ASCII, because everything else is percent-encoded.
impl fmt::Display for TransferToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, holder, fence } = self;
        write!(f, "{VERSION}:{fence}:{}:", holder.digits())?;
        encode(claim.wants()[0].mode.to_string().as_bytes(), f)?;
        for (nth, key) in claim.keys().enumerate() {
            f.write_char(if nth == 0 { ':' } else { ',' })?;
            encode(key.as_bytes(), f)?;
        }
        Ok(())
    }
}

/// Reads what [`Display`](fmt::Display) writes, and nothing else.
impl FromStr for TransferToken {
    type Err = Misuse;

    fn from_str(text: &str) -> Result<Self, Misuse> {
        let no_token = |reason: &str| Misuse::NotATransferToken { reason: reason.into() };
        let parts: Vec<_> = text.splitn(5, ':').collect();
        let [VERSION, fence, holder, mode, keys] = parts[..] else {
            return Err(no_token("it does not consist of transfer1, fence, holder, mode and keys"));
        };
        let fence = fence.parse().map_err(|_| no_token("its fence is not one"))?;
        let holder =
            Holder::from_digits(holder.as_bytes()).ok_or_else(|| no_token("its holder is not one"))?;
        let mode = decode(mode).and_then(|mode| Mode::read(std::str::from_utf8(&mode).ok()?));
        let mode = mode.ok_or_else(|| no_token("its mode is not one"))?;
        let key = |key: &str| {
            let bytes = decode(key).ok_or_else(|| no_token("a key is not percent-encoded"))?;
            Key::new(bytes).map_err(|misuse| no_token(&misuse.to_string()))
        };
        let keys: Vec<_> = keys.split(',').map(key).collect::<Result<_, _>>()?;
        let token = Self { claim: Claim::all(keys, mode)?, holder, fence };
        // Keys out of order, or written in another way.
        if token.to_string() == text { Ok(token) } else { Err(no_token("it was changed")) }
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b':')
}

fn encode(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in bytes {
        if is_plain(*byte) { f.write_char(char::from(*byte)) } else { write!(f, "%{byte:02X}") }?;
    }
    Ok(())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            plain => plain,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(names: &[&[u8]], mode: Mode) -> TransferToken {
        let claim = Claim::all(names.iter().map(|name| Key::new(name).unwrap()), mode).unwrap();
        TransferToken::new(claim, Holder::from_bits(0xab << 120), Fence::new(7).unwrap())
    }

    #[test]
    fn a_token_is_one_word_that_reads_back() {
        let both = token(&[b"invoice:42", "größe, %\n".as_bytes()], Mode::Exclusive);
        let text =
            "transfer1:7:ab000000000000000000000000000000:exclusive:gr%C3%B6%C3%9Fe%2C%20%25%0A,invoice:42";
        assert_eq!((both.to_string(), text.parse()), (text.to_owned(), Ok(both)));
        let permits = token(&[b"gpus"], Mode::permits(2, 4).unwrap());
        assert!(permits.to_string().ends_with(":permits%202/4:gpus"));
        assert_eq!(permits.to_string().parse(), Ok(permits));
    }

    #[test]
    fn debug_output_does_not_let_anybody_adopt() {
        assert!(!format!("{:?}", token(&[b"k"], Mode::Shared)).contains("ab0000000"));
    }

    #[test]
    fn every_other_text_is_refused_with_the_reason() {
        let good = token(&[b"a", b"b"], Mode::Exclusive).to_string();
        let digits = "ab000000000000000000000000000000";
        for (wrong, reason) in [
            (String::new(), "does not consist"),
            (good.replace("transfer1", "handover2"), "does not consist"),
            (good.replace(":7:", ":x:"), "its fence"),
            (good.replace(digits, "ab"), "its holder"),
            (good.replace("exclusive", "alone"), "its mode"),
            (good.replace("a,b", "%zz"), "percent-encoded"),
            (good.replace("a,b", "%4"), "percent-encoded"),
            (good.replace("a,b", ""), "the key is empty"),
            (good.replace("a,b", "b,a"), "it was changed"),
            (good.replace("a,b", "%61,b"), "it was changed"),
            (format!("{good} "), "it was changed"),
        ] {
            let error = wrong.parse::<TransferToken>().unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains(digits), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_read_as_a_token_that_writes_another(text in "transfer1:[0-9]{1,17}:[0-9a-f]{32}:(shared|exclusive|permits%20[0-9]/[0-9]):.{0,20}") {
            if let Ok(token) = text.parse::<TransferToken>() {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }
}
