//! Reports of a process about its locks (events, log, metrics), and questions about a lock that do
//! not acquire it.

mod events;
mod figures;
mod log;
mod notices;
mod onlooking;
mod world;
