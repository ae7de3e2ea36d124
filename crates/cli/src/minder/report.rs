//! What the minder tells us at its end: one record of six bytes, a letter, a number and whether the command had to end.

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// Whether the command was ended because of its lease.
    pub(crate) doomed: bool,
}

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended, with what `wait` says of it, bit by bit.
    Ended(i32),
    /// It was not started, with the system's error number.
    NotStarted(i32),
}

impl Report {
    pub(crate) const LENGTH: usize = 6;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let (letter, number) = match self.outcome {
            Outcome::Ended(status) => (b'E', status),
            Outcome::NotStarted(error) => (b'N', error),
        };
        let mut bytes = [letter; Self::LENGTH];
        bytes[1..5].copy_from_slice(&number.to_le_bytes());
        bytes[5] = u8::from(self.doomed);
        bytes
    }

    /// Reads a record. `None` for anything else: the minder died before it could say more.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [letter, number @ .., doomed] = *<&[u8; Self::LENGTH]>::try_from(bytes).ok()?;
        let number = i32::from_le_bytes(number);
        let outcome = match letter {
            b'E' => Outcome::Ended(number),
            b'N' => Outcome::NotStarted(number),
            _ => return None,
        };
        Some(Self { outcome, doomed: doomed != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        for outcome in [Outcome::Ended(0x8b), Outcome::Ended(0xff00), Outcome::NotStarted(2)] {
            for doomed in [false, true] {
                let report = Report { outcome, doomed };
                assert_eq!(Report::parse(&report.to_bytes()), Some(report));
            }
        }
        for bytes in [&b""[..], b"E\0\0\0\0", b"E\0\0\0\0\0\0", b"X\0\0\0\0\0"] {
            assert_eq!(Report::parse(bytes), None, "{bytes:?}");
        }
    }
}
