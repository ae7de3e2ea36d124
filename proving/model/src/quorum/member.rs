//! A member of a quorum: `apply` over its records.

use std::hash::{Hash, Hasher};

use leasehold_core::{
    Answer, ApplyContext, Attempt, Content, Fault, GrantAnswer, HoldAnswer, Holder, HolderInfo, Key, Lock,
    Push, RaiseAnswer, Records, Request, Served, Stamp, apply,
};

use super::{Flaw, MAX_TTL};
use crate::name::Now;

/// The value of another program's lock.
const STRANGER: &[u8] = b"a stranger's";

#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) records: Records,
    /// It never answers.
    pub(super) down: bool,
}

impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Records { locks, fences, queues, voided, .. } = &self.records;
        let abstains = voided.map(|voided| voided + MAX_TTL + Records::AFTER_MAX_TTL);
        (locks, fences, queues, abstains, self.down).hash(state);
    }
}

impl Member {
    /// Serves a request, with or without that rule.
    pub(super) fn serve(
        &mut self,
        mut request: Request,
        now: Now,
        flaw: Option<Flaw>,
    ) -> (Result<Answer, Fault>, Vec<Push>) {
        let key = match &mut request {
            Request::Grant { attempt, .. } | Request::Rejoin { attempt, .. } => one_id(attempt, flaw),
            Request::Renew(attempt) | Request::Raise(attempt) | Request::Release(attempt) => {
                one_id(attempt, flaw)
            }
            other => unreachable!("nobody sends {other:?}"),
        };
        let Served { answer, pushes, unfinished } =
            apply(&mut self.records, request, &ApplyContext::new(now.stamp(), now.floor()));
        assert!(unfinished.is_empty(), "nothing is left to clean up in so small a world");
        if flaw == Some(Flaw::FenceInsideTheKey) && self.records.lock(&key, now.stamp()).is_none() {
            self.records.fences.remove(&key);
        }
        (told(answer), pushes)
    }

    /// Loses everything, and knows that it may have.
    pub(super) fn restart(&mut self, now: Now, flaw: Option<Flaw>) {
        self.records = Records::default();
        self.records.voided = match flaw {
            Some(Flaw::NoQuarantine) => None,
            Some(Flaw::ShortQuarantine) => {
                let less = (Records::AFTER_MAX_TTL + MAX_TTL / 2).as_micros();
                let less = u64::try_from(less).expect("it is short");
                Some(Stamp::from_micros(now.stamp().as_micros() - less))
            }
            _ => Some(now.stamp()),
        };
    }

    /// Forgets what has ended, which changes no answer.
    pub(super) fn forget_ended(&mut self, now: Now) {
        self.records.forget_ended(now.stamp());
        let over = |voided| voided + MAX_TTL + Records::AFTER_MAX_TTL <= now.stamp();
        self.records.voided = self.records.voided.filter(|voided| !over(*voided));
    }

    /// Another program takes the key.
    pub(super) fn is_taken(&mut self, key: &Key, now: Now) {
        let lock = Lock::new(Content::Foreign(STRANGER.into()), Some(now.stamp() + MAX_TTL));
        self.records.locks.insert(key.clone(), lock);
    }

    pub(super) fn is_free(&self, key: &Key, now: Now) -> bool {
        self.records.lock(key, now.stamp()).is_none()
    }

    /// All holders and waiters.
    pub(super) fn known<'a>(&'a self, key: &'a Key, now: Now) -> impl Iterator<Item = Holder> + 'a {
        let line = self.records.queue(key, now.stamp()).into_iter();
        let waiters = line.flat_map(|line| line.waiters().map(|(_, entry)| entry.holder));
        self.records.holder_ids(key, now.stamp()).into_iter().chain(waiters)
    }
}

/// The key of a request; under [`Flaw::OneIdForAllRounds`], it comes with the first id.
fn one_id(attempt: &mut Attempt, flaw: Option<Flaw>) -> Key {
    if flaw == Some(Flaw::OneIdForAllRounds) {
        attempt.holder = Holder::from_bits(attempt.holder.bits() >> 32 << 32);
    }
    attempt.claim.first_key().clone()
}

/// The answer without what is only shown to people.
fn told(answer: Answer) -> Result<Answer, Fault> {
    let plain = |held_by: &mut HolderInfo| (held_by.remaining, held_by.fence) = (None, None);
    let mut answer = answer;
    match &mut answer {
        Answer::Quarantined { .. } => return Err(Fault::quarantined("member", MAX_TTL)),
        Answer::Grant(GrantAnswer::Busy { held_by, .. } | GrantAnswer::QueueFull { held_by, .. }) => {
            plain(held_by);
        }
        Answer::Renew(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Rejoin(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Release(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Raise(RaiseAnswer::NotHeld { held_by, .. }) => {
            held_by.iter_mut().for_each(plain);
        }
        _ => {}
    }
    Ok(answer)
}
