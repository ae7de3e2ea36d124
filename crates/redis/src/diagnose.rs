//! Diagnosis: searches a server for settings that endanger its locks.
//!
//! Each part asks its questions, and judges the answers in a function that asks nothing. Nothing is
//! changed, and a question that is not permitted is a finding.

mod diagnosis_run;
mod eviction;
mod facts;
mod permissions;
mod persistence;
mod push;
mod quarantine;
mod replicas;
mod sample;
mod sentinels;

use std::sync::Arc;

use leasehold_core::{Diagnosis, Fault, Finding, Severity, StoreRole};

use self::diagnosis_run::{DiagnosisRun, SOMEBODY, Setting};
use self::facts::Facts;
use crate::client::Client;
use crate::fault::Faults;

impl Client {
    pub(crate) async fn diagnose(&self, role: StoreRole) -> Diagnosis {
        let at = self.faults.place();
        let mut brought = Diagnosis::default();
        let sentinels = self.sentinels(&at).await;
        let route = match self.any_route().await {
            Ok(route) => route,
            Err(fault) => {
                brought.findings.push(self.out_of_reach(&at, &fault));
                brought.findings.extend(sentinels);
                return brought;
            }
        };
        // For a server that sentinels name, say which one it is: that helps the operator.
        let at = match route.live().filter(|live| live.minds_roles) {
            Some(live) => format!("{at} (master at {})", live.addr.written(6379)).into(),
            None => at,
        };
        let setting = Setting {
            at,
            role,
            quarantine: self.quarantine,
            confirmation: self.confirmation,
            user: self.faults.user().unwrap_or(SOMEBODY).to_owned(),
        };
        let mut look = DiagnosisRun { client: self, route, setting, brought };
        if let Err(fault) = look.at_all().await {
            look.found(self.out_of_reach(&look.setting.at, &fault));
        }
        look.brought.findings.extend(sentinels);
        look.brought
    }

    fn out_of_reach(&self, at: &Arc<str>, fault: &Fault) -> Finding {
        let why = "as long as it does not answer, nobody takes or renews a lock here";
        let finding = Finding::new(Severity::Unsafe, "reach", at, &fault.reason, why);
        remedied(finding, fault, &self.faults, "see that the server runs and can be reached from here")
    }
}

/// The finding about a fault, with what to do about it; `advice` if it may pass.
pub(crate) fn remedied(finding: Finding, fault: &Fault, faults: &Faults, advice: &str) -> Finding {
    if let Some(rules) = Faults::rules_to_add(fault) {
        return finding.at_server(format_args!("ACL SETUSER {} {rules}", faults.user().unwrap_or(SOMEBODY)));
    }
    match fault.is_lasting() {
        // Its text says what to do.
        true => finding,
        false => finding.advice(advice),
    }
}

impl DiagnosisRun<'_> {
    async fn at_all(&mut self) -> Result<(), Fault> {
        self.times().await?;
        self.permissions().await?;
        let facts = Facts::ask(self).await?;
        let (setting, findings) = (&self.setting, &mut self.brought.findings);
        findings.extend(facts.unknown(setting));
        if facts.has_info {
            findings.push(facts::version(setting, &facts));
            findings.push(eviction::judge(setting, &facts));
            findings.extend(persistence::judge(setting, &facts));
            findings.extend(replicas::judge(setting, &facts));
            self.times_of_replicas(&facts).await;
            self.quarantine(&facts).await?;
        }
        self.push().await;
        self.sample().await
    }
}
