//! The view of an observer if the members disagree.

use conformance::faulty::{CallFate, passing};
use leasehold_core::{
    Fence, InspectStore as _, Key, Mark, MarkStore as _, Stamp, Store as _, WaitMode, Waiter,
};

use super::world::{MILLISECOND, SECOND, TTL, WAIT, fence, held_at, key, quorum_of};

#[tokio::test(start_paused = true)]
async fn a_key_held_at_a_minority_is_shown_as_free_and_is_not_listed() {
    let (world, quorum) = quorum_of(5);
    world.rival_at([1, 4]).await;
    assert!(quorum.inspect(&key("k")).await.unwrap().holders.is_empty());
    assert!(quorum.list(b"").await.unwrap().is_empty());
    let held = world.attempt_for("l", TTL);
    fence(&quorum.grant(&held, WaitMode::Try).await);
    let listed: Vec<Key> = quorum.list(b"").await.unwrap().into_iter().map(|state| state.key).collect();
    assert_eq!(listed, [key("l")]);
    let all = quorum.inspect_all(&["k", "l", "m"].map(key)).await.unwrap();
    let held: Vec<_> = all.iter().map(|state| state.holders.len()).collect();
    assert_eq!(held, [0, 1, 0]);
}

/// Regression: one member had forgotten the lease and another was silent: it was said to be free.
#[tokio::test(start_paused = true)]
async fn a_key_is_shown_as_held_if_a_member_that_does_not_answer_may_make_a_majority_for_its_holder() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[0].memory.forget();
    world.members[1].on("inspect", passing("connection refused"));
    world.members[1].on("list", passing("connection refused"));
    let state = quorum.inspect(&key("k")).await.unwrap();
    let held: Vec<_> = state.holders.iter().map(|held| (held.owner.holder(), held.fence)).collect();
    assert_eq!(held, [(Some(attempt.holder), Some(fence))]);
    assert_eq!(quorum.list(b"").await.unwrap().len(), 1);
    assert_eq!(quorum.inspect_all(&[key("k")]).await.unwrap()[0].holders.len(), 1);
    // With a majority that does not have it, it is free, whatever the third one has.
    world.members[2].memory.release(&attempt).await.unwrap();
    assert!(quorum.inspect(&key("k")).await.unwrap().holders.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_shown_in_the_order_of_the_first_nonempty_queue_also_of_a_free_key() {
    let (world, quorum) = quorum_of(3);
    // At the second member alone, there are a holder and a waiter.
    world.rival_at([1]).await;
    let waits = world.attempt();
    world.members[1].memory.grant(&waits, WAIT).await.unwrap();
    let state = quorum.inspect(&key("k")).await.unwrap();
    let line: Vec<&Waiter> = state.waiters.iter().collect();
    assert!(state.holders.is_empty());
    assert_eq!(line.iter().map(|waiter| waiter.holder).collect::<Vec<_>>(), [waits.holder]);
    assert_eq!(quorum.list(b"").await.unwrap(), [state]);
}

#[tokio::test(start_paused = true)]
async fn an_inspection_uses_every_member_that_answers_in_time_and_needs_a_majority() {
    let (world, quorum, ..) = held_at(3).await;
    world.members[0].on("inspect", CallFate::Slow(50 * MILLISECOND));
    world.members[2].on("inspect", CallFate::Hung);
    assert_eq!(quorum.inspect(&key("k")).await.unwrap().holders.len(), 1);
    assert_eq!(world.passed(), 600 * MILLISECOND, "the third is waited for no longer");
    assert_eq!(quorum.inspect(&key("k")).await.unwrap().holders.len(), 1);
    assert_eq!(world.passed(), 650 * MILLISECOND, "and not again before it answers");
    world.members[1].on("inspect", passing("connection refused"));
    let fault = quorum.inspect(&key("k")).await.unwrap_err();
    let words =
        "1 of 3 stores answered, 2 did not answer (memory:b: connection refused, memory:c: timed out)";
    assert!(fault.to_string().contains(words), "{fault}");
}

/// A member's list takes longer the more keys it has, and longer than the time limit for one key.
#[tokio::test(start_paused = true)]
async fn a_list_that_takes_its_members_seconds_is_waited_for() {
    let (world, quorum, ..) = held_at(3).await;
    world.on(0..3, "list", CallFate::Slow(5 * SECOND));
    assert_eq!(quorum.list(b"").await.unwrap().len(), 1);
    assert_eq!(world.passed(), 5 * SECOND);
}

/// What is due depends on the median clock of those that answer, and on the latest mark.
#[tokio::test(start_paused = true)]
async fn the_latest_mark_and_the_median_clock_of_the_members_count() {
    let (world, quorum, attempt, fence) = held_at(5).await;
    // The later job had the lower fence, for example since all members were restarted empty.
    let mark = |at| Mark::new(Stamp::from_micros(at), Fence::new(fence.get() + 10 - at).unwrap(), None);
    quorum.mark(&attempt, &mark(5), 3600 * SECOND).await.unwrap();
    // A later mark reached one member only.
    world.members[2].memory.mark(&attempt, &mark(9), 3600 * SECOND).await.unwrap();
    let marked = quorum.marked(&key("k")).await.unwrap();
    assert_eq!(marked.mark, Some(mark(9)));
    world.members[2].on("marked", passing("connection refused"));
    assert_eq!(quorum.marked(&key("k")).await.unwrap().mark, Some(mark(5)));
    for (member, ahead) in [40, 1, 2, 30, 0].map(|ahead| ahead * SECOND).into_iter().enumerate() {
        world.members[member].on("marked", CallFate::Fair);
        world.members[member].says(|facts| facts.ahead = ahead);
    }
    let right = world.members[0].memory.inspect(&key("k")).await.unwrap().clock.unwrap();
    assert_eq!(quorum.inspect(&key("k")).await.unwrap().clock, Some(right + 40 * SECOND), "the latest");
    let right = world.members[0].memory.marked(&key("k")).await.unwrap().now.as_micros();
    let seconds_ahead =
        async || (quorum.marked(&key("k")).await.unwrap().now.as_micros() - right) / 1_000_000;
    assert_eq!(seconds_ahead().await, 2);
    // Of an even number, one that is far ahead makes nothing due.
    world.members[2].on("marked", passing("connection refused"));
    assert_eq!(seconds_ahead().await, 1);
}

/// A member that still has the mark would restore it, so it is not reported as gone.
#[tokio::test(start_paused = true)]
async fn a_mark_is_forgotten_by_all_members_or_the_one_that_kept_it_is_named() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    let mark = Mark::new(Stamp::from_micros(5), fence, None).every(SECOND);
    quorum.mark(&attempt, &mark, 3600 * SECOND).await.unwrap();
    assert_eq!(quorum.list_marks(b"").await.unwrap()[0].1.mark, Some(mark.clone()));
    world.members[1].on("forget", passing("connection refused"));
    let fault = quorum.forget(&key("k")).await.unwrap_err();
    let text = "2 of 3 stores forgot the mark, 1 did not answer (memory:b: connection refused); 3 needed";
    assert!(fault.to_string().ends_with(text), "{fault}");
    assert_eq!(quorum.marked(&key("k")).await.unwrap().mark, Some(mark.clone()));
    world.members[1].on("forget", CallFate::Fair);
    assert_eq!(quorum.forget(&key("k")).await.unwrap(), Some(mark));
    assert_eq!(quorum.marked(&key("k")).await.unwrap().mark, None);
    assert_eq!(quorum.list_marks(b"").await.unwrap(), []);
}
