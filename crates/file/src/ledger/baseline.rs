//! The baseline that locks are measured against: the transactions alone.

use leasehold_core::{Fault, Holder, Key, Ttl};

use super::{IfMissing, Ledger};
use crate::connection::{Begin, Patience};
use crate::{schema, table};

impl Ledger {
    /// Reads a row. `None` if it would have to wait and must not, as for all functions here.
    pub(crate) fn baseline_round_trip(&mut self, patience: Patience) -> Result<Option<()>, Fault> {
        self.attempt(Begin::ToRead, patience, IfMissing::Create, |connection, _| {
            schema::voided(connection).map(drop)
        })
    }

    pub(crate) fn baseline_acquire(
        &mut self,
        key: &Key,
        holder: Holder,
        ttl: Ttl,
        patience: Patience,
    ) -> Result<Option<()>, Fault> {
        let taken = self.attempt(Begin::ToWrite, patience, IfMissing::Create, |connection, inputs| {
            table::baseline::acquire(connection, key, holder, inputs.clock.now() + ttl.duration())
        })?;
        self.baseline_done(taken, key, "somebody else has it")
    }

    pub(crate) fn baseline_release(
        &mut self,
        key: &Key,
        holder: Holder,
        patience: Patience,
    ) -> Result<Option<()>, Fault> {
        let let_go = self.attempt(Begin::ToWrite, patience, IfMissing::Create, |connection, _| {
            table::baseline::release(connection, key, holder)
        })?;
        self.baseline_done(let_go, key, "it was gone before it was let go")
    }

    fn baseline_done(&self, done: Option<bool>, key: &Key, or_else: &str) -> Result<Option<()>, Fault> {
        match done {
            Some(false) => Err(Fault::passing(&self.name, format_args!("{key}: {or_else}"))),
            done => Ok(done.map(drop)),
        }
    }
}
