//! The end of the lease, which only becomes later: we tell the supervisor by how much. This is not
//! an order, because orders queue up while the supervisor is stopped, and then it must know the
//! newest end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::kernel::take;

#[derive(Debug)]
pub(crate) struct LeaseEnd {
    /// When the command must be gone, in nanoseconds, as far as the supervisor knows.
    end: u64,
    /// By how much it became later since the supervisor read it.
    more: OwnedFd,
}

impl LeaseEnd {
    pub(crate) const fn new(end: u64, more: OwnedFd) -> Self {
        Self { end, more }
    }

    /// Tells the supervisor. If that fails, the next call does.
    pub(crate) fn extend_to(&mut self, end: u64) {
        let more = end.saturating_sub(self.end);
        if more > 0 && rustix::io::write(&self.more, &more.to_ne_bytes()).is_ok() {
            self.end = end;
        }
    }

    /// What we told the supervisor last.
    pub(super) fn read(&mut self) -> u64 {
        self.end = self.end.saturating_add(take(&self.more));
        self.end
    }
}

impl AsFd for LeaseEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.more.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::counter;
    use super::*;

    #[test]
    fn the_newest_end_is_read_however_many_came_before_and_an_earlier_one_changes_nothing() {
        let (ours, theirs) = counter().unwrap();
        let (mut told, mut read) = (LeaseEnd::new(5, ours), LeaseEnd::new(5, theirs));
        assert_eq!(read.read(), 5);
        (0..100_000).for_each(|end| told.extend_to(end));
        assert_eq!(read.read(), 99_999);
        told.extend_to(7);
        assert_eq!(read.read(), 99_999);
        told.extend_to(u64::MAX);
        assert_eq!((read.read(), read.read()), (u64::MAX, u64::MAX));
    }
}
