//! Breaking a lease: somebody other than its holder ends it.

use super::advance::{advance, leave};
use super::{Scene, Told};
use crate::{BreakAnswer, Content, Fence, Key, Lock, News, Records, Tenant, Ttl};

/// Ends the lease whose fence this is, and no other; hands the key on.
///
/// Every grant of a key has a fence of its own, so a fence names one holding: whoever broke what it saw earlier breaks nothing of
/// what has come since. The fence is raised, so that it shows also where nobody waits that this holding is over: whatever
/// its holder still sends, with its own fence, is below.
pub(super) fn break_lease(
    records: &mut Records,
    key: &Key,
    fence: Fence,
    scene: &Scene<'_>,
    told: &mut Told,
) -> BreakAnswer {
    let now = scene.now;
    let held_by = records.tenancy(key, now);
    let ours = held_by.as_ref().filter(|tenancy| tenancy.fence == Some(fence));
    let Some((tenancy, holder)) = ours.and_then(|tenancy| match tenancy.tenant {
        Tenant::Holder { holder, .. } => Some((tenancy.clone(), holder)),
        _ => None,
    }) else {
        advance(records, key, None, scene, told);
        return BreakAnswer::NotHeld { held_by };
    };
    debug_assert!(matches!(records.lock(key, now), Some(Lock { content: Content::Lease { .. }, .. })));
    records.locks.remove(key);
    if let Some(above) = Fence::next(Some(fence), scene.floor) {
        records.remember(key, above, Ttl::DEFAULT, now);
    }
    // Not passed over for it: who was handed the key and has not been heard yet did not let it end.
    leave(records, key, holder);
    told.push(key, None, holder, News::Broken);
    advance(records, key, None, scene, told);
    BreakAnswer::Broken { tenancy }
}
