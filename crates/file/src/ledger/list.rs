//! Lists the keys with a prefix that are held or waited for.

use leasehold_core::{Answer, Fault, Key, KeyState, Request};
use rusqlite::Connection;

use super::{Ledger, serve};
use crate::connection::Begin;
use crate::error::FileError;

/// The keys from this one on that may be held or waited for, in byte order. The others have only a
/// fence.
const KEYS_FROM: &str = "SELECT key FROM record WHERE key >= ?1 AND (holder IS NOT NULL OR marker IS NOT NULL OR waiters > 0) ORDER BY key";

impl Ledger {
    /// The holders and waiters of all keys with this prefix that are held or waited for, in byte
    /// order, in one transaction.
    pub(crate) fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut states = Vec::new();
            for key in keys_in_use(connection, prefix)? {
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

fn keys_in_use(connection: &Connection, prefix: &[u8]) -> Result<Vec<Key>, FileError> {
    let mut statement = connection.prepare_cached(KEYS_FROM)?;
    let mut rows = statement.query([prefix])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        // All keys with the prefix are adjacent, so the first other key ends the list.
        if !bytes.starts_with(prefix) {
            break;
        }
        keys.push(Key::new(&bytes).map_err(FileError::damaged)?);
    }
    Ok(keys)
}
