//! What is held or waited for in the file, by the beginning of its key.

use leasehold_core::{Answer, Fault, Key, KeyState, Request, Stamp};
use rusqlite::{Connection, params};

use super::{Ledger, now, serve};
use crate::connection::Begin;
use crate::table::micros;
use crate::trouble::Trouble;

/// The keys of locks that have not ended, from a key on, in byte order. (Whatever else makes a key one that is in use is another
/// SELECT here; the order and what has ended are then seen to by the rest.)
const KEYS_FROM: &str = "SELECT key FROM lock WHERE key >= ?1 AND ends > ?2 ORDER BY key";

impl Ledger {
    /// Says of all keys that begin with a prefix who holds them and who waits, in byte order, in one transaction. Keys that nobody
    /// holds or waits for are not among them.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used.
    pub fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.within(Begin::ToRead, |connection, runtime| {
            let mut states = Vec::new();
            for key in keys_in_use(connection, prefix, now(runtime))? {
                // By the one semantics, as every other request: what has ended since is absent.
                let Answer::Inspect(state) = serve(connection, runtime, &Request::Inspect(key))?.answer
                else {
                    return Err(Trouble::lasting(
                        "the answer is to another request: this is a fault in leasehold-core",
                    ));
                };
                if !state.tenancies.is_empty() || !state.line.is_empty() {
                    states.push(state);
                }
            }
            Ok(states)
        })
    }
}

fn keys_in_use(connection: &Connection, prefix: &[u8], now: Stamp) -> Result<Vec<Key>, Trouble> {
    let mut statement = connection.prepare_cached(KEYS_FROM)?;
    let mut rows = statement.query(params![prefix, micros(now)])?;
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
