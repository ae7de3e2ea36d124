//! The history of a run: a line for each action and belief of a worker, and for each fault.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    str::FromStr,
};

use rustix::time::{ClockId, clock_gettime};

use crate::wish::Wish;

/// Nanoseconds since boot: the clock of leases, which all processes share.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time; see [`now`].
    pub at: u64,
    pub process: u32,
    /// The task in it; 0 for the whole process.
    pub task: u32,
    pub what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Just before it requests the lock.
    Asks,
    /// Just before it requests one of several locks in a certain mode.
    AsksFor(Wish),
    /// It was answered that it is queued.
    Stands,
    /// It has a guard.
    Granted {
        fence: u64,
        /// The end of the lease unless it is renewed.
        until: u64,
    },
    Renewed {
        until: u64,
    },
    /// The store confirmed that the job is marked as done.
    Done,
    /// Just before it releases the lock.
    LetsGo {
        /// True if it still considered itself the holder a moment later.
        held: bool,
    },
    /// The store confirmed that it was the holder to the end.
    Released,
    /// The store answered that it was not the holder to the end.
    Lost(String),
    /// The store did not answer the release.
    Unconfirmed(String),
    Cancelled,
    Failed(String),
    /// Just before it breaks somebody's lease, as an operator does.
    Breaks {
        fence: u64,
        holder: u32,
        key: String,
    },
    /// The store confirmed the break.
    Broke,
    /// The store answered that there was no such lease any more.
    BrokeNothing,
    /// The store did not answer the request to break it.
    MayHaveBroken(String),
    /// Just before the process is killed.
    Killed,
    /// The process has just been killed or stopped, and according to the store it held the lock.
    HadIt,
    /// Just before the process is stopped.
    Stopped,
    Continued,
    /// Just before this fault of the network or the server.
    Fault(String),
    Healed,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.at, self.process, self.task)?;
        match &self.what {
            EventKind::Asks => f.write_str("asks"),
            EventKind::AsksFor(wish) => write!(f, "asks {wish}"),
            EventKind::Stands => f.write_str("stands"),
            EventKind::Granted { fence, until } => write!(f, "granted {fence} {until}"),
            EventKind::Renewed { until } => write!(f, "renewed {until}"),
            EventKind::Done => f.write_str("done"),
            EventKind::LetsGo { held } => write!(f, "lets-go {held}"),
            EventKind::Released => f.write_str("released"),
            EventKind::Lost(how) => write!(f, "lost {how}"),
            EventKind::Unconfirmed(why) => write!(f, "unconfirmed {why}"),
            EventKind::Cancelled => f.write_str("cancelled"),
            EventKind::Failed(why) => write!(f, "failed {why}"),
            EventKind::Breaks { fence, holder, key } => write!(f, "breaks {fence} {holder} {key}"),
            EventKind::Broke => f.write_str("broke"),
            EventKind::BrokeNothing => f.write_str("broke-nothing"),
            EventKind::MayHaveBroken(why) => write!(f, "may-have-broken {why}"),
            EventKind::Killed => f.write_str("killed"),
            EventKind::HadIt => f.write_str("had-it"),
            EventKind::Stopped => f.write_str("stopped"),
            EventKind::Continued => f.write_str("continued"),
            EventKind::Fault(name) => write!(f, "fault {name}"),
            EventKind::Healed => f.write_str("healed"),
        }
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let entry = || {
            let mut words = line.splitn(5, ' ');
            let (at, process, task) = (words.next()?, words.next()?, words.next()?);
            let (name, rest) = (words.next()?, words.next().unwrap_or_default());
            let what = match name {
                "asks" if rest.is_empty() => EventKind::Asks,
                "asks" => EventKind::AsksFor(rest.parse().ok()?),
                "stands" => EventKind::Stands,
                "granted" => {
                    let (fence, until) = rest.split_once(' ')?;
                    EventKind::Granted { fence: fence.parse().ok()?, until: until.parse().ok()? }
                }
                "renewed" => EventKind::Renewed { until: rest.parse().ok()? },
                "done" => EventKind::Done,
                "lets-go" => EventKind::LetsGo { held: rest.parse().ok()? },
                "released" => EventKind::Released,
                "lost" => EventKind::Lost(rest.to_owned()),
                "unconfirmed" => EventKind::Unconfirmed(rest.to_owned()),
                "cancelled" => EventKind::Cancelled,
                "failed" => EventKind::Failed(rest.to_owned()),
                "breaks" => {
                    let mut words = rest.splitn(3, ' ');
                    let (fence, holder) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                    EventKind::Breaks { fence, holder, key: words.next()?.to_owned() }
                }
                "broke" => EventKind::Broke,
                "broke-nothing" => EventKind::BrokeNothing,
                "may-have-broken" => EventKind::MayHaveBroken(rest.to_owned()),
                "killed" => EventKind::Killed,
                "had-it" => EventKind::HadIt,
                "stopped" => EventKind::Stopped,
                "continued" => EventKind::Continued,
                "fault" => EventKind::Fault(rest.to_owned()),
                "healed" => EventKind::Healed,
                _ => return None,
            };
            Some(Self {
                at: at.parse().ok()?,
                process: process.parse().ok()?,
                task: task.parse().ok()?,
                what,
            })
        };
        entry().ok_or_else(|| format!("no entry of a history: {line:?}"))
    }
}

/// Writes a history. The kernel gets each entry at once and whole, so a killed process loses nothing.
#[derive(Debug)]
pub struct HistoryWriter {
    file: File,
}

impl HistoryWriter {
    /// Opens or creates the history in this file, for appending.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::options().append(true).create(true).open(path)? })
    }

    /// Writes an event and its time. Panics if it cannot: a missing event cannot be judged.
    pub fn note(&self, at: u64, process: u32, task: u32, what: EventKind) {
        // An event with several lines is still one entry.
        let line = Entry { at, process, task, what }.to_string().replace(char::is_control, " ") + "\n";
        (&self.file).write_all(line.as_bytes()).expect("the history can be written");
    }
}

/// Reads the history in this file, ordered by time.
pub fn read(path: &Path) -> Vec<Entry> {
    let mut entries = read_on(path, &mut 0).expect("the history can be read");
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// The length of the history in this file up to its last complete entry.
pub(crate) fn length(path: &Path) -> io::Result<u64> {
    /// Longer than any entry.
    const TAIL: u64 = 65_536;
    let from = path.metadata()?.len().saturating_sub(TAIL);
    Ok(from + whole_from(path, from)?.len() as u64)
}

/// Reads the complete entries after this length, and advances the length.
pub(crate) fn read_on(path: &Path, length: &mut u64) -> io::Result<Vec<Entry>> {
    let bytes = whole_from(path, *length)?;
    *length += bytes.len() as u64;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    text.lines().map(|line| line.parse().map_err(io::Error::other)).collect()
}

/// What is written after this length, without an incomplete last line.
fn whole_from(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(length))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_history_is_read_back() {
        let events = "asks|asks permits 2/5 gpus|asks alone {two}b,{two}a|stands|granted 7 8|renewed 9|done|\
                      lets-go true|released|lost redis: closed by the peer|unconfirmed timed out|cancelled|\
                      failed not allowed|breaks 7 8 {two}a|broke|broke-nothing|may-have-broken timed out|\
                      killed|had-it|stopped|continued|fault server stopped|healed";
        for event in events.split('|') {
            let line = format!("5 6 1 {event}");
            assert_eq!(line.parse::<Entry>().unwrap().to_string(), line);
        }
        assert!("5 6 1 sleeps".parse::<Entry>().is_err());
    }

    #[test]
    fn a_follower_reads_each_entry_once_and_none_before_it_is_complete() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut length = 0;
        let mut read = |more: &str| {
            file.write_all(more.as_bytes()).unwrap();
            read_on(file.path(), &mut length).unwrap().iter().map(|entry| entry.at).collect::<Vec<_>>()
        };
        assert_eq!(read("5 6 1 asks\n7 6 1 sta"), [5]);
        assert_eq!(read("nds\n9 6 1 cancelled\n"), [7, 9]);
        assert_eq!(read(""), [0; 0]);
    }

    #[test]
    fn a_history_is_as_long_as_it_is_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (more, whole) in
            [("", 0), ("5 6 1 as", 0), ("ks\n", 11), ("7 6 1 sta", 11), (&*"n".repeat(50_000), 11)]
        {
            file.write_all(more.as_bytes()).unwrap();
            assert_eq!(length(file.path()).unwrap(), whole);
        }
    }
}
