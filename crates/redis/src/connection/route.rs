//! The connection of one request.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::ConnectionId;
use redis::aio::{ConnectionLike, MultiplexedConnection};

use super::link::{Endpoint, Live};
use crate::redirect::Redirect;

pub(crate) type BoxConnection = Box<dyn ConnectionLike + Send + Sync>;

/// The connection of a call.
pub(crate) struct Route {
    connection: Connection,
    /// How long an answer may take.
    pub(crate) limit: Duration,
    pub(crate) endpoint: Arc<Endpoint>,
    /// True if a node of a cluster is asked for keys of a slot that it does not own yet.
    pub(crate) asks: bool,
    /// Redirects that a node of a cluster returned instead of answers, by the number of the call.
    pub(crate) redirects: Vec<(usize, Redirect)>,
}

enum Connection {
    /// Our own connection, and the clone of it that this route uses.
    Ours(Arc<Live>, Option<MultiplexedConnection>),
    /// The program's own connection.
    Lent(BoxConnection),
}

impl Route {
    pub(crate) fn on(live: Arc<Live>, limit: Duration) -> Self {
        let endpoint = Arc::clone(&live.endpoint);
        Self::over(Connection::Ours(live, None), limit, endpoint)
    }

    pub(crate) const fn on_lent(connection: BoxConnection, limit: Duration, endpoint: Arc<Endpoint>) -> Self {
        Self::over(Connection::Lent(connection), limit, endpoint)
    }

    const fn over(connection: Connection, limit: Duration, endpoint: Arc<Endpoint>) -> Self {
        Self { connection, limit, endpoint, asks: false, redirects: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut (dyn ConnectionLike + Send + Sync) {
        match &mut self.connection {
            Connection::Ours(live, cloned) => cloned.get_or_insert_with(|| live.connection.clone()),
            Connection::Lent(lent) => &mut **lent,
        }
    }

    /// `None` for the program's own connection.
    pub(crate) const fn live(&self) -> Option<&Arc<Live>> {
        match &self.connection {
            Connection::Ours(live, _) => Some(live),
            Connection::Lent(_) => None,
        }
    }

    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.live().map(|live| live.id)
    }
}
