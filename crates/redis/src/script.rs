//! The scripts: requests and answers as bytes, without I/O.
//!
//! One script serves each request, so that nothing can come between its reads and its writes. The
//! texts are constant; key names are passed only in `KEYS`, everything else in `ARGV`; each text
//! begins with its contract.

mod batch;
mod saying;
mod texts;
mod words;

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::{Key, Request, Ttl};
use redis::{Cmd, ServerError, ServerErrorKind};

pub use self::batch::{
    Granted, MOST, Vouching, batched_key, delete_call, grant_batch, read_done, read_grants, release_batch,
    renew_batch,
};
pub(crate) use self::saying::break_call;
use self::saying::{Voucher, call, millis, with_sides};
pub use self::texts::{
    BATCH_GRANT, BATCH_RELEASE, BATCH_RENEW, BREAK, FORGET, GRANT, INSPECT, MARK, MARKED, MEMBER_GRANT,
    MEMBER_RENEW, OPEN, RAISE, REJOIN, RELEASE, RELEASE_AND_WAKE, RENEW, SURVEY, VOUCH,
};
pub use self::words::Words;
pub use crate::reply::{Reply, decode};
pub(crate) use crate::reply::{run_of, time_of, time_of_grant};
use crate::slot::{Side, Sides, member_key_in};

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

/// Returns true if a server refused a script because it does not know the text.
pub(crate) fn is_unknown_script(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
}

/// The call that checks that scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call { script: &OPEN, keys: Words::default(), args: Words::default() }
}

/// The call that inspects many keys at once.
#[must_use]
pub fn survey_call(keys: &[Key]) -> Call {
    Call { script: &SURVEY, keys: with_sides(keys), args: Words::default() }
}

/// The call that reads or deletes a side key of a key.
pub(crate) fn side_call(script: &'static Script, side: Side, key: &Key) -> Call {
    let mut keys = Words::default();
    keys.write(|name| Sides::of(key).write(side, name));
    Call { script, keys, args: Words::default() }
}

/// The call for a request. A lock that it hands over may remain unclaimed for `window`.
///
/// Use [`call_at_member`] for a member of a quorum: this call assumes that the server forgets
/// nothing.
#[must_use]
pub fn call_for(request: &Request, window: Duration) -> Call {
    call_at_member(request, window, None)
}

/// The same for a member of a quorum. If the attempt has a proposal, the server abstains until it
/// has had this `run` for long enough; `None` if the URL says that the server forgets nothing.
#[must_use]
pub fn call_at_member(request: &Request, window: Duration, run: Option<&str>) -> Call {
    call(request, window, Voucher { run, by_slot: false })
}

/// The same for a node of a cluster, where each slot has its own record of a run.
#[must_use]
pub fn call_at_node(request: &Request, window: Duration, run: Option<&str>) -> Call {
    call(request, window, Voucher { run, by_slot: true })
}

/// The call that makes a node abstain for a slot from now on, if it has to, without any other
/// request there.
#[must_use]
pub fn vouch_call(slot: u16, run: &str, longest: Ttl) -> Call {
    let (key, mut args) = (member_key_in(slot), Words::default());
    args.extend([b"0", run.as_bytes()]);
    args.show(millis(longest.duration()));
    Call { script: &VOUCH, keys: [key.as_bytes()].into_iter().collect(), args }
}

#[cfg(test)]
mod tests;
