//! Real servers for tests, each on a free port of 127.0.0.1; its directory is removed with it.
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
//! `cargo xtask servers` downloads the programs; a missing one causes a panic, never a skipped test.
//! Everything here blocks the calling thread, and panics where a test could only unwrap.

#![expect(clippy::missing_errors_doc, reason = "each error is for a person, and says what failed")]

#[cfg(feature = "tls")]
mod authority;
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

#[cfg(feature = "tls")]
pub use authority::Authority;
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

/// Defines a test for each row: a name, and the call of a check that several tests share.
///
/// ```
/// # fn nobody_starves(store: &str) {}
/// servers::tests! {
///     fn nobody_starves_in_memory() = nobody_starves("memory:");
///     fn nobody_starves_at_a_file() = nobody_starves("file:/tmp/leases.db");
/// }
/// ```
#[macro_export]
macro_rules! tests {
    ($($(#[$attribute:meta])* fn $test:ident() = $check:expr;)+) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $test() {
                $check;
            }
        )+
    };
}
