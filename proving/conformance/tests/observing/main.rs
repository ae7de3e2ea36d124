//! What a process tells of its locks: events, the log, the figures; and what it can ask of a lock
//! without taking it.

mod events;
mod figures;
mod log;
mod notices;
mod onlooking;
mod seed_rows;
mod world;
