//! Which thread does what, and in which order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use leasehold_core::{BreakNote, Claim, Fence, Holder, Proposal, Request, Stamp, Ttl};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::stopped_clock::StoppedClock;

fn a_store() -> (TempDir, FileStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::at(directory.path().join("leases.db"), Arc::new(StoppedClock));
    (directory, store)
}

/// One that somebody has used before.
async fn a_used_store() -> (TempDir, FileStore) {
    let (directory, store) = a_store();
    let before = attempt("before", 0);
    store.grant(&before, WaitMode::Try).await.unwrap();
    store.release(&before).await.unwrap();
    (directory, store)
}

fn attempt(key: &str, who: u128) -> Attempt {
    let claim = Claim::exclusive(Key::new(key).unwrap());
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::DEFAULT)
}

fn poll<T>(future: &mut BoxFuture<'_, T>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Does some work as soon as it can be done at once.
fn at_once<T>(store: &FileStore, work: impl Fn(&mut StoreWorker) -> T) -> T {
    let work = |worker: &mut StoreWorker| {
        let open = worker.ledger().baseline_round_trip(Patience::AtOnce);
        open.unwrap().map(|()| work(worker))
    };
    until(|| store.queue().unwrap().at_once(Caller::current(), work).flatten())
}

/// Waits for a value that comes sooner or later.
fn until<T>(mut is: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(there) = is() {
            return there;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never");
        thread::yield_now();
    }
}

/// The file as another process sees it, that tells nobody of anything.
fn another(store: &FileStore) -> Ledger {
    Ledger::at(&store.path, Arc::new(StoppedClock))
}

fn is_done<T>(mut future: BoxFuture<'_, T>) -> bool {
    poll(&mut future).is_ready()
}

/// Another program that writes to the file, until this is dropped.
fn a_writer(store: &FileStore) -> Connection {
    let other = Connection::open(&store.path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

/// Regression: a look, a release and a break created the file and its directory.
#[tokio::test]
async fn only_what_acquires_creates_the_file_and_to_all_else_a_missing_one_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/leases.db");
    let store = FileStore::at(&path, Arc::new(StoppedClock));
    let (attempt, key) = (attempt("a", 1), Key::new("a").unwrap());
    let lease = LeaseBreak::new(Fence::new(1).unwrap(), BreakNote::default());
    for _ in 0..2 {
        store.open().await.unwrap();
        assert!(store.inspect(&key).await.unwrap().holders.is_empty());
        assert!(store.list(b"").await.unwrap().is_empty() && store.list_marks(b"").await.unwrap().is_empty());
        assert_eq!(store.marked(&key).await.unwrap().mark, None);
        assert_eq!((store.forget(&key).await, store.last_break(&key).await), (Ok(None), Ok(None)));
        assert!(store.list_breaks(b"").await.unwrap().is_empty());
        assert_eq!(store.break_lease(&key, &lease).await, Ok(BreakAnswer::NotHeld { held_by: None }));
        store.release(&attempt).await.unwrap();
        assert!(!directory.path().join("new").exists());
        store.grant(&attempt, WaitMode::Try).await.unwrap();
        assert_eq!(store.list(b"").await.unwrap().len(), 1);
        std::fs::remove_dir_all(directory.path().join("new")).unwrap();
    }
}

/// An empty file in memory would not know when it was made.
#[tokio::test]
async fn a_member_whose_file_is_missing_abstains_from_a_transfer() {
    let (_directory, store) = a_store();
    let proposal = Proposal { fence: Fence::new(1).unwrap(), max_ttl: Ttl::DEFAULT };
    let attempt = attempt("a", 1).at_member(Holder::from_bits(1), proposal);
    let successor = Successor { holder: Holder::from_bits(2), label: None };
    let fault = store.transfer(&attempt, &successor).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Quarantined, "{fault}");
}

#[tokio::test]
async fn a_missing_file_that_could_not_be_created_is_a_fault_of_a_look() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let store = FileStore::at(directory.path().join("file/leases.db"), Arc::new(StoppedClock));
    assert!(store.open().await.unwrap_err().is_lasting());
    assert!(store.list(b"").await.unwrap_err().is_lasting());
}

#[tokio::test]
async fn a_panic_is_a_fault_of_that_request_only() {
    let (_directory, store) = a_store();
    let fault = store.ask::<()>(|_| panic!("on purpose")).await.unwrap_err();
    assert!(fault.reason.contains("failed at this request"), "{fault}");
    store.grant(&attempt("a", 1), WaitMode::Try).await.unwrap();
    let fault = store.ask_at_once::<()>(|_, _| panic!("on purpose")).await.unwrap_err();
    assert!(fault.reason.contains("failed at this request"), "{fault}");
    assert_eq!(store.release(&attempt("a", 1)).await, Ok(HoldAnswer::Done));
}

#[tokio::test]
async fn an_unobstructed_request_is_served_at_its_first_poll() {
    let (_directory, store) = a_used_store().await;
    let begun = Instant::now();
    // Only a machine that is out of breath for a millisecond keeps it from that, for a while.
    for who in 0.. {
        assert!(begun.elapsed() < Duration::from_secs(30));
        let attempt = attempt("a", who);
        let (granted, released) =
            (is_done(store.grant(&attempt, WaitMode::Try)), is_done(store.release(&attempt)));
        if granted && released {
            assert!(another(&store).dump().unwrap().locks.is_empty());
            return;
        }
        store.give_up(&attempt).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_goes_before_what_was_sent() {
    let (_directory, store) = a_used_store().await;
    let queue = store.queue().unwrap();
    let (go, gone) = mpsc::channel::<()>();
    let (said, heard) = mpsc::channel();
    let (same, says) = (queue.clone(), said.clone());
    // The same that asked before, so that nothing else is in its way.
    let caller = Caller::current();
    // When the first is done, and the worker is free, the second is not done yet.
    queue.send(
        move |_| gone.recv(),
        move |_| {
            let went_before = same.at_once(caller, |_| Some(())).is_some();
            says.send(if went_before { "went before" } else { "waited" }).unwrap();
        },
    );
    queue.send(|_| (), move |()| said.send("sent before").unwrap());
    go.send(()).unwrap();
    assert_eq!(heard.iter().take(2).collect::<Vec<_>>(), ["waited", "sent before"]);
}

#[tokio::test]
async fn a_task_does_not_wait_for_another_process_but_the_thread_does() {
    let waits = WaitMode::Wait { queue_limit: None };
    for (is_first, wait_mode) in [(false, WaitMode::Try), (true, WaitMode::Try), (true, waits)] {
        let (_directory, store) = if is_first { a_store() } else { a_used_store().await };
        another(&store).open().unwrap();
        let attempt = attempt("a", 1);
        let other = a_writer(&store);
        let begun = Instant::now();
        let mut request = store.grant(&attempt, wait_mode);
        assert!(poll(&mut request).is_pending());
        let took = begun.elapsed();
        assert!(took < crate::error::BUSY_LIMIT / 2, "{is_first} {wait_mode:?}: {took:?}");
        other.execute_batch("COMMIT").unwrap();
        assert!(matches!(request.await, Ok(GrantAnswer::Granted { .. })));
    }
}

#[tokio::test]
async fn a_waiter_whose_request_is_refused_for_good_is_forgotten() {
    let (_directory, store) = a_store();
    std::fs::create_dir(&store.path).unwrap();
    let attempt = attempt("a", 1);
    let fault = store.grant(&attempt, WaitMode::Wait { queue_limit: None }).await.unwrap_err();
    assert!(fault.is_lasting(), "{fault}");
    assert!(!store.notifier.waiting.leave(attempt.holder, StoppedClock.now()), "it is still there");
}

#[tokio::test]
async fn what_is_transferred_depends_on_the_store_that_renews_it_and_not_on_the_one_that_gave_it_away() {
    let (directory, store) = a_used_store().await;
    let (from, to) = (attempt("a", 1), attempt("a", 2));
    store.grant(&from, WaitMode::Try).await.unwrap();
    let successor = Successor { holder: to.holder, label: None };
    assert_eq!(store.transfer(&from, &successor).await, Ok(HoldAnswer::Done));
    let mut other = another(&store);
    let adopter = FileStore::at(&store.path, Arc::new(StoppedClock));
    assert_eq!(adopter.renew(std::slice::from_ref(&to)).await, [Ok(HoldAnswer::Done)]);
    let sessions = || directory.path().join("leases.db-peers").read_dir().unwrap().count();
    assert_eq!(sessions(), 2);
    drop(store);
    until(|| (sessions() == 1).then_some(()));
    drop(adopter);
    let has_ended = |ledger: &mut Ledger| {
        let locks = ledger.dump().unwrap().locks;
        locks.values().all(|lock| lock.ends == Some(Stamp::from_micros(0)))
    };
    until(|| has_ended(&mut other).then_some(()));
}

#[tokio::test]
async fn a_queue_with_more_waiters_than_it_counts_is_damaged() {
    let (_directory, store) = a_used_store().await;
    let waits = |who| {
        let (store, attempt) = (&store, attempt("a", who));
        async move { store.grant(&attempt, WaitMode::Wait { queue_limit: None }).await }
    };
    for who in 1..20 {
        waits(who).await.unwrap();
    }
    let other = Connection::open(&store.path).unwrap();
    for count in [12, 13] {
        other.execute("UPDATE record SET waiters = ?1", [count]).unwrap();
        let fault = waits(18).await.unwrap_err();
        assert!(fault.is_lasting() && fault.reason.contains("damaged"), "{fault}");
    }
}

#[tokio::test]
async fn after_a_slow_inline_request_the_thread_serves_for_a_hundred_times_as_long() {
    let (_directory, store) = a_used_store().await;
    at_once(&store, |_| thread::sleep(Duration::from_millis(5)));
    let begun = Instant::now();
    at_once(&store, |_| ());
    let spared = begun.elapsed();
    assert!(spared >= Duration::from_millis(490), "{spared:?}");
}

/// Sends requests to the thread while it is kept busy, so that they wait for it together.
async fn ask_together(store: &FileStore, attempts: &[Attempt]) -> Vec<Result<GrantAnswer, Fault>> {
    let (go, gone) = mpsc::channel::<()>();
    store.queue().unwrap().send(move |_| gone.recv(), drop);
    let mut requests: Vec<_> = attempts.iter().map(|attempt| store.grant(attempt, WaitMode::Try)).collect();
    assert!(requests.iter_mut().all(|request| poll(request).is_pending()));
    go.send(()).unwrap();
    let mut answers = Vec::new();
    for request in requests {
        answers.push(request.await);
    }
    answers
}

#[tokio::test]
async fn all_that_waits_for_the_thread_is_served_in_one_transaction() {
    let (_directory, store) = a_used_store().await;
    let attempts: Vec<_> = (0..64).map(|who| attempt(&format!("k{who}"), who)).collect();
    // A transaction writes a page to the log at least, of 1,024 bytes and 24 more.
    let pages = || std::fs::metadata(format!("{}-wal", store.path.display())).unwrap().len() / 1048;
    let before = pages();
    let answers = ask_together(&store, &attempts).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(GrantAnswer::Granted { .. }))), "{answers:?}");
    let written = pages() - before;
    assert!(written < 40, "{written} pages for 64 grants");
    // And in their order.
    let same: Vec<_> = (100..164).map(|who| attempt("one", who)).collect();
    let answers = ask_together(&store, &same).await;
    let granted = |answer: &Result<_, _>| matches!(answer, Ok(GrantAnswer::Granted { .. }));
    assert!(granted(&answers[0]) && !answers[1..].iter().any(granted), "{answers:?}");
}

#[tokio::test]
async fn a_failure_of_one_caller_does_not_affect_the_others() {
    let (_directory, store) = a_used_store().await;
    let other = Connection::open(&store.path).unwrap();
    let damage =
        "INSERT INTO record (key, fence, fence_ends) VALUES (CAST('bad' AS BLOB), -1, 9000000000000000)";
    other.execute_batch(damage).unwrap();
    let attempts = [("a", 1), ("bad", 2), ("c", 3)].map(|(key, who)| attempt(key, who));
    let answers = ask_together(&store, &attempts).await;
    assert!(matches!(answers[0], Ok(GrantAnswer::Granted { .. })), "{answers:?}");
    assert!(matches!(&answers[1], Err(fault) if fault.reason.contains("damaged")), "{answers:?}");
    assert!(matches!(answers[2], Ok(GrantAnswer::Granted { .. })), "{answers:?}");
}

#[tokio::test]
async fn work_that_writes_nothing_keeps_nobody_from_writing() {
    let (_directory, store) = a_used_store().await;
    at_once(&store, |_| ());
    a_writer(&store).execute_batch("COMMIT").unwrap();
}

/// A loop that never has to wait would be the only task that its runtime runs.
#[tokio::test]
async fn a_task_that_asks_again_and_again_lets_others_run() {
    let (_directory, store) = a_used_store().await;
    let (asked, counted) = (Arc::new(AtomicU64::new(0)), attempt("a", 1));
    let asks = tokio::spawn({
        let asked = Arc::clone(&asked);
        async move {
            loop {
                store.grant(&counted, WaitMode::Try).await.unwrap();
                store.release(&counted).await.unwrap();
                asked.fetch_add(2, Ordering::SeqCst);
            }
        }
    });
    let (mut before, mut most) = (0, 0);
    while before < 2_000 {
        before = asked.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        most = most.max(asked.load(Ordering::SeqCst) - before);
    }
    asks.abort();
    // Tokio gives a task a budget of 128.
    assert!(most < 200, "{most}");
}

/// The transaction that makes the log long would have to wait for the disk.
#[tokio::test]
async fn a_long_log_is_moved_by_the_thread() {
    let (_directory, store) = a_used_store().await;
    let log = format!("{}-wal", store.path.display());
    let mut longest = 0;
    for turn in 0..6_000 {
        let attempt = attempt("a", turn);
        store.grant(&attempt, WaitMode::Try).await.unwrap();
        store.release(&attempt).await.unwrap();
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    // It is restarted at 4 MB, and some requests come in between.
    assert!((4_000_000..5_000_000).contains(&longest), "{longest}");
}

#[tokio::test]
async fn once_the_log_is_long_it_is_moved_although_nobody_asks_any_more() {
    let (_directory, store) = a_used_store().await;
    let log = format!("{}-wal", store.path.display());
    let moved = || std::fs::metadata(&store.path).unwrap().modified().unwrap();
    let before = moved();
    let attempt = attempt("a", 1);
    for nth in 0.. {
        if std::fs::metadata(&log).unwrap().len() >= 4_192_000 {
            break;
        }
        match nth % 2 {
            0 => drop(store.grant(&attempt, WaitMode::Try).await.unwrap()),
            _ => drop(store.release(&attempt).await.unwrap()),
        }
    }
    until(|| (moved() > before).then_some(()));
}

/// The thread rests until it is sent something, and does not know of those who join without it.
#[tokio::test]
async fn waiters_that_join_at_the_same_time_are_all_served() {
    let (_directory, store) = a_used_store().await;
    let (holder, mut waiter) = (attempt("a", 1), attempt("a", 2));
    let mut other = another(&store);
    other.serve(Request::Grant { attempt: holder.clone(), wait: None, not_after: None }).unwrap();
    while !is_done(store.grant(&waiter, WaitMode::Wait { queue_limit: None })) {
        store.give_up(&waiter).await.unwrap();
        waiter = attempt("a", waiter.holder.bits() + 1);
    }
    // Nobody is told of it.
    other.serve(Request::Release(holder)).unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(30), store.woken(&waiter)).await;
    assert_eq!(woken, Ok(Wake::AskAgain));
    store.release(&waiter).await.unwrap();
    // Once nobody waits, it rests.
    until(|| at_once(&store, |worker| worker.rest().is_none()).then_some(()));
}

#[tokio::test]
async fn left_over_work_of_an_inline_request_is_done_by_the_thread() {
    let (_directory, store) = a_used_store().await;
    let attempt = attempt("a", 1);
    store.grant(&attempt, WaitMode::Try).await.unwrap();
    at_once(&store, |worker| worker.take_back(attempt.holder, Key::new("a").unwrap()));
    let mut other = another(&store);
    until(|| other.dump().unwrap().locks.is_empty().then_some(()));
}

/// It was refused for good after it had joined the queue, so it gives nothing up.
#[tokio::test]
async fn a_lock_that_is_handed_to_an_attempt_that_was_forgotten_is_taken_back() {
    let (_directory, store) = a_used_store().await;
    let [holder, forgotten] = [1, 2].map(|who| attempt("a", who));
    store.grant(&holder, WaitMode::Try).await.unwrap();
    store.grant(&forgotten, WaitMode::Wait { queue_limit: None }).await.unwrap();
    assert!(store.notifier.waiting.leave(forgotten.holder, StoppedClock.now()));
    store.release(&holder).await.unwrap();
    let mut other = another(&store);
    until(|| other.dump().unwrap().locks.is_empty().then_some(()));
}

/// It would find that out only when it has looked twice.
#[tokio::test]
async fn a_waiter_is_told_of_a_lock_that_left_over_work_handed_to_it() {
    let (_directory, store) = a_used_store().await;
    let [holder, next] = [1, 2].map(|who| attempt("a", who));
    store.grant(&holder, WaitMode::Try).await.unwrap();
    let stands = store.grant(&next, WaitMode::Wait { queue_limit: None }).await;
    assert!(matches!(stands, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{stands:?}");
    at_once(&store, |worker| {
        worker.take_back(holder.holder, Key::new("a").unwrap());
        worker.tidy();
    });
    let woken = poll(&mut store.woken(&next));
    assert!(matches!(woken, Poll::Ready(Wake::Granted { .. })), "{woken:?}");
}

/// A task that asks again before it was answered keeps the thread busy forever.
#[tokio::test]
async fn left_over_work_takes_turns_with_requests_that_never_cease() {
    fn ask_on(queue: Queue, enough: Arc<AtomicBool>) {
        if !enough.load(Ordering::SeqCst) {
            let way = queue.clone();
            way.send(move |_| ask_on(queue, enough), drop);
        }
    }
    let (_directory, store) = a_used_store().await;
    let attempt = attempt("a", 1);
    store.grant(&attempt, WaitMode::Try).await.unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let asks = (store.queue().unwrap(), Arc::clone(&enough));
    store.queue().unwrap().send(
        move |worker| {
            worker.take_back(attempt.holder, Key::new("a").unwrap());
            ask_on(asks.0, asks.1);
        },
        drop,
    );
    let mut other = another(&store);
    let begun = Instant::now();
    let mut is_done = false;
    while !is_done && begun.elapsed() < Duration::from_secs(30) {
        is_done = other.dump().unwrap().locks.is_empty();
    }
    // Else it would last longer than the test.
    enough.store(true, Ordering::SeqCst);
    assert!(is_done, "never");
}
