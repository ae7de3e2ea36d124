//! The events in the log of `tracing`.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::Locks;
use tokio::time::{sleep, timeout};
use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::format::FmtSpan;

use super::world::{SECOND, TTL, World};

/// The log, shared by all.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains("leasehold")).map(Into::into).collect()
    }

    /// The one line that contains all of these.
    fn line(&self, words: &[&str]) -> String {
        let lines = self.lines();
        let found: Vec<_> =
            lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).collect();
        assert_eq!(found.len(), 1, "{words:?} in {lines:#?}");
        found[0].clone()
    }
}

/// A world, and the log of this thread for as long as the guard lives.
fn logged(level: Level) -> (Page, DefaultGuard, World) {
    let page = Page::default();
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    (page, set_default(subscriber), World::begin(TTL))
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// exclusive-lock: the application's own logger.
#[tokio::test(start_paused = true)]
async fn an_acquisition_has_a_span_that_says_how_it_ended() {
    let (page, _listening, world) = logged(Level::TRACE);
    let guard = world.locks.mutex("invoice:42").label("web-3").lock().await.unwrap();
    page.line(&[
        "DEBUG",
        "acquire{key=invoice:42 mode=Exclusive",
        "waited=0ns",
        "outcome=\"acquired\"",
        "close",
    ]);
    // Within its span, so that a log with spans shows which request it was.
    page.line(&["DEBUG", "acquire{", "leasehold: acquired", "label=\"web-3\"", "fence="]);
    assert!(world.others().mutex("invoice:42").lock().within(SECOND).await.is_err());
    page.line(&["acquire{", "waited=1s", "outcome=\"timed_out\"", "close"]);
    page.line(&["DEBUG", "leasehold: waiting", "place=1", "held_by=web-3"]);
    page.line(&["DEBUG", "leasehold: gave up", "outcome=\"timed_out\""]);
    sleep(4 * SECOND).await;
    page.line(&["TRACE", "leasehold: renewed", "remaining=8.99"]);
    guard.release().await.unwrap();
    page.line(&["DEBUG", "leasehold: released", "held_for=5s"]);
    assert!(
        page.lines().iter().all(|line| !line.contains("WARN") && !line.contains("INFO")),
        "{:#?}",
        page.lines()
    );
}

/// A cancelled caller reports nothing, so only the log tells which request it was.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_gives_up_within_its_span() {
    let (page, _listening, world) = logged(Level::DEBUG);
    let _guard = world.locks.mutex("k").lock().await.unwrap();
    let (others, waits) = (world.others(), SECOND / 2);
    let waiting = others.mutex("k");
    assert!(timeout(waits, waiting.lock().within(SECOND)).await.is_err());
    page.line(&["DEBUG", "acquire{key=k", "leasehold: gave up", "outcome=\"dropped\""]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_and_an_outage_are_warned_of_and_the_outage_once() {
    let (page, _listening, world) = logged(Level::INFO);
    let guard = world.locks.mutex("k").lock().await.unwrap();
    world.store.set(CallFate::Lost);
    guard.lost().await;
    page.line(&["WARN", "leasehold: lost", "key=k", "reason=\"expired\"", "held_for=9s"]);
    page.line(&["WARN", "the store did not do what it was asked", "timed out"]);
    // Until the last call has ended.
    sleep(2 * SECOND).await;
    world.store.set(CallFate::Fair);
    drop(guard);
    sleep(SECOND).await;
    page.line(&["INFO", "the store answers again"]);
    assert_eq!(page.lines().len(), 3, "{:#?}", page.lines());
}

/// With the whole id, a reader of the log could release the lock.
#[tokio::test(start_paused = true)]
async fn no_line_shows_more_of_a_holder_than_eight_digits() {
    let (page, _listening, world) = logged(Level::TRACE);
    let guard = world.locks.mutex("k").lock().await.unwrap();
    let waiter = world.others().mutex("k").lock().within(SECOND).await;
    waiter.unwrap_err();
    sleep(4 * SECOND).await;
    world.store.set(CallFate::Lost);
    guard.lost().await;
    let lines = page.lines();
    let shown = guard.holder().to_string();
    assert!(lines.iter().filter(|line| line.contains(&shown)).count() > 3, "{lines:#?}");
    let nine = &guard.holder().digits()[..9];
    assert!(lines.iter().all(|line| !line.contains(nine)), "{lines:#?}");
}

/// A log handler that asks for the state of locks must not deadlock.
#[tokio::test(start_paused = true)]
async fn a_log_may_look_at_the_locks_that_it_tells_of() {
    let (locks, looked) = (Arc::new(Mutex::new(None::<Locks>)), Arc::new(Mutex::new(0)));
    // Called for each line of the log.
    let writer = {
        let (locks, looked) = (locks.clone(), looked.clone());
        move || {
            if let Some(locks) = &*locks.lock().unwrap() {
                let _ = locks.guards();
                *looked.lock().unwrap() += 1;
            }
            io::sink()
        }
    };
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(writer).finish();
    let _listening = set_default(subscriber);
    let world = World::begin(TTL);
    *locks.lock().unwrap() = Some(world.locks.clone());
    let guard = world.locks.mutex("k").lock().await.unwrap();
    sleep(4 * SECOND).await;
    world.store.set(CallFate::Hung);
    guard.lost().await;
    // Acquired, renewed, not answered, lost.
    assert_eq!(*looked.lock().unwrap(), 4);
    locks.lock().unwrap().take();
}

/// Regression: a subscriber that panicked at the loss of one guard ended the task that renews all, so
/// that nobody was told of the loss and all guards were lost; and one that panicked when a waiting
/// request was dropped left the request in the queue.
#[tokio::test(start_paused = true)]
async fn a_log_that_panics_ends_no_other_lease_and_leaves_nobody_in_the_queue() {
    let full = || -> io::Sink { panic!("no space left on device") };
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_writer(full).finish();
    let world = World::begin(TTL);
    let [broken, kept] = [world.locks.mutex("broken").lock().await, world.locks.mutex("kept").lock().await];
    let (broken, kept) = (broken.unwrap(), kept.unwrap());
    world.others().break_lease("broken", broken.fence()).await.unwrap();
    let _listening = set_default(subscriber);
    timeout(TTL, broken.lost()).await.expect("somebody says that it is lost");
    let others = world.others();
    let waiting = tokio::spawn(others.mutex("kept").lock().into_future());
    sleep(2 * TTL).await;
    assert!(kept.is_held());
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    sleep(SECOND).await;
    assert_eq!(world.memory.waiting(), 0);
    others.close(Duration::ZERO).await.unwrap();
    drop((broken, kept));
    sleep(SECOND).await;
    assert!(world.is_empty());
}
