//! A cluster: many servers, each with some of the slots, and slots that move.
//!
//! Each node has its own client, as if it were standalone. This module finds the owner of a key,
//! and follows redirects. Each step is a separate request with the same attempt, so nothing is
//! resent unnoticed.

mod learn;
mod list;
mod map;
mod nodes;
mod renew;
pub(crate) mod store;
mod way;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use leasehold_core::{Claim, Fault, Instant, Misuse, Runtime, WaiterRegistry, locked};

use self::learn::Unlearnt;
use self::map::Map;
use self::nodes::Seeds;
use crate::client::{Bounds, Client, InCluster, SharedState};
use crate::fault::Faults;
use crate::redirect::Node;
use crate::slot::slot_of;

pub(crate) struct Cluster {
    runtime: Arc<dyn Runtime>,
    faults: Faults,
    seeds: Seeds,
    bounds: Bounds,
    shared: SharedState,
    known: Mutex<Known>,
    /// Held while asking for the owners of the slots. It contains the last failure.
    learning: tokio::sync::Mutex<Option<Unlearnt>>,
    /// True while a background task is about to ask.
    learns_soon: AtomicBool,
    /// True while a task watches for moved slots, because requests wait.
    watched: AtomicBool,
    /// The node with which the next request for the owners starts.
    turn: AtomicUsize,
    /// True if somebody reads notices for holders.
    hears_of_breaks: AtomicBool,
    me: Weak<Self>,
}

/// The known state of the cluster, and the clients of its nodes.
#[derive(Default)]
struct Known {
    map: Map,
    /// When the owners in the map were asked for.
    learnt: Option<Instant>,
    /// The node that named them.
    named_by: Option<Node>,
    /// Nodes that may be cut off from the others, and since when. They are asked last for the owners.
    doubted: HashMap<Node, Instant>,
    clients: HashMap<Node, Arc<Client>>,
    /// When the other slots of an abstaining node were last put into quarantine.
    vouched: HashMap<Node, Instant>,
}

impl Cluster {
    fn new(seeds: Seeds, bounds: Bounds, faults: Faults, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let give_up = |me: Weak<Self>| {
            InCluster(Arc::new(move |attempt, at| {
                me.upgrade().into_iter().for_each(|cluster| cluster.give_up_later(attempt.clone(), at));
            }))
        };
        Arc::new_cyclic(|me| Self {
            shared: SharedState::new(&*runtime, Some(give_up(me.clone()))),
            runtime,
            faults,
            seeds,
            bounds,
            known: Mutex::default(),
            learning: tokio::sync::Mutex::default(),
            learns_soon: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            hears_of_breaks: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    fn slot(&self, claim: &Claim) -> Result<u16, Fault> {
        one_slot(claim).map_err(|misuse| self.faults.lasting(misuse))
    }

    fn waiting(&self) -> &WaiterRegistry {
        &self.shared.waiting
    }

    /// No code under this mutex can panic halfway.
    fn known(&self) -> MutexGuard<'_, Known> {
        locked(&self.known)
    }
}

fn one_slot(claim: &Claim) -> Result<u16, Misuse> {
    let first = claim.first_key();
    let slot = slot_of(first.as_bytes());
    match claim.keys().find(|key| slot_of(key.as_bytes()) != slot) {
        None => Ok(slot),
        Some(apart) => Err(Misuse::KeysApart { one: first.clone(), other: apart.clone() }),
    }
}
