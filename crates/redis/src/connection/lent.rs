//! Connections of the program itself: one that it cloned for us, or those that it makes for us.

use std::error::Error;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{BoxFuture, Fault, Runtime, StoreFuture, locked};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, ServerError, Value, cmd};
use tokio::sync::{oneshot, watch};

use super::connect::CALLS_TO_CONNECT;
use super::route::BoxConnection;
use crate::fault::{Faults, leads_astray};

/// Returns connections for calls. They may be from any library; they take commands and return
/// answers in the form of redis-rs.
pub(crate) trait Lend: Send + Sync {
    /// A connection for calls with this time limit.
    fn connection(&self, limit: Duration) -> StoreFuture<'_, BoxConnection>;
}

/// A connection that the program has cloned for us.
pub(crate) struct Lent<C> {
    pub(crate) connection: C,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl<C> Lend for Lent<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn connection(&self, limit: Duration) -> StoreFuture<'_, BoxConnection> {
        let (connection, runtime) = (self.connection.clone(), Arc::clone(&self.runtime));
        let connection = TaskConnection { connection, runtime, limit, fails: Arc::new(|_| {}) };
        Box::pin(std::future::ready(Ok(Box::new(connection) as _)))
    }
}

/// A new connection, or the reason why there is none.
pub(crate) type MakeResult<P> = Result<P, Box<dyn Error + Send + Sync>>;

/// Makes a connection that the store keeps until it fails; then the next one is made.
///
/// One connection is kept, and not one taken for each call: otherwise, tasks that hold all
/// connections of a pool while they wait for locks would prevent the renewal of those locks.
pub(crate) struct Pool<P> {
    make: Box<dyn Fn() -> BoxFuture<'static, MakeResult<P>> + Send + Sync>,
    state: Arc<Mutex<State<P>>>,
    faults: Faults,
    runtime: Arc<dyn Runtime>,
}

type Awaited<P> = Option<Result<Arc<P>, Fault>>;

/// With the [`Runtime::generation`] whose tasks make or drive it: others are of no use.
enum State<P> {
    None,
    /// A task is making it; all callers wait for it.
    Making(watch::Receiver<Awaited<P>>, u64),
    Kept(Arc<P>, u64),
}

impl<P, C> Pool<P>
where
    P: Deref<Target = C> + Send + Sync + 'static,
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    pub(crate) fn new(
        make: impl Fn() -> BoxFuture<'static, MakeResult<P>> + Send + Sync + 'static,
        faults: Faults,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self { make: Box::new(make), state: Arc::new(Mutex::new(State::None)), faults, runtime }
    }

    async fn kept(&self, limit: Duration) -> Result<Arc<P>, Fault> {
        let mut awaited = match self.look() {
            Ok(kept) => return Ok(kept),
            Err(awaited) => awaited,
        };
        let words = "no connection was made: the program panicked, or the async runtime has ended";
        let abandoned = || Err(self.faults.passing(words));
        let limit = limit * CALLS_TO_CONNECT;
        match self.runtime.within(limit, awaited.wait_for(Option::is_some)).await {
            Some(Ok(made)) => made.clone().unwrap_or_else(abandoned),
            Some(Err(_)) => abandoned(),
            None => {
                Err(self.faults.timed_out(format_args!("the program lent no connection within {limit:?}")))
            }
        }
    }

    fn look(&self) -> Result<Arc<P>, watch::Receiver<Awaited<P>>> {
        let generation = self.runtime.generation();
        let mut state = locked(&self.state);
        match &*state {
            State::Kept(kept, of) if *of == generation => return Ok(Arc::clone(kept)),
            // Its task is alive as long as the channel is open.
            State::Making(made, of) if *of == generation && made.has_changed().is_ok() => {
                return Err(made.clone());
            }
            _ => {}
        }
        let (report, awaited) = watch::channel(None);
        *state = State::Making(awaited.clone(), generation);
        drop(state);
        let (making, state, faults) = ((self.make)(), Arc::clone(&self.state), self.faults.clone());
        // Runs in a task: a caller that stops waiting does not stop it, and a pool needs the timers
        // and sockets of the async runtime, which a thread of the blocking API does not have.
        self.runtime.spawn(Box::pin(async move {
            let made = making.await.map(Arc::new).map_err(|error| of_program(&*error, &faults));
            let mut state = locked(&state);
            *state = made.as_ref().map_or(State::None, |made| State::Kept(Arc::clone(made), generation));
            drop(state);
            report.send_replace(Some(made));
        }));
        Err(awaited)
    }
}

impl<P, C> Lend for Pool<P>
where
    P: Deref<Target = C> + Send + Sync + 'static,
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn connection(&self, limit: Duration) -> StoreFuture<'_, BoxConnection> {
        Box::pin(async move {
            let kept = self.kept(limit).await?;
            let (connection, runtime) = (C::clone(&kept), Arc::clone(&self.runtime));
            let (state, spawner) = (Arc::clone(&self.state), Arc::clone(&self.runtime));
            let fails = move |failure| {
                let mut state = locked(&state);
                if !matches!(&*state, State::Kept(last, _) if Arc::ptr_eq(last, &kept)) {
                    return;
                }
                *state = State::None;
                drop(state);
                if failure == Failure::Astray {
                    spawner.spawn(Box::pin(quit(Arc::clone(&kept), Arc::clone(&spawner), limit)));
                }
            };
            Ok(Box::new(TaskConnection { connection, runtime, limit, fails: Arc::new(fails) }) as _)
        })
    }
}

/// Ends a connection to the wrong server before it goes back into its pool, which would lend it again:
/// it still answers.
async fn quit<P, C>(kept: Arc<P>, runtime: Arc<dyn Runtime>, limit: Duration)
where
    P: Deref<Target = C>,
    C: ConnectionLike + Clone,
{
    let (mut connection, quit) = (C::clone(&kept), cmd("QUIT"));
    let _ = runtime.within(limit, connection.req_packed_command(&quit)).await;
}

/// The fault of a program that makes no connection: that of redis-rs, if that is the cause.
fn of_program(error: &(dyn Error + 'static), faults: &Faults) -> Fault {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    match causes.find_map(|error| error.downcast_ref::<RedisError>()) {
        Some(error) => faults.of_error(error.clone()),
        None => faults.passing(format_args!("the program lent no connection: {error}")),
    }
}

/// A connection whose calls run in tasks of the async runtime: redis-rs sets timers, for which a
/// thread of the blocking API has no runtime.
struct TaskConnection<C> {
    connection: C,
    runtime: Arc<dyn Runtime>,
    limit: Duration,
    /// Called when the connection is of no more use.
    fails: Arc<dyn Fn(Failure) + Send + Sync>,
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// It failed, or did not answer within the limit.
    Lost,
    /// It leads to the wrong server.
    Astray,
}

impl<C> TaskConnection<C> {
    fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = RedisResult<T>> + Send + 'static,
        answers: fn(&T) -> &[Value],
    ) -> RedisFuture<'static, T> {
        let (runtime, limit, fails) = (Arc::clone(&self.runtime), self.limit, Arc::clone(&self.fails));
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let timers = Arc::clone(&runtime);
            runtime.spawn(Box::pin(async move {
                let said = timers.within(limit, call).await;
                let said = said.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
                let failure = said.as_ref().map_or_else(of_error, |said| of_answers(answers(said)));
                failure.into_iter().for_each(&*fails);
                let _ = tell.send(said);
            }));
            told.await.unwrap_or_else(|_| Err(io::Error::other("the async runtime has ended").into()))
        })
    }
}

/// `None` if the connection is still of use.
fn of_error(error: &RedisError) -> Option<Failure> {
    match ServerError::try_from(error.clone()) {
        Ok(refusal) => leads_astray(&refusal).then_some(Failure::Astray),
        Err(_) => Some(Failure::Lost),
    }
}

fn of_answers(answers: &[Value]) -> Option<Failure> {
    let is_astray = |answer: &Value| matches!(answer, Value::ServerError(refusal) if leads_astray(refusal));
    answers.iter().any(is_astray).then_some(Failure::Astray)
}

impl<C> ConnectionLike for TaskConnection<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let (mut connection, command) = (self.connection.clone(), command.clone());
        self.run(async move { connection.req_packed_command(&command).await }, std::slice::from_ref)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let (mut connection, pipeline) = (self.connection.clone(), pipeline.clone());
        self.run(async move { connection.req_packed_commands(&pipeline, offset, count).await }, Vec::as_slice)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::refusal;

    /// A connection of the program may return a refusal as an error.
    #[test]
    fn a_connection_is_given_up_if_it_fails_or_if_the_wrong_server_refuses() {
        let refused = |code| of_error(&redis::make_extension_error(code, None));
        assert_eq!([refused("READONLY".into()), refused("NOPERM".into())], [Some(Failure::Astray), None]);
        let broken = io::Error::from(io::ErrorKind::ConnectionReset).into();
        assert_eq!(of_error(&broken), Some(Failure::Lost));
        let answered = |code| of_answers(&[Value::ServerError(refusal(code, String::new()))]);
        assert_eq!([answered("READONLY"), answered("NOPERM")], [Some(Failure::Astray), None]);
    }
}
