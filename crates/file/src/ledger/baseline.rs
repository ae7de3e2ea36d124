//! The baseline that locks are measured against: the transactions alone, with a row that is written and
//! removed without anything else of a lock.

use leasehold_core::{Fault, Holder, Key, Stamp, Ttl};
use rusqlite::{Connection, params};

use super::{IfMissing, Ledger};
use crate::connection::{Begin, Patience};
use crate::error::FileError;
use crate::schema;
use crate::table::{bytes_of, execute, micros};

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
            acquire(connection, key, holder, inputs.clock.now() + ttl.duration())
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
            release(connection, key, holder)
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

/// Writes the row of a key that has none, like a lock without a session; returns true if it did.
fn acquire(connection: &Connection, key: &Key, holder: Holder, ends: Stamp) -> Result<bool, FileError> {
    let insert =
        "INSERT INTO record (key, holder, ends, awaited) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING";
    Ok(execute(connection, insert, params![key.as_bytes(), bytes_of(holder), micros(ends)])? == 1)
}

/// Removes it; returns true if it was there.
fn release(connection: &Connection, key: &Key, holder: Holder) -> Result<bool, FileError> {
    let delete = "DELETE FROM record WHERE key = ?1 AND holder = ?2";
    Ok(execute(connection, delete, params![key.as_bytes(), bytes_of(holder)])? == 1)
}
