//! The topologies: what decides which server to connect to.

pub(crate) mod cluster;
pub(crate) mod sentinel;

use std::sync::Arc;

use leasehold_core::{Fault, Runtime};

pub(crate) use sentinel::Sentinels;

use crate::address::access::Access;
use crate::address::server::ServerAddr;
use crate::connection::connect::{Connected, Connector};
use crate::connection::subscription::OnPush;
use crate::fault::Faults;

/// Connects to the server that is the right one at the time.
#[derive(Debug)]
pub(crate) struct Topology {
    place: Place,
    pub(crate) connector: Connector,
}

/// The source of a server's address before each connection.
#[derive(Debug)]
pub(crate) enum Place {
    Single(ServerAddr),
    Sentinels(Box<Sentinels>),
}

impl Topology {
    pub(crate) fn new(place: Place, access: Access, faults: Faults, runtime: Arc<dyn Runtime>) -> Self {
        let minds_roles = matches!(place, Place::Sentinels(_));
        Self { place, connector: Connector::new(minds_roles, access, faults, runtime) }
    }

    pub(crate) async fn connect(&self, tell: &OnPush) -> Result<Connected, Fault> {
        match &self.place {
            Place::Single(addr) => self.connector.connect_to(addr, tell).await,
            Place::Sentinels(sentinels) => sentinels.lead(&self.connector, tell).await,
        }
    }

    /// Resolves when the sentinels name another server than this one.
    pub(crate) async fn moved_from(self: Arc<Self>, addr: ServerAddr) {
        let Some(sentinels) = self.sentinels() else { return std::future::pending().await };
        sentinels.moved_from(&addr, &self.connector).await;
    }

    /// The sentinels that name the server, if there are any.
    pub(crate) const fn sentinels(&self) -> Option<&Sentinels> {
        match &self.place {
            Place::Sentinels(sentinels) => Some(sentinels),
            Place::Single(_) => None,
        }
    }
}
