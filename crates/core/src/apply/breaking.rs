//! Breaking a lease: somebody other than its holder ends it.

use super::mark::wall;
use super::{ApplyContext, Serving};
use crate::{
    BreakAnswer, BreakRecord, Fence, Holder, Key, LeaseBreak, Owner, Push, PushEvent, Records, Served, Stamp,
    Ttl,
};

/// Ends the lease on a key, whoever holds it, if it has this fence; hands the key over, and leaves
/// a record of the break. Others who share the key keep their shares.
///
/// Every grant of a key has its own fence, so a fence names one holding: breaking a holding that
/// was seen earlier does not affect later ones. The fence is raised, so that even without waiters
/// it shows that this holding is over: its holder's fence is below the new one.
pub fn break_lease(
    records: &mut Records,
    key: &Key,
    lease: &LeaseBreak,
    context: &ApplyContext<'_>,
) -> Served<BreakAnswer> {
    let mut serving = Serving::new(records, context);
    let answer = serving.break_lease(key, lease);
    serving.advance(key, None);
    serving.served(answer)
}

impl Serving<'_> {
    fn break_lease(&mut self, key: &Key, lease: &LeaseBreak) -> BreakAnswer {
        let LeaseBreak { fence, recorded, ref note } = *lease;
        let (records, now) = (&mut *self.records, self.context.now);
        // No reason to skip the holder: one that has not confirmed yet did not let its lease end.
        let named = sharer(records, key, fence, now);
        records.settle(key, named, now);
        let ours = records.holders(key, now).into_iter().find_map(|holding| match holding.owner.clone() {
            Owner::Holder { holder, label } if named.is_none_or(|named| named == holder) => {
                Some((holding, holder, label))
            }
            _ => None,
        });
        let Some((holding, holder, label)) = ours.filter(|(holding, ..)| holding.fence == Some(fence)) else {
            return BreakAnswer::NotHeld { held_by: records.holding(key, now) };
        };
        records.free(key, holder, now);
        if let Some(above) = Fence::next(records.fence(key, now), self.context.floor) {
            records.remember(key, above, Ttl::DEFAULT, now);
        }
        let at = wall(self.context);
        let record = BreakRecord::new(key.clone(), at, recorded, label, note.clone());
        records.breaks.insert(key.clone(), (record, at + BreakRecord::KEPT_FOR));
        self.leave(key, holder);
        let event = PushEvent::Broken;
        self.pushes.push(Push { to: None, holder, key: key.clone(), event, nonce: None });
        BreakAnswer::Broken { holding }
    }
}

/// The holder whose share has this fence, if several share the key.
fn sharer(records: &Records, key: &Key, fence: Fence, now: Stamp) -> Option<Holder> {
    records.family(key, now)?;
    let mut shares = records.shares.get(key)?.all();
    shares.find(|(_, share)| share.fence == Some(fence)).map(|(holder, _)| holder)
}
