//! Breaking a lease: somebody other than its holder ends it.

use super::advance::{advance, leave};
use super::mark::wall;
use super::{ApplyContext, Effects};
use crate::{BreakAnswer, BreakNote, BreakRecord, Fence, Holder, Key, Owner, PushEvent, Records, Stamp, Ttl};

/// Ends the lease with this fence, and no other; hands the key over. Others who share the key keep
/// their shares.
///
/// Every grant of a key has its own fence, so a fence names one holding: breaking a holding that
/// was seen earlier does not affect later ones. The fence is raised, so that even without waiters
/// it shows that this holding is over: its holder's fence is below the new one.
pub(super) fn break_lease(
    records: &mut Records,
    key: &Key,
    fence: Fence,
    note: &BreakNote,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> BreakAnswer {
    let now = context.now;
    // The holder is not skipped for this: a new holder that has not confirmed yet did not let its
    // lease end.
    let named = sharer(records, key, fence, now);
    records.settle(key, named, now);
    let ours = records.holders(key, now).into_iter().find_map(|holding| match holding.owner {
        Owner::Holder { holder, .. } if named.is_none_or(|named| named == holder) => Some((holding, holder)),
        _ => None,
    });
    let Some((holding, holder)) = ours.filter(|(holding, _)| holding.fence == Some(fence)) else {
        let held_by = records.holding(key, now);
        advance(records, key, None, context, told);
        return BreakAnswer::NotHeld { held_by };
    };
    records.free(key, holder, now);
    if let Some(above) = Fence::next(records.fence(key, now), context.floor) {
        records.remember(key, above, Ttl::DEFAULT, now);
    }
    let said = match &holding.owner {
        Owner::Holder { label, .. } => label.clone(),
        _ => None,
    };
    let at = wall(context);
    let record = BreakRecord::new(key.clone(), at, fence, said, note.clone());
    records.breaks.insert(key.clone(), (record, at + BreakRecord::KEPT_FOR));
    leave(records, key, holder);
    told.push(key, None, holder, PushEvent::Broken);
    advance(records, key, None, context, told);
    BreakAnswer::Broken { holding }
}

/// The holder whose share has this fence, if several share the key.
fn sharer(records: &Records, key: &Key, fence: Fence, now: Stamp) -> Option<Holder> {
    records.family(key, now)?;
    let mut shares = records.shares.get(key)?.all();
    shares.find(|(_, share)| share.fence == Some(fence)).map(|(holder, _)| holder)
}
