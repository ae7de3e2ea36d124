//! Leasehold's store on PostgreSQL.
//!
//! [`PostgresStore`] is the store. Requests for exclusive keys are one statement each, served by
//! functions in the database. For all others the store locks the rows of their keys, loads them,
//! applies [`leasehold_core::apply`], and writes back the changes, in one transaction. Leases are
//! counted on the clock of the server.
//!
//! Programs use the `leasehold` crate.

mod address;
mod blocked;
mod channel;
mod connect;
mod diagnose;
mod fault;
mod init;
mod listener;
mod push;
mod push_monitor;
mod quick;
mod readings;
mod serving;
mod sql;
mod store;
mod table;
mod tls;
mod transaction;
mod version;
mod worker;

pub use init::{InitOutcome, init, schema_sql};
pub use serving::serve;
pub use sql::{FENCE, KEY, LOST, check_sql};
pub use store::PostgresStore;
