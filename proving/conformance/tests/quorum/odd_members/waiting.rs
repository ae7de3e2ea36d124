//! Waiting in the members' queues, and what ends it.

use std::time::Duration;

use conformance::faulty::{CallFate, passing};
use leasehold_core::{Attempt, InspectStore as _, Store as _};

use super::world::{MILLISECOND, SECOND, TTL, WAIT, World, fence, is_woken, key, quorum_of, stands};
use leasehold::QuorumStore;

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_its_turn_by_a_silent_queue_member_and_by_the_loss_of_the_majority() {
    // Which members fall silent, and whether that affects a waiter in the first one's queue.
    for (silent, wakes) in [(&[2][..], false), (&[0], true), (&[1, 2], true)] {
        let (world, quorum) = quorum_of(3);
        let rival = world.rival_at([0, 1]).await;
        let waits = world.attempt();
        stands(&quorum, &waits).await;
        assert!(!is_woken(&quorum, &waits, SECOND).await);
        let silence = async {
            tokio::time::sleep(SECOND / 2).await;
            world.fall_silent(&quorum, silent).await;
        };
        let (woken, ()) = tokio::join!(is_woken(&quorum, &waits, SECOND), silence);
        assert_eq!(woken, wakes, "{silent:?}");
        if !wakes {
            world.members[0].memory.release(&rival).await.unwrap();
            assert!(is_woken(&quorum, &waits, Duration::ZERO).await, "it is its turn");
            // Its notification is not lost: it need not queue again.
            assert!(!is_woken(&quorum, &waits, SECOND).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_even_number_of_members_loses_its_majority_with_half_of_them() {
    let (world, quorum) = quorum_of(4);
    world.rival_at([0, 1, 2]).await;
    let waits = world.attempt();
    stands(&quorum, &waits).await;
    world.fall_silent(&quorum, &[3]).await;
    assert!(!is_woken(&quorum, &waits, SECOND).await);
    world.fall_silent(&quorum, &[2, 3]).await;
    assert!(is_woken(&quorum, &waits, Duration::ZERO).await);
}

/// The waiter knows that two members were silent, and finds that they answer again.
#[tokio::test(start_paused = true)]
async fn a_waiter_queues_as_before_once_a_majority_is_back() {
    let (world, quorum) = quorum_of(3);
    fence(&world.quorum().grant(&world.attempt(), WAIT).await);
    world.fall_silent(&quorum, &[1, 2]).await;
    let waits = world.attempt();
    stands(&quorum, &waits).await;
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.lines(), [1, 0, 0]);
    assert!(!is_woken(&quorum, &waits, SECOND).await);
}

/// A waiter in the second member's queue is handed the key there, whoever came to the first meanwhile.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_handed_a_key_continues_from_the_member_that_handed_it_over() {
    let (world, quorum) = quorum_of(3);
    let rival = world.rival_at([1, 2]).await;
    world.members[0].on("grant", passing("connection refused"));
    let waits = world.attempt();
    stands(&quorum, &waits).await;
    assert_eq!((world.lines(), world.passed()), (vec![0, 1, 0], Duration::ZERO), "at once");
    world.members[0].on("grant", CallFate::Fair);
    quorum.inspect(&key("k")).await.unwrap();
    world.rival_at([0]).await;
    world.rival_leaves(&rival, [2, 1]).await;
    assert!(is_woken(&quorum, &waits, Duration::ZERO).await);
    fence(&quorum.grant(&waits, WAIT).await);
}

/// An attempt that has the first member's key, and finds others at the rest.
async fn contested(world: &World, ttl: Duration) -> (QuorumStore, [Attempt; 2], Attempt) {
    let rivals = [world.rival_at([1]).await, world.rival_at([2]).await];
    let (quorum, waits) = (world.quorum(), world.attempt_for("k", ttl));
    stands(&quorum, &waits).await;
    (quorum, rivals, waits)
}

#[tokio::test(start_paused = true)]
async fn an_attempt_with_the_queue_members_key_also_queues_at_refusing_members() {
    let world = World::of(3);
    let (quorum, rivals, waits) = contested(&world, TTL).await;
    assert_eq!((world.taken(), world.lines()), (vec![0, 1, 2], vec![0, 1, 1]));
    assert_eq!(world.counts("grant"), [1, 2, 2]);
    assert!(!is_woken(&quorum, &waits, SECOND / 2).await);
    world.members[2].memory.release(&rivals[1]).await.unwrap();
    assert!(is_woken(&quorum, &waits, Duration::ZERO).await);
    fence(&quorum.grant(&waits, WAIT).await);
    assert_eq!(world.members[0].asked("grant")[1].holder, waits.holder, "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn rivals_that_hold_each_other_up_come_apart_after_half_a_ttl_or_two_seconds() {
    for (ttl, window) in [(TTL, 2 * SECOND), (SECOND, SECOND / 2)] {
        let world = World::of(3);
        // The shortest that chance allows: half of each pause.
        world.clock.draws(0);
        let (quorum, _, waits) = contested(&world, ttl).await;
        let (begun, rest) = (world.passed(), 50 * MILLISECOND);
        assert!(!is_woken(&quorum, &waits, window / 2 + rest - MILLISECOND).await);
        assert_eq!((world.taken(), world.lines()), (vec![1, 2], vec![0; 3]), "it has let everything go");
        assert!(is_woken(&quorum, &waits, SECOND).await);
        assert_eq!(world.passed() - begun, window / 2 + rest);
        // Then it asks as if for the first time, under other ids.
        stands(&quorum, &waits).await;
        let ids = world.ids_at(0);
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rival_that_asks_after_its_time_is_over_starts_over() {
    for (later, anew) in [(SECOND / 2, false), (3 * SECOND, true)] {
        let world = World::of(3);
        let (quorum, _, waits) = contested(&world, TTL).await;
        tokio::time::sleep(later).await;
        stands(&quorum, &waits).await;
        let ids = world.ids_at(0);
        assert_eq!((ids.len(), ids[0] != ids[1]), (2, anew), "after {later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_or_an_idle_process_is_never_woken() {
    let (world, quorum) = quorum_of(3);
    let holds = world.attempt();
    fence(&quorum.grant(&holds, WAIT).await);
    for attempt in [holds, world.attempt()] {
        assert!(!is_woken(&quorum, &attempt, 60 * SECOND).await);
    }
    // Nor is one that got an error: it asks again in its own time.
    world.on(0..3, "grant", CallFate::Hung);
    let waits = world.attempt();
    assert!(quorum.grant(&waits, WAIT).await.is_err());
    assert!(!is_woken(&quorum, &waits, 60 * SECOND).await);
}
