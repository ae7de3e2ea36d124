//! One store.

use model::Flaw;
use model::store::{Party, Scope, Store};

use crate::{DOES_NOT_RISE, PASSED_OVER, TWO_BELIEVE};

pub(crate) const LIMIT: usize = 4_000_000;

const WAKE_UP_LOST: &str = "a wake-up is lost";
const STILL_THERE: &str = "something is left of a client that is gone";
const UNRESPONSIVE_IN_TIME: &str = "a waiter that claimed in time was marked unresponsive";
const UNRESPONSIVE_THOUGH_ASKING: &str = "a waiter that asked again was marked unresponsive";

/// Two clients that leave if the key is taken.
fn two_tries() -> Scope {
    Scope::of([Party::alone(&["a"]).tries(), Party::alone(&["a"]).tries()])
}

/// The first client acquires the lock twice.
fn one_twice() -> Scope {
    Scope::of([Party::alone(&["a"]).tries().times(2), Party::alone(&["a"]).tries()])
}

sound! { Store:
    #[ignore = "takes minutes"]
    two_tries_never_hold_at_once_and_leave_nothing: two_tries().longer_renewals(1) => 26_844;
    #[ignore = "1.9 million states"]
    connections_may_break_during_tries: two_tries().breaks(1).cancels(1) => 940_676;
    a_second_attempt_is_safe_from_the_remains_of_the_first: one_twice().breaks(1) => 540_250;
    fences_increase_even_if_the_store_loses_its_state:
        two_tries().flushes(2) => 177_171,
        one_twice().forgotten_fences(1) => 57_809;
    #[ignore = "takes minutes"]
    two_waiters_hold_the_lock_in_turn: Scope::apart(2) => 177_915;
    #[ignore = "takes minutes"]
    one_of_two_waiters_may_give_up: Scope::apart(2).only_one_slow(0).cancels(1) => 121_219;
    #[ignore = "takes minutes"]
    two_waiters_are_served_although_one_dies_and_a_push_is_lost:
        Scope::apart(2).crashes(1).lost_pushes(1) => 352_653;
    #[ignore = "takes minutes"]
    a_holder_without_waiters_releases_by_value: Scope::apart(2).by_value() => 1_011_555;
    #[ignore = "takes minutes"]
    waiters_that_ping_hold_the_lock_in_turn: Scope::apart(2).with_pings().only_one_slow(1) => 171_254;
    #[ignore = "takes minutes"]
    three_waiters_are_served_although_one_is_slow: Scope::apart(3).only_one_slow(1) => 1;
    #[ignore = "takes minutes"]
    three_waiters_are_notified_by_push_alone: Scope::apart(3).timeless().by_value().cancels(1) => 4_903;
    every_waiter_may_give_up: Scope::apart(3).timeless().cancels(3) => 16_462;
    #[ignore = "takes minutes"]
    waiters_on_one_channel_hold_the_lock_in_turn: Scope::siblings(2).cancels(1) => 292_947;
    #[ignore = "takes minutes"]
    one_death_needs_no_timer: Scope::apart(2).patient().crashes(1) => 128_455;
    a_store_that_forgets_everything_starves_nobody: Scope::apart(2).only_one_slow(1).flushes(1) => 86_638;
    #[ignore = "1.1 million states"]
    a_server_that_starts_empty_starves_nobody: Scope::apart(2).only_one_slow(0).restarts(1) => 547_955;
    a_queue_that_expired_is_rebuilt: Scope::apart(2).only_one_slow(1).queue_ends(1) => 36_406;
    another_program_may_take_and_release_the_key: Scope::apart(2).only_one_slow(1).strangers(1) => 94_860;
    #[ignore = "takes minutes"]
    connections_may_break: Scope::apart(2).only_one_slow(1).breaks(1) => 760_336;
    #[ignore = "takes minutes"]
    somebody_may_forge_grants_and_hints: Scope::apart(2).only_one_slow(1).forgeries(1) => 162_803;
    a_request_may_be_served_twice: Scope::apart(2).only_one_slow(0).twins(1) => 98_669;
    #[ignore = "takes minutes"]
    siblings_ask_again_when_one_of_them_lost_its_place:
        Scope::siblings(2).patient().only_one_slow(0).flushes(1) => 1;
}

needed! { Store:
    a_release_must_compare: ReleaseWithoutCompare, one_twice() => TWO_BELIEVE;
    each_attempt_needs_its_own_id: OneIdPerClient, one_twice().breaks(1) => TWO_BELIEVE;
    a_lease_must_be_counted_from_before_the_sending: CountedFromTheReply, two_tries() => TWO_BELIEVE;
    a_fence_needs_a_floor: FenceWithoutFloor, two_tries().flushes(1) => DOES_NOT_RISE;
    a_clock_behind_the_last_fence_is_the_one_exception: ClockBehind, two_tries().flushes(1) => DOES_NOT_RISE;
    #[ignore = "takes minutes"]
    the_floor_must_be_read_by_the_store_when_it_grants:
        FloorFromTheClient, two_tries().flushes(1) => DOES_NOT_RISE;
    a_grant_needs_a_not_after: NoNotAfter, two_tries().breaks(1).cancels(1) => STILL_THERE;
    giving_up_on_another_connection_needs_a_second_release:
        OneRelease, two_tries().breaks(1).cancels(1) => STILL_THERE;
    a_renewal_must_not_take_a_free_key: RenewalTakes, two_tries().breaks(1) => STILL_THERE;
    a_renewal_must_not_shorten_a_lease:
        RenewalShortens, two_tries().breaks(1).longer_renewals(1) => TWO_BELIEVE;
    a_grant_that_comes_again_must_not_shorten_a_lease:
        GrantShortens, two_tries().breaks(1).longer_renewals(1) => TWO_BELIEVE;
    a_renewal_must_keep_the_mark: RenewalDropsTheMark, Scope::apart(2).by_value() => WAKE_UP_LOST;
    a_hand_over_must_keep_the_mark:
        HandOverDropsTheMark, Scope::apart(3).timeless().by_value() => WAKE_UP_LOST;
    a_strangers_value_must_not_be_marked:
        MarksAStranger, Scope::apart(2).strangers(1) => "another program cannot release its lock";
    #[ignore = "takes minutes"]
    giving_up_must_not_release_by_value: GivesUpByValue, Scope::apart(2).by_value().cancels(1) => STILL_THERE;
    a_release_must_leave_the_queue: ReleaseStaysQueued, Scope::apart(2).cancels(1) => STILL_THERE;
    #[ignore = "takes minutes"]
    the_count_of_a_push_must_not_decide: TrustsTheCountOfThePush, Scope::apart(3).timeless() => TWO_BELIEVE;
    every_request_must_hand_a_free_key_on:
        OnlyTheOwnerHandsOn, Scope::apart(3).patient().crashes(1).only_one_slow(0) => WAKE_UP_LOST;
    a_pushed_grant_lasts_a_window_until_it_is_renewed:
        CountsTheTtlAtOnce, Scope::apart(3).only_one_slow(1) => TWO_BELIEVE;
    a_pushed_grant_must_not_be_counted_from_its_reading:
        CountsFromThePush, Scope::apart(3).only_one_slow(1) => TWO_BELIEVE;
    #[ignore = "takes minutes"]
    the_end_of_a_pushed_grant_must_not_be_a_time_of_the_server:
        CountsByTheServersClock, Scope::apart(3).only_one_slow(1).clock_steps(1) => TWO_BELIEVE;
    a_late_push_must_not_be_released: ReleasesALatePush, Scope::apart(3).only_one_slow(1) => PASSED_OVER;
    each_request_must_have_its_own_nonce:
        OneSecretForAllAsks, Scope::apart(2).strangers(1).only_one_slow(1) => TWO_BELIEVE;
    #[ignore = "takes minutes"]
    a_waiter_that_asks_again_must_send_its_ticket:
        ForgetsTheTicket, Scope::apart(3).only_one_slow(1) => PASSED_OVER;
    a_hand_over_must_be_recorded:
        NoUnclaimedRecord, Scope::siblings(3).crashes(1) => "a dead process wasted a second claim window";
    a_claim_must_clear_the_record:
        ClaimLeavesTheRecord, Scope::siblings(3).timeless() => UNRESPONSIVE_IN_TIME;
    #[ignore = "takes minutes"]
    a_request_of_a_sibling_must_clear_the_record:
        SiblingsAreStruckAllTheSame, Scope::siblings(3) => UNRESPONSIVE_THOUGH_ASKING;
    a_request_must_make_a_waiter_responsive_again:
        StrikeStays, Scope::apart(3).only_one_slow(1) => "a waiter that asks again stays unresponsive";
    each_connection_needs_its_own_channel:
        ReusesTheChannel, Scope::apart(2).breaks(1).crashes(1) => "the lock was handed to a connection that is known to be closed";
}
