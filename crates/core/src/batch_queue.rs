//! Batches: decides which requests are sent together, and when.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{BoxFuture, Runtime, locked};

/// The most requests in one batch, which takes a server about 0.1 ms. Others wait meanwhile.
pub const MOST_IN_BATCH: usize = 64;

/// A request that can wait in a queue.
pub trait Batched: Send + 'static {
    /// Equal for requests of the same key. These keep their order, and share no batch.
    fn key(&self) -> u64;

    /// The time limit of an answer. A batch has one deadline, so its requests share a limit.
    fn limit(&self) -> Duration;

    /// Returns true if somebody still waits for the answer.
    fn is_wanted(&self) -> bool;
}

/// Sends batches.
pub trait SendBatch<R>: Send + Unpin + 'static {
    /// The most batches in flight. With three, the server seldom waits for this process: one batch
    /// is served, the next one travels, and the answers to another are handled.
    const MOST_IN_FLIGHT: usize = 3;

    /// A larger batch takes at most half of the requests that wait or are in flight. The server
    /// then serves one half while this process handles the answers to the other.
    const UNDIVIDED: usize = 1;

    /// Sends a batch, and gives each request its answer. Nothing is sent before the first poll;
    /// when that returns, the whole batch is on its way behind everything that was sent before.
    /// Resolves when there is room for another batch.
    fn send(&self, batch: Vec<R>) -> BoxFuture<'static, ()>;

    /// True for each request that a batch may still serve, after what was learned while it waited.
    fn serves(&self) -> impl Fn(&R) -> bool {
        |_| true
    }

    /// Answers a request that no batch serves any more, or that nobody waits for.
    fn decline(&self, request: R) {
        drop(request);
    }
}

/// Requests that wait to be sent together.
///
/// A request is sent at once, from its caller's task, if nothing is in flight. Otherwise it is sent
/// with other waiting requests when an answer arrives; there is no timer. If many requests wait, each
/// batch takes half of them.
///
/// If several batches are answered at once, the answers to one are handled at a time, and the
/// requests that follow from them are sent before the next. Otherwise a server that answers two
/// batches together would get the next two together as well, and wait in between, again and again.
pub struct BatchQueue<R>(Arc<Mutex<State<R>>>);

struct State<R> {
    waiting: VecDeque<R>,
    sender: Sender,
    /// How many callers have sent their own request.
    callers: u64,
}

/// The sender of the waiting requests.
enum Sender {
    /// Nobody: nothing waits and nothing is in flight.
    Nobody,
    /// A caller, by its number, has sent its own request, and nothing waits. The batch is kept here
    /// and not with the caller, so that the next one can take it over: a caller that is not polled
    /// delays nobody. From then on the caller waits for its answer alone, so it is woken.
    Caller { number: u64, batch: BoxFuture<'static, ()>, waker: Waker },
    /// A task, which is woken if a request waits and there is room.
    Task { has_room: bool, waker: Option<Waker> },
}

impl<R: Batched> BatchQueue<R> {
    /// Adds a request to the queue. The returned future resolves to what `answer` resolves to, and
    /// must be polled until then: it may be the one that sends the request. A request that nobody
    /// is left to send is dropped. `sender` is not called if a task sends the requests already.
    ///
    /// Cancel safe: a request that is dropped before its batch is sent is not sent, if
    /// [`Batched::is_wanted`] then says so.
    pub fn ask<A: Future + Unpin, S: SendBatch<R>>(
        &self,
        request: R,
        answer: A,
        sender: impl FnOnce() -> S,
        runtime: &dyn Runtime,
    ) -> AskedInBatch<R, A> {
        let mut state = locked(&self.0);
        let mut number = None;
        match mem::replace(&mut state.sender, Sender::Nobody) {
            Sender::Nobody => {
                state.callers += 1;
                number = Some(state.callers);
                let (batch, waker) = (sender().send(vec![request]), Waker::noop().clone());
                state.sender = Sender::Caller { number: state.callers, batch, waker };
            }
            Sender::Caller { batch, waker, .. } => {
                state.waiting.push_back(request);
                state.sender = Sender::Task { has_room: false, waker: None };
                drop(state);
                let task = Task {
                    queue: Self(Arc::clone(&self.0)),
                    sender: sender(),
                    taken_over: Some((batch, 1)),
                    in_flight: Vec::new(),
                    is_over: false,
                };
                runtime.spawn(Box::pin(task));
                waker.wake();
            }
            Sender::Task { has_room, mut waker } => {
                state.waiting.push_back(request);
                let waker_now = if has_room { waker.take() } else { None };
                state.sender = Sender::Task { has_room, waker };
                drop(state);
                waker_now.into_iter().for_each(Waker::wake);
            }
        }
        AskedInBatch { queue: Self(Arc::clone(&self.0)), number, answer }
    }
}

impl<R: Batched> State<R> {
    /// Takes the requests of the next batch, none if nothing waits; and those that no batch serves
    /// any more, or that nobody waits for.
    fn next_batch<S: SendBatch<R>>(&mut self, sender: &S, in_flight: usize) -> (Vec<R>, Vec<R>) {
        let half = (self.waiting.len() + in_flight).div_ceil(2);
        let most = half.clamp(S::UNDIVIDED, MOST_IN_BATCH);
        let mut batch: Vec<R> = Vec::with_capacity(self.waiting.len().min(most));
        let mut declined = Vec::new();
        let serves = sender.serves();
        let (mut later, mut keys) = (Vec::new(), Vec::with_capacity(batch.capacity()));
        while batch.len() < most {
            let Some(request) = self.waiting.pop_front() else { break };
            if !request.is_wanted() || !serves(&request) {
                declined.push(request);
                continue;
            }
            let is_first = !keys.contains(&request.key());
            let shares_limit = batch.first().is_none_or(|first| first.limit() == request.limit());
            // Of those left for later, too: a later request of the same key stays behind them.
            keys.push(request.key());
            if is_first && shares_limit {
                batch.push(request);
            } else {
                later.push(request);
            }
        }
        for request in later.into_iter().rev() {
            self.waiting.push_front(request);
        }
        (batch, declined)
    }
}

/// A request in the queue. This future sends its batch, or a task does if others came.
pub struct AskedInBatch<R: Batched, A> {
    queue: BatchQueue<R>,
    number: Option<u64>,
    answer: A,
}

impl<R: Batched, A: Future + Unpin> Future for AskedInBatch<R, A> {
    type Output = A::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A::Output> {
        // While it sends the batch, it does not poll the answer, which would wake it from within.
        if let Some(number) = self.number {
            let mut state = locked(&self.queue.0);
            if let Sender::Caller { number: by, batch, waker } = &mut state.sender
                && *by == number
            {
                if batch.as_mut().poll(context).is_pending() {
                    waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                state.sender = Sender::Nobody;
            }
        }
        Pin::new(&mut self.answer).poll(context)
    }
}

impl<R: Batched, A> Drop for AskedInBatch<R, A> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = locked(&self.queue.0);
        if matches!(&state.sender, Sender::Caller { number: by, .. } if *by == number) {
            let sender = mem::replace(&mut state.sender, Sender::Nobody);
            drop(state);
            drop(sender);
        }
    }
}

/// A batch in flight, and the number of its requests.
type InFlight = (BoxFuture<'static, ()>, usize);

/// Sends waiting requests as long as any wait or are in flight.
struct Task<R: Batched, S> {
    queue: BatchQueue<R>,
    sender: S,
    /// The batch of the caller who had sent before. It may not have been polled, and is sent first.
    taken_over: Option<InFlight>,
    in_flight: Vec<InFlight>,
    is_over: bool,
}

impl<R: Batched, S: SendBatch<R>> Task<R, S> {
    fn has_room(&self) -> bool {
        self.in_flight.len() < S::MOST_IN_FLIGHT
    }

    /// Sends one batch, if there is room and any requests wait.
    fn sends(&mut self, context: &mut Context<'_>) -> bool {
        if !self.has_room() {
            return false;
        }
        let Some((mut batch, count)) = self.taken_over.take().or_else(|| self.next_batch()) else {
            return false;
        };
        if batch.as_mut().poll(context).is_pending() {
            self.in_flight.push((batch, count));
        }
        true
    }

    fn next_batch(&self) -> Option<InFlight> {
        let in_flight = self.in_flight.iter().map(|(_, count)| count).sum();
        let (batch, declined) = locked(&self.queue.0).next_batch(&self.sender, in_flight);
        declined.into_iter().for_each(|request| self.sender.decline(request));
        let count = batch.len();
        (count > 0).then(|| (self.sender.send(batch), count))
    }

    /// Handles the answers to one batch, if any have arrived.
    fn finishes(&mut self, context: &mut Context<'_>) -> bool {
        let is_finished = |(batch, _): &mut InFlight| batch.as_mut().poll(context).is_ready();
        let finished = self.in_flight.iter_mut().position(is_finished);
        finished.inspect(|at| drop(self.in_flight.remove(*at))).is_some()
    }

    /// Waits for the next request or answer, or ends, unless a request has come meanwhile.
    fn rests(&mut self, context: &Context<'_>) -> bool {
        let mut state = locked(&self.queue.0);
        let has_room = self.has_room();
        if has_room && !state.waiting.is_empty() {
            return false;
        }
        self.is_over = self.in_flight.is_empty();
        let waker = Some(context.waker().clone());
        state.sender = if self.is_over { Sender::Nobody } else { Sender::Task { has_room, waker } };
        true
    }
}

impl<R: Batched, S: SendBatch<R>> Future for Task<R, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.sends(context) || self.finishes(context) || !self.rests(context) {
            // Others run first: the connection writes the batch; callers that were answered may ask
            // again at once, and their requests are in the next batch.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// If the async runtime ends before the task does, the waiting requests are dropped.
impl<R: Batched, S> Drop for Task<R, S> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = locked(&self.queue.0);
            state.sender = Sender::Nobody;
            let waiting = mem::take(&mut state.waiting);
            drop(state);
            drop(waiting);
        }
    }
}

impl<R> Default for BatchQueue<R> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { waiting: VecDeque::new(), sender: Sender::Nobody, callers: 0 })))
    }
}

impl<R: Batched, A> fmt::Debug for AskedInBatch<R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskedInBatch")
    }
}

impl<R> fmt::Debug for BatchQueue<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BatchQueue")
    }
}

#[cfg(test)]
mod tests;
