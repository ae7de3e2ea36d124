use std::collections::VecDeque;
use std::io::{Read, Write};
use std::iter;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use leasehold_core::BoxFuture;
use redis::RedisConnectionInfo;
use redis::aio::PubSub;

use super::*;

/// A clock that advances by a second with each reading, and timers that never fire.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Runtime for Ticking {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.fetch_add(1_000_000_000, Ordering::Relaxed))
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn random(&self) -> u128 {
        0
    }
}

/// A stream that is empty when it is polled, although a whole read arrives before its reader polls
/// anything else.
///
/// Another thread reads the connection, so a read can occur between any two polls. The first poll
/// finds nothing, and then the PING is sent. The second poll lets the server answer, and waits
/// until all messages of the read have arrived. The pong, before the last of them, is there too.
struct ComesBetween {
    stream: PubSubStream,
    answer: mpsc::Sender<()>,
    looks: u32,
    messages: usize,
    came: VecDeque<Msg>,
}

impl Stream for ComesBetween {
    type Item = Msg;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Msg>> {
        self.looks += 1;
        if self.looks == 1 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.looks > 2 {
            return match self.came.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None => Pin::new(&mut self.stream).poll_next(context),
            };
        }
        self.answer.send(()).unwrap();
        let begun = std::time::Instant::now();
        while self.came.len() < self.messages {
            match Pin::new(&mut self.stream).poll_next(context) {
                Poll::Ready(message) => self.came.extend(message),
                Poll::Pending => thread::yield_now(),
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{} came", self.came.len());
        }
        Poll::Pending
    }
}

/// The first word of each received message, and the earliest instant of its event.
type Told = Arc<std::sync::Mutex<Vec<(String, Instant)>>>;

fn telling(told: &Told) -> OnPush {
    let told = Arc::clone(told);
    Arc::new(move |_, payload, since| {
        told.lock().unwrap().push((String::from_utf8_lossy(payload).into_owned(), since));
    })
}

const PONG: &str = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";

fn pushed(word: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{word}\r\n", word.len())
}

/// A server that answers each PING with the next of these, written at once, and then stays open.
fn serving(mut socket: UnixStream, answers: impl IntoIterator<Item = String> + Send + 'static) {
    thread::spawn(move || {
        for answer in answers {
            let (mut heard, mut some) = (Vec::new(), [0; 64]);
            while !heard.ends_with(b"PING\r\n") {
                match socket.read(&mut some) {
                    Ok(read @ 1..) => heard.extend(&some[..read]),
                    _ => return,
                }
            }
            socket.write_all(answer.as_bytes()).unwrap();
        }
        let _ = socket.read(&mut [0]);
    });
}

/// Regression: a pong counted before the messages in front of it. So the lease of a key that was
/// handed over before the PING was sent appeared to last as if that had happened after it.
///
/// The test itself is not a task on the runtime's threads, one of which reads the connection; so it
/// may block within a poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_push_that_comes_in_one_read_with_its_pong_is_no_younger_than_the_pong_before() {
    let (client, server) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    let one_read = [pushed("before"), PONG.into(), pushed("behind")].concat();
    let (answer, may_answer) = mpsc::channel();
    let first = iter::once_with(move || may_answer.recv().map(|()| one_read).unwrap());
    serving(server, first.chain([PONG.into()]));
    let login = RedisConnectionInfo::default().set_skip_set_lib_name();
    let client = tokio::net::UnixStream::from_std(client).unwrap();
    let (sink, stream) = PubSub::new(&login, client).await.unwrap().split();
    let (runtime, told) = (Ticking::default(), Told::default());

    let subscribed = runtime.now();
    let stream = ComesBetween { stream, answer, looks: 0, messages: 2, came: VecDeque::new() };
    let mut subscription = Subscription { sink, stream, since: subscribed };
    let limit = Duration::from_secs(1);
    assert!(subscription.ping(limit, &telling(&told), &runtime).await);
    let first_ping = subscription.since;
    assert_eq!(
        first_ping,
        subscribed + Duration::from_secs(1),
        "the pong counts from when its PING was sent"
    );
    // A message behind the pong is treated as if it had come before: it only appears older.
    assert_eq!(*told.lock().unwrap(), [("before".to_owned(), subscribed), ("behind".into(), subscribed)]);

    assert!(subscription.ping(limit, &telling(&told), &runtime).await);
    assert!(subscription.since > first_ping);
}
