//! Connections: from an address to commands that are answered, in order.
//!
//! | file | does |
//! |---|---|
//! | `dial`, `tls` | opens a stream |
//! | `connect` | logs in on it, and reads the server's time |
//! | `link` | the shared connection: opened when it is first needed, and again after it failed |
//! | `lent`, `fred` | the program's own connection, pool or client |
//! | `route` | the connection of one request, our own or the program's |
//! | `send` | sends commands, and tells refusals from failures |
//! | `subscription`, `push_health` | receives pushes |
//! | `signs_of_life` | when the server last sent anything |
//!
//! Nothing here knows what a lock is.

pub(crate) mod connect;
pub(crate) mod dial;
#[cfg(feature = "fred")]
pub(crate) mod fred;
pub(crate) mod lent;
pub(crate) mod link;
pub(crate) mod push_health;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod signs_of_life;
pub(crate) mod subscription;
