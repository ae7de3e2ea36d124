//! What every store must do, as a list of checks that each store's tests run in full; and the worlds to run them in.
//!
//! A check fails by panicking. Real stores are checked in real time, with short leases; what needs exact time is checked in
//! virtual time, on the memory store.

pub mod checks;
pub mod dump;
pub mod faulty;
pub mod poll;
pub mod sequence;
pub mod venue;
pub mod virtual_time;
