use std::time::Duration;

use leasehold_core::{Fence, Holder, HolderInfo, Key, KeyState, Mode, Owner};

use super::held_by_a_majority;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A holding as a member shows it: the attempt, its id there, its fence, and the remaining time.
fn shown(attempt: u128, id: u128, fence: u64, left: Option<Duration>) -> HolderInfo {
    let holder = Holder::from_bits(attempt << 32 | id);
    HolderInfo::exclusive(key("k"), Owner::Holder { holder, label: None }, Fence::new(fence), left)
}

fn at(holding: HolderInfo) -> KeyState {
    KeyState::new(key("k"), vec![holding], vec![])
}

/// The merged view of a majority of five.
fn seen(holders: impl IntoIterator<Item = HolderInfo>) -> Vec<HolderInfo> {
    let states: Vec<_> = holders.into_iter().map(at).collect();
    held_by_a_majority(&states, 3, 0)
}

#[test]
fn a_holder_is_shown_if_a_majority_has_it_whatever_its_id_at_each_member() {
    let left = Some(SECOND);
    assert!(seen([shown(7, 0, 5, left), shown(7, 1, 5, left), shown(8, 0, 6, left)]).is_empty());
    let held = seen([shown(7, 0, 5, left), shown(7, 1, 5, left), shown(8, 0, 6, left), shown(7, 2, 5, left)]);
    assert_eq!(held, [shown(7, 0, 5, left)], "once");
    let foreign =
        |value: &[u8]| HolderInfo::exclusive(key("k"), Owner::Foreign { value: value.into() }, None, None);
    assert!(seen([foreign(b"x"), foreign(b"x"), foreign(b"y")]).is_empty());
    assert_eq!(seen([foreign(b"x"), foreign(b"x"), foreign(b"x")]), [foreign(b"x")]);
    assert!(seen([foreign(b"x"), foreign(b"x"), shown(7, 0, 5, left)]).is_empty());
}

#[test]
fn a_holding_lasts_for_as_long_as_a_majority_keeps_it() {
    let left = |seconds: [Option<u32>; 5]| {
        let holders = seconds.map(|seconds| shown(7, 0, 5, seconds.map(|seconds| seconds * SECOND)));
        seen(holders)[0].remaining
    };
    assert_eq!(left([Some(9), Some(2), Some(4), Some(1), Some(7)]), Some(4 * SECOND));
    assert_eq!(left([Some(9), None, Some(4), Some(1), None]), Some(9 * SECOND), "some never end");
    assert_eq!(left([None, None, Some(4), Some(1), None]), None);
}

/// A member that was slow when the fence was agreed answered a greater one since, and still has it.
#[test]
fn the_fence_of_a_holder_is_that_of_a_majority_or_otherwise_the_greatest() {
    let fence_of = |fences: [u64; 5]| {
        let held = seen(fences.map(|fence| shown(7, 0, fence, Some(SECOND))));
        held[0].fence.map(Fence::get)
    };
    assert_eq!(fence_of([9, 5, 5, 3, 5]), Some(5));
    assert_eq!(fence_of([9, 5, 5, 3, 4]), Some(9), "it is not settled yet");
}

#[test]
fn a_silent_member_may_have_any_lease_but_only_one_of_several_that_exclude_each_other() {
    let left = Some(SECOND);
    let with_silent = |holders: Vec<HolderInfo>, silent| {
        let states: Vec<_> = holders.into_iter().map(at).collect();
        held_by_a_majority(&states, 3, silent)
    };
    let split = || vec![shown(7, 0, 5, left), shown(8, 0, 6, left), shown(8, 1, 6, left)];
    assert_eq!(with_silent(split(), 0), []);
    assert_eq!(with_silent(split(), 1), [shown(8, 0, 6, left)]);
    assert_eq!(with_silent(split(), 2), [shown(8, 0, 6, left)], "the one at most members");
    for pair in [[7, 8], [8, 7]].map(|pair| pair.map(|attempt| shown(attempt, 0, attempt as u64, left))) {
        assert_eq!(with_silent(pair.to_vec(), 3), [shown(8, 0, 8, left)], "the later one");
    }
    let not_a_lock = HolderInfo::exclusive(key("k"), Owner::NotALock, None, None);
    assert_eq!(with_silent(vec![not_a_lock], 2), []);
    let readers = split().into_iter().map(|reader| reader.in_mode(Mode::Shared)).collect();
    assert_eq!(with_silent(readers, 2).len(), 2);
}

#[test]
fn shared_holders_are_shown_in_the_order_of_their_fences() {
    let late = seen([shown(8, 0, 6, None), shown(8, 0, 6, None), shown(8, 0, 6, None)]);
    let both = |first: &HolderInfo, second: &HolderInfo| {
        let state = KeyState::new(key("k"), vec![first.clone(), second.clone()], vec![]);
        held_by_a_majority(&[state.clone(), state.clone(), state], 3, 0)
    };
    let early = shown(7, 0, 5, None);
    assert_eq!(both(&late[0], &early), [early.clone(), late[0].clone()]);
}

/// Regression: the first member had been away when the writer became a reader. The reader was said to
/// have the key alone, and another reader was left out if a member did not answer.
#[test]
fn a_writer_that_became_a_reader_is_shown_as_one() {
    let [writer, other] = [7, 8].map(|attempt| shown(attempt, 0, attempt as u64, Some(SECOND)));
    let readers = [writer.clone(), other].map(|reader| reader.in_mode(Mode::Shared));
    let both = KeyState::new(key("k"), readers.to_vec(), vec![]);
    assert_eq!(held_by_a_majority(&[at(writer), both], 2, 1), readers);
}
