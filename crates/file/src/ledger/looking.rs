//! What a file shows besides the answers to requests: the keys in use, the marks and the breaks.

use leasehold_core::{BreakRecord, Fault, Key, KeyState, Mark, Marked, Records, serve};

use super::{Ledger, void_the_dead};
use crate::connection::Begin;
use crate::table;

/// The keys from this one on that may be held or waited for, in byte order.
const KEYS_FROM: &str = "SELECT key FROM record WHERE key >= ?1 AND (holder IS NOT NULL OR marker IS NOT NULL OR waiters > 0) ORDER BY key";

impl Ledger {
    /// The state of all keys with this prefix that are in use, in byte order, at one moment.
    pub(crate) fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let keys = table::with_prefix(connection, KEYS_FROM, prefix, |row| table::key(row, 0))?;
            let written = table::load(connection, keys.iter(), None, usize::MAX)?;
            let context = inputs.context();
            let records = void_the_dead(written, inputs, context.now).records;
            let states = keys.into_iter().map(|key| serve::inspect(&records, key, &context));
            Ok(states.filter(KeyState::is_in_use).collect())
        })
    }

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
