//! PostgreSQL: the checks, checked writers, servers that are killed, hang, lose connections and refuse,
//! and foreign writes: never two holders, no grant left, and errors with cause and remedy.

mod checked;
mod clock;
mod every_check;
mod failover;
mod hostile;
mod limits;
mod login;
mod mixed_quorum;
mod outages;
mod pooler;
mod versions;
mod world;
