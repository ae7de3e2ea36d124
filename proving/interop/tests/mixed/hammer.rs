//! All libraries and Leasehold compete for one key.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use interop::{Answer, Belief, Driver, Peer, now, overlap};
use leasehold::{Fence, LockError, Locks, ReleaseError, Renewal};
use servers::{Flavor, Server};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::{
    pair::{LONG, nanos, with_runtime},
    quorum::{SEVERAL, quorum_url, three_servers},
};

/// The full key on the server. It has pottery's prefix, which pottery cannot change.
const KEY: &str = "redlock:hammer";
/// The duration in seconds, unless the environment sets another.
const SECONDS: u64 = 5;
const SECONDS_SAID: &str = "LEASEHOLD_HAMMER_SECONDS";
/// How much longer the test may take until everybody has had the lock.
const GRACE: Duration = Duration::from_secs(60);
/// Long enough for another holder to collide.
const HOLD: Duration = Duration::from_millis(3);
/// The maximum wait of a visit.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of Leasehold's visitors.
const OURS: usize = 2;
/// Once in this many visits, a visitor stays until its lease has expired, and releases then.
const OVERSTAYS: u32 = 8;
/// The TTL of such a lease.
const SHORT: Duration = Duration::from_millis(120);
/// The server counts in milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

pub(crate) fn everybody_gets_in_and_nobody_is_there_at_once() {
    let server = Server::start(Flavor::Redis70);
    let url = &server.url();
    hammer(&Peer::ALL, &[url], url);
}

pub(crate) fn everybody_gets_in_and_nobody_is_there_at_once_over_three_servers() {
    let servers = three_servers();
    let urls = servers.each_ref().map(Server::url);
    let urls = urls.each_ref().map(String::as_str);
    hammer(&SEVERAL, &urls, &quorum_url(&servers));
}

/// These libraries on these servers, and Leasehold at the URL `ours`.
fn hammer(peers: &[Peer], urls: &[&str], ours: &str) {
    let seconds = env::var(SECONDS_SAID).map_or(SECONDS, |said| said.parse().expect("a number of seconds"));
    let site = &Site::new(Duration::from_secs(seconds));
    with_runtime(|runtime| {
        thread::scope(|scope| {
            for &peer in peers {
                scope.spawn(move || site.stay(peer.name(), || peer_comes(site, peer, urls)));
            }
            for number in 0..OURS {
                let who = format!("leasehold-{number}");
                scope.spawn(move || site.stay(&who, || we_come(site, ours, runtime)));
            }
        });
    });
    site.account();
}

fn peer_comes<'a>(site: &'a Site, peer: Peer, urls: &[&str]) -> Visits<'a> {
    let mut driver = Driver::start(peer, urls);
    let name = peer.name_of(KEY);
    // It sleeps until another of its kind releases, and there is none: it would poll once a second.
    let patience = if peer == Peer::PythonRedisLock { Duration::ZERO } else { PATIENCE };
    Box::new(move |turn| {
        if peer.short_ttl() < Duration::from_secs(1) && turn % OVERSTAYS == 2 {
            return overstay(&mut driver, &name);
        }
        match driver.visit(&name, LONG, patience, HOLD, &site.inside) {
            Answer::Visited { answered, called } => Ok(Some((answered, called))),
            Answer::Held => Ok(None),
            other => Err(format!("{other:?}")),
        }
    })
}

/// Releases the lock after it has expired, which must not affect the next holder.
fn overstay(driver: &mut Driver, name: &str) -> Visit {
    let patient_until = Instant::now() + PATIENCE;
    let (asked, answered) = loop {
        // One try at a time, because a library does not say when the try that succeeded began.
        match driver.take(name, SHORT, Duration::ZERO) {
            Answer::Took { asked, answered } => break (asked, answered),
            Answer::Held if Instant::now() < patient_until => thread::sleep(HOLD),
            Answer::Held => return Ok(None),
            other => return Err(format!("{other:?}")),
        }
    };
    // The server started counting after the request.
    let end = asked + nanos(SHORT - ROUNDING);
    thread::sleep(SHORT + 2 * ROUNDING);
    match driver.release() {
        Answer::NotHeld | Answer::Untold { .. } => Ok(Some((answered.min(end), end))),
        other => Err(format!("{other:?} after its end")),
    }
}

fn we_come<'a>(site: &'a Site, url: &str, runtime: &'a Handle) -> Visits<'a> {
    let connecting = Locks::builder().ttl(LONG).connect(url);
    let locks = runtime.block_on(connecting).expect("servers that run");
    Box::new(move |turn| {
        let overstays = turn % OVERSTAYS == 2;
        let mutex = locks.mutex(KEY);
        let mutex = if overstays { mutex.ttl(SHORT).renewal(Renewal::Off) } else { mutex };
        let guard = match runtime.block_on(async { mutex.lock().within(PATIENCE).await }) {
            Ok(guard) => guard,
            Err(LockError::TimedOut { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let answered = now();
        let end = answered + nanos(guard.remaining());
        lock(&site.fences).push((answered, guard.fence()));
        if overstays {
            runtime.block_on(guard.lost());
            return match runtime.block_on(guard.release()) {
                Err(ReleaseError::Expired { .. } | ReleaseError::TakenByOther { .. }) => {
                    Ok(Some((answered, end)))
                }
                other => Err(format!("{other:?} after its end")),
            };
        }
        site.alone_inside(&format!("{answered}")).map_err(|error| error.to_string())?;
        let called = now();
        runtime.block_on(guard.release()).map_err(|error| error.to_string())?;
        Ok(Some((answered, called)))
    })
}

/// One visit: the period in which it considered itself the holder, if it got the lock; or an error.
type Visit = Result<Option<(u64, u64)>, String>;

/// The visits of one visitor, each with its number.
type Visits<'a> = Box<dyn FnMut(u32) -> Visit + 'a>;

struct Site {
    _directory: TempDir,
    /// A file that only one visitor can create, and must find unchanged: a witness without clocks.
    inside: PathBuf,
    end: Instant,
    beliefs: Mutex<Vec<Belief>>,
    /// Fences, each with the time at which it was granted.
    fences: Mutex<Vec<(u64, Fence)>>,
    times_in: Mutex<BTreeMap<String, u32>>,
    trouble: Mutex<Vec<String>>,
}

impl Site {
    fn new(length: Duration) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the witness");
        Self {
            inside: directory.path().join("inside"),
            _directory: directory,
            end: Instant::now() + length,
            beliefs: Mutex::default(),
            fences: Mutex::default(),
            times_in: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// Visits until the time is over.
    fn stay<'a>(&'a self, who: &str, come: impl FnOnce() -> Visits<'a>) {
        lock(&self.times_in).insert(who.to_owned(), 0);
        let mut visit = come();
        let mut rest = 0;
        for turn in 1.. {
            if self.is_over() {
                break;
            }
            match visit(turn) {
                Ok(None) => thread::sleep(HOLD),
                Ok(Some((from, until))) => {
                    lock(&self.beliefs).push(Belief::new(who, from, until));
                    *lock(&self.times_in).entry(who.to_owned()).or_default() += 1;
                    // Short and long rests alternate: the key is sometimes free, its visitors change.
                    rest = (rest + 7) % 40;
                    thread::sleep(Duration::from_millis(rest));
                }
                Err(trouble) => lock(&self.trouble).push(format!("{who}: {trouble}")),
            }
        }
    }

    fn is_over(&self) -> bool {
        let late = Instant::now().saturating_duration_since(self.end);
        let all_were_in = || lock(&self.times_in).values().all(|times| *times > 0);
        !lock(&self.trouble).is_empty() || !late.is_zero() && (late > GRACE || all_were_in())
    }

    /// Holds the witness file for a while, and fails if somebody else has it.
    fn alone_inside(&self, me: &str) -> io::Result<()> {
        let mut file = fs::File::create_new(&self.inside)?;
        io::Write::write_all(&mut file, me.as_bytes())?;
        thread::sleep(HOLD);
        let found = fs::read_to_string(&self.inside)?;
        if found != me {
            return Err(io::Error::other(format!("met {found}")));
        }
        fs::remove_file(&self.inside)
    }

    fn account(&self) {
        assert_eq!(*lock(&self.trouble), [""; 0]);
        let times_in = lock(&self.times_in);
        println!("times in: {times_in:?}");
        assert!(times_in.values().all(|times| *times > 0), "somebody never got in: {times_in:?}");
        if let Some((first, second)) = overlap(&mut lock(&self.beliefs)) {
            panic!("two believed at once: {first}, and {second}");
        }
        let mut fences = lock(&self.fences);
        fences.sort_by_key(|(had, _)| *had);
        assert!(fences.is_sorted_by(|(_, one), (_, next)| one < next), "a fence did not rise: {fences:?}");
    }
}

/// A panic of another thread is reported elsewhere; its list is still valid.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
