//! The bugs that are planted, by what would break.

use super::bug::{
    Bug,
    Suite::{Command, Core, EveryStore, File, Guards, Quorum, Store, Wire},
};

/// All of them. Where the one semantics and the scripts say the same, the bug is planted in each.
pub(super) const BUGS: &[Bug] = &[
    // A compare left out of the release.
    Bug {
        name: "a release frees a lease whoever has it",
        file: "crates/core/src/apply/grant.rs",
        from: "if records.is_held_by(key, attempt.holder, scene.now) {\n        records.free(",
        to: "{\n        records.free(",
        tests: &[(Core, "apply::tests::holding::a_release_takes_back_what_is_ours_and_says_what_is_not")],
    },
    Bug {
        name: "the release script frees a lease whoever has it",
        file: "crates/redis/src/scripts/turn.lua",
        from: "  if holds(s) then\n    if s.room",
        to: "  if holds(s) or s.owner then\n    if s.room",
        tests: &[
            (EveryStore, "redis_7_0::a_release_frees_only_what_is_ours"),
            (EveryStore, "valkey_9_1::a_release_frees_only_what_is_ours"),
        ],
    },
    Bug {
        name: "the short cut of the release script frees a lease whoever has it",
        file: "crates/redis/src/scripts/plain_release.lua",
        from: "if held == 'lh1-' .. me then",
        to: "if held then",
        tests: &[
            (EveryStore, "redis_7_0::a_release_frees_only_what_is_ours"),
            (EveryStore, "valkey_9_1::a_release_frees_only_what_is_ours"),
        ],
    },
    Bug {
        name: "the server's own command deletes without comparing",
        file: "crates/redis/src/native.rs",
        from: "let mut delete = cmd(how.name());",
        to: "let mut delete = cmd(if how == DeleteIfEqual::Delex { how.name() } else { \"DEL\" });",
        tests: &[(Wire, "native::tests::they_have_these_words")],
    },
    Bug {
        name: "the script in its place deletes without comparing",
        file: "crates/redis/src/scripts/delete_if_equal.lua",
        from: "if redis.call('GET', KEYS[1]) == ARGV[1] then",
        to: "if redis.call('GET', KEYS[1]) then",
        tests: &[(EveryStore, "redis_7_0::a_release_frees_only_what_is_ours")],
    },
    Bug {
        name: "a break ends a lease whatever its fence",
        file: "crates/core/src/apply/breaking.rs",
        from: "ours.filter(|(tenancy, _)| tenancy.fence == Some(fence))",
        to: "ours.filter(|(tenancy, _)| tenancy.fence.is_some())",
        tests: &[(EveryStore, "memory::a_break_ends_the_holding_with_that_fence_and_no_other")],
    },
    // Released only where granted.
    Bug {
        name: "a lost round is released only where it was granted",
        file: "crates/leasehold/src/quorum/contest.rs",
        from: "get_mut(member).filter(|stake| stake.was_asked())?;",
        to: "get_mut(member).filter(|stake| stake.was_asked() && !stake.may_rejoin())?;",
        tests: &[(Quorum, "outages::a_loser_releases_also_at_members_that_were_silent")],
    },
    Bug {
        name: "a guard is released only at members that said they granted",
        file: "crates/leasehold/src/quorum/keeping.rs",
        from: "for stake in stakes {\n        stake.lets_go();\n        let (desk",
        to: "for stake in stakes.into_iter().filter(|stake| !stake.may_rejoin()) {\n        stake.lets_go();\n        let (desk",
        tests: &[(Quorum, "outages::a_guard_is_released_also_at_a_member_whose_answer_was_lost")],
    },
    Bug {
        name: "a grant that the release overtook is kept",
        file: "crates/leasehold/src/quorum/contest.rs",
        from: "        state.given_up\n    }",
        to: "        state.given_up && state.asked > 1\n    }",
        tests: &[(Quorum, "outages::a_grant_that_the_release_overtook_is_undone")],
    },
    Bug {
        name: "a grant that was cut off is released once and forgotten",
        file: "crates/redis/src/settle.rs",
        from: "pending.range(of_holder).map(|(_, grant)| grant.settles_at).max()",
        to: "pending.range(of_holder).map(|(_, grant)| grant.settles_at).max().filter(|_| false)",
        tests: &[
            (Wire, "settle::tests::a_release_on_another_connection_must_come_again_after_the_last_not_after"),
            (Store, "settling::giving_up_waits_for_a_grant_that_was_cut_off_and_undoes_it"),
        ],
    },
    Bug {
        name: "a grant that comes too late is made",
        file: "crates/redis/src/scripts/plain_grant.lua",
        from: "before == '' or now <= tonumber(before)",
        to: "true or before",
        tests: &[(Store, "flavors::redis_7_0_serves"), (Store, "flavors::valkey_9_1_serves")],
    },
    Bug {
        name: "a request that is dropped is not given up",
        file: "crates/leasehold/src/lock/armed.rs",
        from: "            self.place.give_up(attempt);",
        to: "            drop(attempt);",
        tests: &[(
            Guards,
            "a_place_in_line_is_given_up_also_when_the_store_was_silent_for_longer_than_the_ttl",
        )],
    },
    Bug {
        name: "a grant takes what somebody else has",
        file: "crates/redis/src/scripts/plain_grant.lua",
        from: "ARGV[3], 'NX', 'PX'",
        to: "ARGV[3], 'PX'",
        tests: &[
            (EveryStore, "redis_7_0::a_free_key_is_granted_to_one"),
            (EveryStore, "valkey_9_1::a_free_key_is_granted_to_one"),
        ],
    },
    // One id for all rounds.
    Bug {
        name: "an id that was released is asked with again",
        file: "crates/leasehold/src/quorum/contest.rs",
        from: "Stake::new(member, next_id(stake.holder))",
        to: "Stake::new(member, { let _ = next_id; stake.holder })",
        tests: &[(
            Quorum,
            "outages::a_release_that_comes_late_does_not_free_what_the_next_round_was_granted",
        )],
    },
    // Past the line.
    Bug {
        name: "a try takes a free key although somebody waits",
        file: "crates/core/src/apply/grant.rs",
        from: "        match turn(records, want, None, scene, told) {\n            Turn::Anybodys",
        to: "        let is_free = records.has_room(&want.key, want.mode, scene.now);\n        match if is_free { Turn::Anybodys } else { turn(records, want, None, scene, told) } {\n            Turn::Anybodys",
        tests: &[(Core, "apply::tests::line::a_try_does_not_slip_past_the_line")],
    },
    Bug {
        name: "the grant script lets a try take a free key although somebody waits",
        file: "crates/redis/src/scripts/grant.lua",
        from: "local turn = not holds(s, s.want) and advance(s)",
        to: "local turn = not holds(s, s.want) and (s.value or s.other) and advance(s)",
        tests: &[(Store, "line_order::a_try_that_meets_a_key_free_hands_it_to_who_is_first_in_line")],
    },
    // Validity taken from the reply.
    Bug {
        name: "a lease is counted from its answer",
        file: "crates/core/src/acquire.rs",
        from: "let lease = Lease::counted_from(sent, self.ttl, self.drift);",
        to: "let lease = Lease::counted_from({ let _ = sent; now }, self.ttl, self.drift);",
        tests: &[
            (Core, "acquire::tests::a_grant_is_counted_from_before_the_ask_that_gave_it"),
            (Core, "acquire::tests::a_grant_that_comes_after_its_lease_is_not_believed_but_asked_for_anew"),
        ],
    },
    Bug {
        name: "a renewal is counted from its answer",
        file: "crates/core/src/keep.rs",
        from: "self.believe(Lease::counted_from(sent, ttl, self.drift));",
        to: "self.believe(Lease::counted_from(now, ttl, self.drift));",
        tests: &[(Core, "keep::tests::a_lease_is_renewed_when_a_third_of_it_is_gone")],
    },
    Bug {
        name: "a pushed lease is counted from when it was heard",
        file: "crates/core/src/acquire.rs",
        from: "let lease = Lease::counted_from(since, lasts, self.drift);",
        to: "let lease = Lease::counted_from(now, lasts, self.drift);",
        tests: &[
            (Core, "acquire::tests::a_hand_over_is_a_grant_of_a_window_counted_from_when_it_began"),
            (Core, "acquire::tests::a_hand_over_that_is_heard_too_late_is_asked_about"),
        ],
    },
    Bug {
        name: "a lease is believed to the instant at which the store ends it",
        file: "crates/core/src/lease.rs",
        from: "ttl.duration().saturating_sub(drift.of(ttl))",
        to: "ttl.duration().saturating_sub(drift.of(ttl) * 0)",
        tests: &[(Core, "lease::tests::a_lease_ends_a_little_before_the_ttl_counted_from_the_sending")],
    },
    Bug {
        name: "a delayed answer makes a lease shorter",
        file: "crates/core/src/keep.rs",
        from: "if lease.end() > self.lease.end() {",
        to: "if lease.end() != self.lease.end() {",
        tests: &[(Core, "keep::tests::a_renewal_of_ones_own_lengthens_the_lease_and_never_shortens_it")],
    },
    Bug {
        name: "a renewal cuts a longer lease off at the store",
        file: "crates/redis/src/scripts/renew.lua",
        from: "elseif left(s) < ttl then",
        to: "else",
        tests: &[(EveryStore, "redis_7_0::a_renewal_lengthens_and_never_shortens")],
    },
    Bug {
        name: "a guard is held until somebody says that it is lost",
        file: "crates/leasehold/src/lock/holding.rs",
        from: "self.loss.get().is_none() && self.runtime.now() < self.end()",
        to: "self.loss.get().is_none()",
        tests: &[(Guards, "a_guard_knows_its_end_before_the_keeper_had_a_chance_to_say_so")],
    },
    // Fences without a floor.
    Bug {
        name: "a fence is one more than the last, whatever the clock says",
        file: "crates/core/src/fence.rs",
        from: "Self::new(above.max(floor.0))",
        to: "Self::new(if last.is_some() { above.max(floor.0) } else { 1 })",
        tests: &[(Core, "fence::tests::the_next_fence_is_above_the_last_and_not_below_the_floor")],
    },
    Bug {
        name: "the grant script's fences have no floor",
        file: "crates/redis/src/scripts/plain_grant.lua",
        from: "floor == now and above <= now and time or string.format('%.0f', math.max(above, floor))",
        to: "string.format('%.0f', (last or 0) + 1)",
        tests: &[(
            Store,
            "member::a_member_grants_exactly_the_fence_that_is_proposed_and_keeps_clocks_that_are_wrong_within_bounds",
        )],
    },
    Bug {
        name: "half of the members are a majority",
        file: "crates/core/src/round.rs",
        from: "members / 2 + 1",
        to: "members.div_ceil(2)",
        tests: &[(Quorum, "errors::an_even_number_of_stores_is_warned_about")],
    },
    Bug {
        name: "the fences of a quorum are not raised to one",
        file: "crates/core/src/round.rs",
        from: "matches!(state, State::Granted { fence, .. } if *fence == greatest)",
        to: "matches!(state, State::Granted { fence, .. } if *fence <= greatest)",
        tests: &[(Core, "round::tests::fences_that_differ_are_raised_to_the_greatest_before_any_is_used")],
    },
    // Push without a second ask.
    Bug {
        name: "who stands in line hears a push or nothing",
        file: "crates/core/src/waiting.rs",
        from: "waiter.ask_at = rest.map(|rest| now + rest);",
        to: "waiter.ask_at = rest.map(|rest| now + rest).filter(|_| !told);",
        tests: &[
            (Core, "waiting::tests::only_the_first_asks_again_and_at_the_holders_end"),
            (Core, "waiting::tests::the_first_asks_again_from_time_to_time_however_long_the_lease_is"),
        ],
    },
    Bug {
        name: "who is told how long a lease is asks no sooner",
        file: "crates/core/src/waiting.rs",
        from: "now + pace.min(left.saturating_add(ROUNDING + spread))",
        to: "now + left.saturating_add(ROUNDING + spread)",
        tests: &[(
            Core,
            "waiting::tests::who_is_told_when_a_long_lease_ends_asks_again_from_time_to_time_all_the_same",
        )],
    },
    Bug {
        name: "a key is handed to who cannot be told",
        file: "crates/redis/src/scripts/line.lua",
        from: "  return s.line.counts[channel] > 0 and not s.line.struck[channel]",
        to: "  return true",
        tests: &[(Store, "line_order::a_process_that_dies_in_line_costs_the_next_nothing")],
    },
    // Quarantine off.
    Bug {
        name: "a store that may have forgotten serves at once",
        file: "crates/core/src/apply.rs",
        from: "(now < until).then(|| now.saturating_until(until))",
        to: "(now < until && false).then(|| now.saturating_until(until))",
        tests: &[(
            Core,
            "apply::tests::member::a_member_that_may_have_forgotten_abstains_for_the_longest_ttl_and_releases_all_the_same",
        )],
    },
    Bug {
        name: "a server that may have forgotten serves at once",
        file: "crates/redis/src/scripts/member.lua",
        from: "if now < till then return",
        to: "if now < since then return",
        tests: &[
            (Store, "member::a_server_that_was_flushed_abstains"),
            (Store, "member::a_server_that_was_started_anew_without_its_state_abstains_for_the_longest_ttl"),
        ],
    },
    Bug {
        name: "the short cut of the grant script asks nobody who vouches",
        file: "crates/redis/src/scripts/plain_grant.lua",
        from: "(run == '' or redis.call(",
        to: "(run ~= '-' or redis.call(",
        tests: &[
            (Store, "member::a_server_that_was_flushed_abstains"),
            (Store, "member::a_server_that_was_started_anew_without_its_state_abstains_for_the_longest_ttl"),
        ],
    },
    Bug {
        name: "a member is joined although somebody else has its key",
        file: "crates/core/src/apply/hold.rs",
        from: "if turn(records, want, None, scene, told) != Turn::Anybodys {",
        to: "if turn(records, want, None, scene, told) == Turn::Unknown {",
        tests: &[(
            Core,
            "apply::tests::member::a_member_that_was_away_is_rejoined_with_the_fence_unless_somebody_holds_or_waits",
        )],
    },
    // In the order in which it was sent, and by whoever may wait.
    Bug {
        name: "what is asked of a file goes before what was sent",
        file: "crates/file/src/queue.rs",
        from: "self.shared.sent.load(Ordering::SeqCst) > 0",
        to: "self.shared.sent.load(Ordering::SeqCst) > usize::MAX - 1",
        tests: &[(File, "store::tests::nothing_goes_before_what_was_sent")],
    },
    Bug {
        name: "a task waits for a process that keeps the file",
        file: "crates/file/src/connection.rs",
        from: "0.. if haste.is_on.load(Ordering::Relaxed) => return false,",
        to: "0.. if tries > 10_000 && haste.is_on.load(Ordering::Relaxed) => return false,",
        tests: &[(File, "store::tests::a_task_does_not_wait_for_another_process_but_the_thread_does")],
    },
    // Who must not outlive a lease.
    Bug {
        name: "the minder lets a command live when nobody tells it more",
        file: "crates/cli/src/minder/ending.rs",
        from: "        self.doomed = true;\n        self.kill_at = Some(0);",
        to: "        self.doomed = true;",
        tests: &[(
            Command,
            "minder::ending::tests::an_end_that_nobody_saw_coming_a_silence_and_an_order_kill_at_once",
        )],
    },
    Bug {
        name: "who was told to end is told to stay",
        file: "crates/cli/src/minder/ending.rs",
        from: "Order::End(end) if self.kill_at.is_none() => self.end = end,",
        to: "Order::End(end) => (self.end, self.kill_at) = (end, None),",
        tests: &[(
            Command,
            "minder::ending::tests::a_renewal_moves_the_end_but_not_once_the_command_was_asked",
        )],
    },
];
