//! A process's reports about its locks (events, log, metrics), and questions that acquire nothing.

mod events;
mod figures;
mod log;
mod notices;
mod onlooking;
mod world;
