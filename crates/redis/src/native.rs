//! The commands that a server has of its own for what is asked most: they are a little quicker than scripts, and see no line.

use leasehold_core::{Attempt, Claim};
use redis::{Cmd, cmd};

use crate::slot::{Side, side_key};
use crate::wire::{Flag, value_of};

/// How a server deletes a key that still has a certain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteIfEqual {
    /// `DELIFEQ`, of Valkey 9.0.
    Delifeq,
    /// `DELEX … IFEQ`, of Redis 8.4.
    Delex,
}

/// Takes a key that nobody has, and counts its fence on: two commands, for one pipeline, in this order. `None` for a claim on
/// several keys.
///
/// It is granted only if the first says `OK`, the second a number that is no less than the server's clock was when the connection
/// was made, and both in time. The value is provisional: it was taken without a look at the line. Whoever sends it sends it as an
/// attempt's first word, and releases by a script if it is not granted. Nothing sends it yet: while the fence of a key with a line
/// stands where `INCR` finds it, the pair would slip past the line whenever a lease ends.
#[must_use]
pub fn native_pair(attempt: &Attempt) -> Option<[Cmd; 2]> {
    let key = only_key(&attempt.claim)?;
    let value = value_of(Flag::Provisional, attempt.holder, attempt.label.as_ref());
    let mut set = cmd("SET");
    set.arg(key.as_bytes()).arg(value).arg("NX").arg("PX").arg(attempt.ttl.as_millis());
    let mut count = cmd("INCR");
    count.arg(side_key(Side::Fence, key));
    Some([set, count])
}

/// Deletes a key that still has the value which [`native_pair`] wrote: then nobody waits for it. `None` for a claim on several keys.
///
/// A miss says nothing: the script must be asked.
#[must_use]
pub fn native_release(attempt: &Attempt, how: DeleteIfEqual) -> Option<Cmd> {
    let key = only_key(&attempt.claim)?;
    let value = value_of(Flag::Provisional, attempt.holder, attempt.label.as_ref());
    let mut delete = Cmd::new();
    match how {
        DeleteIfEqual::Delifeq => delete.arg("DELIFEQ").arg(key.as_bytes()),
        DeleteIfEqual::Delex => delete.arg("DELEX").arg(key.as_bytes()).arg("IFEQ"),
    };
    delete.arg(value);
    Some(delete)
}

fn only_key(claim: &Claim) -> Option<&leasehold_core::Key> {
    Some(claim.first_key()).filter(|_| claim.wants().len() == 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::{Holder, Key, Label, Ttl};

    use super::*;

    fn attempt(keys: &[&str]) -> Attempt {
        let claim = Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), ttl)
    }

    /// The words, each between bars.
    fn words(command: &Cmd) -> String {
        let words = command.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => word.escape_ascii().to_string(),
            other => panic!("{other:?}"),
        });
        words.collect::<Vec<_>>().join("|")
    }

    const VALUE: &str = "lh1?000000000000000000000000000000ab web-3";

    #[test]
    fn native_commands_have_these_words() {
        let ours = attempt(&["a"]);
        let [set, count] = native_pair(&ours).unwrap();
        assert_eq!(words(&set), format!("SET|a|{VALUE}|NX|PX|10000"));
        assert_eq!(words(&count), "INCR|leasehold:f{a}a");
        let release = |how| words(&native_release(&ours, how).unwrap());
        assert_eq!(release(DeleteIfEqual::Delifeq), format!("DELIFEQ|a|{VALUE}"));
        assert_eq!(release(DeleteIfEqual::Delex), format!("DELEX|a|IFEQ|{VALUE}"));
    }

    #[test]
    fn several_keys_are_for_scripts() {
        let several = attempt(&["a", "b"]);
        assert!(native_pair(&several).is_none());
        assert!(native_release(&several, DeleteIfEqual::Delifeq).is_none());
    }
}
