//! The channel of a process: a number, as core, the tables and the server each represent it.

use leasehold_core::Channel;

/// The prefix of the names of channels.
const PREFIX: &str = "leasehold_";

/// The channel of a number, as core represents it.
pub(crate) fn of_number(number: i64) -> Channel {
    Channel::new(format!("{:016x}", number.cast_unsigned()))
}

/// The number of a channel; `None` if it is not one of this store.
pub(crate) fn number(channel: &Channel) -> Option<i64> {
    let digits = std::str::from_utf8(channel.as_bytes()).ok().filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

/// The server's name for the channel of a number.
pub(crate) fn name(number: i64) -> String {
    format!("{PREFIX}{:016x}", number.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_and_nothing_else_is_one() {
        for id in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(number(&of_number(id)), Some(id));
            assert!(name(id).len() < 64, "an identifier of the server's");
        }
        for text in ["", "left", "000000000000000g", "00000000000000001"] {
            assert_eq!(number(&Channel::new(text)), None);
        }
    }
}
