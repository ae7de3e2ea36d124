//! Diagnosis: searches a server for settings that endanger its locks.
//!
//! It uses connections of its own, so that it finds out why the store cannot make one. Each part
//! judges the answers in a function that asks nothing. Nothing is changed.

mod facts;
mod settings;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Diagnosis, Fault, FaultCause, Finding, RoundTrips, Severity, StoreRole, locked};
use tokio::sync::Notify;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use self::facts::Facts;
use crate::connect::{OnNotification, connect};
use crate::table::row::Columns;
use crate::version;
use crate::worker::Inner;

/// The channel on which a notification is tried. It is always the same one, because a pooler may keep
/// the session that listens.
const TRIED: &str = "leasehold_tried";

impl Inner {
    pub(crate) async fn diagnose(&self, role: StoreRole) -> Diagnosis {
        let mut brought = Diagnosis::default();
        if let Err(fault) = self.look(role, &mut brought).await {
            let why = "as long as it does not answer, nobody takes or renews a lock here";
            let finding = Finding::new(Severity::Unsafe, "reach", &self.faults.store, &fault.reason, why);
            brought.findings.push(match fault.is_lasting() || fault.cause == FaultCause::NotServing {
                // Its text says what to do.
                true => finding,
                false => finding.advice("see that the server runs and can be reached from here"),
            });
        }
        brought
    }

    async fn look(&self, role: StoreRole, brought: &mut Diagnosis) -> Result<(), Fault> {
        let live = connect(&self.address, &self.faults, &self.runtime, None).await?;
        self.times(&live.client, brought).await?;
        // A pooler may refuse transactions.
        let transaction = self.scope.rows(&live.client, &self.scope.sql.clock, &[]);
        self.asked(self.patience(), transaction).await?;
        let facts = Facts::ask(&live.client, &self.address.schema, &self.scope.sql);
        let facts = self.asked(self.patience(), facts).await?;
        // A quorum finds out that two names lead to the same tables.
        if let Some(id) = &facts.id {
            *locked(&self.identity) = Some(version::identity_of(id));
        }
        let at = &self.faults.store;
        brought.findings.extend(tables::judge(at, &self.faults.init, role, &facts));
        brought.findings.extend(settings::judge(at, self.address.call_limit, &facts));
        brought.findings.push(self.push(&live.client).await);
        Ok(())
    }

    /// How long some questions together may take.
    fn patience(&self) -> Duration {
        10 * self.address.call_limit
    }

    async fn times(&self, client: &Client, brought: &mut Diagnosis) -> Result<(), Fault> {
        let mut trips = RoundTrips::to(&self.faults.store, &*self.runtime);
        for _ in 0..RoundTrips::COUNT {
            let sent = trips.asks();
            let row = self.asked(self.patience(), client.query_typed_one(&self.scope.sql.clock, &[])).await?;
            let server = Columns(&row).stamp(0).map_err(|error| self.faults.of(&error))?;
            trips.hears(sent, Some(server));
        }
        let why = "leases and fences are counted on the server's clock: setting it right later may end leases early or late";
        trips.tell(self.address.call_limit, why, brought);
        Ok(())
    }

    /// Checks that a notification on one connection arrives on another.
    async fn push(&self, client: &Client) -> Finding {
        let at = &self.faults.store;
        let limit = 2 * self.address.call_limit;
        // Others may try it at the same time.
        let (proof, heard) = (self.runtime.random_bits().to_string(), Arc::new(Notify::new()));
        let tell: OnNotification = {
            let (proof, heard) = (proof.clone(), Arc::clone(&heard));
            Arc::new(move |_, payload| {
                if payload == proof {
                    heard.notify_one();
                }
            })
        };
        let listens = async {
            let live = connect(&self.address, &self.faults, &self.runtime, Some(tell)).await?;
            self.asked(self.patience(), live.client.batch_execute(&format!("LISTEN {TRIED}"))).await?;
            let said = [(&TRIED as _, Type::TEXT), (&proof as _, Type::TEXT)];
            self.asked(self.patience(), client.query_typed("SELECT pg_notify($1, $2)", &said)).await?;
            let arrived = self.runtime.within(limit, heard.notified()).await.is_some();
            Ok::<_, Fault>(arrived)
        };
        let why = "waiters ask several times a second for their turn, and holders hear late of a lease that was broken";
        match listens.await {
            Ok(true) => Finding::note("push", at, "a notification arrived on another connection"),
            Ok(false) => {
                let what = format!("no notification arrived within {limit:?}");
                Finding::new(Severity::Warning, "push", at, what, why)
                    .advice("if a connection pooler in transaction mode is in between, name the server itself in the store URL")
            }
            Err(fault) => {
                let finding = Finding::new(Severity::Warning, "push", at, &fault.reason, why);
                match fault.is_lasting() || fault.cause == FaultCause::NotServing {
                    // Its text says what to do.
                    true => finding,
                    false => finding.advice("allow each process two connections to the server"),
                }
            }
        }
    }
}
