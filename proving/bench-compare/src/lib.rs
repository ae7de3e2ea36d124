//! Leasehold beside its peers: each contender in processes of its own, on the same workloads and the same server, in turns.
//!
//! Each is taken as it comes: the ttl is the same for all, everything else is the library's default. A rate is told beside the bare
//! loop of the same process, because languages and clients differ more than locks do.

pub mod contenders;
pub mod hand_off;
pub mod ours;
pub mod page;
pub mod play;
pub mod settings;
pub mod targets;
pub mod uncontended;
