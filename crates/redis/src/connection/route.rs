//! The connection of one request.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::ConnectionId;
use redis::aio::ConnectionLike;

use super::link::{Endpoint, Live};
use crate::redirect::Redirect;

pub(crate) type BoxConnection = Box<dyn ConnectionLike + Send + Sync>;

/// The connection of a call.
pub(crate) struct Route {
    connection: Option<BoxConnection>,
    /// How long an answer may take.
    pub(crate) limit: Duration,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) live: Option<Arc<Live>>,
    /// True if a node of a cluster is asked for keys of a slot that it does not own yet.
    pub(crate) asks: bool,
    /// Redirects that a node of a cluster returned instead of answers, by the number of the call.
    pub(crate) redirects: Vec<(usize, Redirect)>,
}

impl Route {
    pub(crate) fn on(live: Arc<Live>, limit: Duration) -> Self {
        let endpoint = Arc::clone(&live.endpoint);
        Self { connection: None, limit, endpoint, live: Some(live), asks: false, redirects: Vec::new() }
    }

    pub(crate) const fn on_lent(connection: BoxConnection, limit: Duration, endpoint: Arc<Endpoint>) -> Self {
        Self { connection: Some(connection), limit, endpoint, live: None, asks: false, redirects: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut (dyn ConnectionLike + Send + Sync) {
        let live = &self.live;
        let ours = || -> BoxConnection {
            let live = live.as_ref().unwrap_or_else(|| unreachable!("what was lent is there"));
            Box::new(live.connection.clone())
        };
        &mut **self.connection.get_or_insert_with(ours)
    }

    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.live.as_ref().map(|live| live.id)
    }
}
