//! Records that the file keeps besides leases: marks of jobs, and records of breaks.

use leasehold_core::{BreakRecord, Fault, Key, Mark, Marked, Records, serve};

use super::Ledger;
use crate::connection::Begin;
use crate::table;

impl Ledger {
    /// Deletes the mark of a key, on disk; returns the mark.
    pub(crate) fn forget(&mut self, key: &Key) -> Result<Option<Mark>, Fault> {
        self.within(Begin::Durably, |connection, inputs| {
            let mut records = Records::default();
            table::mark::load(connection, std::iter::once(key), &mut records)?;
            let forgotten = serve::forget(&mut records, key, &inputs.context());
            table::mark::forget(connection, key)?;
            Ok(forgotten)
        })
    }

    /// The marks of all keys with this prefix, in byte order, in one transaction.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the file cannot be used.
    pub fn list_marks(&mut self, prefix: &[u8]) -> Result<Vec<(Key, Marked)>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut records = Records::default();
            table::mark::load_from(connection, prefix, &mut records)?;
            Ok(serve::list_marks(&records, prefix, &inputs.context()))
        })
    }

    /// The recorded break of a key.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the file cannot be used.
    pub fn last_break(&mut self, key: &Key) -> Result<Option<BreakRecord>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut records = Records::default();
            table::broken::load(connection, key, &mut records)?;
            Ok(serve::last_break(&records, key, &inputs.context()))
        })
    }

    /// The recorded breaks of all keys with this prefix, in byte order, in one transaction.
    pub(crate) fn list_breaks(&mut self, prefix: &[u8]) -> Result<Vec<BreakRecord>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut records = Records::default();
            table::broken::load_from(connection, prefix, &mut records)?;
            Ok(serve::list_breaks(&records, prefix, &inputs.context()))
        })
    }
}
