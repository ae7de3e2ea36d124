//! Bare transactions: the file store's database library without Leasehold.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::AnyError;

/// A database in a file of its own, with the same settings as the file store's.
#[derive(Debug)]
pub struct Transactions(Connection);

impl Transactions {
    pub fn open(directory: &Path) -> Result<Self, AnyError> {
        let connection = Connection::open(directory.join("bare.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS leases (key BLOB PRIMARY KEY, holder BLOB, ends INTEGER) WITHOUT ROWID",
        )?;
        Ok(Self(connection))
    }

    /// Runs `count` pairs of immediate transactions: one that writes the row, one that deletes it.
    pub fn pairs(&mut self, count: u32) -> Result<(), AnyError> {
        let pair = ["INSERT INTO leases VALUES ('k', ?1, ?1)", "DELETE FROM leases WHERE holder = ?1"];
        for (serial, statement) in (0..count).flat_map(|serial| pair.map(|statement| (serial, statement))) {
            let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.prepare_cached(statement)?.execute(params![serial])?;
            transaction.commit()?;
        }
        Ok(())
    }
}
