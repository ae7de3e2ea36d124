//! What a lock is measured against: the transactions alone.

use leasehold_core::{Bare, Fault};

use super::{Ledger, now};
use crate::connection::Begin;
use crate::{schema, table};

impl Ledger {
    pub(crate) fn bare(&mut self, what: &Bare) -> Result<(), Fault> {
        let Bare::Pair { key, holder, ttl, .. } = what else {
            return self.within(Begin::ToRead, |connection, _| schema::voided(connection).map(drop));
        };
        let taken = self.within(Begin::ToWrite, |connection, side| {
            table::bare::take(connection, key, *holder, now(side.runtime) + ttl.duration())
        })?;
        if !taken {
            return Err(Fault::passing(&self.name, format_args!("{key}: somebody else has it")));
        }
        match self.within(Begin::ToWrite, |connection, _| table::bare::let_go(connection, key, *holder))? {
            true => Ok(()),
            false => Err(Fault::passing(&self.name, format_args!("{key}: it was gone before it was let go"))),
        }
    }
}
