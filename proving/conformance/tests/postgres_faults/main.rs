//! PostgreSQL servers that are killed, hang, lose connections and refuse, and tables that other
//! programs write to: there are never two holders, every grant whose answer was lost is released,
//! and each error names its cause and a remedy.

mod clock;
mod failover;
mod hostile;
mod limits;
mod login;
mod mixed_quorum;
mod outages;
mod pooler;
mod versions;
mod world;
