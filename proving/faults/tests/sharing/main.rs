//! Readers, writers, permits and claims of several keys, at the same time.

mod hammer;
mod killed;
mod place;
