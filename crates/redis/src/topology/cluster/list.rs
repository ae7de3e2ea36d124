//! All that is held or waited for, from every master.

use std::collections::BTreeMap;

use leasehold_core::{Fault, KeyState};

use super::Cluster;

impl Cluster {
    /// One master after the other, so that no more than one of them is kept busy with it.
    pub(super) async fn list(&self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.learn(self.runtime.now()).await?;
        let masters = self.known().map.masters();
        let mut found = BTreeMap::new();
        for node in masters {
            let mut gone = Vec::new();
            let listed = self.client(&node).list(prefix, Some(&mut gone)).await;
            let listed = listed.inspect_err(|_| self.learn_later())?;
            found.extend(listed.into_iter().map(|state| (state.key.clone(), state)));
            for key in gone {
                let state = self.inspect(&key).await?;
                if crate::client::is_in_use(&state) {
                    found.insert(key, state);
                }
            }
        }
        Ok(found.into_values().collect())
    }
}
