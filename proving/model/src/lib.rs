//! The machines of core in small worlds whose every history is explored.
//!
//! A world is what core is run in: a [`store`], which is `leasehold_core::apply` over its records; processes, each with a connection, the
//! `WaiterRegistry` and the `Unsettled` that its clients share; clients, each an `Acquire` and then a `Keep`; and between them a network that
//! is against everybody. Nothing here says what a lock is. The code of a world only carries: it sends what a machine says, and tells
//! it what came back, as the library's driver and its stores do.
//!
//! What may happen, at any moment and in any order: time passes; a request or an answer is late, lost or served twice; a connection
//! breaks, and what was sent on it still arrives, or does not; a push is lost or forged; a client stalls, changes its mind or dies with
//! its process; a lease ends; somebody breaks it; a server forgets all, or the line, or a fence, or the key is deleted; a stranger takes
//! the key. A `Scope` says who takes part, and how often each of these may happen.
//!
//! What must hold, in each state: no two believe at once that they hold what only one may have; fences rise in the order of grants;
//! nobody is passed over that could be told; nothing is left by who is gone; no lease that was lost is renewed; and from each state one
//! in which all is over can be reached by steps that come of themselves, so that nobody waits for ever.
//!
//! Time passes in ticks. A ttl is two of them, the window of a hand-over is one, and nothing is under way for more than two: a call that is
//! not answered within its limit drops its connection. A tick is long or short beside the timers of core, which are constants: if it is
//! long, a waiter asks again within a tick whatever was lost; if it is short, it never does, and each wake-up must come by push. What a
//! state has of times is written as how long ago or ahead they are, so histories may be endless and states are still few.
//!
//! Each rule is left out in turn (`Flaw`), and its world must break: a model that finds fault with nothing proves nothing. The core has
//! no switch for that. A rule is left out around it, at a store by what is remembered before and after a request is applied, at a
//! client by what its machines are told.
//!
//! Left out, each for a reason:
//!
//! - *Rates of clocks.* All count the same ticks. What they may differ is a sum, proven in `core::lease`.
//! - *More than a few.* Two or three clients; no single world has all kinds of trouble. What hides in larger ones is for
//!   `proving/simulation`, which runs the driver as well.
//! - *What one request clears away at most.* `core::apply` tests that.
//! - *Which sibling asks for a line that was lost.* If the others are not told to, they come later to their turn, but come; `core::waiting`
//!   tests that they are told.
//! - *A quorum's members.* [`quorum`] still states their rules itself.
//!
//! The tests say how many states they saw at least, so that a world in which things no longer happen is noticed.

pub mod explore;
mod flaw;
mod name;
pub mod quorum;
mod server;
pub mod store;

pub use flaw::Flaw;
