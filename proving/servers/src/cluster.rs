//! A cluster for one test.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{Flavor, Reply, Server, Setup};

/// The number of slots of every cluster.
const SLOTS: u16 = 16_384;

/// Gossip takes a second or two; the rest is for a machine that is busy compiling.
const AGREES_WITHIN: Duration = Duration::from_secs(30);

/// A handshake takes a tenth of a second.
const MEETS_AGAIN: Duration = Duration::from_secs(3);

/// After how many ms a silent master counts as dead. Its replica takes over soon after.
const NODE_TIMEOUT: &str = "2000";

/// Masters that share the slots evenly, optionally with replicas.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster, and returns when all its nodes agree that it serves.
    /// Panics if the nodes do not agree within 30 s.
    #[track_caller]
    pub fn start(flavor: Flavor, masters: usize, replicas_each: usize) -> Self {
        Self::start_with(flavor, masters, replicas_each, |setup| setup)
    }

    /// The same, with further settings for each node.
    #[track_caller]
    pub fn start_with(
        flavor: Flavor,
        masters: usize,
        replicas_each: usize,
        configure: impl Fn(Setup) -> Setup,
    ) -> Self {
        let one = || {
            let setup =
                Server::setup(flavor).arg("cluster-enabled", "yes").arg("repl-diskless-sync-delay", "0");
            configure(setup).start()
        };
        let cluster = Self { servers: (0..masters * (1 + replicas_each)).map(|_| one()).collect() };
        cluster.join(masters);
        cluster
    }

    /// All nodes: the masters first, then their replicas in rounds.
    pub fn nodes(&self) -> &[Server] {
        &self.servers
    }

    /// `redis+cluster://` with all nodes.
    pub fn url(&self) -> String {
        let nodes: Vec<_> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// The node that owns a slot according to most nodes that answer.
    #[track_caller]
    pub fn owner(&self, slot: u16) -> &Server {
        let Some(owner) = self.owner_now(slot) else { panic!("nobody owns slot {slot}") };
        owner
    }

    /// The node that considers itself the owner of a slot, if there is exactly one.
    pub fn owner_now(&self, slot: u16) -> Option<&Server> {
        let mut owners = self.servers.iter().filter(|server| owned_by(server, slot) == Some(server.port()));
        owners.next().filter(|_| owners.next().is_none())
    }

    /// True if all nodes that answer name this node as the owner of a slot.
    pub fn all_know(&self, slot: u16, owner: &Server) -> bool {
        self.servers.iter().filter_map(|server| owned_by(server, slot)).all(|port| port == owner.port())
    }

    /// A master that does not own the slot.
    #[track_caller]
    pub fn other(&self, slot: u16) -> &Server {
        let owner = self.owner(slot).port();
        let masters = self.servers.iter().filter(|server| {
            let role = server.text(&["ROLE"]);
            matches!(role, Reply::Array(Some(fields)) if fields.first().and_then(Reply::as_text) == Some("master"))
        });
        let Some(other) = masters.into_iter().find(|server| server.port() != owner) else {
            panic!("there is no other master")
        };
        other
    }

    /// Moves a slot and its keys: [`begin`](Self::begin), [`carry`](Self::carry), [`end`](Self::end).
    #[track_caller]
    pub fn hand_over(&self, slot: u16, to: &Server) {
        let from = self.owner(slot);
        self.begin(slot, from, to);
        while self.carry(slot, from, to) > 0 {}
        self.end(slot, from, to);
    }

    /// Begins to move a slot.
    #[track_caller]
    pub fn begin(&self, slot: u16, from: &Server, to: &Server) {
        let slot = slot.to_string();
        ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves one key of the slot, if any is left; returns how many it moved.
    #[track_caller]
    pub fn carry(&self, slot: u16, from: &Server, to: &Server) -> usize {
        let Reply::Array(Some(keys)) = from.text(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1"])
        else {
            panic!("no answer to GETKEYSINSLOT")
        };
        for key in &keys {
            let Reply::Bulk(Some(key)) = key else { panic!("{key:?} is not a key") };
            let port = to.port().to_string();
            let words: [&[u8]; 6] = [b"MIGRATE", b"127.0.0.1", port.as_bytes(), key, b"0", b"5000"];
            match from.command(&words) {
                // It may have expired or been released since the keys were listed.
                Reply::Simple(said) if said == "OK" || said == "NOKEY" => {}
                other => panic!("MIGRATE: {other:?}"),
            }
        }
        keys.len()
    }

    /// Completes the move of a slot, and waits until all nodes know. A node whose next move carries
    /// an epoch that is not above this one's is not believed, and the keys are deleted. The old
    /// owner knows who has the slot because it was told so, but may not have heard of the epoch
    /// yet.
    #[track_caller]
    pub fn end(&self, slot: u16, from: &Server, to: &Server) {
        let (name, id) = (slot.to_string(), id(to));
        // The new owner first: until the old one is told, it redirects clients.
        for server in [to, from] {
            ok(server, &["CLUSTER", "SETSLOT", &name, "NODE", &id]);
        }
        self.wait_until("all nodes know who has the slot, and since which epoch", || {
            let epoch = epoch_of(&id, to);
            epoch.is_some()
                && self
                    .servers
                    .iter()
                    .all(|server| owned_by(server, slot) == Some(to.port()) && epoch_of(&id, server) == epoch)
        });
    }

    /// Waits until a condition holds, checking every few milliseconds.
    /// Panics if it does not within 30 s.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + AGREES_WITHIN;
        while !holds() {
            assert!(Instant::now() < deadline, "not within {} s: {what}", AGREES_WITHIN.as_secs());
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn join(&self, masters: usize) {
        let first = &self.servers[0];
        for (n, server) in self.servers.iter().enumerate() {
            ok(server, &["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
        }
        for (n, server) in self.servers[..masters].iter().enumerate() {
            let share = |n: usize| (usize::from(SLOTS) * n).div_ceil(masters);
            let slots: Vec<_> = (share(n)..share(n + 1)).map(|slot| slot.to_string()).collect();
            let words: Vec<_> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(|slot| &**slot)).collect();
            ok(server, &words);
        }
        let ids: Vec<_> = self.servers.iter().map(id).collect();
        let mut met: Option<Instant> = None;
        self.wait_until("all nodes know each other", || {
            // On a busy machine, a node may abandon a handshake before the other has answered.
            if met.is_none_or(|met| met.elapsed() > MEETS_AGAIN) {
                for server in &self.servers[1..] {
                    ok(first, &["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string()]);
                }
                met = Some(Instant::now());
            }
            // Not by their number: until a handshake ends, the other node has an ID made up for it.
            self.servers.iter().all(|server| ids.iter().all(|id| epoch_of(id, server).is_some()))
        });
        for (n, server) in self.servers.iter().enumerate().skip(masters) {
            ok(server, &["CLUSTER", "REPLICATE", &ids[n % masters]]);
        }
        self.wait_until("all nodes serve, and replicas follow", || {
            self.servers.iter().enumerate().all(|(n, server)| {
                let serves = info(server, "cluster_state").as_deref() == Some("ok");
                let replication = server.text(&["INFO", "replication"]);
                let follows =
                    replication.as_text().is_some_and(|text| text.contains("master_link_status:up"));
                serves
                    && (n < masters || follows)
                    && [0, SLOTS - 1].iter().all(|slot| owned_by(server, *slot).is_some())
            })
        });
        // A shorter timeout lets nodes that meet on a busy machine consider each other dead.
        for server in &self.servers {
            ok(server, &["CONFIG", "SET", "cluster-node-timeout", NODE_TIMEOUT]);
        }
    }
}

#[track_caller]
fn ok(server: &Server, words: &[&str]) {
    let said = server.text(words);
    assert_eq!(said, Reply::Simple("OK".into()), "{} {:?}", server.port(), &words[..words.len().min(5)]);
}

#[track_caller]
fn id(server: &Server) -> String {
    let id = server.text(&["CLUSTER", "MYID"]);
    let Some(id) = id.as_text() else { panic!("no answer to MYID: {id:?}") };
    id.to_owned()
}

fn info(server: &Server, field: &str) -> Option<String> {
    let info = server.text(&["CLUSTER", "INFO"]);
    let value = info.as_text()?.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// The epoch of the node with this ID, as `server` knows it; `None` also without an answer.
fn epoch_of(id: &str, server: &Server) -> Option<u64> {
    let nodes = server.connect().and_then(|mut connection| connection.text(&["CLUSTER", "NODES"])).ok()?;
    let line = nodes.as_text()?.lines().find(|line| line.starts_with(id))?;
    line.split(' ').nth(6)?.parse().ok()
}

/// The owner's port according to a node; `None` also if the node does not answer.
fn owned_by(server: &Server, slot: u16) -> Option<u16> {
    let answer = server.connect().and_then(|mut connection| connection.text(&["CLUSTER", "SLOTS"]));
    let Ok(Reply::Array(Some(ranges))) = answer else { return None };
    ranges.iter().find_map(|range| {
        let Reply::Array(Some(fields)) = range else { return None };
        let [Reply::Integer(first), Reply::Integer(last), Reply::Array(Some(master)), ..] = fields.as_slice()
        else {
            return None;
        };
        let port = master.get(1)?.as_integer()?;
        (*first..=*last).contains(&i64::from(slot)).then(|| u16::try_from(port).ok()).flatten()
    })
}
