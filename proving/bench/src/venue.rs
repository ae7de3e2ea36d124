//! The stores in which locks are measured.

use std::fmt;

use servers::{Flavor, Reply, Server};
use tempfile::TempDir;

use crate::tap::Tap;

/// Every venue, by the name that is typed.
pub const ALL: [Venue; 6] = [
    Venue { kind: Kind::Memory, name: "memory" },
    Venue { kind: Kind::File, name: "file" },
    Venue { kind: Kind::Redis(Flavor::Redis62), name: "redis-6.2" },
    Venue { kind: Kind::Redis(Flavor::Redis70), name: "redis-7.0" },
    Venue { kind: Kind::Redis(Flavor::Redis82), name: "redis-8.2" },
    Venue { kind: Kind::Redis(Flavor::Valkey91), name: "valkey-9.1" },
];

/// A kind of store, and for a server which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Venue {
    kind: Kind,
    name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    File,
    Redis(Flavor),
}

impl Venue {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|venue| venue.name == name)
    }

    /// What is typed for it, and stands in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether several processes can share it.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !matches!(self.kind, Kind::Memory)
    }

    /// The server that it runs on.
    #[must_use]
    pub const fn flavor(self) -> Option<Flavor> {
        if let Kind::Redis(flavor) = self.kind { Some(flavor) } else { None }
    }

    /// Whether it is the file store.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self.kind, Kind::File)
    }

    /// Makes it ready, empty.
    ///
    /// # Panics
    ///
    /// When the server cannot be had, with the remedy; or there is no room for the file.
    #[must_use]
    pub fn open(self) -> Site {
        let (mut server, mut directory) = (None, None);
        let url = match self.kind {
            Kind::Memory => "memory:".to_owned(),
            Kind::File => {
                let made = TempDir::with_prefix("leasehold-bench-").expect("a directory for the file");
                let url = format!("file:{}", made.path().join("leases.db").display());
                directory = Some(made);
                url
            }
            Kind::Redis(flavor) => {
                let started = Server::start(flavor);
                let url = started.url();
                server = Some(started);
                url
            }
        };
        let tap = server.as_ref().map(|server| Tap::before(server.port()));
        Site { venue: self, url, server, tap, directory }
    }
}

impl fmt::Display for Venue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A venue that is ready. What it started is gone with it.
#[derive(Debug)]
pub struct Site {
    /// What it is.
    pub venue: Venue,
    /// Its URL.
    pub url: String,
    tap: Option<Tap>,
    server: Option<Server>,
    directory: Option<TempDir>,
}

impl Site {
    /// Its URL, by a way on which commands are counted where there is a wire.
    #[must_use]
    pub fn counted_url(&self) -> String {
        self.tap.as_ref().map_or_else(|| self.url.clone(), |tap| format!("redis://127.0.0.1:{}", tap.port()))
    }

    /// How many commands went that way so far. `None` where there is no wire.
    #[must_use]
    pub fn commands(&self) -> Option<u64> {
        self.tap.as_ref().map(Tap::commands)
    }

    /// The server, where there is one.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The directory of the file, where there is one.
    #[must_use]
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.directory.as_ref().map(TempDir::path)
    }

    /// What the server says of the scripts that it ran: how often, and for how many µs in all. `None` where there is no server.
    #[must_use]
    pub fn scripts(&self) -> Option<ScriptTime> {
        let reply = self.server.as_ref()?.text(&["INFO", "commandstats"]);
        Some(ScriptTime::of(bulk(&reply)))
    }
}

fn bulk(reply: &Reply) -> &str {
    reply.as_text().unwrap_or_default()
}

/// How often scripts ran, and for how many µs in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptTime {
    /// How often.
    pub calls: u64,
    /// For how long in all.
    pub micros: u64,
}

impl ScriptTime {
    /// Out of `INFO commandstats`. What a script calls is in its own time, and is not added.
    fn of(info: &str) -> Self {
        let mut sum = Self::default();
        for line in info.lines() {
            let Some((name, fields)) = line.trim().split_once(':') else { continue };
            if !["cmdstat_evalsha", "cmdstat_eval"].contains(&name) {
                continue;
            }
            for field in fields.split(',') {
                match field.split_once('=') {
                    Some(("calls", calls)) => sum.calls += calls.parse().unwrap_or(0),
                    Some(("usec", micros)) => sum.micros += micros.parse().unwrap_or(0),
                    _ => {}
                }
            }
        }
        sum
    }

    /// µs per script since an earlier look; NaN when none ran.
    #[must_use]
    pub fn per_call_since(self, earlier: Self) -> f64 {
        (self.micros - earlier.micros) as f64 / (self.calls - earlier.calls) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_scripts_is_read_and_that_of_what_they_call_is_not() {
        let info = "# Commandstats\r\ncmdstat_get:calls=9,usec=70,usec_per_call=7.77\r\n\
                    cmdstat_evalsha:calls=4,usec=40,usec_per_call=10.00,rejected_calls=0\r\n\
                    cmdstat_eval:calls=1,usec=60,usec_per_call=60.00\r\n";
        let sum = ScriptTime::of(info);
        assert_eq!(sum, ScriptTime { calls: 5, micros: 100 });
        let earlier = ScriptTime { calls: 1, micros: 60 };
        assert!((sum.per_call_since(earlier) - 10.0).abs() < 1e-12);
    }

    #[test]
    fn every_venue_is_found_by_its_name_and_no_other_is() {
        for venue in ALL {
            assert_eq!(Venue::named(venue.name()), Some(venue));
        }
        assert_eq!(Venue::named("redis"), None);
    }
}
