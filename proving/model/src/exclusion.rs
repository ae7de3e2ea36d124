//! Which claims exclude each other: the meaning of a lock, as the checks know it.

use leasehold_core::{Claim, Family, Key, Mode};

/// True if nobody may grant all of these claims at once.
pub(crate) fn exclude_each_other(claims: &[&Claim]) -> bool {
    claims.len() > 1 && claims.iter().flat_map(|claim| claim.keys()).any(|key| is_overfull(claims, key))
}

/// True if more of them want the key than their modes permit.
fn is_overfull(claims: &[&Claim], key: &Key) -> bool {
    let wants = claims.iter().flat_map(|claim| claim.wants()).filter(|want| want.key == *key);
    let modes: Vec<Mode> = wants.map(|want| want.mode).collect();
    let taken: u32 = modes.iter().map(|mode| mode.weight()).sum();
    modes.len() > 1
        && modes.iter().any(|mode| match mode.family() {
            None => true,
            Some(Family::Permits { of }) => mode.family() != modes[0].family() || taken > of,
            family => family != modes[0].family(),
        })
}
