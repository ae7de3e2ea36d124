//! PostgreSQL: the list of checks, writers whose lock is checked in their transaction, and servers
//! that are killed, hang, lose connections and refuse, and tables that other programs write to:
//! there are never two holders, every grant whose answer was lost is released, and each error names
//! its cause and a remedy.

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
