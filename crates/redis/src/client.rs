//! Requests to one server, each a single try with a time limit, on one connection.

mod list;
mod remembered;
mod saying;

pub(crate) use self::list::scanned;
pub(crate) use self::remembered::{breaks_of, marks_of};
pub(crate) use self::saying::{Heard, Route, one, several};

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BreakAnswer, BreakNote, Fault, Fence, GrantAnswer, HoldAnswer, Instant, Key, KeyState,
    Mark, Marked, NoticeBus, Request, Runtime, Ttl, Unsettled, Wait, WaiterRegistry,
};
use redis::aio::ConnectionLike;
use redis::cmd;

use crate::batch::Batches;
use crate::clock::{Reading, ServerClock};
use crate::confirm::Confirmation;
use crate::connect::Connector;
use crate::contended::Contended;
use crate::deadline::within;
use crate::fault::Faults;
use crate::hearing::Hearing;
use crate::lent::Lend;
use crate::link::Link;
use crate::member::Run;
use crate::script::{self, Reply, break_call, call_for, decode};
use crate::topology::cluster::Cluster;

/// The client of one store.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) faults: Faults,
    pub(crate) source: Source,
    pub(crate) call_limit: Duration,
    pub(crate) unsettled: Arc<Unsettled>,
    pub(crate) waiting: Arc<WaiterRegistry>,
    pub(crate) notice_bus: Arc<NoticeBus>,
    /// Whether a task monitors the connection for the waiters.
    pub(crate) tended: AtomicBool,
    /// The keys for which batches would only redirect to the script of a single request.
    pub(crate) contended: Contended,
    /// Whether the server, as a member of a quorum, abstains after it may have forgotten leases.
    pub(crate) quarantine: bool,
    /// The confirmation that a write needs before it counts.
    pub(crate) confirmation: Option<Confirmation>,
    /// The run of the server that was reached last, if a quorum asked for it.
    pub(crate) identity: Mutex<Option<Arc<str>>>,
    /// The cluster of this node, which knows where keys are when they have moved away.
    pub(crate) cluster: Option<Weak<Cluster>>,
    /// For its background tasks, which must not keep it alive.
    pub(crate) me: Weak<Self>,
}

/// The state that the nodes of a cluster share. A standalone server has its own.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) unsettled: Arc<Unsettled>,
    pub(crate) waiting: Arc<WaiterRegistry>,
    pub(crate) notice_bus: Arc<NoticeBus>,
    pub(crate) cluster: Option<Weak<Cluster>>,
}

/// Limits of a server's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) call_limit: Duration,
    pub(crate) quarantine: bool,
    pub(crate) confirmation: Option<Confirmation>,
}

impl Common {
    pub(crate) fn new(runtime: &dyn Runtime, cluster: Option<Weak<Cluster>>) -> Self {
        let seed = u64::try_from(runtime.random() >> 64).unwrap_or(0);
        Self {
            unsettled: Arc::default(),
            waiting: Arc::new(WaiterRegistry::new(seed)),
            notice_bus: Arc::default(),
            cluster,
        }
    }
}

/// The source of connections.
pub(crate) enum Source {
    /// Our own connection, which can be dropped and replaced.
    Ours(Link),
    /// The program's own connection, which may be a different one each time.
    Lent { lend: Box<dyn Lend>, clock: Arc<ServerClock>, batches: Arc<Batches> },
}

pub(crate) type BoxConnection = Box<dyn ConnectionLike + Send + Sync>;

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(link) => f.debug_tuple("Ours").field(link).finish(),
            Self::Lent { .. } => f.write_str("Lent"),
        }
    }
}

/// Connecting may take as long as this many calls. So the first connection to a distant server
/// fits, and a renewal of a short TTL is not delayed for longer than its lease.
pub(crate) const CALLS_TO_CONNECT: u32 = 5;

impl Client {
    pub(crate) fn new(
        source: impl FnOnce(&Weak<Self>) -> Source,
        faults: Faults,
        Bounds { call_limit, quarantine, confirmation }: Bounds,
        common: Common,
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        let Common { unsettled, waiting, notice_bus, cluster } = common;
        Arc::new_cyclic(|me| Self {
            source: source(me),
            runtime,
            faults,
            call_limit,
            unsettled,
            waiting,
            notice_bus,
            tended: AtomicBool::new(false),
            contended: Contended::default(),
            quarantine,
            confirmation,
            identity: Mutex::default(),
            cluster,
            me: me.clone(),
        })
    }

    /// A client with its own connection.
    pub(crate) fn over(
        connector: Connector,
        faults: Faults,
        bounds: Bounds,
        common: Common,
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        let (linked, said) = (Arc::clone(&runtime), faults.clone());
        let hearing = Hearing::new(Arc::clone(&common.notice_bus));
        let ours = |me: &Weak<Self>| {
            Source::Ours(Link::new(connector, said, linked, Self::tell(me.clone()), hearing))
        };
        Self::new(ours, faults, bounds, common, runtime)
    }

    /// Connects if necessary, and checks that scripts may be run.
    pub(crate) async fn open(&self) -> Result<(), Fault> {
        let mut route = self.route(self.call_limit).await?;
        let heard = self.call(&mut route, &script::opening_call(), self.call_limit).await?;
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        match script::time_of(&value) {
            Some(_) => Ok(()),
            None => Err(self.faults.lasting("the answer to a script is none: this is no Redis server")),
        }
    }

    /// Asks once for the keys of an attempt, and for a place in the queue if it waits.
    pub(crate) async fn ask(
        &self,
        attempt: &Attempt,
        wait: Option<Wait>,
        route: &mut Route,
        limit: Duration,
    ) -> Result<GrantAnswer, Fault> {
        let run = self.run(std::slice::from_ref(attempt), route, limit).await?;
        let reading = self.reading(route, limit).await?;
        let sent = self.runtime.now();
        let not_after = reading.latest(sent) + limit;
        let request = Request::Grant { attempt: attempt.clone(), wait, not_after: Some(not_after) };
        let settles_at = reading.surely_past(not_after);
        // From here on the grant is in doubt, even if this future is dropped.
        let sending = self.unsettled.sending(attempt.holder, route.id(), sent, settles_at);
        let heard = self.call(route, &self.call_for(&request, &run), limit).await?;
        self.unsettled.answered([sending]);
        if let Some(server) = heard.as_ref().ok().and_then(script::time_of_grant) {
            route.clock.note(Reading { sent, heard: self.runtime.now(), server });
        }
        match self.answer(&request, heard)? {
            Answer::Grant(answer) => {
                match &answer {
                    GrantAnswer::Granted { .. } => self.confirm(route, self.runtime.now()).await?,
                    // An attempt that finds others in the queue joins them; and a member of a
                    // quorum is also asked to release what it refused.
                    GrantAnswer::Busy { held_by, place } if place.is_some() || attempt.proposal.is_some() => {
                        self.contended.note(self.contended.digest(&held_by.key), self.runtime.now());
                    }
                    _ => {}
                }
                Ok(answer)
            }
            _ => unreachable!("a grant is answered as one"),
        }
    }

    /// One answer for each attempt, in one round trip.
    pub(crate) async fn renew(&self, attempts: &[Attempt]) -> Vec<Result<HoldAnswer, Fault>> {
        let Some(limit) = attempts.iter().map(|attempt| self.limit(attempt.ttl)).min() else {
            return Vec::new();
        };
        match self.route(limit).await {
            Ok(mut route) => self.renew_on(attempts, &mut route, limit).await,
            Err(fault) => vec![Err(fault); attempts.len()],
        }
    }

    pub(crate) async fn renew_on(
        &self,
        attempts: &[Attempt],
        route: &mut Route,
        limit: Duration,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let renewing = async {
            let run = self.run(attempts, route, limit).await?;
            let mut done = self.renew_in_batches(attempts, &run, route, limit).await?;
            // Redirected requests are asked elsewhere, and all others that batches left are served
            // by the script of a single request.
            let rest: Vec<_> = (0..attempts.len()).filter(|&nth| done[nth].is_none()).collect();
            self.renew_one_by_one(attempts, &rest, &run, &mut done, route, limit).await?;
            let answered = attempts.iter().zip(done).map(|(attempt, answer)| {
                let answer = answer.unwrap_or(Ok(HoldAnswer::Done));
                self.ask_again_after(attempt, &answer);
                answer
            });
            let mut answers: Vec<_> = answered.collect();
            self.confirm_held(route, &mut answers).await;
            Ok(answers)
        };
        match renewing.await {
            Ok(answers) => answers,
            Err(fault) => vec![Err(fault); attempts.len()],
        }
    }

    async fn renew_one_by_one(
        &self,
        attempts: &[Attempt],
        rest: &[usize],
        run: &Run,
        done: &mut [Option<Result<HoldAnswer, Fault>>],
        route: &mut Route,
        limit: Duration,
    ) -> Result<(), Fault> {
        if rest.is_empty() {
            return Ok(());
        }
        let requests: Vec<_> = rest.iter().map(|&nth| Request::Renew(attempts[nth].clone())).collect();
        let calls: Vec<_> = requests.iter().map(|request| self.call_for(request, run)).collect();
        let before = route.redirects.len();
        let heard = self.call_all(route, &calls, limit).await?;
        for (place, _) in &mut route.redirects[before..] {
            *place = rest[*place];
        }
        for ((nth, request), heard) in rest.iter().zip(&requests).zip(heard) {
            done[*nth] = Some(self.hold(request, heard));
        }
        Ok(())
    }

    pub(crate) async fn inspect(&self, key: &Key) -> Result<KeyState, Fault> {
        let mut route = self.route(self.call_limit).await?;
        self.inspect_on(key, &mut route).await
    }

    pub(crate) async fn inspect_on(&self, key: &Key, route: &mut Route) -> Result<KeyState, Fault> {
        let request = Request::Inspect(key.clone());
        match self.reply_to(&request, route, self.call_limit).await?.answer {
            Answer::Inspect(state) => Ok(state),
            _ => unreachable!("an inspection is answered as one"),
        }
    }

    /// A mark that comes late is written if the attempt still holds its keys; it was true when it
    /// was sent.
    pub(crate) async fn mark(
        &self,
        attempt: &Attempt,
        mark: &Mark,
        keep: Duration,
    ) -> Result<HoldAnswer, Fault> {
        let mut route = self.route(self.limit(attempt.ttl)).await?;
        self.mark_on(attempt, mark, keep, &mut route).await
    }

    pub(crate) async fn mark_on(
        &self,
        attempt: &Attempt,
        mark: &Mark,
        keep: Duration,
        route: &mut Route,
    ) -> Result<HoldAnswer, Fault> {
        let request = Request::Mark { attempt: attempt.clone(), mark: mark.clone(), keep };
        match self.reply_to(&request, route, self.limit(attempt.ttl)).await?.answer {
            Answer::Mark(answer) => Ok(answer),
            _ => unreachable!("a mark is answered as one"),
        }
    }

    pub(crate) async fn marked(&self, key: &Key) -> Result<Marked, Fault> {
        let mut route = self.route(self.call_limit).await?;
        self.marked_on(key, &mut route).await
    }

    pub(crate) async fn marked_on(&self, key: &Key, route: &mut Route) -> Result<Marked, Fault> {
        match self.reply_to(&Request::Marked(key.clone()), route, self.call_limit).await?.answer {
            Answer::Marked(marked) => Ok(marked),
            _ => unreachable!("it is answered as it is asked"),
        }
    }

    pub(crate) async fn break_lease(
        &self,
        key: &Key,
        fence: Fence,
        note: &BreakNote,
    ) -> Result<BreakAnswer, Fault> {
        let mut route = self.route(self.call_limit).await?;
        self.break_on(key, fence, note, &mut route).await
    }

    pub(crate) async fn break_on(
        &self,
        key: &Key,
        fence: Fence,
        note: &BreakNote,
        route: &mut Route,
    ) -> Result<BreakAnswer, Fault> {
        let request = Request::Break { key: key.clone(), fence, note: note.clone() };
        let said_at = self.channels().cloned().unwrap_or_default().broken();
        let call = break_call(key, fence, note, self.window(), &said_at);
        let heard = self.call(route, &call, self.call_limit).await?;
        match self.answer(&request, heard)? {
            Answer::Break(answer) => Ok(answer),
            _ => unreachable!("a break is answered as one"),
        }
    }

    pub(crate) async fn reply_to(
        &self,
        request: &Request,
        route: &mut Route,
        limit: Duration,
    ) -> Result<Reply, Fault> {
        let heard = self.call(route, &call_for(request, self.window()), limit).await?;
        self.reply(request, heard)
    }

    /// The time limit for an answer about a lease of this TTL.
    pub(crate) fn limit(&self, ttl: Ttl) -> Duration {
        limit_of(self.call_limit, ttl)
    }

    pub(crate) async fn route(&self, limit: Duration) -> Result<Route, Fault> {
        match &self.source {
            Source::Ours(link) => Ok(Route::on(link.live(limit * CALLS_TO_CONNECT).await?)),
            Source::Lent { lend, clock, .. } => {
                Ok(Route::on_lent(lend.connection(limit).await?, Arc::clone(clock)))
            }
        }
    }

    /// The server's clock, known more precisely than the limit of a call. If the uncertainty is
    /// greater (after some minutes without a grant, or at first on the program's own connection),
    /// the server is asked; otherwise giving up would take longer than calls do.
    pub(crate) async fn reading(&self, route: &mut Route, limit: Duration) -> Result<Reading, Fault> {
        let sent = self.runtime.now();
        if let Some(reading) = route.clock.reading().filter(|reading| reading.doubt(sent) <= limit) {
            return Ok(reading);
        }
        Box::pin(self.read_clock(route, sent, limit)).await
    }

    async fn read_clock(&self, route: &mut Route, sent: Instant, limit: Duration) -> Result<Reading, Fault> {
        let said = within(&*self.runtime, limit, one(route.connection(), &cmd("TIME"))).await;
        let value = self.heard(route, sent, said, limit)?.map_err(|error| self.faults.of_refusal(&error))?;
        let Some(server) = script::time_of(&value) else {
            return Err(self.faults.lasting("the answer to TIME is no time: this is no Redis server"));
        };
        let reading = Reading { sent, heard: self.runtime.now(), server };
        route.clock.note(reading);
        Ok(reading)
    }

    pub(crate) fn hold(&self, request: &Request, heard: Heard) -> Result<HoldAnswer, Fault> {
        match self.answer(request, heard)? {
            Answer::Renew(answer) | Answer::Rejoin(answer) | Answer::Release(answer) => Ok(answer),
            _ => unreachable!("renewals and releases are answered as such"),
        }
    }

    pub(crate) fn answer(&self, request: &Request, heard: Heard) -> Result<Answer, Fault> {
        let Reply { answer, unfinished } = self.reply(request, heard)?;
        if let Answer::Quarantined { left } = answer {
            return Err(self.faults.quarantined(left));
        }
        // A caller that is told that its own key is not handed over yet asks again at once.
        if !unfinished.is_empty() && answer != Answer::Grant(GrantAnswer::Unfinished) {
            self.advance_later(unfinished);
        }
        Ok(answer)
    }

    fn reply(&self, request: &Request, heard: Heard) -> Result<Reply, Fault> {
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        decode(request, value).map_err(|reason| self.faults.lasting(reason))
    }
}

/// Small compared with the TTL: a quarter of it, so that a renewal can be retried, but at least
/// what a slow network needs.
pub(crate) fn limit_of(call_limit: Duration, ttl: Ttl) -> Duration {
    call_limit.min((ttl.duration() / 4).max(Duration::from_millis(50)))
}
