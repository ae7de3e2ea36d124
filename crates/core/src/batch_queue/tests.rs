use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;
use crate::by_hand::{ByHand, Woken};

const LIMIT: Duration = Duration::from_millis(500);

struct Request {
    name: &'static str,
    key: u64,
    limit: Duration,
    answer: oneshot::Sender<&'static str>,
}

impl Batched for Request {
    fn key(&self) -> u64 {
        self.key
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// The batches that were sent, and the channels for their answers.
type Sent = Arc<Mutex<Vec<(Vec<&'static str>, Option<oneshot::Sender<()>>)>>>;

#[derive(Clone, Default)]
struct Wire {
    sent: Sent,
    /// The key that no batch serves any more.
    unserved: Arc<Mutex<Option<u64>>>,
}

impl Wire {
    fn answer_all(&self) {
        let sent = &mut *self.sent.lock().unwrap();
        sent.iter_mut().filter_map(|(_, tell)| tell.take()).for_each(|tell| tell.send(()).unwrap());
    }
}

impl SendBatch<Request> for Wire {
    const MOST_IN_FLIGHT: usize = 2;
    const UNDIVIDED: usize = 16;

    fn serves(&self) -> impl Fn(&Request) -> bool {
        |request| *self.unserved.lock().unwrap() != Some(request.key)
    }

    fn decline(&self, request: Request) {
        let _ = request.answer.send("declined");
    }

    fn send(&self, batch: Vec<Request>) -> BoxFuture<'static, ()> {
        let sent = Arc::clone(&self.sent);
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let names = batch.iter().map(|request| request.name).collect();
            sent.lock().unwrap().push((names, Some(tell)));
            told.await.unwrap();
            for request in batch {
                let _ = request.answer.send(request.name);
            }
        })
    }
}

#[derive(Default)]
struct Connection {
    queue: BatchQueue<Request>,
    wire: Wire,
}

impl Connection {
    /// Sends a request in a separate task.
    async fn asks(
        &self,
        name: &'static str,
        key: u64,
        limit: Duration,
    ) -> tokio::task::JoinHandle<&'static str> {
        let asked = self.ask(name, key, limit);
        let task = tokio::spawn(async move { asked.await.unwrap() });
        settled().await;
        task
    }

    fn ask(
        &self,
        name: &'static str,
        key: u64,
        limit: Duration,
    ) -> AskedInBatch<Request, oneshot::Receiver<&'static str>> {
        let (answer, heard) = oneshot::channel();
        self.queue.ask(Request { name, key, limit, answer }, heard, || self.wire.clone(), &ByHand::default())
    }

    fn sent(&self) -> Vec<Vec<&'static str>> {
        self.wire.sent.lock().unwrap().iter().map(|(names, _)| names.clone()).collect()
    }

    async fn answer(&self, nth: usize) {
        self.wire.sent.lock().unwrap()[nth].1.take().unwrap().send(()).unwrap();
        settled().await;
    }
}

/// Lets all tasks run until each of them waits.
async fn settled() {
    for _ in 0..10 {
        yield_now().await;
    }
}

/// Each further poll would be in vain.
#[test]
fn a_caller_that_sends_its_own_request_is_woken_once() {
    let (connection, woken) = (Connection::default(), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut asked = connection.ask("a", 1, LIMIT);
    assert!(Pin::new(&mut asked).poll(&mut context).is_pending());
    connection.wire.answer_all();
    assert_eq!(Pin::new(&mut asked).poll(&mut context), Poll::Ready(Ok("a")));
    assert_eq!(woken.times(), 1);
}

#[tokio::test]
async fn a_request_leaves_at_once_if_nothing_is_in_flight_and_otherwise_with_the_next_answer() {
    let connection = Connection::default();
    let mut tasks = Vec::new();
    for (key, name) in (0..).zip(["a", "b", "c", "d", "e"]) {
        tasks.push(connection.asks(name, key, LIMIT).await);
    }
    // Two are in flight, and the others wait.
    assert_eq!(connection.sent(), [["a"], ["b"]]);
    connection.answer(1).await;
    assert_eq!(connection.sent()[2..], [["c", "d", "e"]]);
    connection.answer(0).await;
    connection.answer(2).await;
    for (task, name) in tasks.into_iter().zip(["a", "b", "c", "d", "e"]) {
        assert_eq!(task.await.unwrap(), name);
    }
    connection.asks("f", 5, LIMIT).await;
    assert_eq!(connection.sent().last().unwrap(), &["f"]);
}

#[tokio::test]
async fn requests_of_one_key_share_no_batch_and_keep_their_order() {
    let connection = Connection::default();
    for (name, key) in [("a", 0), ("b", 1), ("c1", 7), ("c2", 7), ("d", 2), ("c3", 7)] {
        connection.asks(name, key, LIMIT).await;
    }
    connection.answer(0).await;
    assert_eq!(connection.sent()[2..], [["c1", "d"]]);
    connection.answer(1).await;
    assert_eq!(connection.sent()[3..], [["c2"]]);
    connection.answer(2).await;
    assert_eq!(connection.sent()[4..], [["c3"]]);
}

/// The second of the key could be in the first batch, which the first of the key cannot.
#[tokio::test]
async fn requests_of_one_key_keep_their_order_whatever_their_limits_are() {
    let connection = Connection::default();
    let short = LIMIT / 10;
    for (name, key, limit) in
        [("a", 0, LIMIT), ("b", 1, LIMIT), ("c", 2, LIMIT), ("d1", 7, short), ("d2", 7, LIMIT)]
    {
        connection.asks(name, key, limit).await;
    }
    connection.answer(0).await;
    assert_eq!(connection.sent()[2..], [["c"]]);
    connection.answer(1).await;
    assert_eq!(connection.sent()[3..], [["d1"]]);
    connection.answer(2).await;
    assert_eq!(connection.sent()[4..], [["d2"]]);
}

/// The first answer says that the key is contended, so the other requests for it need not be sent.
#[tokio::test]
async fn requests_that_no_batch_serves_any_more_leave_the_queue_unsent() {
    let connection = Connection::default();
    connection.asks("a", 0, LIMIT).await;
    connection.asks("b", 1, LIMIT).await;
    let declined = [connection.asks("c1", 7, LIMIT).await, connection.asks("c2", 7, LIMIT).await];
    connection.asks("d", 2, LIMIT).await;
    *connection.wire.unserved.lock().unwrap() = Some(7);
    connection.answer(0).await;
    assert_eq!(connection.sent()[2..], [["d"]]);
    for task in declined {
        assert_eq!(task.await.unwrap(), "declined");
    }
}

#[tokio::test]
async fn a_batch_is_of_one_limit_and_of_no_more_than_half_of_the_requests_or_64() {
    let connection = Connection::default();
    let short = LIMIT / 10;
    connection.asks("a", 0, LIMIT).await;
    connection.asks("b", 1, LIMIT).await;
    for key in 2..100 {
        let (name, limit) = if key % 10 == 2 { ("short", short) } else { ("long", LIMIT) };
        connection.asks(name, key, limit).await;
    }
    connection.answer(0).await;
    assert_eq!(connection.sent()[2], ["short"; 10]);
    connection.answer(1).await;
    // 88 wait and 10 are in flight.
    assert_eq!(connection.sent()[3], ["long"; 49]);
    connection.answer(2).await;
    assert_eq!(connection.sent()[4], ["long"; 39]);
    for key in 200..400 {
        connection.asks("more", key, LIMIT).await;
    }
    connection.answer(3).await;
    assert_eq!(connection.sent()[5], ["more"; MOST_IN_BATCH]);
}

/// The server serves one half while this process handles the answers to the other.
#[tokio::test]
async fn many_requests_leave_in_two_halves_and_few_in_one() {
    for (waiting, halves) in [(16, &[16][..]), (17, &[16, 1]), (40, &[21, 19]), (41, &[21, 20])] {
        let connection = Connection::default();
        for key in 0..2 + waiting {
            connection.asks("a", key, LIMIT).await;
        }
        // The second of the first two is in flight when the next batch leaves, and counts.
        connection.wire.answer_all();
        settled().await;
        let sent: Vec<_> = connection.sent()[2..].iter().map(Vec::len).collect();
        assert_eq!(sent, halves, "{waiting}");
    }
}

/// Otherwise a caller that goes on with another request would always miss the next batch.
#[tokio::test]
async fn callers_that_are_answered_ask_again_before_the_next_batch_leaves() {
    let connection = Arc::new(Connection::default());
    connection.asks("a", 0, LIMIT).await;
    let next = connection.ask("b", 1, LIMIT);
    settled().await;
    connection.asks("c", 2, LIMIT).await;
    let again = Arc::clone(&connection);
    tokio::spawn(async move {
        next.await.unwrap();
        again.ask("b again", 1, LIMIT).await.unwrap();
    });
    settled().await;
    connection.answer(1).await;
    assert_eq!(connection.sent()[2..], [["c", "b again"]]);
}

/// A server that had both answers ready at once is busy again before this process handles the second.
#[tokio::test]
async fn what_follows_from_one_answer_is_sent_before_the_next_answer_is_handled() {
    let connection = Arc::new(Connection::default());
    let first = [connection.ask("a", 0, LIMIT), connection.ask("b", 1, LIMIT)];
    for ((asked, again), key) in first.into_iter().zip(["a again", "b again"]).zip(0..) {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move {
            asked.await.unwrap();
            let before = connection.sent().len();
            let asked = connection.ask(again, key, LIMIT);
            // "a" was answered when nothing but the first two had been sent, and "b" after "a again".
            assert_eq!(before, 2 + key as usize);
            asked.await.unwrap();
        });
    }
    settled().await;
    connection.wire.answer_all();
    settled().await;
    assert_eq!(connection.sent(), [["a"], ["b"], ["a again"], ["b again"]]);
}

#[tokio::test]
async fn a_caller_that_is_dropped_makes_way_for_the_next() {
    let connection = Connection::default();
    let mut alone = Box::pin(connection.ask("a", 0, LIMIT));
    assert!(std::future::poll_fn(|context| Poll::Ready(alone.as_mut().poll(context).is_pending())).await);
    drop(alone);
    connection.asks("b", 1, LIMIT).await;
    connection.asks("c", 2, LIMIT).await;
    connection.asks("d", 3, LIMIT).await;
    assert_eq!(connection.sent(), [["a"], ["b"], ["c"]]);
}

/// Requests of one key keep their order.
#[tokio::test]
async fn a_caller_that_was_not_polled_yet_is_sent_first() {
    let connection = Connection::default();
    let idle = connection.ask("a", 0, LIMIT);
    connection.asks("b", 0, LIMIT).await;
    assert_eq!(connection.sent(), [["a"], ["b"]]);
    drop(idle);
}

#[tokio::test]
async fn waiting_requests_fail_if_the_sending_task_is_gone() {
    let connection = Connection::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (first, second, third) = {
        let _within = runtime.enter();
        let (first, second) = (connection.ask("a", 0, LIMIT), connection.ask("b", 1, LIMIT));
        // These two are in flight then, so the third waits.
        while connection.sent().len() < 2 {
            std::thread::yield_now();
        }
        (first, second, connection.ask("c", 2, LIMIT))
    };
    runtime.shutdown_background();
    assert_eq!((first.await.ok(), second.await.ok(), third.await.ok()), (None, None, None));
    connection.asks("d", 3, LIMIT).await;
    assert_eq!(connection.sent().last().unwrap(), &["d"]);
}
