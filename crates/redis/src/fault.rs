//! Turns errors of the server and the connection into faults: their texts, and if they will pass.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, FaultCause, Key};
use redis::{ErrorKind, RedisError, ServerError};

/// Creates the faults of one store.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) store: Arc<str>,
    /// For a cluster: the node.
    node: Option<Arc<str>>,
    /// `None` if the program itself logged in.
    user: Option<Arc<str>>,
}

/// The commands that a user of the store needs. `docs/wire.md` has the complete line.
pub(crate) const ALLOWED: &str = "+ping +eval +evalsha +get +getrange +set +del +exists +pexpire +pexpireat +pttl +time +zadd +zcard +zrange \
    +zrangebyscore +zrevrangebyscore +zrank +zrem +zscore +hdel +hget +hmget +hset +mget +pubsub +publish +subscribe +unsubscribe";

/// The rules that a user needs, with this command.
fn rules_with(command: &str) -> String {
    let is_new = !ALLOWED.split(' ').any(|rule| rule.strip_prefix('+') == Some(command));
    let is_named = !command.is_empty() && !command.contains(' ');
    if is_new && is_named { format!("{ALLOWED} +{command}") } else { ALLOWED.to_owned() }
}

/// Errors of servers that pass with time.
const PASSING: [(&str, &str); 9] = [
    ("LOADING", "the server is still loading its data: wait until it has"),
    ("READONLY", "the server is a replica, and takes no writes: name its master, or its sentinels"),
    ("MASTERDOWN", "the server is a replica that has lost its master: name the master, or the sentinels"),
    (
        "NOREPLICAS",
        "too few replicas are connected for the server to take writes: see that they run, or lower its min-replicas-to-write",
    ),
    ("BUSY", "the server is busy with a script of another program: SCRIPT KILL ends it"),
    ("UNBLOCKED", "the server has just become a replica"),
    ("CLUSTERDOWN", "the cluster is down: CLUSTER INFO says how many of its slots are served"),
    ("TRYAGAIN", "the cluster is moving the key"),
    ("EXECABORT", "the server gave the command up"),
];

/// Codes of errors that need a repair.
const LASTING: [&str; 11] = [
    "DENIED",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "OOM",
    "MISCONF",
    "MOVED",
    "ASK",
    "CROSSSLOT",
    "WRONGTYPE",
    DAMAGED,
];

/// Our own code for a script that failed on the data that it found; servers have none.
const DAMAGED: &str = "DAMAGED";

impl Faults {
    pub(crate) const fn new(store: Arc<str>, user: Option<Arc<str>>) -> Self {
        Self { store, node: None, user }
    }

    pub(crate) fn at(&self, node: &str) -> Self {
        Self { node: Some(node.into()), ..self.clone() }
    }

    /// The scheme of the store's URL, without what it says of the servers' topology.
    fn scheme(&self) -> &'static str {
        if self.store.starts_with("rediss") { "rediss" } else { "redis" }
    }

    fn told(&self, reason: impl fmt::Display) -> String {
        self.node.as_ref().map_or_else(|| reason.to_string(), |node| format!("{node}: {reason}"))
    }

    /// The store, and the node if there is one.
    pub(crate) fn place(&self) -> Arc<str> {
        match &self.node {
            Some(node) => format!("{} at {node}", self.store).into(),
            None => Arc::clone(&self.store),
        }
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The rules that an operator must add, if that is the [`ServerMessage::remedy`] of the fault.
    /// The key is not known here.
    pub(crate) fn rules_to_add(fault: &Fault) -> Option<String> {
        let (_, denied) = fault.reason.split_once(" may not run ").filter(|_| fault.is_lasting())?;
        let command = denied.split_once(": allow it +").map_or("", |(command, _)| command);
        Some(rules_with(command))
    }

    pub(crate) fn passing(&self, reason: impl fmt::Display) -> Fault {
        Fault::passing(&self.store, self.told(reason))
    }

    pub(crate) fn lasting(&self, reason: impl fmt::Display) -> Fault {
        Fault::lasting(&self.store, self.told(reason))
    }

    pub(crate) fn unexpected(&self, request: &str) -> Fault {
        self.lasting(format_args!("unexpected answer to {request}: is this a Redis server?"))
    }

    pub(crate) fn quarantined(&self, left: Duration) -> Fault {
        Fault::quarantined(&self.store, left)
    }

    pub(crate) fn timed_out(&self, reason: impl fmt::Display) -> Fault {
        self.passing(reason).caused_by(FaultCause::TimedOut)
    }

    /// The server refused, or the connection failed.
    pub(crate) fn of_error(&self, error: RedisError) -> Fault {
        match ServerError::try_from(error) {
            Ok(refusal) => self.of_refusal(&refusal),
            Err(error) => self.of_connection(&error),
        }
    }

    /// The connection failed, or could not be made.
    pub(crate) fn of_connection(&self, error: &RedisError) -> Fault {
        if error.is_timeout() {
            return self.timed_out("no answer in time");
        }
        if error.is_connection_refusal() {
            let fault = self.passing(format_args!("cannot connect: {error}"));
            return fault.caused_by(FaultCause::ConnectionRefused);
        }
        let fault = if error.kind() == ErrorKind::Parse {
            self.passing("the connection broke before a complete answer had arrived")
        } else {
            self.passing(format_args!("the connection broke: {error}"))
        };
        fault.caused_by(FaultCause::Connection)
    }

    /// A socket could not be opened.
    pub(crate) fn of_socket(&self, error: &io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let fault =
                    self.lasting(format_args!("may not connect: {error}: change who may use the socket"));
                fault.caused_by(FaultCause::Permission)
            }
            kind => self.passing(format_args!("cannot connect: {error}")).caused_by(match kind {
                io::ErrorKind::ConnectionRefused => FaultCause::ConnectionRefused,
                io::ErrorKind::TimedOut => FaultCause::TimedOut,
                _ => FaultCause::Connection,
            }),
        }
    }

    /// The server refused. The request was not executed.
    pub(crate) fn of_refusal(&self, error: &ServerError) -> Fault {
        let said = ServerMessage::of(error);
        if let Some((_, meaning)) = PASSING.iter().find(|(code, _)| *code == said.code) {
            let fault = self.passing(format_args!("{meaning} ({})", said.code));
            return fault.caused_by(FaultCause::NotServing);
        }
        self.refused(&said).caused_by(match said.code {
            "NOAUTH" | "WRONGPASS" => FaultCause::Authentication,
            "NOPERM" => FaultCause::Permission,
            "OOM" => FaultCause::OutOfMemory,
            "MISCONF" => FaultCause::DiskFull,
            "WRONGTYPE" | DAMAGED => FaultCause::WrongType,
            _ if said.has(FULL) => FaultCause::NotServing,
            _ => FaultCause::Other,
        })
    }

    /// The server refused to read what a scan found. Of other keys, the user may be allowed to.
    pub(crate) fn of_scanned(&self, error: &ServerError) -> Fault {
        let mut fault = self.of_refusal(error);
        let words = ["may not use a key: ", "may not use a key: name a prefix whose keys it may use, or "];
        fault.reason = fault.reason.replacen(words[0], words[1], 1).into();
        fault
    }

    fn refused(&self, said: &ServerMessage) -> Fault {
        let user = self.user.as_deref();
        let user =
            user.map_or_else(|| "the user of the connection".to_owned(), |user| format!("user {user}"));
        match said.code {
            "DENIED" => self.lasting(
                "the server is in protected mode, in which it serves only its own machine: set a password there, or protected-mode no",
            ),
            "NOAUTH" => self.lasting("the server asks for a password: write one into the URL, before the host"),
            "WRONGPASS" => {
                self.lasting(format_args!("the server refuses {user} or its password: check the URL against its ACL"))
            }
            "NOPERM" => self.lasting(format_args!("{}: {said}", said.remedy(&user))),
            "OOM" => self.lasting(
                "the server is out of memory (maxmemory) and takes no new keys: raise its maxmemory, or free some",
            ),
            "MISCONF" => self.lasting(format_args!(
                "the server cannot save its data to disk, and so takes no writes: free space on its disk, or mend what its log \
                 names; it takes writes again once it has saved ({said})"
            )),
            "WRONGTYPE" | DAMAGED => self.lasting(said.words()),
            "MOVED" | "ASK" if self.node.is_some() => {
                self.passing(format_args!("the cluster is moving the key ({})", said.code))
            }
            "MOVED" | "ASK" | "CROSSSLOT" => {
                let scheme = self.scheme();
                self.lasting(format_args!(
                    "the server is part of a cluster: write {scheme}+cluster:// in place of {scheme}://"
                ))
            }
            _ if said.has("non local key") => self.passing("the cluster is moving the key, and did part of what was asked"),
            _ if said.has("cluster support disabled") => {
                let scheme = self.scheme();
                self.lasting(format_args!(
                    "the server is not part of a cluster: write {scheme}:// in place of {scheme}+cluster://"
                ))
            }
            _ if said.has("DB index is out of range") || said.has("invalid DB index") => {
                self.lasting("the server has no database of this number: name another in the URL")
            }
            _ if said.has("appendonly is disabled") => self.lasting(
                "the server keeps no append-only file, without which nothing is on disk (fsync=yes): set appendonly yes there",
            ),
            _ if said.has("without any password configured") || said.has("no password is set") => {
                self.lasting("the server has no password: leave it out of the URL")
            }
            // Before Redis 6.0.
            _ if said.has("wrong number of arguments for 'auth'") => {
                self.lasting("the server is too old to have users: leave the user out of the URL")
            }
            _ if said.lacks_a_command() && said.has("WAITAOF") => self.lasting(format_args!(
                "the server has no WAITAOF, which fsync=yes needs: use Redis 7.2 or later there, or Valkey, or leave fsync out of \
                 the URL ({said})"
            )),
            _ if said.lacks_a_command() => self.lasting(format_args!(
                "the server lacks a command that the store needs: undo what renames it there, or name the server itself and no \
                 proxy; for a sentinel, write redis+sentinel:// and the master's name ({said})"
            )),
            _ if said.has(AS_TEXT) => self.lasting(
                "the server copies the text of scripts to its replicas, as before Redis 5.0: use a later one, or set \
                 lua-replicate-commands yes there",
            ),
            _ if said.is_of_a_script() => {
                self.lasting(format_args!("something next to the key is not ours: {REMEDY} ({said})"))
            }
            _ if said.has(FULL) => self.passing(format_args!(
                "the server has as many clients as it takes: raise its maxclients, or end some ({said})"
            )),
            // A proxy's own errors, a server that is shutting down: all may pass.
            _ => self.passing(format_args!("the server refused: {said}")),
        }
    }
}

/// A fault before the server has answered anything. One that expects TLS closes a connection without it.
pub(crate) fn of_login(mut fault: Fault, is_plain: bool) -> Fault {
    if is_plain && fault.cause == FaultCause::Connection {
        let hint = "if it expects TLS, write rediss in place of redis in the URL";
        fault.reason = format!("{}; {hint}", fault.reason).into();
    }
    fault
}

/// Returns true if a connection with this answer leads to the wrong server.
pub(crate) fn leads_astray(error: &ServerError) -> bool {
    matches!(ServerMessage::of(error).code, "READONLY" | "UNBLOCKED" | "MASTERDOWN")
}

/// Returns true if the server refused because this user may not run a command, or because the server
/// lacks it. Other keys and channels may be allowed to the user.
pub(crate) fn is_denied(error: &ServerError) -> bool {
    let said = ServerMessage::of(error);
    said.code == "NOPERM" && !said.has("access") || said.lacks_a_command()
}

/// What a server that copies the text of scripts says of one that reads the time and then writes.
const AS_TEXT: &str = "not allowed after non deterministic commands";

/// What a server says that takes no more clients.
const FULL: &str = "max number of clients";

/// The remedy for a script that failed on the data that it found.
const REMEDY: &str = "find out who wrote there, and delete it";

/// Returns true if the server refused because a key has another type than ours.
pub(crate) fn is_wrong_type(error: &ServerError) -> bool {
    ServerMessage::of(error).code == "WRONGTYPE"
}

/// The same refusal with the name of the key.
pub(crate) fn of_wrong_type(side: &[u8]) -> ServerError {
    refusal("WRONGTYPE", format!("{} has another type than ours: {REMEDY}", side.escape_ascii()))
}

/// Returns true if a script failed on the data that it found, and not on the state of the server.
pub(crate) fn is_of_a_script(error: &ServerError) -> bool {
    ServerMessage::of(error).is_of_a_script()
}

/// The same refusal with its location: the queue's side key represents all of its key.
pub(crate) fn of_a_script(queue_key: &[u8], error: &ServerError) -> ServerError {
    let (kind, tagged) = queue_key.split_at(Key::RESERVED.len() + 1);
    let kind = &kind[..Key::RESERVED.len()];
    let said = ServerMessage::of(error);
    let words = format!(
        "a key of the form {}?{} has something that is not ours: {REMEDY} ({said})",
        kind.escape_ascii(),
        tagged.escape_ascii()
    );
    refusal(DAMAGED, words)
}

pub(crate) fn refusal(code: &str, words: String) -> ServerError {
    let error = redis::make_extension_error(code.into(), Some(words));
    ServerError::try_from(error).unwrap_or_else(|_| unreachable!("an extension error is a server's"))
}

struct ServerMessage {
    code: &'static str,
    text: String,
}

impl ServerMessage {
    fn of(error: &ServerError) -> Self {
        let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
        let text = text.trim().replace(char::is_control, " ");
        let known = || PASSING.iter().map(|(code, _)| *code).chain(LASTING);
        let first = known().find(|code| *code == error.code());
        // Up to 6.2, the error of a command within a script is somewhere in the message of the
        // script's own failure.
        let within = || known().find(|code| text.contains(&format!("-{code} ")));
        let untold = || text.contains(": WRONGTYPE ").then_some("WRONGTYPE");
        // A node that serves reads meanwhile (cluster-allow-reads-when-down) refuses a script's first
        // write.
        let down = || text.contains("while the cluster is down").then_some("CLUSTERDOWN");
        let denied = ["The user executing the script can't", "ACL failure in script"];
        let unnamed = || denied.iter().any(|words| text.contains(words)).then_some("NOPERM");
        let wrong = ["invalid username-password pair", "invalid password"];
        let refused = || wrong.iter().any(|words| text.contains(words)).then_some("WRONGPASS");
        let code = first.or_else(within).or_else(untold).or_else(down).or_else(unnamed).or_else(refused);
        let code = code.unwrap_or_default();
        Self { code, text }
    }

    fn has(&self, words: &str) -> bool {
        self.text.contains(words)
    }

    /// The message without the code.
    fn words(&self) -> &str {
        self.text.strip_prefix(self.code).map_or(&*self.text, str::trim_start)
    }

    /// Returns true if a script itself failed: on a value that it cannot use, or on a command that
    /// no server accepts. Errors that pass with time, or that come from an operator's action on the
    /// script, do not count.
    fn is_of_a_script(&self) -> bool {
        let by_others = ["Script killed", "non local key", "NOSCRIPT", AS_TEXT];
        let is_by_others = self.lacks_a_command() || by_others.iter().any(|words| self.has(words));
        self.code.is_empty() && self.has("user_script:") && !is_by_others
    }

    /// Returns true if the server does not know a command, or a script calls one of that kind.
    fn lacks_a_command(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        text.contains("unknown command") || text.contains("unknown redis command")
    }

    /// The permission that an operator must add.
    fn remedy(&self, user: &str) -> String {
        let command = self.text.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
        match command {
            Some(("scan", _)) => {
                format!("{user} may not run scan: allow it +scan, to list and watch locks")
            }
            Some((command, _)) => {
                format!("{user} may not run {command}: allow it +{command} (in all: {})", rules_with(command))
            }
            None if self.has("channel") => {
                format!(
                    "{user} may not use a channel: allow it &leasehold:*, or &leasehold:PREFIX* and channels=PREFIX in the URL"
                )
            }
            None if self.has("key") => {
                format!(
                    "{user} may not use a key: allow it both ~PREFIX* and ~leasehold:*}}PREFIX*; for keys without a colon also ~leasehold:c{{*}}, or \
                     in a quorum ~leasehold:f{{*}}"
                )
            }
            None => format!(
                "{user} may not run a command that a script uses: allow it {ALLOWED}; to list or watch locks, also +scan"
            ),
        }
    }
}

/// The server's message, without parts that are useless to a reader: the script's hash and line. The
/// arguments of an unknown command may be a password.
impl fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.text.split_once(", with args ").map_or(&*self.text, |(words, _)| words);
        let words = words
            .rsplit_once(" script: ")
            .filter(|(_, place)| place.contains(", on @"))
            .map_or(words, |(words, _)| words);
        let end = (0..=300).rev().find(|end| words.is_char_boundary(*end));
        f.write_str(&words[..end.unwrap_or(0)])
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::FaultKind::{self, Lasting, Passing};
    use redis::Value;

    use super::*;

    #[test]
    fn the_remedy_names_all_commands_that_the_manual_does() {
        assert!(include_str!("../../../docs/wire.md").contains(ALLOWED));
    }

    fn fault(line: &str) -> Fault {
        fault_at("redis://h", line)
    }

    fn fault_at(store: &str, line: &str) -> Fault {
        let faults = Faults::new(store.into(), Some("app".into()));
        let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let Value::ServerError(error) = answer else { panic!("{answer:?}") };
        faults.of_refusal(&error)
    }

    /// The error of a command in a script, as servers up to 6.2 report it.
    fn in_a_script(error: &str) -> String {
        format!("ERR Error running script (call to f_01ab): @user_script:7: @user_script: 7: {error}")
    }

    #[track_caller]
    fn is(line: &str, kind: FaultKind, words: &[&str]) {
        let fault = fault(line);
        assert_eq!(fault.kind, kind, "{line}: {fault}");
        for word in words {
            assert!(fault.reason.contains(word), "{line}: {fault}");
        }
    }

    #[test]
    fn an_error_that_an_operator_must_fix_is_lasting_and_names_the_remedy() {
        is(
            &in_a_script(
                "Write commands not allowed after non deterministic commands. Call redis.replicate_commands()",
            ),
            Lasting,
            &["before Redis 5.0", "lua-replicate-commands yes"],
        );
        // Regression: the remedy was to leave the password out of the URL.
        is(
            "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default \
             user. In this mode connections are only accepted from the loopback interface.",
            Lasting,
            &["protected-mode no"],
        );
        is("NOAUTH Authentication required.", Lasting, &["password", "URL"]);
        is("WRONGPASS invalid username-password pair or user is disabled.", Lasting, &["user app"]);
        let denied = |command: &str| format!("User app has no permissions to run the '{command}' command");
        let noperm = |command: &str| format!("NOPERM {}", denied(command));
        is(&noperm("eval"), Lasting, &["user app", "+eval"]);
        // Regression: the complete list lacked the very command, if only some uses need it.
        is(&noperm("select"), Lasting, &["allow it +select (in all: +ping", "+unsubscribe +select)"]);
        is("NOPERM this user has no permissions to run the 'evalsha' command or its", Lasting, &["+evalsha"]);
        is(&(noperm("set") + " script: 01ab, on @user_script:3."), Lasting, &["+set "]);
        is(&noperm("scan"), Lasting, &["user app", "+scan, to list and watch locks"]);
        is("NOPERM No permissions to access a key", Lasting, &["~leasehold:"]);
        is("NOPERM No permissions to access a channel", Lasting, &["&leasehold:*"]);
        let unnamed = in_a_script("The user executing the script can't run this command or subcommand ");
        is(&unnamed, Lasting, &["user app", "+pttl"]);
        let named = format!("ERR ACL failure in script: {} script: 01ab, on @user_script:9.", denied("get"));
        is(&named, Lasting, &["user app", "+get "]);
        is("OOM command not allowed when used memory > 'maxmemory'.", Lasting, &["maxmemory"]);
        is(&in_a_script("-OOM command not allowed when used"), Lasting, &["maxmemory"]);
        is("MISCONF Redis is configured to save RDB snapshots, but", Lasting, &["save", "free space"]);
        is(&in_a_script("WRONGTYPE Operation against a key holding the wrong kind"), Lasting, &["WRONGTYPE"]);
        for failed in [
            "ERR Error running script (call to f_01ab): @user_script:7: user_script:7: attempt to index a nil value",
            "ERR user_script:7: attempt to index a nil value script: 01ab, on @user_script:7.",
            "ERR invalid expire time in 'set' command script: 01ab, on @user_script:7.",
        ] {
            is(failed, Lasting, &["not ours", "delete it"]);
        }
        is("MOVED 3999 127.0.0.1:6381", Lasting, &["redis+cluster://"]);
        is("ERR This instance has cluster support disabled", Lasting, &["redis://"]);
        // Regression: the remedy gave TLS up.
        let remedied = |store, line| fault_at(store, line).reason.to_string();
        let named = remedied("rediss://h", "MOVED 7 a:6379");
        assert!(named.ends_with("write rediss+cluster:// in place of rediss://"), "{named}");
        let named = remedied("rediss+cluster://h", "ERR This instance has cluster support disabled");
        assert!(named.ends_with("write rediss:// in place of rediss+cluster://"), "{named}");
        is("ERR DB index is out of range", Lasting, &["database"]);
        is("ERR unknown command 'EVALSHA', with args beginning with: ", Lasting, &["EVALSHA"]);
    }

    /// Regression: a connection that ended within an answer was reported with the parser's message,
    /// which gave its position and expected input on several lines. An error must be one line, for
    /// logs and for programs that read them.
    #[test]
    fn an_incomplete_answer_is_reported_on_one_line() {
        let faults = Faults::new("redis://h".into(), None);
        for came in [&b":1x\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n"] {
            let fault = faults.of_connection(&redis::parse_redis_value(came).unwrap_err());
            assert_eq!(fault.kind, Passing);
            assert_eq!(&*fault.reason, "the connection broke before a complete answer had arrived");
        }
    }

    #[test]
    fn an_error_that_may_pass_with_time_is_passing() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "ERR Error running script (call to f_01ab): @user_script:7: @user_script: 7: -READONLY You can't write",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOREPLICAS Not enough good replicas to write.",
            "BUSY Redis is busy running a script.",
            "CLUSTERDOWN Hash slot not served",
            &in_a_script(
                "Lua script attempted to execute a write command while the cluster is down and readonly",
            ),
            "TRYAGAIN Multiple keys request during rehashing of slot",
            // Regression: the advice was to see that it runs and can be reached.
            "ERR max number of clients reached",
        ] {
            is(line, Passing, &[]);
            assert_eq!(fault(line).cause, FaultCause::NotServing, "{line}");
        }
        for line in [
            "ERR Error running script (call to f_01ab): @user_script:7: Script killed by user with SCRIPT KILL...",
            "ERR upstream is away",
        ] {
            is(line, Passing, &[]);
            assert_eq!(fault(line).cause, FaultCause::Other, "{line}");
        }
    }

    #[test]
    fn only_an_error_of_a_replica_makes_us_look_for_the_master_again() {
        for (line, astray) in
            [("READONLY x", true), ("ERR x -READONLY y", true), ("OOM x", false), ("ERR x", false)]
        {
            let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let Value::ServerError(error) = answer else { panic!("{answer:?}") };
            assert_eq!(leads_astray(&error), astray, "{line}");
        }
    }
}
