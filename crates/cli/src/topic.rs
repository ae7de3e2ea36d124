//! What is to be known and belongs to no single task. `leasehold help` prints it, and the manual
//! page has it.

/// A page.
#[derive(Debug)]
pub(crate) struct Topic {
    /// What it is called behind `leasehold help`.
    pub(crate) name: &'static str,
    /// Its heading in the manual.
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
How leasehold ends:

  the command's own code, when it ran to its end
  0    once, every: also when there was nothing to do; --skip-exit-code N changes this one
       hold: the reader has closed its end, and the lock was released
       show: somebody holds the lock; ls: all were listed, also if there was none
       break: the lease with that fence was ended; forget: what was done counts as not done
       top: it was left with q; watch: nobody reads it any more; metrics: all was printed
       doctor: nothing endangers locks; bench: all was measured; init: the store is there
  1    show, break: the lock is free; forget: nothing was noted as done
       ls --held-for: locks have been held for so long
       doctor: a failure would endanger locks, or something could not be seen
  2    doctor: locks are unsafe, or do not work
  64   the command line or the store's URL makes no sense; nothing was sent
  65   the key holds something that is no lock; break: another program's lock
  69   the store is out of reach, or refuses
       once, every: also if that was so when the command had ended, and it counts as not done
  70   the lease was lost or broken, or --max-hold is over; the command was ended
       once, every: it ended well, but not before the lease did, and so counts as not done
  75   the lock is held, or was not free in time; --busy-exit-code N changes this one
       break: it is held with another fence, and nothing was broken
  126  the command cannot be executed
  127  the command was not found

When the command died of a signal, leasehold releases the lock and dies of the same signal, so that Ctrl-C ends a
shell's loop. A shell shows that as 128 and the signal's number: 143 after SIGTERM.

A command may end with 64 to 75 itself. Whoever must tell the two apart reads the events: `leasehold help events`.
";

const ENVIRONMENT: &str = "\
What leasehold reads:

  LEASEHOLD_STORE   the store, if --store does not name one; or several, with white space between them
  LEASEHOLD_MAX_TTL the longest ttl of all who use several stores together, if --max-ttl does not name one
  LEASEHOLD_TTL, LEASEHOLD_MAX_HOLD, LEASEHOLD_GRACE, LEASEHOLD_WITHIN, LEASEHOLD_OUTAGE_LIMIT, LEASEHOLD_NAMING,
  LEASEHOLD_BUSY_EXIT_CODE, LEASEHOLD_SKIP_EXIT_CODE
                    what the option of that name says, where it is not given
  LEASEHOLD_LABEL   the same for --label; not within the command of a run, which finds that run's label there

What the command of `leasehold run`, `once` and `every` is given:

  LEASEHOLD_KEY     the key; of several, the first in the order of their bytes
  LEASEHOLD_KEYS    all keys that are held around it, one a line; the outermost run's first
  LEASEHOLD_FENCE   the number that only grows: send it with each write, and let the target refuse smaller ones
  LEASEHOLD_LABEL   what others are told about the holder
  LEASEHOLD_STORE   the store, without its password
  LEASEHOLD_MAX_TTL as above, where there are several stores

A run within the command uses the same store; a key that is held around it is refused at once, as it would wait for
ever. Where the store wants a password the inner run must be given its own LEASEHOLD_STORE.

HOME and the XDG directories are not read: cron, a service and a shell must find the same locks.
";

const STORES: &str = "\
Where the locks are, by --store or LEASEHOLD_STORE:

  file:PATH                     a file, for the processes of one machine; not on a network file system. The path is
                                absolute, or begins with ~/ for the user's home in the user database. A store that
                                several users share is made by root: `leasehold help init`
  redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]
  rediss://...                  the same over TLS; ?ca=FILE names the certificate authority
  redis+unix:///SOCKET          a server's socket; ?db=N, ?user=NAME and ?password=TEXT; also unix:///SOCKET
  valkey://..., valkeys://...   the same servers by the names that Valkey's clients use; so also valkey+sentinel: and
                                valkey+cluster:
  redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],HOST.../MASTER[?db=N]
                                the master of this name, wherever these sentinels say that it is; also rediss+sentinel:
  redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],...
                                a cluster, by some of its nodes; rediss+cluster: over TLS. Keys that are taken together
                                need one hash tag, as {order:7}:stock and {order:7}:bill

  postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE[?schema=NAME]
                                a PostgreSQL database, in whose schema `leasehold init --store URL` has made the tables;
                                ?sslmode=verify-full is TLS, and sslrootcert=FILE names the certificate authority

  quorum:[max-ttl=TIME,]URL,URL,URL
                                a majority of these stores, as several --store are

Behind a question mark, with & between them, a server's URL may have:

  password-file=FILE            the password, read for each connection; refused if others can read the file
  cert=FILE, key=FILE           the client certificate that a rediss: server asks for, and its private key
  sentinel-user=NAME, sentinel-password=TEXT, sentinel-password-file=FILE
                                the sentinels' own; they are never told the servers' password
  replicas=N                    a lease counts only when N replicas have it (WAIT), within replicas-limit=250ms
  fsync=yes                     and only when it is on disk there (WAITAOF): for servers with appendfsync always

Several stores are one: what more than half of them grant is granted, so one of three, or two of five, may be down.
Name the same ones in the same order everywhere, with one --max-ttl, which no --ttl may exceed. A server that was
restarted without its state is not counted for so long, nor is one that is used for the first time.

  leasehold run --store redis://a --store redis://b --store redis://c nightly -- ./report

Without either: file:HOME/.local/state/leasehold/leases.db, where HOME is what the user database says of the effective
user: another one for each user, and for root. `leasehold run -v` says which store it uses.

Redis 6.2 or later, Valkey and their like. A lock is a string at the very key, so redlock, redsync, redis-py and others
keep out leasehold on the same key, and leasehold them. --naming has the keys of libraries that write something before
the name: pottery, redlock.net, redis-semaphore, python-redis-lock, shedlock, exclusive-lock.
";

const EVENTS: &str = "\
With --status-fd N, what happens is written to descriptor N, one JSON object a line:

  leasehold run --status-fd 3 nightly -- ./report 3>events

Each has \"event\" and behind it key, keys, fence, holder, pid, at and v. \"pid\" is leasehold's process. \"at\" is in
milliseconds since 1970 by the system's clock. Times are milliseconds. \"fence\" is ours, or null before the grant;
\"holder\" has the eight digits by which `leasehold show` names this attempt, or null before it first waited or was
granted. Of several keys, \"keys\" has all, and \"key\" the one in the way, or else the first. A key that is not UTF-8 has
its other bytes as \\xNN, and then \"key_hex\" has all of them in hexadecimal.

\"v\" is 1. It changes when something that is there means something else or is left out; docs/json.md says more.

What ends in _at is such a moment too, by the store's clock. Of what was last done, begun_at is when it was begun, by is
what whoever did it said of itself, and fence is then what it was done under; they are null where it was never
done.

  waiting   held_by, held_ms (null: not known), place (null: it does not wait in line), remaining_ms (null: no end)
                                                                when it first has to wait, and for each other holder;
                                                                who holds it is looked at once a second
  acquired  label, store, ttl_ms, waited_ms
  renewed   remaining_ms
  lost      reason                                             followed by ended, if a command ran
  ended     code or signal                                     of the command
  done      begun_at, due_at (null: never again)                once, every: the store has noted it
  released
  already_done  begun_at, by, code                              the last, of once: nothing was run
  not_due       due_at, begun_at, by, code                      the last, of every: nothing was run
  underway      held_by, begun_at, by, code                     the last, of every: somebody is at it, nothing was run
  busy      held_by, waited_ms, code                           the last
  failed    code, reason                                       the last: our exit code, and what we say on stderr

More may come; ignore what you do not know. A reader that does not read misses events, and holds up nothing.
";
