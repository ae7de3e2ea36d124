//! Asks every master: lists its keys, marks and breaks, and diagnoses it.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use leasehold_core::{
    BreakRecord, Diagnosis, Fault, Finding, Key, KeyState, Marked, ScanPage, ScanPosition, Severity,
    StoreRole,
};

use super::Cluster;
use crate::diagnose::remedied;
use crate::redirect::Node;
use crate::requests::list::among_others;
use crate::requests::remembered::{Remembered, breaks_of, marks_of};
use crate::slot::{SLOTS, Side};

impl Cluster {
    /// All masters at once, so that those that hang delay it only once. Returns a fault for each that
    /// cannot be reached, if any can.
    pub(super) async fn list(&self, prefix: &[u8]) -> Result<(Vec<KeyState>, Vec<Fault>), Fault> {
        self.learn(self.runtime.now()).await?;
        let masters = self.known().map.masters();
        let (mut found, mut faults, count) = (BTreeMap::new(), Vec::new(), masters.len());
        for listed in join_all(masters.iter().map(|node| self.list_at(node, prefix))).await {
            match listed {
                Ok(listed) => found.extend(listed.into_iter().map(|state| (state.key.clone(), state))),
                Err(fault) if fault.is_lasting() => return Err(fault),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.pop() {
            Some(last) if faults.len() + 1 == count => Err(last),
            last => {
                faults.extend(last);
                Ok((found.into_values().collect(), faults))
            }
        }
    }

    /// The keys of one master, and those that moved meanwhile.
    async fn list_at(&self, node: &Node, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        let mut gone = Vec::new();
        let listed = self.client(node).list(prefix, Some(&mut gone)).await;
        let mut listed = listed.inspect_err(|_| self.learn_later())?;
        let moved = self.inspect_all(&gone).await?;
        listed.extend(moved.into_iter().filter(KeyState::is_in_use));
        Ok(listed)
    }

    /// The states of these keys, one after the other.
    pub(super) async fn inspect_all(&self, keys: &[Key]) -> Result<Vec<KeyState>, Fault> {
        let mut states = Vec::with_capacity(keys.len());
        for key in keys {
            states.push(among_others(key, self.inspect(key).await)?);
        }
        Ok(states)
    }

    /// A part of one master's keys; the masters are sorted by name. If they change meanwhile, some
    /// keys are only seen in the next scan. One that cannot be reached is passed over.
    pub(super) async fn scan(&self, prefix: &[u8], from: ScanPosition) -> Result<ScanPage, Fault> {
        if from == ScanPosition::default() {
            self.learn(self.runtime.now()).await?;
        }
        let masters = self.known().map.masters();
        let sections = masters.len();
        let Some(node) = masters.into_iter().nth(from.section) else {
            return Ok(ScanPage::whole(Vec::new()));
        };
        let page = match self.client(&node).scan(prefix, from.at).await {
            Err(fault) if !fault.is_lasting() => {
                self.learn_later();
                ScanPage::missed(fault)
            }
            scanned => scanned?,
        };
        Ok(page.in_section(from.section, sections))
    }

    pub(super) async fn list_marks(&self, prefix: &[u8]) -> Result<Vec<(Key, Marked)>, Fault> {
        let (listed, gone) = self.remembered(Side::Mark, prefix).await?;
        let mut found: BTreeMap<_, _> = listed.into_iter().flat_map(marks_of).collect();
        for key in gone {
            let marked = self.marked(&key).await?;
            if marked.mark.is_some() {
                found.insert(key, marked);
            }
        }
        Ok(found.into_iter().collect())
    }

    pub(super) async fn list_breaks(&self, prefix: &[u8]) -> Result<Vec<BreakRecord>, Fault> {
        let (listed, gone) = self.remembered(Side::Break, prefix).await?;
        let listed = listed.into_iter().flat_map(breaks_of);
        let mut found: BTreeMap<_, _> = listed.map(|broken| (broken.key.clone(), broken)).collect();
        for key in gone {
            if let Some(broken) = self.last_break(&key).await? {
                found.insert(key, broken);
            }
        }
        Ok(found.into_values().collect())
    }

    /// The records of a kind at each master, one after the other, and the keys of those that moved
    /// meanwhile.
    async fn remembered(&self, side: Side, prefix: &[u8]) -> Result<(Vec<Remembered>, Vec<Key>), Fault> {
        self.learn(self.runtime.now()).await?;
        let masters = self.known().map.masters();
        let (mut listed, mut gone) = (Vec::new(), Vec::new());
        for node in masters {
            let at_node = self.client(&node).remembered(side, prefix, Some(&mut gone)).await;
            listed.push(at_node.inspect_err(|_| self.learn_later())?);
        }
        Ok((listed, gone))
    }

    /// One master after the other; one that does not answer is reported, and the others are
    /// examined nevertheless.
    pub(super) async fn diagnose(&self, role: StoreRole) -> Diagnosis {
        let mut brought = Diagnosis::default();
        let at = self.faults.place();
        if let Err(fault) = self.learn(self.runtime.now()).await {
            let why = "without any of them nobody knows where keys are";
            let finding = Finding::new(Severity::Unsafe, "reach", &at, &fault.reason, why);
            let advice = "see that the nodes of the URL run and can be reached from here";
            brought.findings.push(remedied(finding, &fault, &self.faults, advice));
            return brought;
        }
        let (masters, unserved) = {
            let known = self.known();
            (known.map.masters(), known.map.unserved())
        };
        let count = masters.len();
        brought.findings.push(Finding::note("cluster", &at, format_args!("{count} masters serve slots")));
        if unserved > 0 {
            let what = format!("{unserved} of {SLOTS} slots have no master");
            let why = "no lock in these slots is granted or renewed; nor in any other slot, if cluster-require-full-coverage is yes";
            brought.findings.push(
                Finding::new(Severity::Unsafe, "cluster", &at, what, why)
                    .advice("give them to a master: redis-cli --cluster fix HOST:PORT"),
            );
        }
        for node in masters {
            let Diagnosis { findings, clocks, .. } = self.client(&node).diagnose(role).await;
            brought.findings.extend(findings);
            brought.clocks.extend(clocks);
        }
        brought
    }
}
