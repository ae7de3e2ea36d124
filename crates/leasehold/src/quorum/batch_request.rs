//! What an attempt asks of several members, and the time that it waits for its batch.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Batched, Fence};

use super::member::End;

/// Who makes a request, and learns how it goes.
pub(super) trait Asker: Send + Sync {
    /// Returns true if the answers are still of use.
    fn is_wanted(&self) -> bool;

    /// Notes how the request goes at a member, which knows the attempt as `there`.
    fn goes(self: Arc<Self>, there: &Attempt, member: usize, end: End<Done>);
}

/// What a member has done of a request in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Granted(Fence),
    Released,
    /// Nothing: the member has to be asked for this request alone.
    Nothing,
}

/// The same request of one attempt to several members.
pub(super) struct Request {
    pub(super) asker: Arc<dyn Asker>,
    /// The attempt as all these members know it.
    pub(super) there: Attempt,
    pub(super) members: Vec<usize>,
    /// True for a grant, false for a release.
    pub(super) is_grant: bool,
}

impl Request {
    pub(super) fn goes(&self, member: usize, end: End<Done>) {
        self.asker.clone().goes(&self.there, member, end);
    }
}

/// A request that waits for its batch. If it is dropped there, it is never sent.
pub(super) struct Waiting {
    pub(super) key: u64,
    pub(super) limit: Duration,
    /// Taken when it is sent.
    pub(super) request: Option<Request>,
}

impl Batched for Waiting {
    fn key(&self) -> u64 {
        self.key
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn is_wanted(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.asker.is_wanted())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        request.members.iter().for_each(|member| request.goes(*member, End::Dropped));
    }
}
