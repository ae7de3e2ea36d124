//! Lists the keys with a prefix that are held or waited for.

use leasehold_core::{Fault, KeyState, serve};

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
}
