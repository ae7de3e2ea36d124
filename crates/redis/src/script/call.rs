//! A script, the texts of all, and a call of one.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::OnceLock;

use redis::{Arg, Cmd, RedisWrite as _};

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

/// A script with its keys and arguments. They are written directly into the command that runs it,
/// because every acquisition and release has some twenty.
#[derive(Clone, Debug)]
pub struct Call {
    script: &'static Script,
    /// The number of keys.
    keys: usize,
    command: Cmd,
}

/// The words of a command before the keys: its name, the script, and the number of keys.
const BEFORE_KEYS: usize = 3;

impl Call {
    /// A call with this many keys, and room for this many arguments of the usual size. The words
    /// that are added next are first the keys, and then the arguments.
    pub(super) fn new(script: &'static Script, keys: usize, args: usize) -> Self {
        const BYTES_BEFORE_KEYS: usize = 64;
        const BYTES_OF_A_WORD: usize = 48;
        let words = keys + args;
        let bytes = BYTES_BEFORE_KEYS + words * BYTES_OF_A_WORD;
        let mut command = Cmd::with_capacity(BEFORE_KEYS + words, bytes);
        command.arg("EVALSHA").arg(script.sha()).arg(keys);
        Self { script, keys, command }
    }

    /// A call with these keys and arguments.
    #[must_use]
    pub fn of(script: &'static Script, keys: &[&[u8]], args: &[&[u8]]) -> Self {
        let mut call = Self::new(script, keys.len(), args.len());
        keys.iter().chain(args).for_each(|word| call.push(word));
        call
    }

    /// The script.
    #[must_use]
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// `KEYS`.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.words().take(self.keys)
    }

    /// `ARGV`.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.words().skip(self.keys)
    }

    fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.command
            .args_iter()
            .skip(BEFORE_KEYS)
            .map(|arg| if let Arg::Simple(word) = arg { word } else { &[] })
    }

    /// The command that runs the script if the server knows it, and answers `NOSCRIPT` otherwise.
    #[must_use]
    pub const fn by_sha(&self) -> &Cmd {
        &self.command
    }

    /// The same command, if nothing else of the call is needed any more.
    pub(crate) fn into_command(self) -> Cmd {
        self.command
    }

    /// The command that runs the script whether or not the server knows it; then it does.
    #[must_use]
    pub fn by_text(&self) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(self.script.text()).arg(self.keys);
        self.words().for_each(|word| command.write_arg(word));
        command
    }

    pub(super) fn push(&mut self, word: &[u8]) {
        self.command.write_arg(word);
    }

    /// Adds the displayed form of a value, such as the digits of a number.
    pub(super) fn show(&mut self, what: impl Display) {
        self.command.write_arg_fmt(what);
    }

    /// The same; an empty word if there is none.
    pub(super) fn show_if_any(&mut self, what: Option<impl Display>) {
        match what {
            Some(what) => self.show(what),
            None => self.push(b""),
        }
    }

    /// Adds a word that consists of these parts.
    pub(super) fn join<'a>(&mut self, parts: impl IntoIterator<Item = &'a [u8]>) {
        let mut word = self.command.writer_for_next_arg();
        for part in parts {
            word.write_all(part).expect("writing to memory does not fail");
        }
    }
}

macro_rules! script {
    ($($part:literal),+) => {
        Script::new(concat!($(include_str!(concat!("../scripts/", $part, ".lua"))),+))
    };
}

/// Grants a holder all keys of a claim, or none.
pub static GRANT: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "grant");
/// The same at a member of a quorum.
pub static MEMBER_GRANT: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "grant");
/// Extends a lease to a TTL from now.
pub static RENEW: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "renew");
/// The same at a member of a quorum.
pub static MEMBER_RENEW: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "renew");
/// The same; also takes the lease again if nobody holds or waits for its keys.
pub static REJOIN: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "rejoin", "renew");
/// Raises the fences of what a holder holds.
pub static RAISE: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "member", "raise");
/// Makes a successor the holder of what a holder holds.
pub static TRANSFER: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "transfer");
/// The same at a member of a quorum.
pub static MEMBER_TRANSFER: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "member", "transfer");
/// Releases what a holder holds.
pub static RELEASE: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "release");
/// The same; also wakes waiters of another library for a key that is then free.
pub static RELEASE_AND_WAKE: Script =
    script!("bounds", "read", "state", "queue", "shares", "turn", "signal", "release");
/// Ends the lease with this fence.
pub static BREAK: Script = script!("bounds", "read", "state", "queue", "shares", "turn", "break");
/// Returns the holders of a key and its waiters.
pub static INSPECT: Script = script!("read", "look", "inspect");
/// The same for many keys.
pub static SURVEY: Script = script!("read", "look", "survey");
/// Marks the keys of a claim as done.
pub static MARK: Script = script!("bounds", "read", "state", "queue", "shares", "mark");
/// Returns whether a key is marked as done.
pub static MARKED: Script = script!("read", "marked");
/// Deletes the mark of a key.
pub static FORGET: Script = script!("read", "forget");
/// Checks that scripts may be run, and returns the time.
pub static OPEN: Script = script!("open");
/// Starts the quarantine of a slot of a cluster, if needed, before its first request.
pub static VOUCH: Script = script!("bounds", "read", "state", "member", "vouch");
/// Returns which keys have a lease or a marker.
pub static LOCKED: Script = script!("locked");
/// Grants free keys, each to a different holder, and deletes leases without waiters.
pub static BATCH: Script = script!("bounds", "batch_grant", "batch_release");
/// The same at a member of a quorum.
pub static MEMBER_BATCH: Script = script!("bounds", "batch_member", "member_batch_grant", "batch_release");
/// Extends leases without waiters to a TTL from now.
pub static BATCH_RENEW: Script = script!("batch_renew");
/// The same at a member of a quorum.
pub static MEMBER_BATCH_RENEW: Script =
    script!("bounds", "batch_member", "member_batch_renew", "batch_renew");
