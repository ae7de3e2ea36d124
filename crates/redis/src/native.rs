//! The command by which some servers delete a key that still has a certain value: a little quicker than a script.

use leasehold_core::Key;
use redis::{Cmd, ServerError, Value, cmd};

/// How a server deletes a key that still has a certain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteIfEqual {
    /// `DELIFEQ`, of Valkey 9.0.
    Delifeq,
    /// `DELEX … IFEQ`, of Redis 8.4.
    Delex,
}

impl DeleteIfEqual {
    const ALL: [Self; 2] = [Self::Delifeq, Self::Delex];

    const fn name(self) -> &'static str {
        match self {
            Self::Delifeq => "DELIFEQ",
            Self::Delex => "DELEX",
        }
    }
}

/// What is asked to learn which of the commands a server has: each without the words that it needs. A server says that they are
/// missing before it looks at permissions, and touches no key.
#[must_use]
pub fn probes() -> [Cmd; 2] {
    DeleteIfEqual::ALL.map(|how| cmd(how.name()))
}

/// What the answers to [`probes`] tell: the command that the server has, if it has one.
#[must_use]
pub fn probed(answers: &[Value]) -> Option<DeleteIfEqual> {
    let known = |answer: &Value| match answer {
        Value::ServerError(error) => says(error, "wrong number of arguments"),
        _ => false,
    };
    DeleteIfEqual::ALL.into_iter().zip(answers).find(|(_, answer)| known(answer)).map(|(how, _)| how)
}

/// Whether a server that refused the command with these words will always refuse it.
pub(crate) fn is_out_of_reach(error: &ServerError) -> bool {
    error.code() == "NOPERM" || says(error, "unknown command")
}

fn says(error: &ServerError, words: &str) -> bool {
    error.details().is_some_and(|details| details.contains(words))
}

/// Deletes a key that has a value still.
#[must_use]
pub fn delete(key: &Key, value: &[u8], how: DeleteIfEqual) -> Cmd {
    let mut delete = cmd(how.name());
    delete.arg(key.as_bytes());
    if how == DeleteIfEqual::Delex {
        delete.arg("IFEQ");
    }
    delete.arg(value);
    delete
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words, each between bars.
    fn words(command: &Cmd) -> String {
        let words = command.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => word.escape_ascii().to_string(),
            other => panic!("{other:?}"),
        });
        words.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn they_have_these_words() {
        let delete = |how| words(&delete(&Key::new("a").unwrap(), b"value", how));
        assert_eq!(delete(DeleteIfEqual::Delifeq), "DELIFEQ|a|value");
        assert_eq!(delete(DeleteIfEqual::Delex), "DELEX|a|IFEQ|value");
        assert_eq!(probes().map(|probe| words(&probe)), ["DELIFEQ", "DELEX"]);
    }

    #[test]
    fn only_a_command_that_lacks_its_words_is_there() {
        let probed = |answers: [&str; 2]| {
            let answers =
                answers.map(|line| redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap());
            probed(&answers)
        };
        let lacks = "ERR wrong number of arguments for 'delifeq' command";
        let unknown = "ERR unknown command 'DELEX', with args beginning with: ";
        assert_eq!(probed([lacks, unknown]), Some(DeleteIfEqual::Delifeq));
        assert_eq!(probed([unknown, lacks]), Some(DeleteIfEqual::Delex));
        for no in [
            unknown,
            "NOPERM User app has no permissions to run the 'delifeq' command",
            "ERR upstream is away",
        ] {
            assert_eq!(probed([no, no]), None, "{no}");
        }
    }
}
