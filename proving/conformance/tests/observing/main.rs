//! What a process reports about its locks (events, log, metrics), and what it can ask about a lock
//! without acquiring it.

mod events;
mod figures;
mod log;
mod notices;
mod onlooking;
mod seed_rows;
mod world;
