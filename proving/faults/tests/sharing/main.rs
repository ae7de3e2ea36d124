//! Readers, writers, permits and takers of several keys, all at once.

mod hammer;
mod killed;
mod place;
