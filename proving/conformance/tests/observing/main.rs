//! What a process tells of its locks: events, the log, the figures.

mod events;
mod figures;
mod log;
mod world;
