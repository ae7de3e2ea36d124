//! The name of what is locked.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::Misuse;

/// The name of what is locked: 1 to 1,024 bytes, taken verbatim.
///
/// Any bytes are allowed, including braces, spaces and bytes that are not UTF-8. Only names that
/// start with `leasehold:` are refused, because the store keeps the fences there.
///
/// ```
/// # use leasehold_core::Key;
/// let key = Key::new("invoice:42")?;
/// assert_eq!((key.to_string(), key.as_bytes()), ("invoice:42".into(), &b"invoice:42"[..]));
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The longest key, in bytes. A longer one is nearly always another value passed by mistake.
    pub const MAX_LEN: usize = 1024;

    /// The prefix that no key may have, because Leasehold's own entries on a server have it.
    pub const RESERVED: &'static str = "leasehold:";

    /// Takes a name as a key.
    ///
    /// # Errors
    ///
    /// [`Misuse`] if the name is empty, longer than [`Key::MAX_LEN`], or starts with
    /// [`Key::RESERVED`].
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, Misuse> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Misuse::EmptyKey);
        }
        if name.len() > Self::MAX_LEN {
            return Err(Misuse::KeyTooLong { len: name.len() });
        }
        if name.starts_with(Self::RESERVED.as_bytes()) {
            return Err(Misuse::ReservedKey { key: Escaped(name).to_string() });
        }
        Ok(Self(name.into()))
    }

    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Escaped as by [`Escaped`].
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Bytes of unknown origin, made fit for one line of a terminal: control characters and bytes that
/// are not UTF-8 are escaped.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    f.write_char(c)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_key_and_come_back_verbatim() {
        for name in [&b"a"[..], b"{", b"}{", b"a b\n", b"\xff\0", &[b'x'; Key::MAX_LEN]] {
            assert_eq!(Key::new(name).unwrap().as_bytes(), name);
        }
    }

    #[test]
    fn empty_long_and_reserved_names_are_refused_by_name() {
        assert_eq!(Key::new("").unwrap_err(), Misuse::EmptyKey);
        assert_eq!(Key::new([b'x'; 1025]).unwrap_err(), Misuse::KeyTooLong { len: 1025 });
        let reserved = Key::new("leasehold:f{}x").unwrap_err();
        assert_eq!(reserved, Misuse::ReservedKey { key: "leasehold:f{}x".into() });
    }

    #[test]
    fn a_key_shows_on_one_line_whatever_its_bytes() {
        assert_eq!(Key::new("größe\n\u{1b}[2J").unwrap().to_string(), "größe\\n\\u{1b}[2J");
        assert_eq!(Key::new(b"a\xff\xfe").unwrap().to_string(), "a\\xff\\xfe");
    }
}
