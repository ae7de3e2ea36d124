//! One lock in a quorum of five servers, processes that compete for it, and faults of the servers.

mod contention;
mod cut_off;
mod scene;
mod two_up;
