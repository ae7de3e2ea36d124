//! The protocol as small worlds whose every history is explored.
//!
//! A model is a [`World`](explore::World): all that can happen next, and what must never be. [`explore`](explore::explore) visits every state
//! that can be reached. Each model takes a flaw, a rule that somebody might leave out; without one it must hold, and with each
//! of them it must break. A model that finds fault with nothing proves nothing.
//!
//! The tests say how many states they saw at least, so that a world in which things no longer happen is noticed.

pub mod explore;
pub mod grant;
pub mod line;
pub mod quorum;
