//! Explores every history of core's machines in small worlds.
//!
//! A world contains what runs core: a [`store`], which is `leasehold_core::apply` over its records;
//! processes, each with a connection and with the `WaiterRegistry` and the `InDoubtGrants` that its
//! clients share; clients, each an `Acquire` and then a `LeaseRenewal`; and between them a hostile
//! network. [`quorum`] has several members, each of which is `apply`, and clients that are a
//! `QuorumAttempt`; both have readers, claims on several keys, and operators.
//! Nothing here says what a lock is. The code of a world only carries messages: it sends what a
//! machine requests, and passes the answers to it, as the library's driver and its stores do.
//!
//! These things may happen at any moment and in any order: time passes; a request or an answer is
//! late, lost or served twice; a connection breaks, and what was sent on it arrives later or never;
//! a push is lost or forged; a client stalls, changes its mind or dies with its process; a lease
//! ends; an operator breaks it; a server loses everything, or a queue, a fence or a key; another
//! program takes the key. A `Scope` says who takes part, and how often each of these may happen.
//!
//! These rules must hold in each state: two clients never consider themselves holders of what only
//! one may hold; fences increase in the order of grants; no waiter that can be notified is passed
//! over; nothing is left of a client that is gone; no lost lease is renewed; and from each state
//! fair steps lead to one in which every client has finished, so nobody waits for ever.
//!
//! Time passes in ticks. A ttl is two ticks and the window of a hand-over one, and nothing is in
//! flight for more than two: a call without an answer within its limit drops its connection. A tick
//! is long or short compared with core's timers, which are constants. If it is long, a waiter asks
//! again within a tick, whatever was lost. If it is short, it never does, and each wake-up must
//! come by push. The times in a state are relative to now, so histories may be endless although the
//! states are few.
//!
//! Each rule is left out in turn (`Flaw`), and its world must break: a model that never finds a
//! fault proves nothing. The core has no switch for that. A rule is left out around it: at a store
//! by changing its records before and after a request is applied, at a client by changing what its
//! machines are told.
//!
//! The model leaves out, each for a reason:
//!
//! - *Rates of clocks.* All clocks count the same ticks. By how much they may differ is a sum,
//!   proven in `core::lease`.
//! - *Larger worlds.* There are two or three clients, and no single world has all kinds of faults.
//!   For larger worlds there is `proving/simulation`, which runs the driver as well.
//! - *The most that one request cleans up.* `core::apply` tests that.
//! - *Which sibling asks again for a lost queue.* If the others are not told to, they get their
//!   turn later, but they do get it; `core::waiting` tests that they are told.
//! - *How a store gives an id up at a member of a quorum.* [`quorum`] relies on it, and [`store`]
//!   explores it.
//! - *Breaks at a quorum that must be repeated.* If a call of the holder is under way when an
//!   operator looks at the members, or a member does not answer the break, the lease may come back.
//!   [`quorum`] explores such breaks, but does not demand that they last.
//! - *Five members that all answer*, with more than one client: two of the five never do.
//!
//! The tests state how many states they saw at least, so that a world in which things no longer
//! happen is noticed.

mod exclusion;
pub mod explore;
mod faults;
mod flaw;
mod name;
pub mod quorum;
mod server;
pub mod store;

pub use flaw::Flaw;
