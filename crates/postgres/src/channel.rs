//! The channel of a process: a number, as core, the tables and the server each represent it.

use leasehold_core::Channel;

/// The prefix of the names of channels.
const PREFIX: &str = "leasehold_";

/// The numbers of silent channels: 48 bits with all ones in front.
const SILENT: u64 = !0 << 48;

/// The number of a channel on which a process can listen, from random bits.
pub(crate) const fn of_bits(random: u64) -> i64 {
    (random & !(1 << 63)).cast_signed()
}

/// The channel of a number, as core represents it.
pub(crate) fn of_number(number: i64) -> Channel {
    let bits = number.cast_unsigned();
    if bits & SILENT == SILENT { Channel::silent(bits) } else { Channel::new(format!("{bits:016x}")) }
}

/// The number of a channel; `None` if it is not one of this store.
pub(crate) fn number(channel: &Channel) -> Option<i64> {
    let name = std::str::from_utf8(channel.as_bytes()).ok()?;
    let (digits, in_front) = if channel.is_silent() { (&name[1..], SILENT) } else { (name, 0) };
    let bits = u64::from_str_radix(digits, 16).ok()? | in_front;
    Some(bits.cast_signed()).filter(|number| of_number(*number) == *channel)
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
            let silent = Channel::silent(id.cast_unsigned());
            assert_eq!(number(&silent).map(of_number), Some(silent));
            assert!(!of_number(of_bits(id.cast_unsigned())).is_silent());
        }
        for text in ["", "left", "000000000000000g", "00000000000000001"] {
            assert_eq!(number(&Channel::new(text)), None);
        }
    }
}
