//! Where a process hears: the number of a channel, as core, the tables and the server each know it.

use leasehold_core::Channel;

/// What the names of channels begin with.
const PREFIX: &str = "leasehold_";

/// The channel of a number, as core knows it.
pub(crate) fn of_number(number: i64) -> Channel {
    Channel::new(format!("{:016x}", number.cast_unsigned()))
}

/// The number of a channel; `None` for one that is none of this store's.
pub(crate) fn number(channel: &Channel) -> Option<i64> {
    let digits = std::str::from_utf8(channel.as_bytes()).ok().filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

/// The name by which the server knows the channel of a number.
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
