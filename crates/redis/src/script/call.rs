//! A script, and a call of it.

use std::sync::OnceLock;

use redis::Cmd;

use super::words::Words;

/// A script, known to servers by the SHA-1 of its text.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, sha: OnceLock::new() }
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 of the text, in lower-case hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a test runs a script of its own with the keys and arguments of another"
)]
pub struct Call {
    /// The script.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Words,
    /// `ARGV`.
    pub args: Words,
}

impl Call {
    /// The command that runs the script if the server knows it, and answers `NOSCRIPT` otherwise.
    #[must_use]
    pub fn by_sha(&self) -> Cmd {
        self.command("EVALSHA", self.script.sha())
    }

    /// The command that runs the script whether or not the server knows it; after that the server
    /// knows it.
    #[must_use]
    pub fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text())
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let Self { keys, args, .. } = self;
        /// The digits of the number of keys.
        const DIGITS: usize = 10;
        let size = name.len() + script.len() + DIGITS + keys.size() + args.size();
        let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), size);
        command.arg(name).arg(script).arg(keys.len());
        for word in keys.iter().chain(args.iter()) {
            command.arg(word);
        }
        command
    }
}
