//! A distributed lock manager: a process takes a lease on a key, and until the lease ends nobody
//! else is granted that key.
//!
//! Leases live in this process, in a file on this machine, on a Redis, Valkey or KeyDB server, in a
//! PostgreSQL database, or in a quorum of several of these; the API is the same.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leasehold::Locks::connect("redis://127.0.0.1").await?;
//! let guard = locks.mutex("invoice:42").lock().await?;
//! println!("write with fence {}", guard.fence());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to start
//!
//! Most programs need only these types:
//!
//! | type | purpose |
//! |---|---|
//! | [`Locks`] | connects to a store, and makes everything else |
//! | [`Mutex`] | a lock on a key, or on several; [`RwLock`] and [`Semaphore`] are similar |
//! | [`Acquire`] | a request that waits for a lock: a future, with limits such as [`within`](Acquire::within) |
//! | [`Guard`] | a held lock; releasing or dropping it releases the lock |
//! | [`Fence`] | the number to send with each write, so that the resource can refuse late holders |
//! | [`Error`] | any error of this crate, for `?`; each operation also has its own |
//!
//! [`Locks::once`] and [`Locks::every`] run jobs once, [`Locks::election`] chooses a leader,
//! [`Locks::events`] reports what happens, and [`Locks::diagnose`] finds unsafe settings of a
//! store. [`blocking`] has the same API for threads, and [`store`] is for writing your own store.
//!
//! [`manual`] says what is promised and what is not, which store to choose, and what to do at the
//! protected resource. `examples/` contains whole programs of a page each.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `redis` | yes | stores on Redis, Valkey and KeyDB: single servers, Sentinel and Cluster |
//! | `tls` | yes | `rediss:` and `valkeys:` URLs; PostgreSQL always has TLS |
//! | `file` | yes | stores in a file, for the processes of one machine |
//! | `tracing` | yes | spans and log lines |
//! | `postgres` | no | stores in a PostgreSQL database, and checks of the fence in a transaction |
//! | `fred` | no | stores over an existing client of the crate `fred` |
//! | `metrics` | no | figures for the crate `metrics` |
//! | `serde` | no | `Fence` and `TransferToken` in serde's formats |
//! | `testing` | no | a world for tests, with virtual time and failures on demand |

// docs.rs names the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_error;
mod any_store;
mod baseline;
pub mod blocking;
mod breaking;
mod builder;
mod diagnose;
mod error;
mod event;
#[cfg(feature = "redis")]
mod lending;
mod lock;
mod locks;
pub mod manual;
mod memory;
mod mutex;
mod naming;
mod pauses;
#[cfg(feature = "postgres")]
pub mod postgres;
mod quorum;
mod recent;
mod recipe;
mod remembered;
mod report;
mod runtime;
mod rw_lock;
mod semaphore;
pub mod store;
mod store_handle;
#[cfg(feature = "testing")]
pub mod testing;
mod transferring;
mod watch;

pub use any_error::Error;
pub use any_store::AnyStore;
pub use breaking::BreakError;
pub use builder::LocksBuilder;
pub use error::{CloseError, ConnectError, HoldError, InspectError, LockError, ReleaseError, RenewError};
pub use event::{Event, Events, RequestInfo};
pub use leasehold_core::{
    Backoff, BreakNote, BreakRecord, Claim, Drift, Fault, FaultCause, FaultKind, Fence, Finding, Holder,
    HolderInfo, Key, KeyState, Label, Loss, Mark, Marked, MemberVote, Misuse, Mode, Owner, QuorumReport,
    Remedy, Renewal, Runtime, Severity, Signal, Stamp, Store, Ttl, Waiter, Want,
};
#[cfg(feature = "redis")]
pub use leasehold_redis::RedisStore;
/// The fred crate whose clients [`LocksBuilder::fred_client`] takes.
#[cfg(feature = "fred")]
pub use leasehold_redis::fred;
/// The redis-rs crate whose connections [`LocksBuilder::redis_connection`] takes.
#[cfg(feature = "redis")]
pub use leasehold_redis::redis;
pub use lock::{
    Acquire, Guard, Held, Released, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit, Unlocked, WaitStatus,
};
pub use locks::Locks;
pub use memory::MemoryStore;
pub use mutex::Mutex;
pub use naming::Naming;
pub use quorum::QuorumStore;
pub use recipe::{
    BeginError, Candidate, Election, Every, EveryOutcome, JobError, JobGuard, Leaders, MarkError, NotDue,
    Once, OnceOutcome,
};
pub use runtime::TokioRuntime;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use transferring::{TransferError, TransferToken};
pub use watch::{Progress, Snapshot, Watch};

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The code of the page on observing, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observing.md")]
struct Observing;
