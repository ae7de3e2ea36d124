//! Locks that are not plain strings, and data next to them.

use std::time::Duration;

use interop::{Answer, Driver, Language, Peer};
use leasehold::{LockError, Locks};
use servers::{Flavor, Reply, Server};

use crate::Test;
use crate::pair::{A_WHILE, LONG, Pair, took, with_runtime};

const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) const ALL: [Test; 3] = named! {
    a_semaphore_and_a_lock_of_ours_are_errors_to_each_other: &[Language::Node],
    the_signal_of_python_redis_lock_is_no_lock_and_its_release_deletes_what_lies_there: &[Language::Python],
    our_release_does_not_wake_python_redis_lock_and_a_push_to_its_signal_does: &[Language::Python],
};

fn a_semaphore_and_a_lock_of_ours_are_errors_to_each_other() {
    with_runtime(|runtime| {
        let server = Server::start(Flavor::Redis70);
        let locks = runtime.block_on(Locks::connect(&server.url())).unwrap();
        let mut permits = Driver::start_permits(&server.url());

        took(permits.take("theirs", LONG, Duration::ZERO));
        let error = runtime.block_on(locks.mutex("semaphore:theirs").try_lock()).unwrap_err();
        assert!(matches!(error, LockError::NotALock { .. }), "{error:?}");
        assert_eq!(server.text(&["ZCARD", "semaphore:theirs"]), Reply::Integer(1), "we touched it");

        let guard = runtime.block_on(locks.mutex("semaphore:ours").try_lock()).unwrap().unwrap();
        let answer = permits.take("ours", LONG, Duration::ZERO);
        assert!(matches!(&answer, Answer::Failed(why) if why.contains("WRONGTYPE")), "{answer:?}");
        runtime.block_on(guard.release()).unwrap();
    });
}

/// Its signal is a list next to the lock. A key of ours must not have the name of a signal.
fn the_signal_of_python_redis_lock_is_no_lock_and_its_release_deletes_what_lies_there() {
    with_runtime(|runtime| {
        let mut pair = Pair::on(Flavor::Redis70, Peer::PythonRedisLock, runtime);
        let signal = pair.key.replacen("lock:", "lock-signal:", 1);
        pair.it_takes(LONG);
        let guard = runtime.block_on(pair.locks.mutex(&signal).try_lock()).unwrap().unwrap();
        pair.it_releases();
        // The list exists for a second.
        assert_eq!(pair.server().text(&["TYPE", &signal]), Reply::Simple("list".into()));
        let error = runtime.block_on(pair.locks.mutex(&signal).try_lock()).unwrap_err();
        assert!(matches!(error, LockError::NotALock { .. }), "{error:?}");
        assert!(runtime.block_on(guard.release()).is_err(), "our lock was deleted, and we were not told");
    });
}

/// Without a timeout and an expiry, it asks once and then waits for the signal alone.
fn our_release_does_not_wake_python_redis_lock_and_a_push_to_its_signal_does() {
    with_runtime(|runtime| {
        let mut pair = Pair::on(Flavor::Valkey91, Peer::PythonRedisLock, runtime);
        let guard = runtime.block_on(async { pair.ours().lock().await.unwrap() });
        pair.driver.begin_to_take_for_ever("invoice:42");
        assert_eq!(pair.driver.answer_within(A_WHILE), None);
        runtime.block_on(guard.release()).unwrap();
        assert_eq!(pair.driver.answer_within(PATIENCE), None, "it was woken");
        pair.server().text(&["LPUSH", &pair.key.replacen("lock:", "lock-signal:", 1), "1"]);
        took(pair.driver.answer());
        // The lock that it then holds never expires.
        let held_by = pair.we_are_refused(runtime);
        assert_eq!(held_by.remaining, None, "{held_by:?}");
        assert!(matches!(pair.driver.release(), Answer::Released { .. }));
    });
}
