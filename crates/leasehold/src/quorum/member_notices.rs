//! The notices of a quorum: what its members report, and that members are down.

use std::sync::Arc;
use std::task::Poll;

use leasehold_core::{BoxFuture, Holder, Notice, Notices};

use super::state::QuorumState;

/// The members' notices that concern all of them, and reports of members that are down.
#[derive(Debug)]
pub(super) struct MemberNotices {
    quorum: Arc<QuorumState>,
    health: Box<dyn Notices>,
    members: Vec<(usize, Box<dyn Notices>)>,
}

impl MemberNotices {
    pub(super) fn of(quorum: &Arc<QuorumState>) -> Self {
        let health = quorum.health.read();
        let members = quorum.members.iter().enumerate();
        let members = members.filter_map(|(n, member)| Some((n, member.store.notices()?))).collect();
        Self { quorum: quorum.clone(), health, members }
    }
}

impl Notices for MemberNotices {
    fn next(&mut self) -> BoxFuture<'_, Notice> {
        let Self { quorum, health, members } = self;
        Box::pin(std::future::poll_fn(move |context| {
            if let Poll::Ready(notice) = health.next().as_mut().poll(context) {
                return Poll::Ready(notice);
            }
            for (member, notices) in &mut *members {
                while let Poll::Ready(notice) = notices.next().as_mut().poll(context) {
                    match notice {
                        Notice::Broken { holder } => {
                            if let Some(holder) = quorum.broken_at(*member, holder) {
                                return Poll::Ready(Notice::Broken { holder });
                            }
                        }
                        notice => return Poll::Ready(notice),
                    }
                }
            }
            Poll::Pending
        }))
    }
}

impl QuorumState {
    /// Handles a message that a member broke the lease with this id. Returns the attempt whose
    /// lease is lost if the message is true, because no majority can keep it any more. The holder
    /// then asks the members, and relies on their answer.
    fn broken_at(&self, member: usize, id: Holder) -> Option<Holder> {
        let shared = self.attempts.find(id)?;
        shared.machine().handle_broken(member, id).then_some(shared.holder)
    }
}
