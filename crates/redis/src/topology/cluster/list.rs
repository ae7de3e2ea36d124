//! All that is held or waited for, from every master.

use std::collections::BTreeMap;

use leasehold_core::{Bookmark, Fault, KeyState, Stretch};

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
                if state.is_in_use() {
                    found.insert(key, state);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// A part of one master's keys; the masters stand in the order of their names. When they change meanwhile, some keys are first seen on
    /// the next walk.
    pub(super) async fn walk(&self, prefix: &[u8], from: Bookmark) -> Result<Stretch, Fault> {
        if from == Bookmark::default() {
            self.learn(self.runtime.now()).await?;
        }
        let masters = self.known().map.masters();
        let sections = masters.len();
        let Some(node) = masters.into_iter().nth(from.section) else {
            return Ok(Stretch::whole(Vec::new()));
        };
        let walked = self.client(&node).walk(prefix, from.at).await.inspect_err(|_| self.learn_later())?;
        Ok(walked.in_section(from.section, sections))
    }
}
