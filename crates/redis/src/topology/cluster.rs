//! A cluster: many servers, each with a share of the slots, and slots that wander.
//!
//! Each node is spoken with by a client of its own, as if it stood alone. What is here finds out whose a key is, and follows where the
//! nodes send us; each step is a request of ours with the same attempt, so that nothing is resent behind anybody's back.

mod diagnose;
mod learn;
mod list;
mod map;
mod nodes;
mod redirect;
mod renew;
mod seeds;
mod settle;
mod store;
mod vouch;
mod watch;
mod way;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use leasehold_core::{Claim, Fault, Instant, Misuse, Notices, Runtime, WaiterRegistry};

use self::map::Map;
use self::redirect::Node;
pub(crate) use self::redirect::{Redirect, say_all, say_one};
use self::seeds::Seeds;
pub use self::store::ClusterStore;
use crate::client::{Bounds, Client, Common};
use crate::fault::Faults;
use crate::slot::slot_of;

/// Speaks for the store.
pub(crate) struct Cluster {
    runtime: Arc<dyn Runtime>,
    faults: Faults,
    seeds: Seeds,
    /// What each node is asked besides, and how long it may take.
    bounds: Bounds,
    common: Common,
    known: Mutex<Known>,
    /// Whoever has it asks for the owners of the slots.
    learning: tokio::sync::Mutex<()>,
    /// Whether a task of ours is about to.
    learns_soon: AtomicBool,
    /// Whether somebody looks for slots that move while others wait in line.
    watched: AtomicBool,
    /// With whom the next one begins who asks for the owners.
    turn: AtomicUsize,
    /// Whether somebody reads what concerns holders.
    hears_of_breaks: AtomicBool,
    me: Weak<Self>,
}

/// What is known of the cluster, and with whom we speak.
#[derive(Default)]
struct Known {
    map: Map,
    /// When the owners were asked for whom the map has.
    learnt: Option<Instant>,
    clients: HashMap<Node, Arc<Client>>,
    /// When the slots of nodes that abstained were last seen to.
    vouched: HashMap<Node, Instant>,
}

impl Cluster {
    fn new(seeds: Seeds, bounds: Bounds, faults: Faults, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            common: Common::new(&*runtime, Some(me.clone())),
            runtime,
            faults,
            seeds,
            bounds,
            known: Mutex::default(),
            learning: tokio::sync::Mutex::new(()),
            learns_soon: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            hears_of_breaks: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    /// The slot of a claim.
    fn slot(&self, claim: &Claim) -> Result<u16, Fault> {
        one_slot(claim).map_err(|misuse| self.faults.lasting(misuse))
    }

    fn notices(&self) -> Box<dyn Notices> {
        self.common.notice_bus.read()
    }

    fn waiting(&self) -> &WaiterRegistry {
        &self.common.waiting
    }

    /// Nothing that can panic halfway is done under the lock.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot in which all keys of a claim lie.
fn one_slot(claim: &Claim) -> Result<u16, Misuse> {
    let first = claim.first_key();
    let slot = slot_of(first.as_bytes());
    match claim.keys().find(|key| slot_of(key.as_bytes()) != slot) {
        None => Ok(slot),
        Some(apart) => Err(Misuse::KeysApart { one: first.clone(), other: apart.clone() }),
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.seeds.name).finish()
    }
}
