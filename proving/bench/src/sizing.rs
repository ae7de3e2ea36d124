//! The capacity of a server, a cluster and a quorum: docs/sizing.md from the workload `capacity`.

use std::fmt::Write as _;

use crate::figure::{Figure, shown};
use crate::machine::Machine;

/// The share of time for which a server may be busy; the rest is for bursts, failovers and other work.
const BUSY: f64 = 0.7;

/// Leasehold's default TTL, in seconds; a lease is renewed after a third of it.
const TTL: f64 = 30.0;

/// The assumed memory of a server, to tell which limit comes first.
const MEMORY: f64 = 4.0 * GIB;
const NETWORK: f64 = 1e9 / 8.0;
const GIB: f64 = 1_073_741_824.0;

/// The costs of one kind of server: µs of its one thread, and bytes.
#[derive(Clone, Debug, PartialEq)]
struct Costs {
    server: String,
    held: f64,
    waiter: f64,
    pair_alone: f64,
    pair_together: f64,
    renewal_alone: f64,
    renewal_together: f64,
    hand_off: f64,
    pair_bytes: f64,
    renewal_bytes: f64,
    member_pair: f64,
    member_renewal: f64,
}

type Cost = fn(&Costs) -> f64;

impl Costs {
    /// The costs from measured figures; `None` if one was not measured.
    fn of(server: &str, figures: &[Figure]) -> Option<Self> {
        let value = |measure: &str| {
            let name = format!("capacity/{server}/{measure}");
            figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
        };
        let processor = |of: &str| value(&format!("server processor per {of}"));
        Some(Self {
            server: server.to_owned(),
            held: value("server memory per held lock")?,
            waiter: value("server memory per waiter")?,
            pair_alone: processor("pair, alone")?,
            pair_together: processor("pair, together")?,
            renewal_alone: processor("renewal, alone")?,
            renewal_together: processor("renewal, together")?,
            hand_off: processor("hand-off")?,
            pair_bytes: value("bytes received per pair")? + value("bytes sent per pair")?,
            renewal_bytes: value("bytes per renewal")?,
            member_pair: processor("pair of a majority, each member")?,
            member_renewal: processor("renewal of a majority, each member")?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    name: &'static str,
    /// The number of servers that the keys are divided among.
    shares: f64,
    majority: bool,
}

const LAYOUTS: [Layout; 4] = [
    Layout { name: "one server", shares: 1.0, majority: false },
    Layout { name: "a cluster of 3 masters", shares: 3.0, majority: false },
    Layout { name: "a cluster of 6 masters", shares: 6.0, majority: false },
    Layout { name: "a quorum of five", shares: 1.0, majority: true },
];

impl Layout {
    fn pair(self, costs: &Costs) -> f64 {
        if self.majority { costs.member_pair } else { costs.pair_alone }
    }

    fn renewal(self, costs: &Costs) -> f64 {
        if self.majority { costs.member_renewal } else { costs.renewal_alone }
    }

    /// Operations per second, if one takes each server of its keys this many µs.
    fn rate(self, micros: f64) -> f64 {
        self.shares * BUSY * 1e6 / micros
    }

    /// The most locks that can be kept, by each limit; the smallest comes first.
    fn limits(self, costs: &Costs) -> [(f64, &'static str); 3] {
        let renewals = TTL / 3.0;
        let mut limits = [
            (self.rate(self.renewal(costs)) * renewals, "processor"),
            (self.shares * BUSY * MEMORY / costs.held, "memory"),
            (self.shares * BUSY * NETWORK / costs.renewal_bytes * renewals, "network"),
        ];
        limits.sort_by(|one, other| one.0.total_cmp(&other.0));
        limits
    }
}

/// The page; `None` if no server was measured.
pub fn page(figures: &[Figure], machine: &Machine) -> Option<String> {
    let mut servers: Vec<&str> = Vec::new();
    for figure in figures {
        let [workload, backend, ..] = figure.parts();
        if workload == "capacity" && !servers.contains(&backend) {
            servers.push(backend);
        }
    }
    let all: Vec<_> = servers.into_iter().filter_map(|server| Costs::of(server, figures)).collect();
    if all.is_empty() {
        return None;
    }
    let mut text = String::from(HEAD);
    let Machine { processor, threads, kernel } = machine;
    let _ = writeln!(
        text,
        "Measured on {processor}, {threads} threads, Linux {kernel}, servers on loopback, without TLS, replicas or an append-only file.\n"
    );
    constants(&mut text, &all);
    holds(&mut text, &all);
    hand_offs(&mut text, &all);
    text += TAIL;
    Some(text)
}

fn row(text: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "| {first} |");
    for cell in cells {
        let _ = write!(text, " {cell} |");
    }
    text.push('\n');
}

fn head(text: &mut String, first: &str, columns: &[&str]) {
    row(text, first, columns.iter().map(|&column| column.to_owned()));
    let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
}

fn constants(text: &mut String, all: &[Costs]) {
    text.push_str(CONSTANTS);
    let names: Vec<_> = all.iter().map(|costs| costs.server.as_str()).collect();
    head(text, "", &names);
    let rows: [(&str, Cost, &str); 11] = [
        ("memory of a held lock, its fence included", |costs| costs.held, "B"),
        ("memory of a waiter", |costs| costs.waiter, "B"),
        ("processor of a pair, alone", |costs| costs.pair_alone, "µs"),
        ("processor of a pair, 64 tasks on one connection", |costs| costs.pair_together, "µs"),
        ("processor of a renewal, alone", |costs| costs.renewal_alone, "µs"),
        ("processor of a renewal, in a keeper's batches", |costs| costs.renewal_together, "µs"),
        ("processor of a hand-off: a request that waits, a release, a push", |costs| costs.hand_off, "µs"),
        ("on the wire for a pair, both ways", |costs| costs.pair_bytes, "B"),
        ("on the wire for a renewal, both ways", |costs| costs.renewal_bytes, "B"),
        ("processor of a pair at each member of a quorum", |costs| costs.member_pair, "µs"),
        ("processor of a renewal at each member of a quorum", |costs| costs.member_renewal, "µs"),
    ];
    for (what, of, unit) in rows {
        row(text, what, all.iter().map(|costs| format!("{} {unit}", shown(of(costs)))));
    }
    text.push('\n');
}

fn holds(text: &mut String, all: &[Costs]) {
    text.push_str(HOLDS);
    for costs in all {
        let _ = writeln!(text, "### {}\n", costs.server);
        let columns: Vec<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
        head(text, "", &columns);
        let next = |layout: Layout| {
            let (locks, what) = layout.limits(costs)[1];
            format!("{what}, {}", thousands(locks))
        };
        let rows: [(&str, &dyn Fn(Layout) -> String); 7] = [
            ("pairs a second", &|layout| thousands(layout.rate(layout.pair(costs)))),
            ("renewals a second", &|layout| thousands(layout.rate(layout.renewal(costs)))),
            ("locks kept at a ttl of 30 s", &|layout| thousands(layout.limits(costs)[0].0)),
            ("what breaks first", &|layout| layout.limits(costs)[0].1.to_owned()),
            ("what would break next, and at how many locks", &next),
            ("locks held by each GiB of a server", &|layout| thousands(layout.shares * GIB / costs.held)),
            ("waiters by each GiB of a server", &|layout| thousands(layout.shares * GIB / costs.waiter)),
        ];
        for (what, of) in rows {
            row(text, what, LAYOUTS.map(of).into_iter());
        }
        text.push('\n');
    }
}

/// Typical round trips in µs: in one rack, in one region, between regions.
const ROUND_TRIPS: [(&str, f64); 4] =
    [("0.1 ms", 100.0), ("0.5 ms", 500.0), ("1 ms", 1_000.0), ("30 ms", 30_000.0)];

fn hand_offs(text: &mut String, all: &[Costs]) {
    text.push_str(HAND_OFFS);
    let names: Vec<_> = all.iter().map(|costs| costs.server.as_str()).collect();
    head(text, "round trip", &names);
    for (name, trip) in ROUND_TRIPS {
        row(text, name, all.iter().map(|costs| thousands(1e6 / (trip + costs.hand_off))));
    }
    row(
        text,
        "all keys of a server together",
        all.iter().map(|costs| thousands(BUSY * 1e6 / costs.hand_off)),
    );
    text.push('\n');
}

/// Two significant digits, in words: more would promise too much.
fn thousands(value: f64) -> String {
    let two_digits = |value: f64| if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    if value >= 1e6 {
        format!("{} M", two_digits(value / 1e6))
    } else if value >= 1e3 {
        format!("{} k", two_digits(value / 1e3))
    } else {
        two_digits(value)
    }
}

const HEAD: &str = "\
# How many locks a server holds

This page says how many servers you need, and what reaches its limit first. The cost of a lock on a
server was measured; everything else is calculated from it, by the formulas at the end. Other
machines are faster or slower: `cargo xtask bench capacity` measures yours.

`cargo xtask bench --write` generates this page. To change it, change `proving/bench/src/sizing.rs`
and the workload `capacity`.

";

const CONSTANTS: &str = "\
## What one lock costs a server

A *pair* is one acquisition and one release. *Alone* means that each of 16 clients sends one command
at a time, in its own packet: most of the cost is the server's reading and writing. The rest of this
page uses these figures, the worse case; clients with many locks send several commands in one packet.

";

const HOLDS: &str = "\
## How many locks

The figures assume 70 % of the server's one thread, 4 GiB of memory, and a network of 1 Gbit/s. A
cluster divides the keys, so its capacity grows with the number of its masters, unless one key is in
more demand than all others together. Each member of a quorum does all of the work. A request to
five members waits for the third answer, so the capacity of the quorum is that of its third fastest
member. A quorum lets a minority of its servers fail; it makes nothing faster. The figures are for
pairs alone or renewals alone; if you have both, add their shares.

";

const HAND_OFFS: &str = "\
## Hand-overs of one key per second

The releasing process is one network latency away from the server, and the next holder is another.
So a key that is always wanted, and is released as soon as it is acquired, changes hands once per
round trip. More servers do not make a single key faster; only a shorter distance does, or holding
it less often. In a cluster each hand-over also notifies all other nodes, with some 2 kB each
([wire.md](wire.md)).

";

const TAIL: &str = "\
## The formulas

- Busy: requests per second × processor time of each. Each lock that is kept causes 3 ÷ TTL renewals
  per second.
- Locks kept: the least of 70 % of the processor ÷ (renewals × processor time), of the memory ÷
  memory of a lock, and of the network ÷ (renewals × bytes).
- Not included: forks for a snapshot, which may double the memory in use; replicas, each of which
  adds all writes to the network; TLS; `appendfsync always`, which adds a disk's time to each turn
  of the server's loop.
";

#[cfg(test)]
mod tests;
