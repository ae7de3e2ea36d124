//! One lock in a majority of five servers, processes that want it, and what befalls the servers.

mod contention;
mod cut_off;
mod scene;
mod split;
mod two_up;
mod unalike;
