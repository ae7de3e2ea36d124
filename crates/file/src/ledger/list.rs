//! Lists the keys with a prefix that are held or waited for.

use leasehold_core::{Answer, Fault, KeyState, Request};

use super::{Ledger, serve};
use crate::connection::Begin;
use crate::error::FileError;
use crate::table;

/// The keys from this one on that may be held or waited for, in byte order. The others have only a
/// fence.
const KEYS_FROM: &str = "SELECT key FROM record WHERE key >= ?1 AND (holder IS NOT NULL OR marker IS NOT NULL OR waiters > 0) ORDER BY key";

impl Ledger {
    /// The holders and waiters of all keys with this prefix that are held or waited for, in byte
    /// order, in one transaction.
    pub(crate) fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut states = Vec::new();
            for key in table::with_prefix(connection, KEYS_FROM, prefix, |row| table::key(row, 0))? {
                // By the semantics of core, like every other request: an ended record is absent.
                let Answer::Inspect(state) = serve(connection, inputs, &Request::Inspect(key))?.0.answer
                else {
                    return Err(FileError::lasting(
                        "the answer is to another request: this is a fault in leasehold-core",
                    ));
                };
                if !state.holders.is_empty() || !state.waiters.is_empty() {
                    states.push(state);
                }
            }
            Ok(states)
        })
    }
}
