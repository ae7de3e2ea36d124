//! How a lease is written at its key, and what is read there.

use leasehold_core::{Holder, Label, Tenant};

/// What all our values begin with: the version of the format.
pub(crate) const MARK: &[u8] = b"lh1";

/// One byte after it. `-`: nothing special. `+`: somebody waits. `?`: provisional. Only the first is written today; a lease
/// that a later version wrote with another is a lease all the same.
const PLAIN: u8 = b'-';
const FLAGS: &[u8] = b"-+?";

/// The length of a value without label.
const BARE: usize = MARK.len() + 1 + Holder::DIGITS;

/// The value of a lease: the mark, a flag, the holder's digits, and then, where there is a label, a space and the label.
#[must_use]
pub fn value_of(holder: Holder, label: Option<&Label>) -> Vec<u8> {
    let mut value = Vec::with_capacity(BARE + 1 + label.map_or(0, |label| label.as_str().len()));
    value.extend_from_slice(MARK);
    value.push(PLAIN);
    value.extend_from_slice(holder.digits().as_bytes());
    if let Some(label) = label {
        value.push(b' ');
        value.extend_from_slice(label.as_str().as_bytes());
    }
    value
}

/// Who a value says holds the key. What is not exactly of our form is another program's.
#[must_use]
pub fn read(value: &[u8]) -> Tenant {
    ours(value).unwrap_or_else(|| Tenant::Foreign { value: value.into() })
}

fn ours(value: &[u8]) -> Option<Tenant> {
    let (flag, rest) = value.strip_prefix(MARK)?.split_first()?;
    let (digits, rest) = rest.split_at_checked(Holder::DIGITS).filter(|_| FLAGS.contains(flag))?;
    let holder = Holder::from_digits(digits)?;
    let label = match rest {
        [] => None,
        [b' ', label @ ..] => Some(Label::read(label)),
        _ => return None,
    };
    Some(Tenant::Holder { holder, label })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLDER: Holder = Holder::from_bits(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    const DIGITS: &str = "0123456789abcdef0011223344556677";

    fn holder(label: Option<&str>) -> Tenant {
        Tenant::Holder { holder: HOLDER, label: label.map(|label| Label::read(label.as_bytes())) }
    }

    #[test]
    fn a_lease_has_these_bytes() {
        assert_eq!(value_of(HOLDER, None), format!("lh1-{DIGITS}").as_bytes());
        let label = Label::new("web-3 größe").unwrap();
        assert_eq!(value_of(HOLDER, Some(&label)), format!("lh1-{DIGITS} web-3 größe").as_bytes());
        assert_eq!(value_of(HOLDER, Label::new("").ok().as_ref()), format!("lh1-{DIGITS} ").as_bytes());
    }

    #[test]
    fn the_flags_of_later_versions_are_leases_too() {
        for flag in ["-", "+", "?"] {
            assert_eq!(read(format!("lh1{flag}{DIGITS}").as_bytes()), holder(None));
            assert_eq!(read(format!("lh1{flag}{DIGITS} a b").as_bytes()), holder(Some("a b")));
            assert_eq!(read(format!("lh1{flag}{DIGITS} ").as_bytes()), holder(Some("")));
        }
    }

    #[test]
    fn all_else_is_another_programs() {
        let foreign = [
            String::new(),
            "lh1".into(),
            "lh1-".into(),
            format!("lh1!{DIGITS}"),
            format!("lh2-{DIGITS}"),
            format!("lh1-{}", &DIGITS[1..]),
            format!("lh1-{DIGITS}8"),
            format!("lh1-{DIGITS}\n"),
            format!("lh1-{}", DIGITS.to_uppercase()),
            DIGITS.into(),
        ];
        for value in foreign {
            let value = value.as_bytes();
            assert_eq!(read(value), Tenant::Foreign { value: value.into() });
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits: u128, label in proptest::option::of("[ -~äß€]{0,40}")) {
            let holder = Holder::from_bits(bits);
            let label = label.map(|label| Label::new(&label).unwrap());
            prop_assert_eq!(read(&value_of(holder, label.as_ref())), Tenant::Holder { holder, label });
        }

        #[test]
        fn no_bytes_make_reading_panic(value: Vec<u8>) {
            let _ = read(&value);
        }
    }
}
