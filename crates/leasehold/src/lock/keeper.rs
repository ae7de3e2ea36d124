//! One task renews all guards of one [`Locks`](crate::Locks), in batches, and says which are lost.

use std::sync::Arc;

use leasehold_core::{Runtime, Store};

use super::roster::{Due, Roster};

/// The most renewals in one request to the store: enough that the cost of a round trip is shared, few enough that a request
/// stays well below a store's time limit.
const BATCH: usize = 200;

/// Keeps the guards of `roster` until nobody needs it. When the runtime ends first, all guards are lost; also when it ends before
/// it has run this even once.
pub(crate) fn keep(
    roster: Arc<Roster>,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
) -> impl Future<Output = ()> + Send {
    let end = End { roster: roster.clone(), runtime: runtime.clone() };
    async move {
        let _end = end;
        while !roster.is_deserted() {
            for batch in batches(roster.take_due(runtime.now())) {
                // Beside the keeper, so that a store that does not answer delays neither other renewals nor the news of a loss.
                runtime.spawn(Box::pin(renew(roster.clone(), store.clone(), runtime.clone(), batch)));
            }
            let until = roster.sleep_until();
            tokio::select! {
                biased;
                () = runtime.sleep_until(until) => {}
                () = roster.changed() => {}
            }
        }
    }
}

/// Leases of like ttl together: a store gives a request as long as the shortest of its ttls allows, and long leases should
/// not be hurried by short ones.
fn batches(mut due: Vec<Due>) -> Vec<Vec<Due>> {
    let magnitude = |due: &Due| due.attempt.ttl.as_millis().ilog2();
    due.sort_by_key(magnitude);
    let mut batches: Vec<Vec<Due>> = Vec::new();
    for one in due {
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && magnitude(&batch[0]) == magnitude(&one) => batch.push(one),
            _ => batches.push(vec![one]),
        }
    }
    batches
}

async fn renew(roster: Arc<Roster>, store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, due: Vec<Due>) {
    let (numbers, attempts): (Vec<_>, Vec<_>) = due.into_iter().map(|due| (due.number, due.attempt)).unzip();
    let answers = store.renew(&attempts).await;
    let now = runtime.now();
    // Once for the call: its leases met the same.
    if let Some(answer) = answers.iter().find(|answer| answer.is_err()).or(answers.first()) {
        roster.report.answered(answer);
    }
    for (number, answer) in numbers.into_iter().zip(answers) {
        roster.handle_renewal(number, now, answer);
    }
}

/// A guard that nobody keeps must not be believed, whatever ended the keeper.
struct End {
    roster: Arc<Roster>,
    runtime: Arc<dyn Runtime>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.roster.refuse("the runtime that keeps them has ended");
        self.roster.abandon(self.runtime.now());
    }
}
