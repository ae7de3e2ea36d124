//! The seeded bugs, grouped by the rule that they break.

use super::bug::{
    Bug,
    Suite::{
        Command, Core, EveryStore, File, FileProcesses, Guards, LastReleases, OddMembers, PollingWaiters,
        Quorum, Run, Runtimes, Store, Wire,
    },
};

/// All bugs. A rule that is both in `core::apply` and in the scripts is broken in each.
pub(super) const BUGS: &[Bug] = &[
    // Comparing the holder before a release.
    Bug {
        name: "a release frees a lease of another holder",
        file: "crates/core/src/apply/grant.rs",
        from: "if records.is_held_by(key, attempt.holder, context.now) {\n        records.free(",
        to: "{\n        records.free(",
        tests: &[(Core, "apply::tests::holding::a_release_frees_our_keys_and_names_those_that_are_not_ours")],
    },
    Bug {
        name: "the release script frees a lease of another holder",
        file: "crates/redis/src/scripts/turn.lua",
        from: "  if holds(s) then\n    if s.room",
        to: "  if holds(s) or s.owner then\n    if s.room",
        tests: &[
            (EveryStore, "redis_7_0::a_release_frees_only_what_is_ours"),
            (EveryStore, "valkey_9_1::a_release_frees_only_what_is_ours"),
        ],
    },
    Bug {
        name: "a batch of releases frees a lease of another holder",
        file: "crates/redis/src/scripts/batch_release.lua",
        from: "local is_held = found[i] and string.sub(found[i], 1, 37) == beginning",
        to: "local is_held = found[i]",
        tests: &[
            (EveryStore, "redis_7_0::a_release_frees_only_what_is_ours"),
            (Store, "batches::a_release_in_a_batch_deletes_only_what_is_the_callers"),
        ],
    },
    Bug {
        name: "a break ends a lease whatever its fence",
        file: "crates/core/src/apply/breaking.rs",
        from: "ours.filter(|(holding, _)| holding.fence == Some(fence))",
        to: "ours.filter(|(holding, _)| holding.fence.is_some())",
        tests: &[(EveryStore, "memory::a_break_ends_the_holding_with_that_fence_and_no_other")],
    },
    // One holder after a transfer.
    Bug {
        name: "a guard relies on a lock that it transfers",
        file: "crates/leasehold/src/lock/guard.rs",
        from: "        self.held.0.lose(Loss::Transferred);\n",
        to: "",
        tests: &[(EveryStore, "transferred::memory::a_lock_goes_over_to_one_process_and_to_no_second")],
    },
    Bug {
        name: "a transfer makes a successor of a holder that holds nothing",
        file: "crates/redis/src/scripts/transfer.lua",
        from: "if not holds(all[n]) then",
        to: "if not all[n].value then",
        tests: &[(EveryStore, "transferred::redis_7_0::at_most_one_of_many_adopters_gets_the_lock")],
    },
    // Releasing at members whose grant is only possible.
    Bug {
        name: "a lost round is released only where it was granted",
        file: "crates/core/src/quorum/ids.rs",
        from: "if !which(member) || !id.was_asked() {",
        to: "if !which(member) || !id.was_asked() || id.renewal(Some(Fence::MAX)).rejoin != super::Rejoin::No {",
        tests: &[(Quorum, "outages::a_loser_releases_also_at_members_that_were_silent")],
    },
    Bug {
        name: "a guard is released only at members whose grant was confirmed",
        file: "crates/leasehold/src/quorum/keeping.rs",
        from: "let id = shared.machine().release(member);",
        to: "if shared.machine().renew(member).rejoin != Rejoin::No { continue; }\nlet id = shared.machine().release(member);",
        tests: &[(Quorum, "outages::a_guard_is_released_also_at_a_member_whose_answer_was_lost")],
    },
    Bug {
        name: "a grant that the release overtook is kept",
        file: "crates/core/src/quorum/member.rs",
        from: "        self.given_up\n    }",
        to: "        self.given_up && self.asked > 1\n    }",
        tests: &[(Quorum, "outages::a_grant_that_the_release_overtook_is_undone")],
    },
    Bug {
        name: "a call that ends while its lease is released is undone before the release",
        file: "crates/core/src/quorum/member.rs",
        from: "            return false;\n",
        to: "            return !(*behind_the_only_call && with_answer);\n",
        tests: &[(
            Core,
            "quorum::member::tests::a_call_in_flight_is_undone_after_its_id_was_given_up_unless_a_release_did_that",
        )],
    },
    Bug {
        name: "another program's lock at one store decides where a quorum's waiters queue",
        file: "crates/core/src/quorum/request.rs",
        from: "&& !(skips && foreign(member))",
        to: "&& !(skips && foreign(member) && self.waits() && self.moves > 9)",
        tests: &[(OddMembers, "obstacles::a_waiter_queues_at_a_member_without_another_programs_lock")],
    },
    Bug {
        name: "a majority takes the lock before the first of the queue has asked the others",
        file: "crates/core/src/quorum/request.rs",
        from: "held_by.is_some_and(|held_by| !self.gave_way",
        to: "held_by.is_some_and(|held_by| self.gave_way",
        tests: &[(
            OddMembers,
            "obstacles::a_newcomer_between_a_hand_over_and_the_rest_of_its_round_gives_way",
        )],
    },
    Bug {
        name: "a member's grant under an id that was given up counts",
        file: "crates/core/src/quorum/request.rs",
        from: "if self.round.held_by(before).is_some() {",
        to: "{",
        tests: &[(
            OddMembers,
            "obstacles::a_late_grant_counts_and_is_kept_or_is_given_up_and_does_not_count",
        )],
    },
    Bug {
        name: "a member gives two readers the same fence",
        file: "crates/core/src/apply/hold.rs",
        from: "Some(_) if last < Some(named) => None,",
        to: "Some(_) if last <= Some(named) => None,",
        tests: &[
            (Core, "apply::tests::shares::a_member_answers_no_fence_to_two_readers"),
            (Quorum, "contention::readers_that_ask_at_once_have_fences_of_their_own"),
        ],
    },
    Bug {
        name: "a server gives two readers the same fence",
        file: "crates/redis/src/scripts/raise.lua",
        from: "elseif last >= proposed then",
        to: "elseif last > proposed then",
        tests: &[(EveryStore, "redis_7_0::no_fence_is_answered_to_two_readers")],
    },
    Bug {
        name: "one server under two names counts as two members until the next request",
        file: "crates/leasehold/src/quorum/asking.rs",
        from: "quorum.same_place_twice().filter(|_| granted)",
        to: "quorum.same_place_twice().filter(|_| granted && false)",
        tests: &[(
            OddMembers,
            "granting::a_majority_of_names_for_one_place_grants_nothing_also_when_that_is_known_only_by_their_answers",
        )],
    },
    Bug {
        name: "a request waits for the stores of a new quorum no longer than for silent ones",
        file: "crates/core/src/acquire.rs",
        from: "                silence.since = now;",
        to: "                silence.since = silence.since.min(now);",
        tests: &[(
            Core,
            "acquire::tests::a_store_that_abstains_is_waited_for_beyond_the_outage_limit_but_not_by_a_try",
        )],
    },
    Bug {
        name: "a program that ends does not wait for the cleanup after a refused request",
        file: "crates/leasehold/src/store_handle.rs",
        from: "            releases.none_left().await;",
        to: "            drop(releases.none_left());",
        tests: &[(Quorum, "outages::a_close_waits_for_what_a_refused_request_left_at_a_minority")],
    },
    Bug {
        name: "a grant that was cut off is released once and forgotten",
        file: "crates/core/src/in_doubt.rs",
        from: "pending.range(of_holder).map(|(_, grant)| grant.settles_at).max()",
        to: "pending.range(of_holder).map(|(_, grant)| grant.settles_at).max().filter(|_| false)",
        tests: &[
            (
                Core,
                "in_doubt::tests::a_release_on_another_connection_must_come_again_after_the_last_not_after",
            ),
            (Store, "settling::giving_up_waits_for_a_grant_that_was_cut_off_and_undoes_it"),
        ],
    },
    Bug {
        name: "a request that arrives after its deadline is granted",
        file: "crates/redis/src/scripts/grant.lua",
        from: "if not_after ~= '' and now > tonumber(not_after) then",
        to: "if not_after ~= '' and false then",
        tests: &[(Store, "flavors::redis_7_0_serves"), (Store, "flavors::valkey_9_1_serves")],
    },
    Bug {
        name: "the deadline of a batch is ignored",
        file: "crates/redis/src/scripts/batch_grant.lua",
        from: "if now > tonumber(argv[1]) then return { time } end",
        to: "if false then return { time } end",
        tests: &[(Store, "batches::a_batch_that_comes_too_late_grants_nothing")],
    },
    Bug {
        name: "a batch without an answer counts as answered",
        file: "crates/redis/src/batch/send.rs",
        from: "Err(fault) => return all_fail(groups, &fault),",
        to: "Err(fault) => {\n                groups.iter_mut().for_each(|group| client.unsettled.answered(group.sendings.drain(..)));\n                return all_fail(groups, &fault);\n            }",
        tests: &[(
            Store,
            "batches::a_batch_on_a_broken_connection_is_given_up_once_it_can_no_longer_be_served",
        )],
    },
    Bug {
        name: "the answer to one claim of a batch is given to another",
        file: "crates/redis/src/batch/send.rs",
        from: "group.requests.into_iter().zip(said)",
        to: "group.requests.into_iter().rev().zip(said)",
        tests: &[(
            Store,
            "batches::requests_that_are_made_at_the_same_time_share_scripts_and_each_has_its_own_answer",
        )],
    },
    Bug {
        name: "two requests of one key share a batch",
        file: "crates/redis/src/batch/queue.rs",
        from: "let is_first = !keys.contains(&request.key());",
        to: "let is_first = true || keys.contains(&request.key());",
        tests: &[(Wire, "batch::queue::tests::requests_of_one_key_share_no_batch_and_keep_their_order")],
    },
    Bug {
        name: "a request waits for a batch although its key is contended",
        file: "crates/redis/src/batch/send.rs",
        from: "!self.client.contended.has(request.key, self.client.runtime.now())",
        to: "true || !self.client.contended.has(request.key, self.client.runtime.now())",
        tests: &[(Store, "batches::a_crowd_that_comes_at_once_for_one_lock_costs_two_commands_each")],
    },
    Bug {
        name: "a request that was dropped is sent",
        file: "crates/redis/src/batch/queue.rs",
        from: "if !request.is_wanted() {",
        to: "if false && !request.is_wanted() {",
        tests: &[
            (Wire, "batch::queue::tests::a_request_that_is_dropped_before_it_left_is_not_sent"),
            (Store, "batches::a_request_that_is_dropped_while_it_waits_for_others_is_never_sent"),
        ],
    },
    Bug {
        name: "all claims of a batch get the TTL of the first",
        file: "crates/redis/src/batch/send.rs",
        from: "(group.slot, group.longest, group.ttl) == (request.slot, longest, ttl)",
        to: "(group.slot, group.longest) == (request.slot, longest)",
        tests: &[(
            Store,
            "batches::leases_of_different_ttls_that_are_requested_together_each_last_for_their_own",
        )],
    },
    Bug {
        name: "a batch treats a fence key of a wrong type as missing",
        file: "crates/redis/src/scripts/batch_grant.lua",
        from: "if not last then return time, keep end",
        to: "if type(last) ~= 'string' then return time, keep end",
        tests: &[(Store, "batches::an_obstacle_to_one_request_in_a_batch_does_not_stop_the_others")],
    },
    Bug {
        name: "a request that is dropped is not undone",
        file: "crates/leasehold/src/lock/pending.rs",
        from: "            self.handle.give_up(attempt);",
        to: "            drop(attempt);",
        tests: &[(Guards, "a_place_in_the_queue_is_given_up_even_after_the_store_was_silent_beyond_the_ttl")],
    },
    Bug {
        name: "a grant takes a key that somebody else holds",
        file: "crates/redis/src/scripts/grant.lua",
        from: "if turn == 'taken' then refused",
        to: "if turn == 'taken' and s.other then refused",
        tests: &[
            (EveryStore, "redis_7_0::a_free_key_is_granted_to_one"),
            (EveryStore, "valkey_9_1::a_free_key_is_granted_to_one"),
        ],
    },
    // A new id for each round.
    Bug {
        name: "an id that was released is used for another request",
        file: "crates/core/src/quorum/ids.rs",
        from: "MemberAttempt::new(id.next_id())",
        to: "MemberAttempt::new({ let _ = id.next_id(); id.holder })",
        tests: &[(
            Quorum,
            "outages::a_release_that_comes_late_does_not_free_what_the_next_round_was_granted",
        )],
    },
    Bug {
        name: "a try that is repeated uses the ids that are still being released",
        file: "crates/core/src/quorum.rs",
        from: "self.over && self.ids.is_clean()",
        to: "self.over || self.ids.is_clean() && false",
        tests: &[(OddMembers, "undoing::a_try_that_is_repeated_while_the_first_is_given_up_uses_other_ids")],
    },
    // Waiting one's turn in the queue.
    Bug {
        name: "a try takes a free key although somebody waits",
        file: "crates/core/src/apply/grant.rs",
        from: "        match next_grantee(records, want, None, context, told) {\n            NextGrantee::Anyone",
        to: "        let is_free = records.has_room(&want.key, want.mode, context.now);\n        match if is_free { NextGrantee::Anyone } else { next_grantee(records, want, None, context, told) } {\n            NextGrantee::Anyone",
        tests: &[(Core, "apply::tests::wait_queue::a_try_does_not_overtake_the_queue")],
    },
    Bug {
        name: "the grant script lets a try take a free key although somebody waits",
        file: "crates/redis/src/scripts/grant.lua",
        from: "local turn = not holds(s, s.want) and advance(s)",
        to: "local turn = not holds(s, s.want) and (s.value or s.other) and advance(s)",
        tests: &[(Store, "queue_order::a_try_that_finds_a_key_free_hands_it_to_the_first_waiter")],
    },
    // Counting a lease from the sending of its request.
    Bug {
        name: "a lease is counted from its answer",
        file: "crates/core/src/acquire.rs",
        from: "let lease = Lease::counted_from(sent, self.ttl, self.drift);",
        to: "let lease = Lease::counted_from({ let _ = sent; now }, self.ttl, self.drift);",
        tests: &[
            (Core, "acquire::tests::a_grant_is_counted_from_before_the_ask_that_gave_it"),
            (Core, "acquire::tests::a_grant_that_arrives_after_its_lease_ended_is_requested_again"),
        ],
    },
    Bug {
        name: "a renewal is counted from its answer",
        file: "crates/core/src/lease_renewal.rs",
        from: "self.believe(Lease::counted_from(sent, ttl, self.drift));",
        to: "self.believe(Lease::counted_from(now, ttl, self.drift));",
        tests: &[(Core, "lease_renewal::tests::a_lease_is_renewed_when_a_third_of_it_is_gone")],
    },
    Bug {
        name: "a pushed lease is counted from when the push was read",
        file: "crates/core/src/acquire.rs",
        from: "let lease = Lease::counted_from(since, lasts, self.drift);",
        to: "let lease = Lease::counted_from(now, lasts, self.drift);",
        tests: &[
            (Core, "acquire::tests::a_hand_over_is_a_grant_of_a_window_counted_from_when_it_began"),
            (Core, "acquire::tests::a_late_hand_over_is_checked_at_the_store"),
        ],
    },
    Bug {
        name: "a lease is considered valid until the instant at which the store ends it",
        file: "crates/core/src/lease.rs",
        from: "ttl.duration().saturating_sub(drift.of(ttl))",
        to: "ttl.duration().saturating_sub(drift.of(ttl) * 0)",
        tests: &[(Core, "lease::tests::a_lease_ends_a_little_before_the_ttl_counted_from_the_sending")],
    },
    Bug {
        name: "a delayed answer makes a lease shorter",
        file: "crates/core/src/lease_renewal.rs",
        from: "if lease.end() > self.lease.end() {",
        to: "if lease.end() != self.lease.end() {",
        tests: &[(
            Core,
            "lease_renewal::tests::a_renewal_of_ones_own_lengthens_the_lease_and_never_shortens_it",
        )],
    },
    Bug {
        name: "a renewal cuts a longer lease off at the store",
        file: "crates/redis/src/scripts/renew.lua",
        from: "elseif left(s) < ttl then",
        to: "else",
        tests: &[(EveryStore, "redis_7_0::a_renewal_lengthens_and_never_shortens")],
    },
    Bug {
        name: "releases that the end of a runtime interrupts are forgotten",
        file: "crates/leasehold/src/runtime/cleanups.rs",
        from: "self.rescue(&mut state, begin, done);",
        to: "drop((begin, done));",
        tests: &[(LastReleases, "a_program_that_ends_leaves_no_lock_at_a_server")],
    },
    Bug {
        name: "a guard is held until its loss is reported",
        file: "crates/leasehold/src/lock/holding.rs",
        from: "self.loss.get().is_none() && self.runtime.now() < self.end()",
        to: "self.loss.get().is_none()",
        tests: &[(Guards, "a_guard_knows_its_end_before_the_keeper_had_a_chance_to_say_so")],
    },
    // Fences that continue after their record is lost.
    Bug {
        name: "a fence is one more than the last, whatever the clock says",
        file: "crates/core/src/fence.rs",
        from: "Self::new(above.max(floor.0))",
        to: "Self::new(if last.is_some() { above.max(floor.0) } else { 1 })",
        tests: &[(Core, "fence::tests::the_next_fence_is_above_the_last_and_not_below_the_floor")],
    },
    Bug {
        name: "a break at a member of a quorum counts other fences than those of the key",
        file: "crates/redis/src/script/encode.rs",
        from: "FenceKeys { by_key: self.is_member, by_slot: self.by_slot }",
        to: "FenceKeys { by_key: false, by_slot: self.by_slot }",
        tests: &[(Store, "member::a_break_at_a_member_counts_the_fences_of_the_key")],
    },
    Bug {
        name: "a batch ignores the last fence",
        file: "crates/redis/src/scripts/batch_grant.lua",
        from: "above > now and string.format('%.0f', above) or time",
        to: "time",
        tests: &[(Store, "batches::an_obstacle_to_one_request_in_a_batch_does_not_stop_the_others")],
    },
    Bug {
        name: "the fences of a member's batch have no floor",
        file: "crates/redis/src/scripts/member_batch_grant.lua",
        from: "string.format('%.0f', math.max(above, floor))",
        to: "string.format('%.0f', math.max(above, 1))",
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
        name: "the fences of a quorum's members are not raised to the greatest",
        file: "crates/core/src/round.rs",
        from: "matches!(state, State::Granted { fence, .. } if *fence == greatest)",
        to: "matches!(state, State::Granted { fence, .. } if *fence <= greatest)",
        tests: &[(Core, "round::tests::fences_that_differ_are_raised_to_the_greatest_before_any_is_used")],
    },
    // Asking again although a push is expected.
    Bug {
        name: "a waiter that expects a push never asks again",
        file: "crates/core/src/waiting.rs",
        from: "waiter.ask_at = rest.map(|rest| now + rest);",
        to: "waiter.ask_at = rest.map(|rest| now + rest).filter(|_| !told);",
        tests: &[
            (Core, "waiting::tests::only_the_first_waiter_asks_again_and_does_so_when_the_lease_ends"),
            (Core, "waiting::tests::the_first_asks_again_from_time_to_time_however_long_the_lease_is"),
        ],
    },
    Bug {
        name: "a waiter that knows when a lease ends does not ask before that",
        file: "crates/core/src/waiting.rs",
        from: "now + pace.min(left.saturating_add(ROUNDING + spread))",
        to: "now + left.saturating_add(ROUNDING + spread)",
        tests: &[(Core, "waiting::tests::a_waiter_behind_a_long_lease_asks_again_from_time_to_time")],
    },
    Bug {
        name: "a pushed grant is accepted without its proof",
        file: "crates/core/src/waiting.rs",
        from: "self.proof.as_deref() == proof && self.above.is_none_or(|last| last < fence)",
        to: "proof.is_none_or(|_| true) && self.above.is_none_or(|last| last < fence)",
        tests: &[
            (Core, "waiting::tests::hostile::a_grant_without_its_proof_is_a_hint_and_no_grant"),
            (Store, "hostile::a_user_that_may_publish_but_not_read_the_key_cannot_forge_a_grant"),
        ],
    },
    Bug {
        name: "a pong counts before earlier messages have been read",
        file: "crates/redis/src/connection/subscription.rs",
        from: "        // Everything that came before the pong is in the stream now",
        to: "        self.since = sent;\n        // Everything that came before the pong is in the stream now",
        tests: &[(
            Wire,
            "connection::subscription::tests::a_push_that_comes_in_one_read_with_its_pong_is_no_younger_than_the_pong_before",
        )],
    },
    Bug {
        name: "a key is handed to a waiter that cannot be notified",
        file: "crates/redis/src/scripts/queue.lua",
        from: "  return s.queue.counts[channel] > 0 and not s.queue.unresponsive[channel]",
        to: "  return true",
        tests: &[(Store, "queue_order::a_process_that_dies_in_the_queue_does_not_delay_the_next")],
    },
    // The quarantine of a restarted member.
    Bug {
        name: "a store that may have lost its state serves at once",
        file: "crates/core/src/apply.rs",
        from: "if now < until { Err(Quarantined",
        to: "if now < until && false { Err(Quarantined",
        tests: &[(
            Core,
            "apply::tests::member::a_member_that_may_have_forgotten_abstains_for_the_longest_ttl_and_releases_all_the_same",
        )],
    },
    Bug {
        name: "a server that may have lost its state serves at once",
        file: "crates/redis/src/scripts/member.lua",
        from: "if now < till then return",
        to: "if now < since then return",
        tests: &[
            (Store, "member::a_server_that_was_flushed_abstains"),
            (Store, "member::a_server_restarted_without_its_state_abstains_for_the_longest_ttl"),
        ],
    },
    Bug {
        name: "a batch skips the check whether the server is quarantined",
        file: "crates/redis/src/scripts/batch_member.lua",
        from: "local vouched = run == ''",
        to: "local vouched = true or run == ''",
        tests: &[
            (Store, "member::a_server_that_was_flushed_abstains"),
            (Store, "member::a_server_restarted_without_its_state_abstains_for_the_longest_ttl"),
        ],
    },
    Bug {
        name: "a member is joined although somebody else holds its key",
        file: "crates/core/src/apply/hold.rs",
        from: "if next_grantee(records, want, None, context, told) != NextGrantee::Anyone {",
        to: "if next_grantee(records, want, None, context, told) == NextGrantee::Unknown {",
        tests: &[(
            Core,
            "apply::tests::member::a_member_that_was_away_is_rejoined_with_the_fence_unless_somebody_holds_or_waits",
        )],
    },
    // The order of requests, and which thread may block.
    Bug {
        name: "a request to the file overtakes one that was sent before it",
        file: "crates/file/src/queue.rs",
        from: "self.shared.sent.load(Ordering::SeqCst) > 0",
        to: "self.shared.sent.load(Ordering::SeqCst) > usize::MAX - 1",
        tests: &[(File, "store::tests::nothing_goes_before_what_was_sent")],
    },
    Bug {
        name: "a task blocks while another process keeps the file busy",
        file: "crates/file/src/connection.rs",
        from: "0.. if haste.is_on.load(Ordering::Relaxed) => return false,",
        to: "0.. if tries > 10_000 && haste.is_on.load(Ordering::Relaxed) => return false,",
        tests: &[(File, "store::tests::a_task_does_not_wait_for_another_process_but_the_thread_does")],
    },
    Bug {
        name: "one failed request to the file store's thread fails all waiting ones",
        file: "crates/file/src/queue.rs",
        from: "Some(Err(fault)) if !fault.is_lasting() => {",
        to: "Some(Err(fault)) => {",
        tests: &[(File, "store::tests::a_failure_of_one_caller_does_not_affect_the_others")],
    },
    Bug {
        name: "a transaction that was not committed takes effect",
        file: "crates/file/src/connection.rs",
        from: "let _ = run(connection, \"ROLLBACK\");",
        to: "let _ = run(connection, \"COMMIT\");",
        tests: &[(File, "connection::tests::an_uncommitted_transaction_is_rolled_back")],
    },
    // Processes that must not outlive a lease.
    Bug {
        name: "the supervisor lets a command live when it no longer receives orders",
        file: "crates/cli/src/supervisor/ending.rs",
        from: "        self.doomed = true;\n        self.kill_at = Some(0);",
        to: "        self.doomed = true;",
        tests: &[(
            Command,
            "supervisor::ending::tests::an_end_that_nobody_saw_coming_a_silence_and_an_order_kill_at_once",
        )],
    },
    Bug {
        name: "a renewal revokes the order to end a command",
        file: "crates/cli/src/supervisor/ending.rs",
        from: "Order::End(end) if self.kill_at.is_none() => self.end = end,",
        to: "Order::End(end) => (self.end, self.kill_at) = (end, None),",
        tests: &[(
            Command,
            "supervisor::ending::tests::a_renewal_moves_the_end_but_not_once_the_command_was_asked",
        )],
    },
    Bug {
        name: "the command survives both leasehold and the supervisor",
        file: "crates/cli/src/supervisor/linux.rs",
        from: "    let _ = set_parent_process_death_signal(Some(signal));",
        to: "    let _ = set_parent_process_death_signal(Some(signal).filter(|_| false));",
        tests: &[(
            Run,
            "supervisor::a_kill_of_leasehold_and_its_supervisor_at_once_ends_the_command_16_times_of_16",
        )],
    },
    Bug {
        name: "a process that cannot be killed continues without the lock",
        file: "crates/cli/src/settings.rs",
        from: "        let max_hold = request.max_hold.take();",
        to: "        let max_hold = request.max_hold;\n        request.quiet |= false;",
        tests: &[(Run, "supervisor::a_process_that_we_may_not_kill_keeps_the_lock_past_the_longest_hold")],
    },
    // One machine, one clock, one log.
    Bug {
        name: "a container with its own boot id invalidates all leases",
        file: "crates/file/src/schema.rs",
        from: "        refuse_another_boot(boot, sessions)?;",
        to: "        refuse_another_boot(boot, sessions).unwrap_or_default();",
        tests: &[(
            FileProcesses,
            "containers::a_process_with_another_boot_id_is_refused_next_to_a_live_one_and_voids_nothing",
        )],
    },
    Bug {
        name: "a process in a time namespace counts leases by its own clock",
        file: "crates/file/src/clock.rs",
        from: "saturating_add_signed(-self.ahead());",
        to: "saturating_add_signed(0 * self.ahead());",
        tests: &[(FileProcesses, "containers::a_process_in_a_time_namespace_counts_leases_as_all_others_do")],
    },
    Bug {
        name: "a process opens a file without checking which log the others use",
        file: "crates/file/src/connection.rs",
        from: "    let other = |logs: Logs| Logs::beside(db_path.path()) != Some(logs);",
        to: "    let other = |logs: Logs| Logs::beside(db_path.path()) != Some(logs) && false;",
        tests: &[(
            FileProcesses,
            "deleted_logs::a_process_whose_log_was_deleted_keeps_its_locks_and_nobody_else_gets_them",
        )],
    },
    Bug {
        name: "a process continues with a log that was deleted",
        file: "crates/file/src/connection.rs",
        from: "Logs::beside(db_path.path()) == Some(self.logs);",
        to: "(Logs::beside(db_path.path()) == Some(self.logs) || true);",
        tests: &[(
            FileProcesses,
            "deleted_logs::a_process_whose_log_was_deleted_keeps_its_locks_and_nobody_else_gets_them",
        )],
    },
    Bug {
        name: "a file that is mounted without its directory is used",
        file: "crates/file/src/db_path.rs",
        from: "} else if file_system::is_mounted(&self.0)? {",
        to: "} else if file_system::is_mounted(&self.0)? && false {",
        tests: &[(FileProcesses, "containers::a_file_that_is_mounted_without_its_directory_is_refused")],
    },
    Bug {
        name: "users of a group cannot see whose session is locked",
        file: "crates/file/src/users.rs",
        from: "Self::Group { .. } => 0o640,",
        to: "Self::Group { .. } => 0o600,",
        tests: &[(
            FileProcesses,
            "several_users::users_of_a_group_exclude_each_other_and_a_killed_one_is_followed_at_once",
        )],
    },
    Bug {
        name: "a user of sudo is not warned of its other default store",
        file: "crates/cli/src/default_store.rs",
        from: "    (!is_same).then_some(name)",
        to: "    (!is_same && name.is_empty()).then_some(name)",
        tests: &[(Run, "init::a_run_under_sudo_says_that_roots_default_store_is_another_one")],
    },
    Bug {
        name: "a relative path means a file in the working directory",
        file: "crates/file/src/url.rs",
        from: "    if !path.starts_with('/') {",
        to: "    if path.is_empty() {",
        tests: &[(Run, "environment::a_relative_file_is_refused_and_nothing_is_made")],
    },
    // Permanent refusals.
    Bug {
        name: "a wrong type next to a key counts as no answer",
        file: "crates/redis/src/fault.rs",
        from: "\"WRONGTYPE\" | DAMAGED => self.lasting(said.words()),",
        to: "\"WRONGTYPE\" | DAMAGED => self.passing(said.words()),",
        tests: &[
            (Wire, "fault::tests::an_error_that_an_operator_must_fix_is_lasting_and_names_the_remedy"),
            (Store, "damaged::a_wrong_type_next_to_a_key_is_told_at_once_with_the_name_of_that_key"),
        ],
    },
    Bug {
        name: "a program that is refused in a loop does not rest",
        file: "crates/leasehold/src/lock/pending.rs",
        from: "            self.handle.refusals.note(attempt.claim.first_key(), self.handle.runtime.now());",
        to: "            let _ = &self.handle.refusals;",
        tests: &[(Guards, "a_program_that_asks_on_although_it_is_refused_rests_in_between")],
    },
    Bug {
        name: "polling waiters leave no gap after a release",
        file: "crates/leasehold/src/store_handle.rs",
        from: "            pauses.note(&holding.attempt.claim, now);",
        to: "            let _ = pauses;",
        tests: &[(PollingWaiters, "after_a_release_the_key_is_free_for_half_an_interval_at_least")],
    },
    Bug {
        name: "a waiter is notified on a channel that is not for its key",
        file: "crates/redis/src/requests/grant.rs",
        from: "self.channels().is_none_or(|channels| channels.are_for(&attempt.claim));",
        to: "self.channels().is_none_or(|channels| channels.are_for(&attempt.claim) || true);",
        tests: &[(Store, "tenants::a_key_without_the_prefix_of_the_channels_is_waited_for_without_push")],
    },
    Bug {
        name: "a value with a label that no holder has is marked as a lease",
        file: "crates/redis/src/scripts/state.lua",
        from: "  if #text > LABEL_MAX then return false end",
        to: "  if #text > LABEL_MAX then return true end",
        tests: &[(
            Store,
            "forms::scripts_and_the_client_agree_on_what_is_ours_and_nothing_else_is_ever_changed",
        )],
    },
    // Reports to the holder.
    Bug {
        name: "work under a lost lock is returned as if the lock had been held",
        file: "crates/leasehold/src/lock/acquire.rs",
        from: "            Some(loss) if released.is_err() => Err(",
        to: "            Some(loss) if released.is_err() && false => Err(",
        tests: &[(Guards, "work_that_ends_before_the_loss_was_noticed_is_returned_with_the_loss")],
    },
    Bug {
        name: "a release after the close says that the lease has ended",
        file: "crates/leasehold/src/error.rs",
        from: "            Loss::Closed { reason } => Self::Closed { reason },",
        to: "            Loss::Closed { reason } if reason.is_empty() => Self::Closed { reason },",
        tests: &[(Guards, "a_release_after_the_close_says_that_it_was_closed")],
    },
    Bug {
        name: "a command that has ended waits for its store until the lease ends",
        file: "crates/cli/src/take.rs",
        from: "        let limit = lease_left.min(Self::LIMIT);",
        to: "        let limit = lease_left.max(Self::LIMIT);",
        tests: &[(Run, "loss::a_release_waits_three_seconds_for_a_stopped_server_at_any_ttl")],
    },
    Bug {
        name: "locks in memory use real time although a test has paused the clock",
        file: "crates/leasehold/src/runtime.rs",
        from: "Some(tokio).filter(|tokio| tokio::time::Instant::now() == *tokio)",
        to: "Some(tokio).filter(|tokio| tokio::time::Instant::now() != *tokio)",
        tests: &[(Runtimes, "locks_in_memory_follow_a_clock_that_a_test_has_paused")],
    },
];
