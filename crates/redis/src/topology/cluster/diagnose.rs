//! Diagnosis of a cluster: the findings of each of its masters.

use leasehold_core::{Diagnosis, Finding, Severity, StoreRole};

use super::Cluster;
use crate::diagnose::remedied;
use crate::slot::SLOTS;

impl Cluster {
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
