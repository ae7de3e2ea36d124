//! Explores every history of core's machines in small worlds.
//!
//! A world contains what runs core: a [`store`], which is `leasehold_core::apply` over its records;
//! processes with a connection, a `WaiterRegistry` and `InDoubtGrants`; clients, each an `Acquire`
//! and then a `LeaseRenewal`; and a hostile network. In a [`quorum`], each member is `apply` and
//! each client a `QuorumAttempt`. A world's code only carries messages, as the driver and the
//! stores do.
//!
//! In any order, time passes; a request or an answer is late, lost or served twice; a connection
//! breaks, and what was sent on it arrives later or never; a push is lost or forged; a client
//! stalls, changes its mind or dies with its process; a lease ends; an operator breaks it; a server
//! loses everything, or a queue, a fence or a key; another program takes the key. A `Scope` says
//! who takes part, and how often each of these may happen.
//!
//! In each state, what only one may hold has one holder at most; fences increase in the order of
//! grants; no waiter that can be notified is passed over; nothing is left of a client that is gone;
//! no lost lease is renewed; and fair steps lead to a state in which every client has finished.
//!
//! Time passes in ticks: a ttl is two, a hand-over's window one, and nothing is in flight for more
//! than two. If a tick is long compared with core's timers, a waiter asks again within it, whatever
//! was lost; if it is short, each wake-up must come by push. Times are relative to now, so
//! histories may be endless although the states are few.
//!
//! Each rule is left out in turn (`Flaw`), and its world must break. The tests state the least
//! number of states, so that a smaller world is noticed.
//!
//! The model leaves out, each for a reason:
//!
//! - *Rates of clocks*, which are the same here. `core::lease` proves how much they may differ.
//! - *Larger worlds.* `proving/simulation` has them, and runs the driver as well.
//! - *The most that one request cleans up.* `core::apply` tests that.
//! - *Which sibling asks again for a lost queue.* `core::waiting` tests that they are told to.
//! - *How a store gives an id up at a member of a quorum.* [`store`] explores it for [`quorum`].
//! - *Breaks at a quorum that must be repeated*, because a call of the holder is under way or a
//!   member does not answer: the lease may come back.
//! - *Five members that all answer*, with more than one client: two of the five never do.

mod exclusion;
pub mod explore;
mod faults;
mod flaw;
mod name;
pub mod quorum;
mod server;
pub mod store;

pub use flaw::Flaw;
