//! Explores every history of core's machines in small worlds.
//!
//! A world contains what runs core: a [`store`], which is `leasehold_core::apply` over its records;
//! processes, each with a connection, a `WaiterRegistry` and the `InDoubtGrants` of its clients;
//! clients, each an `Acquire` and then a `LeaseRenewal`; and between them a hostile network. In a
//! [`quorum`], each member is `apply` and each client a `QuorumAttempt`. Nothing here says what a
//! lock is: a world's code only carries messages, as the library's driver and its stores do.
//!
//! At any moment and in any order, time passes; a request or an answer is late, lost or served
//! twice; a connection breaks, and what was sent on it arrives later or never; a push is lost or
//! forged; a client stalls, changes its mind or dies with its process; a lease ends; an operator
//! breaks it; a server loses everything, or a queue, a fence or a key; another program takes the
//! key. A `Scope` says who takes part, and how often each of these may happen.
//!
//! In each state, what only one may hold has one holder at most; fences increase in the order of
//! grants; no waiter that can be notified is passed over; nothing is left of a client that is gone;
//! no lost lease is renewed; and fair steps lead to a state in which every client has finished.
//!
//! Time passes in ticks: a ttl is two, a hand-over's window one, and nothing is in flight for more
//! than two. If a tick is long compared with core's timers, a waiter asks again within it, whatever
//! was lost; if it is short, it never does, and each wake-up must come by push. The times in a
//! state are relative to now, so histories may be endless although the states are few.
//!
//! Each rule is left out in turn (`Flaw`), and its world must break: a model that never finds a
//! fault proves nothing. The tests state the least number of states, so that a smaller world is
//! noticed.
//!
//! The model leaves out, each for a reason:
//!
//! - *Rates of clocks.* All count the same ticks. How much they may differ is proven in
//!   `core::lease`.
//! - *Larger worlds.* `proving/simulation` has them, and runs the driver as well.
//! - *The most that one request cleans up.* `core::apply` tests that.
//! - *Which sibling asks again for a lost queue.* `core::waiting` tests that they are told to.
//! - *How a store gives an id up at a member of a quorum.* [`quorum`] relies on it; [`store`]
//!   explores it.
//! - *Breaks at a quorum that must be repeated.* If a call of the holder is under way, or a member
//!   does not answer, the lease may come back. [`quorum`] does not demand that such breaks last.
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
