//! The state of the master as each sentinel sees it, for a diagnosis.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Fault;
use redis::{Value, cmd};

use super::Sentinels;
use super::asking::fields_of;
use crate::address::server::{SENTINEL_PORT as PORT, ServerAddr};

/// Nobody waits for a lock meanwhile.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct SentinelReport {
    pub(crate) at: Arc<str>,
    pub(crate) host: String,
    pub(crate) says: Result<State, Fault>,
    /// Why it reports no failover to us.
    pub(crate) unheard: Option<Fault>,
}

/// The sentinel's view of the master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The master's address in its view.
    pub(crate) master: String,
    /// The number of other sentinels that it knows.
    pub(crate) others: u64,
    /// The number of sentinels that must agree that the master is down.
    pub(crate) quorum: u64,
    /// How long a master must be silent to count as down.
    pub(crate) down_after: Duration,
}

impl Sentinels {
    /// The name under which the sentinels know the master.
    pub(crate) fn master(&self) -> &str {
        &self.master
    }

    /// Asks one after the other: a few requests, seldom sent.
    pub(crate) async fn reports(&self) -> Vec<SentinelReport> {
        let mut reports = Vec::new();
        for (nth, addr) in self.addrs.iter().enumerate() {
            let asking = self.speak(addr, ANSWERS_WITHIN, |mut connection| async move {
                let master = cmd("SENTINEL").arg("MASTER").arg(&self.master).take();
                self.answer_to(master, &mut connection).await
            });
            let strange = || self.faults.lasting("its answer says nothing of a master: is this a sentinel?");
            let says = asking.await.and_then(|answer| state_of(&answer).ok_or_else(strange));
            let listening = self.runtime.within(ANSWERS_WITHIN, self.listen(nth)).await;
            let unheard = listening.and_then(Result::err).filter(Fault::is_lasting);
            reports.push(SentinelReport {
                at: addr.written(PORT).into(),
                host: host_of(addr),
                says,
                unheard,
            });
        }
        reports
    }
}

/// The same for all sentinels of a machine.
fn host_of(addr: &ServerAddr) -> String {
    match addr {
        ServerAddr::Tcp { host, .. } => host.clone(),
        ServerAddr::Unix { .. } => addr.written(PORT),
    }
}

fn state_of(answer: &Value) -> Option<State> {
    let fields = fields_of(answer)?;
    let text = |name: &str| fields.get(name).map(|text| String::from_utf8_lossy(text));
    let number = |name| text(name)?.parse().ok();
    Some(State {
        master: format!("{}:{}", text("ip")?, text("port")?),
        others: number("num-other-sentinels")?,
        quorum: number("quorum")?,
        down_after: Duration::from_millis(number("down-after-milliseconds")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the default port is not written, so `[fd00::1]` and `[fd00::2]` were both taken
    /// for the host `[fd00:`, and the doctor warned that all sentinels are on one machine.
    #[test]
    fn sentinels_at_different_addresses_are_on_different_hosts() {
        let addrs = ServerAddr::several("[fd00::1],[fd00::2],[fd00::2]:7,a,a:7", PORT).unwrap();
        let hosts: Vec<_> = addrs.iter().map(host_of).collect();
        assert_eq!(hosts, ["fd00::1", "fd00::2", "fd00::2", "a", "a"]);
    }
}
