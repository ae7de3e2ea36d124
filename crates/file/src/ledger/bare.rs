//! What a lock is measured against: the transactions alone.

use leasehold_core::{Fault, Holder, Key, Ttl};

use super::{Ledger, now};
use crate::connection::Begin;
use crate::{schema, table};

impl Ledger {
    /// Reads a row.
    pub(crate) fn bare_trip(&mut self) -> Result<(), Fault> {
        self.within(Begin::ToRead, |connection, _| schema::voided(connection).map(drop))
    }

    pub(crate) fn bare_take(&mut self, key: &Key, holder: Holder, ttl: Ttl) -> Result<(), Fault> {
        let taken = self.within(Begin::ToWrite, |connection, side| {
            table::bare::take(connection, key, holder, now(side.runtime) + ttl.duration())
        })?;
        if taken { Ok(()) } else { Err(self.bare_fault(key, "somebody else has it")) }
    }

    pub(crate) fn bare_let_go(&mut self, key: &Key, holder: Holder) -> Result<(), Fault> {
        let let_go =
            self.within(Begin::ToWrite, |connection, _| table::bare::let_go(connection, key, holder))?;
        if let_go { Ok(()) } else { Err(self.bare_fault(key, "it was gone before it was let go")) }
    }

    fn bare_fault(&self, key: &Key, why: &str) -> Fault {
        Fault::passing(&self.name, format_args!("{key}: {why}"))
    }
}
