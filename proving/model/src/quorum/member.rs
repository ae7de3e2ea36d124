//! A member of a quorum: `apply` over its records.

use std::hash::{Hash, Hasher};

use leasehold_core::{
    Answer, ApplyContext, Attempt, Claim, Content, Fault, Fence, GrantAnswer, HoldAnswer, Holder, HolderInfo,
    Key, Lock, Mode, Owner, Push, RaiseAnswer, Records, Request, Served, Stamp, apply,
    serve::{inspect, last_break},
};

use super::{Flaw, MAX_TTL};
use crate::name::Now;

/// The value of another program's lock.
const STRANGER: &[u8] = b"a stranger's";

#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) records: Records,
    pub(super) down: bool,
}

impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Records { locks, shares, fences, queues, breaks, voided, .. } = &self.records;
        let abstains = voided.map(|voided| voided + MAX_TTL + Records::AFTER_MAX_TTL);
        (locks, shares, fences, queues, abstains, self.down).hash(state);
        breaks.iter().for_each(|(key, (broken, _))| (key, broken.fence).hash(state));
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
        if let Some(flaw) = flaw {
            self.flawed_before(flaw, &mut request, now);
        }
        let Served { answer, pushes, unfinished } = apply(&mut self.records, request, &context(now));
        assert!(unfinished.is_empty(), "nothing is left to clean up in so small a world");
        let Records { locks, fences, .. } = &mut self.records;
        fences.retain(|key, _| flaw != Some(Flaw::FenceInsideTheKey) || locks.contains_key(key));
        (told(answer), pushes)
    }

    fn flawed_before(&mut self, flaw: Flaw, request: &mut Request, now: Now) {
        let records = &mut self.records;
        if let (Flaw::BreaksWhatIsThere, Request::Break { key, lease }) = (flaw, &mut *request) {
            lease.fence = records.fence(key, now.stamp()).unwrap_or(lease.fence);
        }
        let is_raise = matches!(request, Request::Raise(_));
        let is_release = matches!(request, Request::Release(_));
        let is_grant = matches!(request, Request::Grant { .. });
        let (Request::Grant { attempt, .. }
        | Request::Rejoin { attempt, .. }
        | Request::Renew(attempt)
        | Request::Raise(attempt)
        | Request::Release(attempt)) = request
        else {
            return;
        };
        let key = attempt.claim.first_key();
        match flaw {
            Flaw::OneIdForAllRounds => {
                attempt.holder = Holder::from_bits(attempt.holder.bits() >> 32 << 32);
            }
            Flaw::RaisesTheFirstKey if is_raise => attempt.claim = Claim::exclusive(key.clone()),
            Flaw::ReleasesTheFirstKey if is_release => attempt.claim = Claim::exclusive(key.clone()),
            Flaw::WriterIgnoresReaders if is_grant && attempt.claim.wants()[0].mode == Mode::Exclusive => {
                records.locks.retain(|_, lock| !matches!(lock.content, Content::Marker(_)));
            }
            // If nobody else seems to have that fence, this reader is given it.
            Flaw::OneFenceForReaders if is_raise => {
                let named = attempt.proposal.map(|it| it.fence);
                if let Some(last) = records.fences.get_mut(key).filter(|last| Some(last.fence) == named) {
                    last.fence = Fence::new(last.fence.get() - 1).unwrap_or(last.fence);
                }
            }
            _ => {}
        }
    }

    /// The lease of an attempt on this key, under whatever id.
    pub(super) fn shows(&self, key: &Key, of: &Attempt, now: Now) -> Option<HolderInfo> {
        let holders = inspect(&self.records, key.clone(), &context(now)).holders;
        let is_of = |owner: &Owner| matches!(owner, Owner::Holder { holder, .. } if holder.is_same_attempt(of.holder));
        holders.into_iter().find(|it| is_of(&it.owner))
    }

    pub(super) fn is_held(&self, claim: &Claim, id: Holder, now: Now) -> bool {
        claim.keys().all(|key| self.records.holder_ids(key, now.stamp()).contains(&id))
    }

    /// The greatest fence of a break of these keys that it remembers.
    pub(super) fn last_break(&self, claim: &Claim, now: Now) -> Option<Fence> {
        let broken = claim.keys().filter_map(|key| last_break(&self.records, key, &context(now)));
        broken.map(|broken| broken.fence).max()
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

    pub(super) fn is_taken(&mut self, key: &Key, now: Now) {
        let lock = Lock::new(Content::Foreign(STRANGER.into()), Some(now.stamp() + MAX_TTL));
        self.records.locks.insert(key.clone(), lock);
    }

    pub(super) fn is_free(&self, key: &Key, now: Now) -> bool {
        self.records.lock(key, now.stamp()).is_none()
    }
}

fn context(now: Now) -> ApplyContext<'static> {
    ApplyContext::new(now.stamp(), now.floor())
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
