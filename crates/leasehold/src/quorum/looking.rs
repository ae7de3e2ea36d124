//! What an onlooker sees of a key: what a majority of the members says.

use std::sync::Arc;

use leasehold_core::{Fault, FaultKind, Key, KeyState, Stance, Store, Tenancy, Tenant};

use super::contest::is_same_attempt;
use super::desk::Desk;

/// Who holds the key at a majority, and who stands in the line of the first member that has one.
pub(super) async fn inspect(desk: &Arc<Desk>, key: &Key) -> Result<KeyState, Fault> {
    let mut states: Vec<Option<KeyState>> = vec![None; desk.members.len()];
    let mut stances = vec![Stance::Undecided; desk.members.len()];
    let look = |store: Arc<dyn Store>| -> leasehold_core::BoxFuture<'static, _> {
        let key = key.clone();
        Box::pin(async move { store.inspect(&key).await })
    };
    desk.ask_all(look, |member, answer| {
        match answer {
            Ok(state) => (stances[member], states[member]) = (Stance::Agreed, Some(state)),
            Err(fault) => stances[member] = Stance::of(fault),
        }
        // Looking is rare and may take its time: every member that answers has its say.
        false
    })
    .await;
    let answered: Vec<_> = states.into_iter().flatten().collect();
    if answered.len() < desk.majority() {
        return Err(desk.fault(FaultKind::Passing, desk.tally(stances, "answered")));
    }
    let line = answered.iter().map(|state| &state.line).find(|line| !line.is_empty());
    let tenancies = held_by_a_majority(&answered, desk.majority());
    Ok(KeyState::new(key.clone(), tenancies, line.cloned().unwrap_or_default()))
}

fn held_by_a_majority(states: &[KeyState], majority: usize) -> Vec<Tenancy> {
    let all: Vec<&Tenancy> = states.iter().flat_map(|state| &state.tenancies).collect();
    let held = all.iter().find_map(|one| {
        let mut same: Vec<&Tenancy> = all.iter().filter(|other| is_same(one, other)).copied().collect();
        if same.len() < majority {
            return None;
        }
        // It is held for as long as a majority of the members keep it; what never ends lasts longest.
        same.sort_by_key(|tenancy| {
            std::cmp::Reverse(tenancy.remaining.map_or((1, None), |left| (0, Some(left))))
        });
        let mut held = (*one).clone();
        held.remaining = same[majority - 1].remaining;
        held.fence = same.iter().filter_map(|tenancy| tenancy.fence).max();
        Some(held)
    });
    held.into_iter().collect()
}

/// Whether two members speak of one holding.
pub(super) fn is_same(one: &Tenancy, other: &Tenancy) -> bool {
    match (&one.tenant, &other.tenant) {
        (Tenant::Holder { holder: one, .. }, Tenant::Holder { holder: other, .. }) => {
            is_same_attempt(*one, *other)
        }
        (one, other) => one == other,
    }
}
