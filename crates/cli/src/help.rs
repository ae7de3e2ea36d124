//! `leasehold help`: the long help of a task, or a topic that concerns several tasks. The manual page
//! contains the topics.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};

use crate::exit::Failure;
use crate::print;

/// Explain a task, or exit-codes, environment, stores or events
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// The task or topic to explain; without it, all tasks are listed
    #[arg(value_name = "TOPIC", value_parser = explained())]
    pub(crate) topic: Option<String>,
}

const TASKS: [&str; 14] = [
    "run", "once", "every", "hold", "show", "ls", "break", "forget", "metrics", "top", "watch", "doctor",
    "bench", "init",
];

/// This task, which lists all.
const HELP: &str = "help";

/// The tasks, and the topics.
fn explained() -> PossibleValuesParser {
    PossibleValuesParser::new(TASKS.into_iter().chain(TOPICS.iter().map(|topic| topic.name)).chain([HELP]))
}

pub(crate) fn print(args: &HelpArgs, command_line: Command) -> Result<(), Failure> {
    let name = args.topic.as_deref().filter(|name| *name != HELP);
    if let Some(topic) = TOPICS.iter().find(|topic| Some(topic.name) == name) {
        return print::print(topic.text);
    }
    let words = ["leasehold"].into_iter().chain(name).chain(["--help"]);
    command_line
        .try_get_matches_from(words.map(OsString::from))
        .map_or_else(|page| print::print_page(&page), |_| Ok(()))
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) text: &'static str,
}

pub(crate) const TOPICS: [Topic; 4] = [
    Topic { name: "exit-codes", heading: "EXIT STATUS", text: EXIT_CODES },
    Topic { name: "environment", heading: "ENVIRONMENT", text: ENVIRONMENT },
    Topic { name: "stores", heading: "STORES", text: STORES },
    Topic { name: "events", heading: "EVENTS", text: EVENTS },
];

const EXIT_CODES: &str = "\
The exit codes of leasehold:

  the command's own code, if it ran to its end
  0    once, every: also if there was nothing to do, unless --skip-exit-code N is given
       hold: the reader has closed its end, and the lock was released or is not waited for any more
       show: the lock is held; ls: all locks were listed, even if there are none
       break: the lease was ended; forget: the job no longer counts as done
       top: the user quit with q; watch: its reader has gone; metrics: all figures were printed
       doctor: nothing endangers locks; bench: the measurement is complete; init: the store exists
  1    show, break: the lock is free; forget: the job did not count as done
       ls --held-for: locks have been held for at least that long
       doctor: a failure would endanger locks, or something could not be checked
  2    doctor: locks are unsafe, or do not work
  64   the command line or the store's URL is invalid; nothing was sent
  65   the key contains something that is not a lock, or its fences are used up;
       break: another program's lock
  69   the store is unreachable or refuses; a task that acquires no lock was given a file that is
       not there
       once, every: also if it was unreachable when the command ended: the job is not marked done
  70   the lease was lost or broken, or --max-hold has passed; the command was ended
       once, every: the command succeeded after its lease had ended, so it does not count as done
  75   the lock is held, or was not free in time, unless --busy-exit-code N is given
       break: it is held with another fence, and nothing was broken
  126  the command cannot be executed, or the output of leasehold cannot be written
  127  the command was not found

If the command dies of a signal, leasehold releases the lock and dies of the same signal, so that
Ctrl-C ends a shell's loop. A shell shows that as 128 plus the signal's number: 143 after SIGTERM.

Each run asks the store again. A shell's loop that tries again after 69 or 75 needs a pause, such as
sleep 1. A run without -n or -w needs no loop: it waits for the lock, and through an outage.

A command may itself end with 64 to 75. Events tell the two cases apart: `leasehold help events`.
";

const ENVIRONMENT: &str = "\
Variables that leasehold reads:

  LEASEHOLD_STORE   the store, if --store is not given; several, separated by spaces, are a quorum
  LEASEHOLD_MAX_TTL the longest TTL of all users of a quorum, if --max-ttl is not given; ignored
                    for the quorum of a run around this one, whose LEASEHOLD_STORE names it
  LEASEHOLD_TTL, LEASEHOLD_MAX_HOLD, LEASEHOLD_GRACE, LEASEHOLD_WITHIN, LEASEHOLD_OUTAGE_LIMIT,
  LEASEHOLD_NAMING, LEASEHOLD_BUSY_EXIT_CODE, LEASEHOLD_SKIP_EXIT_CODE
                    the option of that name, if it is not given; an empty variable counts as not set
  LEASEHOLD_LABEL   the label, if --label is not given; ignored inside the command of a run, where
                    it contains the label of that run

Variables that `leasehold run`, `once` and `every` set for the command:

  LEASEHOLD_KEY     the key; of several, the first in the order of their bytes
  LEASEHOLD_KEYS    all keys that are held around the command, one per line, the outermost run's
                    first; in a key, a line break is written as \\n and a backslash as \\\\
  LEASEHOLD_MODES   how each of them is held, one per line: exclusive, shared, or 1/4 (permits)
  LEASEHOLD_STORES  the store of each of them, one per line, without its password; an empty line
                    means the store of the line before
  LEASEHOLD_FENCE   a number that is greater for each grant of the key: send it with each write, so
                    that the target can refuse smaller ones
  LEASEHOLD_LABEL   the label of the holder
  LEASEHOLD_STORE   the store, without its password; a quorum as one URL, with its longest TTL

A run inside the command uses the same store, unless --store or a LEASEHOLD_STORE of its own names
another. It is refused a key that is held around it at the same store, at a quorum of which the
store is a member, or at half of the stores of its own quorum, because it would wait forever, unless
both can hold it: with --shared, or with --permits if enough are left. Then it does not wait without
--within, because somebody who waits for the outer run may be before it in the queue. With --try it
is refused too. If the store needs a password, give the inner run its own LEASEHOLD_STORE.

HOME and the XDG directories are not read: cron, a service and a shell must find the same locks.
";

const STORES: &str = "\
The store of the locks, for --store or LEASEHOLD_STORE:

  file:PATH
      A file, for the processes of one machine; not on a network file system. The path is absolute,
      or begins with ~/ for the user's home in the user database; a question mark or a percent sign
      in it is written as %3F or %25. The first lock creates the file. `leasehold help init` explains
      how root makes a store that several users share.
  redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]
      A Redis server (5.0 or later), or Valkey or KeyDB.
  rediss://...
      The same over TLS; ?ca=FILE names the certificate authority.
  redis+unix:///SOCKET, unix:///SOCKET
      A server's socket, with ?db=N, ?user=NAME and ?password=TEXT.
  redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],HOST.../MASTER[?db=N]
      The master of this name, followed by asking these sentinels; rediss+sentinel: over TLS.
  redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],...
      A cluster, by some of its nodes; rediss+cluster: over TLS. Keys that are acquired together need
      one hash tag, as in {order:7}:stock and {order:7}:bill.
  valkey://..., valkeys://..., valkey+sentinel://..., valkey+cluster://...
      The same servers, by the names that Valkey's clients use.
  postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE[?schema=NAME]
      A PostgreSQL database in which `leasehold init --store URL` has created the tables;
      ?sslmode=verify-full is TLS, and sslrootcert=FILE names the certificate authority.
  quorum:[max-ttl=TIME,]URL,URL,URL
      A quorum of these stores, as with several --store.

Parameters of a server's URL, after a question mark and separated by &:

  password-file=FILE    the password, read for each connection; refused if others can read the file,
                        or if it is a pipe
  cert=FILE, key=FILE   the client certificate that a rediss: server asks for, and its private key
  sentinel-user=NAME, sentinel-password=TEXT, sentinel-password-file=FILE
                        the login of the sentinels, which never get the servers' password
  replicas=N            a lease counts only when N replicas have it (WAIT), within
                        replicas-limit=250ms
  fsync=yes             a lease counts only when it is on disk (WAITAOF), as with appendfsync always
  channels=PREFIX       the prefix of this tenant's channels, if users are confined to them
  call-limit=500ms      how long an answer may take; also for PostgreSQL
  protocol=resp2        for a proxy that mistreats RESP3
  quarantine=no         in a quorum: the server cannot forget (appendonly yes, appendfsync always,
                        no replica takes its place)

Several stores form a quorum: a lock is held once a majority grants it, so one of three, or two of
five, may be down. Name the same ones in the same order everywhere, with one --max-ttl, which no
--ttl may exceed. A server that was restarted without its data does not vote for that time, nor does
one that is used for the first time.

  leasehold run --store redis://a --store redis://b --store redis://c nightly -- ./report

If neither is given, the store is file:HOME/.local/state/leasehold/leases.db. HOME is the effective
user's home in the user database, so each user has another store, and so has root. `leasehold run
-v` prints which store it uses.

On a server, the key of a lock is its name, as in redlock, redsync, redis-py and others, so
leasehold and those libraries exclude each other. With --naming LIBRARY, it also has the keys of
libraries that change the name:

  pottery, redlock.net    redlock:NAME
  redis-semaphore         mutex:NAME
  python-redis-lock       lock:NAME; its waiters are woken, too
  shedlock:ENVIRONMENT    job-lock:ENVIRONMENT:NAME; shedlock alone is shedlock:default
  exclusive-lock          exclusive-lock:NAME, with - for everything but letters, digits and _
  verbatim                NAME
";

const EVENTS: &str = "\
With --status-fd N, events are written to descriptor N, one JSON object per line:

  leasehold run --status-fd 3 nightly -- ./report 3>events

Each has \"event\", then key, keys, fence, holder, pid, at and v. \"pid\" is leasehold's process.
\"at\" is in milliseconds since 1970 by the system's clock, and so is each field whose name ends in
_at, by the store's clock. \"fence\" is this run's, or null before the grant; \"holder\" has the eight
digits by which `leasehold show` names this attempt, or null before it first waited or was granted.
\"keys\" lists all keys; \"key\" is the one that somebody else holds, or otherwise the first. A key
that is not UTF-8 is escaped as `leasehold show` does it, and \"key_hex\" has its bytes in hexadecimal.

\"v\" is 1. It changes when a field is removed or changes its meaning; docs/json.md says more.

In already_done, not_due and underway, begun_at, by and fence describe the last run of the job: when
it began, the label of its holder, and its fence. They are null if there was none.

  waiting   held_by, held_ms (null: not known), place (null: not queued), remaining_ms (null: it
            never ends). Written when it first has to wait, and for each new holder, which is checked
            once a second
  acquired  label, store, ttl_ms, waited_ms
  renewed   remaining_ms
  lost      reason. Followed by ended, if a command ran
  ended     code or signal of the command
  done      begun_at, due_at (null: never again). once, every: the store has recorded it
  released
  already_done  begun_at, by, code. Last, of once: nothing was run
  not_due       due_at, begun_at, by, code. Last, of every: nothing was run
  underway      held_by, begun_at, by, code. Last, of every: somebody is running it
  busy      held_by, waited_ms, code. Last
  failed    code, reason. Last: leasehold's exit code, and its message on stderr

More events and fields may be added; ignore those that you do not know. A reader that stops reading
misses events, but delays nothing.
";
