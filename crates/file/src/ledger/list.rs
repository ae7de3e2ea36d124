//! What is held or waited for in the file, by the beginning of its key.

use leasehold_core::{Answer, Fault, Key, KeyState, Request};
use rusqlite::Connection;

use super::{Ledger, serve};
use crate::connection::Begin;
use crate::trouble::Trouble;

/// The keys that may be held or waited for, from a key on, in byte order. The others have nothing but a fence.
const KEYS_FROM: &str = "SELECT key FROM record WHERE key >= ?1 AND (holder IS NOT NULL OR marker IS NOT NULL OR waiters > 0) ORDER BY key";

impl Ledger {
    /// Says of all keys that begin with a prefix who holds them and who waits, in byte order, in one transaction. Keys that nobody
    /// holds or waits for are not among them.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used.
    pub fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.within(Begin::ToRead, |connection, side| {
            let mut states = Vec::new();
            for key in keys_in_use(connection, prefix)? {
                // By the one semantics, as every other request: what has ended is absent.
                let Answer::Inspect(state) = serve(connection, side, &Request::Inspect(key))?.0.answer else {
                    return Err(Trouble::lasting(
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

fn keys_in_use(connection: &Connection, prefix: &[u8]) -> Result<Vec<Key>, Trouble> {
    let mut statement = connection.prepare_cached(KEYS_FROM)?;
    let mut rows = statement.query([prefix])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        // All that begin with the prefix stand together, and the first of them before all other that come after it.
        if !bytes.starts_with(prefix) {
            break;
        }
        keys.push(Key::new(&bytes).map_err(Trouble::damaged)?);
    }
    Ok(keys)
}
