//! Events for programs: lines of JSON to a descriptor that the caller opened (`--status-fd`).

#[cfg_attr(target_os = "linux", path = "status/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "status/bsd.rs")]
mod kernel;

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Fence, Holder, Key};
use rustix::fs::{OFlags, fcntl_getfl};
use serde::Serialize;

use crate::exit::{End, Failure};
use crate::json::{self, KeyText, millis};
use crate::keys::Keys;
use crate::options::digits;
use crate::signals::start_thread;

#[derive(Debug)]
pub(crate) struct Status(Option<Mutex<EventWriter>>);

/// Writes on a separate thread: a reader that does not read must not delay a renewal.
#[derive(Debug)]
struct EventWriter {
    subject: Subject,
    lines: Option<SyncSender<Vec<u8>>>,
    written: Receiver<()>,
    /// True if the reader has been told why no more events come.
    explained: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    Waiting {
        #[serde(skip)]
        key: &'a Key,
        held_by: &'a str,
        held_ms: Option<u64>,
        place: Option<u64>,
        remaining_ms: Option<u64>,
    },
    Acquired {
        label: &'a str,
        store: &'a str,
        ttl_ms: u64,
        waited_ms: u64,
    },
    Renewed {
        remaining_ms: u64,
    },
    Lost {
        reason: &'a str,
    },
    Ended(End),
    Done {
        begun_at: u64,
        due_at: Option<u64>,
    },
    Released,
    AlreadyDone {
        #[serde(flatten)]
        last: LastRun<'a>,
        code: u8,
    },
    NotDue {
        due_at: Option<u64>,
        #[serde(flatten)]
        last: LastRun<'a>,
        code: u8,
    },
    Underway {
        held_by: Option<&'a str>,
        #[serde(flatten)]
        last: LastRun<'a>,
        code: u8,
    },
    Busy {
        #[serde(skip)]
        key: &'a Key,
        held_by: Option<&'a str>,
        waited_ms: u64,
        code: u8,
    },
    Failed {
        code: u8,
        reason: &'a str,
    },
}

/// When the job was last begun, and by whom, if it was.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LastRun<'a> {
    pub(crate) begun_at: Option<u64>,
    pub(crate) by: Option<&'a str>,
    /// In place of the fence of our own request.
    #[serde(skip)]
    pub(crate) fence: Option<u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: Event<'a>,
    #[serde(flatten)]
    key: KeyText,
    keys: &'a [String],
    fence: Option<u64>,
    holder: Option<String>,
    pid: u32,
    at: u64,
    v: u32,
}

/// It changes when an existing field changes its meaning or is removed.
pub(crate) const VERSION: u32 = 1;

/// The lock that the lines are about, and the state of our request for it.
#[derive(Debug)]
struct Subject {
    key: KeyText,
    keys: Vec<String>,
    holder: Option<Holder>,
    fence: Option<Fence>,
}

impl Event<'_> {
    fn key(&self) -> Option<KeyText> {
        match self {
            Event::Waiting { key, .. } | Event::Busy { key, .. } => Some((*key).into()),
            _ => None,
        }
    }

    /// The fence of another process's work that this event is about.
    const fn fence(&self) -> Option<u64> {
        match self {
            Event::AlreadyDone { last, .. } | Event::NotDue { last, .. } | Event::Underway { last, .. } => {
                last.fence
            }
            _ => None,
        }
    }
}

/// Only for a reader that reads nothing more lines wait: a renewal comes once per third of the TTL.
const UNREAD: usize = 256;

/// The time for the last lines at our end.
const LAST_LINES: Duration = Duration::from_secs(1);

impl Status {
    pub(crate) const fn to_nobody() -> Self {
        Self(None)
    }

    /// Opens the descriptor of this number, without our children, for events about these keys.
    pub(crate) fn to(number: &str, keys: &Keys) -> Result<Self, Failure> {
        let Some(number) = digits::<i32>(number) else {
            return Err(refused(format!(
                "{number:?} is not a file descriptor: write a number from 3, as in 3>FILE"
            )));
        };
        if number < 3 {
            return Err(refused(format!("{number} is the command's own: use 3 or greater, as in 3>FILE")));
        }
        let ours = take(number).map_err(|error| {
            refused(format!(
                "{number} is not open for writing ({error}): open it in the shell, as in {number}>FILE"
            ))
        })?;
        let subject = Subject { key: keys.first().into(), keys: keys.texts(), holder: None, fence: None };
        let writer = EventWriter::start(ours, subject)
            .map_err(|error| refused(format!("the system cannot start the thread that writes ({error})")))?;
        Ok(Self(Some(Mutex::new(writer))))
    }

    pub(crate) const fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn asks_as(&self, holder: Holder) {
        self.0.iter().for_each(|writer| locked(writer).subject.holder = Some(holder));
    }

    pub(crate) fn holds(&self, holder: Holder, fence: Fence) {
        self.asks_as(holder);
        self.0.iter().for_each(|writer| locked(writer).subject.fence = Some(fence));
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        self.0.iter().for_each(|writer| locked(writer).tell(event));
    }

    /// Reports that the lease was lost, unless that was reported already.
    pub(crate) fn tell_lost(&self, reason: &str) {
        if let Some(mut writer) = self.0.as_ref().map(locked).filter(|writer| !writer.explained) {
            writer.tell(Event::Lost { reason });
        }
    }

    /// Reports why we end, unless that is known or a signal ends us, and waits for the last lines.
    pub(crate) fn close(&self, failure: Option<&Failure>) {
        let Some(mut writer) = self.0.as_ref().map(locked) else { return };
        if let Some(failure) = failure.filter(|failure| !writer.explained && !failure.reason().is_empty()) {
            writer.tell(Event::Failed { code: failure.code(), reason: failure.reason() });
        }
        writer.lines = None;
        let _ = writer.written.recv_timeout(LAST_LINES);
    }
}

impl Line<'_> {
    fn of(event: Event<'_>, subject: &Subject, pid: u32, at: u64) -> String {
        json::line(&Line {
            key: event.key().unwrap_or_else(|| subject.key.clone()),
            keys: &subject.keys,
            fence: event.fence().or(subject.fence.map(Fence::get)),
            holder: subject.holder.map(|holder| holder.to_string()),
            pid,
            at,
            v: VERSION,
            event,
        })
    }
}

impl EventWriter {
    fn start(mut file: File, subject: Subject) -> io::Result<Self> {
        let (lines, to_write) = sync_channel::<Vec<u8>>(UNREAD);
        let (done, written) = channel();
        start_thread("status", move || {
            while let Ok(line) = to_write.recv() {
                if file.write_all(&line).is_err() {
                    break;
                }
            }
            let _ = done.send(());
        })?;
        Ok(Self { subject, lines: Some(lines), written, explained: false })
    }

    fn tell(&mut self, event: Event<'_>) {
        self.explained |= matches!(event, Event::Busy { .. } | Event::Lost { .. } | Event::Failed { .. });
        let at = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let line = Line::of(event, &self.subject, std::process::id(), at);
        // If the queue is full, or there is no reader, the reader loses this line.
        let _ = self.lines.as_ref().map(|lines| lines.try_send(line.into_bytes()));
    }
}

/// Takes over a descriptor that our parent opened, by its number, and closes that number.
fn take(number: i32) -> io::Result<File> {
    let ours = kernel::duplicate(number)?;
    let mode = fcntl_getfl(&ours)?;
    if !mode.intersects(OFlags::WRONLY | OFlags::RDWR) {
        return Err(io::Error::other("it is for reading"));
    }
    nix::unistd::close(number)?;
    Ok(ours.into())
}

fn refused(line: String) -> Failure {
    Failure::usage(line).about("--status-fd")
}

fn locked(writer: &Mutex<EventWriter>) -> MutexGuard<'_, EventWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_event_first_and_then_key_fence_holder_process_and_time() {
        let key = Key::new("a\n\"b\u{1}").unwrap();
        let mut subject = Subject {
            key: (&Key::new(b"x\xff").unwrap()).into(),
            keys: vec!["a".into(), "b".into()],
            holder: None,
            fence: None,
        };
        let waiting =
            Event::Waiting { key: &key, held_by: "ä", held_ms: None, place: None, remaining_ms: None };
        assert_eq!(
            Line::of(waiting, &subject, 42, 7),
            concat!(
                r#"{"event":"waiting","held_by":"ä","held_ms":null,"place":null,"remaining_ms":null,"#,
                r#""key":"a\n\"b\u0001","keys":["a","b"],"fence":null,"holder":null,"pid":42,"at":7,"v":1}"#,
                "\n"
            )
        );
        subject.holder = Some(Holder::from_bits(1 << 96));
        subject.fence = Fence::new(9);
        let rest = r#""key":"x\\xff","key_hex":"78ff","keys":["a","b"],"fence":9,"holder":"00000001","pid":42,"at":7,"v":1}"#.to_owned() + "\n";
        let ended = Line::of(Event::Ended(End::Signal(15)), &subject, 42, 7);
        assert_eq!(ended, format!(r#"{{"event":"ended","signal":15,{rest}"#));
        let released = Line::of(Event::Released, &subject, 42, 7);
        assert_eq!(released, format!(r#"{{"event":"released",{rest}"#));
        let last = LastRun { begun_at: None, by: None, fence: Some(5) };
        let done = Event::AlreadyDone { last, code: 0 };
        assert!(Line::of(done, &subject, 42, 7).contains(r#""fence":5,"#));
    }
}
