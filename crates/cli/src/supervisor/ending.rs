//! Decides when the command must be asked to end, and when it must be killed. Pure: the time is an
//! argument, in nanoseconds of the lease clock.

use super::messages::Order;

#[derive(Clone, Debug)]
pub(super) struct Ending {
    /// The command must be gone by this time.
    end: u64,
    /// The time from asking to killing.
    grace: u64,
    /// Set once the command has to end. That is not taken back, and can only become earlier.
    kill_at: Option<u64>,
    to_ask: bool,
    doomed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before this time.
    Rest(u64),
    /// Ask all processes to end, once.
    Ask,
    Kill,
}

impl Ending {
    pub(super) const fn new(end: u64, grace: u64) -> Self {
        Self { end, grace, kill_at: None, to_ask: false, doomed: false }
    }

    pub(super) fn handle(&mut self, now: u64, order: Order) {
        match order {
            Order::End(end) if self.kill_at.is_none() => self.end = end,
            // A deleted lock may already have another holder, and will have one by the lease's end.
            Order::Lost if self.kill_at.is_none() => self.doom(now.saturating_add(self.grace).min(self.end)),
            Order::Kill => self.kill_at = Some(0),
            Order::End(_)
            | Order::Lost
            | Order::Signal(_)
            | Order::Stop
            | Order::Suspend(_)
            | Order::Continue(_) => {}
        }
    }

    /// Handles the end of the connection: nobody will report the lease's end any more.
    pub(super) const fn handle_closed(&mut self) {
        self.doomed = true;
        self.kill_at = Some(0);
    }

    pub(super) fn next(&mut self, now: u64) -> Step {
        let ask_at = self.end.saturating_sub(self.grace);
        if self.kill_at.is_none() && now >= ask_at {
            self.doom(self.end);
        }
        match self.kill_at {
            Some(kill_at) if now >= kill_at => Step::Kill,
            Some(_) if self.to_ask => {
                self.to_ask = false;
                Step::Ask
            }
            Some(kill_at) => Step::Rest(kill_at),
            None => Step::Rest(ask_at),
        }
    }

    /// Returns true if everything that the command left must end too.
    pub(super) const fn is_forced(&self) -> bool {
        self.kill_at.is_some()
    }

    pub(super) const fn is_doomed(&self) -> bool {
        self.doomed
    }

    const fn doom(&mut self, kill_at: u64) {
        self.doomed = true;
        self.to_ask = true;
        self.kill_at = Some(kill_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_asked_a_grace_before_the_end_and_killed_at_the_end() {
        let mut ending = Ending::new(100, 30);
        assert_eq!(ending.next(0), Step::Rest(70));
        assert!(!ending.is_forced());
        assert_eq!(ending.next(70), Step::Ask);
        assert_eq!(ending.next(70), Step::Rest(100));
        assert_eq!(ending.next(100), Step::Kill);
        assert!(ending.is_doomed() && ending.is_forced());
    }

    #[test]
    fn a_renewal_moves_the_end_but_not_once_the_command_was_asked() {
        let mut ending = Ending::new(100, 30);
        ending.handle(50, Order::End(150));
        assert_eq!(ending.next(100), Step::Rest(120));
        assert_eq!(ending.next(120), Step::Ask);
        ending.handle(130, Order::End(200));
        assert_eq!(ending.next(150), Step::Kill);
    }

    #[test]
    fn a_loss_without_notice_gives_the_grace_but_never_more_than_the_lease() {
        for (now, kill_at) in [(10, 40), (65, 95), (69, 99)] {
            let mut ending = Ending::new(100, 30);
            ending.handle(now, Order::Lost);
            assert_eq!(ending.next(now), Step::Ask);
            assert_eq!(ending.next(now), Step::Rest(kill_at));
            assert_eq!(ending.next(kill_at), Step::Kill);
        }
        let mut late = Ending::new(100, 30);
        late.handle(90, Order::Lost);
        assert_eq!(late.next(90), Step::Ask);
        assert_eq!(late.next(91), Step::Rest(100));
    }

    #[test]
    fn an_end_that_nobody_saw_coming_a_silence_and_an_order_kill_at_once() {
        assert_eq!(Ending::new(100, 30).next(101), Step::Kill);
        let mut left = Ending::new(100, 30);
        left.handle_closed();
        assert_eq!(left.next(0), Step::Kill);
        assert!(left.is_doomed());
        let mut ordered = Ending::new(100, 30);
        ordered.handle(5, Order::Kill);
        assert_eq!(ordered.next(5), Step::Kill);
        // Pressing Ctrl-C twice is not the loss of a lease.
        assert!(ordered.is_forced() && !ordered.is_doomed());
    }
}
