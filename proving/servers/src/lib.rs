//! Real servers for the tests: each on a free port of 127.0.0.1, with its own directory, removed
//! when it is dropped.
//!
//! ```no_run
//! use servers::{Flavor, Server};
//!
//! let server = Server::start(Flavor::Valkey91);
//! server.text(&["SET", "invoice:42", "taken", "NX", "PX", "30000"]);
//! server.kill_9();
//! server.restart();
//! ```
//!
//! `cargo xtask servers` downloads the programs. A missing one causes a panic that says so, never a
//! skipped test.
//!
//! Everything here blocks the calling thread, and panics where a test could only unwrap.

mod cluster;
mod flavor;
mod launch;
mod pooler;
mod postgres;
mod process;
mod proxy;
mod resp;
mod server;
mod setup;
mod watched;

pub use cluster::Cluster;
pub use flavor::{Flavor, NotFound};
pub use pooler::Pooler;
pub use postgres::{Postgres, Wheel};
pub use process::Process;
pub use proxy::Proxy;
pub use resp::{Connection, Reply};
pub use server::Server;
pub use setup::{Setup, TlsFiles};
pub use watched::Watched;
