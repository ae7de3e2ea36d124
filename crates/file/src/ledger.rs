//! The ledger: serves requests on the file, each in one transaction, for callers that block.

mod baseline;
mod looking;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::{
    ApplyContext, Fault, Fence, Holder, Key, PushEvent, Records, Request, Runtime, Served, Stamp,
    Subscribers, WaitQueue, apply,
};
use rusqlite::Connection;

use crate::boot::BootId;
use crate::clock::MachineClock;
use crate::connection::{Begin, Open, Patience};
use crate::db_path::DbPath;
use crate::error::FileError;
use crate::sessions::{Session, Sessions};
use crate::table::{Requester, StoredRecords};
use crate::{schema, table};

/// The locks of a file, for a caller that blocks.
///
/// It opens nothing before the first request. A file that could not be opened or failed is opened
/// again by the next request.
///
/// Every request may block: for the disk, and up to a second for other processes. Nobody is
/// notified: a process whose turn has come finds that out itself within a tenth of a second, unless
/// the caller tells it.
pub struct Ledger {
    db_path: DbPath,
    name: Arc<str>,
    clock: MachineClock,
    boot: Option<BootId>,
    sessions: Arc<Sessions>,
    /// True if grants end with this store.
    is_mortal: bool,
    subscribers: Option<Arc<dyn Subscribers + Send + Sync>>,
    open: Option<Open>,
    /// True if leases of another boot are left, whose end took too long for the last call.
    is_unsettled: bool,
}

/// What becomes of a request if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// It creates the file.
    Create,
    /// It finds what an empty file contains, and creates nothing.
    FindNothing,
}

/// The state of a key for which somebody in this process waits.
#[derive(Debug)]
pub(crate) struct WaitedKey {
    pub(crate) key: Key,
    pub(crate) holders: Vec<Holder>,
    /// True if the first waiter could hold it, so it should be handed over.
    pub(crate) is_idle: bool,
}

impl Ledger {
    /// The ledger in the file at a path; a relative path starts at the current directory.
    #[must_use]
    pub fn at(path: impl AsRef<Path>, runtime: Arc<dyn Runtime>) -> Self {
        let db_path = DbPath::new(path.as_ref());
        let name = db_path.name().into();
        let sessions = Arc::new(Sessions::of_file(db_path.path()));
        let clock = MachineClock::of(runtime);
        Self {
            db_path,
            name,
            clock,
            boot: None,
            sessions,
            is_mortal: false,
            subscribers: None,
            open: None,
            is_unsettled: false,
        }
    }

    /// The same, as if the machine had been booted under this id.
    #[must_use]
    pub fn in_boot(mut self, boot: BootId) -> Self {
        self.boot = Some(boot);
        self
    }

    /// The same, but its grants end when it is dropped, or its process dies.
    #[must_use]
    pub fn mortal(mut self) -> Self {
        self.is_mortal = true;
        self
    }

    /// The same, but with these listeners. For tests without other processes.
    #[must_use]
    pub fn with_subscribers(mut self, subscribers: Arc<dyn Subscribers + Send + Sync>) -> Self {
        self.subscribers = Some(subscribers);
        self
    }

    pub(crate) fn with_sessions(mut self, sessions: Arc<Sessions>) -> Self {
        self.sessions = sessions;
        self
    }

    /// The store's name, as a person would write it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the file, which is created if it is missing, or finds out why it cannot be opened.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] if the place is not safe or the file is not ours; a passing one if the
    /// file is busy.
    pub fn open(&mut self) -> Result<(), Fault> {
        self.attempt(Begin::ToRead, Patience::Waits, IfMissing::Create, |_, _| Ok(())).map(drop)
    }

    /// The same, but creates nothing.
    pub(crate) fn open_if_there(&mut self) -> Result<(), Fault> {
        self.within(Begin::ToRead, |_, _| Ok(()))
    }

    /// Serves one request, and returns the messages to others.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the file cannot be used; then the request was not served.
    pub fn serve(&mut self, request: Request) -> Result<Served, Fault> {
        let mut served = self.serve_within(&[request], Patience::Waits)?.unwrap_or_default();
        Ok(served.remove(0).0)
    }

    /// Serves several requests in one transaction, all or none, each with its time. `None` if it
    /// would have to wait and must not.
    pub(crate) fn serve_within(
        &mut self,
        requests: &[Request],
        patience: Patience,
    ) -> Result<Option<Vec<(Served, Stamp)>>, Fault> {
        use Request::{Grant, Raise, Rejoin, Renew};
        let needs_session = |it: &Request| matches!(it, Grant { .. } | Renew(_) | Rejoin { .. } | Raise(_));
        if self.is_mortal && requests.iter().any(needs_session) {
            self.enter()?;
        }
        // A member of a quorum says that it may have forgotten leases, which an empty file cannot.
        let needs_file =
            |it: &Request| needs_session(it) || it.proposal().is_some() || matches!(it, Request::Mark { .. });
        let if_missing =
            if requests.iter().any(needs_file) { IfMissing::Create } else { IfMissing::FindNothing };
        self.attempt(begin_for(requests), patience, if_missing, |connection, inputs| {
            requests.iter().map(|request| serve(connection, inputs, request)).collect()
        })
    }

    /// Starts this store's session, and voids the remaining leases of dead ones. Without support
    /// for sessions, leases end only by their TTL; without room for one, nothing is granted.
    pub(crate) fn enter(&mut self) -> Result<(), Fault> {
        if self.sessions.own().is_some() {
            return Ok(());
        }
        self.open()?;
        if let Err(error) = self.sessions.enter(self.clock.runtime().random()) {
            let error = FileError::io("make a session in", self.sessions.directory(), &error);
            return if error.is_shortage() { Err(error.of(&self.name)) } else { Ok(()) };
        }
        self.end_the_dead()
    }

    /// Voids the leases of dead sessions, and removes their files. To find the rows may take long,
    /// but blocks nobody, and meanwhile no other key gets a row of a dead session.
    fn end_the_dead(&mut self) -> Result<(), Fault> {
        /// As many as take some milliseconds.
        const KEYS: usize = 1000;
        let dead = self.sessions.dead();
        let names: Vec<_> = dead.names().collect();
        if names.is_empty() {
            return Ok(());
        }
        let keys = self.within(Begin::ToRead, |connection, _| table::keys_of(connection, &names))?;
        for keys in keys.chunks(KEYS) {
            self.within(Begin::ToWrite, |connection, _| table::end_with(connection, keys, &names))?;
        }
        self.sessions.reap(&dead);
        Ok(())
    }

    /// Reads the state of some keys for which this process waits, without writing anything. A file
    /// that was removed meanwhile is created again: waiters ask for their locks in the new one.
    pub(crate) fn look(&mut self, keys: &[Key]) -> Result<Vec<WaitedKey>, Fault> {
        let seen = self.attempt(Begin::ToRead, Patience::Waits, IfMissing::Create, |connection, inputs| {
            let now = inputs.clock.now();
            let written = table::load(connection, keys.iter(), None, 1)?;
            let records = void_the_dead(written, inputs, now).records;
            let seen = keys.iter().map(|key| {
                let (holders, is_idle) = (records.holder_ids(key, now), records.is_idle(key, now));
                WaitedKey { key: key.clone(), holders, is_idle }
            });
            Ok(seen.collect())
        });
        seen.map(Option::unwrap_or_default)
    }

    /// All records in the file, including ended ones. For tests and diagnosis.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the file cannot be used.
    pub fn dump(&mut self) -> Result<Records, Fault> {
        self.within(Begin::ToRead, |connection, inputs| {
            let mut written = table::load_all(connection)?;
            written.records.voided = schema::voided(connection)?;
            Ok(void_the_dead(written, inputs, inputs.clock.now()).records)
        })
    }

    pub(crate) const fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    pub(crate) fn path(&self) -> &Path {
        self.db_path.path()
    }

    /// Returns true if the file should be opened again at once, which takes up to half a second.
    pub(crate) const fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Returns true if the log should be moved into the file, which takes as long as the disk does.
    pub(crate) fn has_long_log(&self) -> bool {
        self.open.as_ref().is_some_and(Open::has_long_log)
    }

    /// Moves the log into the file, as far as nobody reads it.
    pub(crate) fn shorten_log(&mut self) {
        if let Some(open) = &self.open {
            open.shorten_log();
        }
    }

    /// Closes the file; the next request opens it again.
    pub(crate) fn close(&mut self) {
        // First, so that nobody finds a log listed as in use that was removed when it was closed.
        self.sessions.uses_no_log();
        if let Some(open) = self.open.take() {
            open.close(&self.sessions);
        }
    }

    /// Closes a file that is no longer at its path.
    fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            open.abandon(&self.db_path, &self.sessions);
        }
        self.sessions.uses_no_log();
    }

    /// Opens the file that is at the path now. If the session's directory was removed or replaced,
    /// the session goes on in a new one, under another name.
    fn open_anew(&self) -> Result<Open, FileError> {
        self.clock.check()?;
        let boot = self.boot.clone().map_or_else(BootId::current, Ok)?;
        let open = Open::new(&self.db_path, &self.sessions, |connection| {
            schema::settle(connection, &boot, self.clock.now(), &self.sessions)
        })?;
        let has_to_enter = self.sessions.leave_if_lost();
        self.sessions.uses(open.users, boot, open.logs);
        if has_to_enter {
            // If it cannot, leases end only by their TTL.
            let _ = self.sessions.enter(self.clock.runtime().random());
        }
        Ok(open)
    }

    /// Runs some work in a transaction of the file that is at the path now, if there is one.
    fn within<T>(
        &mut self,
        begin: Begin,
        work: impl FnOnce(&Connection, &Inputs<'_>) -> Result<T, FileError>,
    ) -> Result<T, Fault> {
        let done = self.attempt(begin, Patience::Waits, IfMissing::FindNothing, work);
        done.map(|done| done.expect("whoever may wait begins"))
    }

    /// The same; `None` if it would have to wait and must not.
    fn attempt<T>(
        &mut self,
        begin: Begin,
        patience: Patience,
        if_missing: IfMissing,
        work: impl FnOnce(&Connection, &Inputs<'_>) -> Result<T, FileError>,
    ) -> Result<Option<T>, Fault> {
        self.transact(begin, patience, if_missing, work).map_err(|error| {
            let error = error.explained(self.db_path.path(), self.db_path.log());
            if error.reopen {
                self.close();
            }
            error.of(&self.name)
        })
    }

    fn transact<T>(
        &mut self,
        begin: Begin,
        patience: Patience,
        if_missing: IfMissing,
        work: impl FnOnce(&Connection, &Inputs<'_>) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        // Somebody may have moved the file or removed its log, and others may use another one there.
        let is_current =
            self.open.as_mut().is_some_and(|open| open.is_current(&self.db_path, &self.sessions));
        if !is_current {
            if patience == Patience::AtOnce {
                return Ok(None);
            }
            self.abandon();
            self.is_unsettled = false;
            if if_missing == IfMissing::FindNothing && self.db_path.is_missing()? {
                return work(&schema::empty()?, &self.inputs()).map(Some);
            }
            let opened = self.open_anew();
            self.is_unsettled = opened.as_ref().is_err_and(|error| error.unsettled);
            self.open = Some(opened?);
        }
        let Some(open) = &self.open else { return Ok(None) };
        let Some(transaction) = open.begin(begin, patience)? else { return Ok(None) };
        let done = work(&transaction, &self.inputs())?;
        transaction.commit()?;
        Ok(Some(done))
    }

    fn inputs(&self) -> Inputs<'_> {
        let subscribers: &dyn Subscribers = match &self.subscribers {
            Some(subscribers) => &**subscribers,
            None => &*self.sessions,
        };
        Inputs { clock: &self.clock, sessions: &self.sessions, subscribers }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

fn begin_for(requests: &[Request]) -> Begin {
    if requests.iter().any(|request| matches!(request, Request::Mark { .. })) {
        return Begin::Durably;
    }
    if requests.iter().all(Request::is_read) { Begin::ToRead } else { Begin::ToWrite }
}

/// The inputs of a request other than the records in the file.
#[derive(Debug)]
struct Inputs<'a> {
    clock: &'a MachineClock,
    sessions: &'a Sessions,
    subscribers: &'a dyn Subscribers,
}

impl Inputs<'_> {
    fn context(&self) -> ApplyContext<'static> {
        let since_epoch = u64::try_from(self.clock.runtime().since_epoch().as_micros()).unwrap_or(u64::MAX);
        ApplyContext::new(self.clock.now(), Fence::new(since_epoch).unwrap_or(Fence::MAX))
    }
}

/// Loads, applies, saves. The clock is read after the transaction has begun, so that writes for
/// which it waited are in the past. Only the head of a queue is loaded; if many of its waiters have
/// gone, a greater part.
fn serve(
    connection: &Connection,
    inputs: &Inputs<'_>,
    request: &Request,
) -> Result<(Served, Stamp), FileError> {
    /// The leaving waiter, the next, those searched for another process, the requester.
    const FEW: usize = WaitQueue::LOOKED_AHEAD + 3;
    let (keys, requester) = (request.keys(), requester(request, inputs.sessions));
    let context = inputs.context().with_subscribers(inputs.subscribers);
    let now = context.now;
    let all = matches!(request, Request::Inspect(_));
    let marks = matches!(request, Request::Mark { .. } | Request::Marked(_));
    for first in [FEW, WaitQueue::CLEARED_AT_ONCE + FEW, usize::MAX] {
        if all && first < usize::MAX {
            continue;
        }
        let before = table::load(connection, keys.clone(), requester, first)?;
        let mut before = void_the_dead(before, inputs, now);
        if request.proposal().is_some() {
            before.records.voided = schema::voided(connection)?;
        }
        if marks {
            table::mark::load(connection, keys.clone(), &mut before.records)?;
        }
        let mut after = before.records.clone();
        let mut served = apply(&mut after, request.clone(), &context);
        if after.queues.values().any(WaitQueue::is_short) {
            continue;
        }
        if marks {
            table::mark::save(connection, &before.records, &after, Stamp::from_micros(context.floor.get()))?;
        } else if !all {
            table::save(connection, keys.clone(), &before, &after, requester, now)?;
            table::broken::save(connection, &after, Stamp::from_micros(context.floor.get()))?;
        }
        for push in served.pushes.iter_mut().filter(|push| push.event == PushEvent::Broken) {
            // The holder does not wait; its channel is that of the session of its lease.
            push.to = before.session_of(&push.key, push.holder).map(Session::channel);
        }
        return Ok((served, now));
    }
    Err(FileError::damaged("a queue is longer than the waiters in it"))
}

/// The loaded records, with leases of dead sessions as ended.
fn void_the_dead(written: StoredRecords, inputs: &Inputs<'_>, now: Stamp) -> StoredRecords {
    let own = inputs.sessions.own();
    written.without(|session| own != Some(session) && inputs.sessions.is_dead(session), now)
}

fn requester<'a>(request: &'a Request, sessions: &Sessions) -> Option<Requester<'a>> {
    // A transferred lease depends on no process until its next holder renews it.
    let is_of_holder = !matches!(request, Request::Transfer { .. } | Request::Mark { .. });
    let attempt = request.attempt().filter(|_| is_of_holder)?;
    let wait = if let Request::Grant { wait, .. } = request { wait.as_ref() } else { None };
    let ticket = wait.and_then(|wait| wait.ticket.as_ref());
    Some(Requester { holder: attempt.holder, ticket, counts: wait.is_some(), session: sessions.own() })
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("name", &self.name)
            .field("is_open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use leasehold_core::{Attempt, Claim, FaultKind, Holder, Mark, Ttl};
    use tempfile::TempDir;

    use super::*;
    use crate::census::Opening;
    use crate::stopped_clock::StoppedClock;

    fn grant(name: &str) -> Request {
        let claim = Claim::exclusive(Key::new(name).unwrap());
        let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
        Request::Grant {
            attempt: Attempt::new(claim, Holder::from_bits(1), None, ttl),
            wait: None,
            not_after: None,
        }
    }

    /// A ledger whose connection has an unusual setting.
    fn a_ledger_with(pragma: &str, value: i64) -> (TempDir, Ledger) {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(StoppedClock));
        ledger.serve(grant("first")).unwrap();
        let open = ledger.open.as_ref().unwrap();
        open.pragma(pragma, value);
        (directory, ledger)
    }

    #[test]
    fn a_grant_that_finds_no_room_is_no_grant_and_leaves_the_rest_in_use() {
        let (_directory, mut ledger) = a_ledger_with("max_page_count", 1);
        let fault = (0..10_000).find_map(|n| ledger.serve(grant(&format!("{n:0>500}"))).err()).unwrap();
        assert!(fault.kind == FaultKind::Lasting && fault.reason.contains("the disk is full"), "{fault}");
        let written = ledger.dump().unwrap();
        assert_eq!(written.locks.keys().collect::<Vec<_>>(), written.fences.keys().collect::<Vec<_>>());
        ledger.serve(grant("first")).unwrap();
    }

    /// A power cut after the answer must not undo it. Other transactions do not wait for the disk.
    #[test]
    fn marks_are_made_and_deleted_in_transactions_that_end_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(StoppedClock));
        let Request::Grant { attempt, .. } = grant("k") else { unreachable!("it is a grant") };
        let mark = Mark::new(Stamp::from_micros(1), Fence::new(1).unwrap(), None);
        let keep = Duration::from_secs(60);
        let mut settings = |work: &dyn Fn(&mut Ledger)| {
            ledger.open().unwrap();
            let (tell, told) = mpsc::channel();
            ledger.open.as_mut().unwrap().watch_settings(move |setting| tell.send(setting).unwrap());
            work(&mut ledger);
            told.try_iter().map(|setting| setting.unwrap_or("ends".into())).collect::<Vec<_>>()
        };
        let on_disk = ["synchronous full", "ends", "synchronous normal"];
        assert_eq!(settings(&|ledger| drop(ledger.serve(grant("k")).unwrap())), ["ends"]);
        let marks = |ledger: &mut Ledger| {
            let (attempt, mark) = (attempt.clone(), mark.clone());
            ledger.serve(Request::Mark { attempt, mark, keep }).unwrap();
        };
        assert_eq!(settings(&marks), on_disk);
        let forgets =
            |ledger: &mut Ledger| assert!(ledger.forget(&Key::new("k").unwrap()).unwrap().is_some());
        assert_eq!(settings(&forgets), on_disk);
        assert_eq!(settings(&|ledger| drop(ledger.serve(grant("k")).unwrap())), ["ends"]);
    }

    #[test]
    fn a_file_that_the_parent_of_a_forked_process_has_open_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(StoppedClock));
        ledger.open().unwrap();
        let file = ledger.open.as_ref().unwrap().file();
        ledger.close();
        let inherited = Opening::begin().enter_by(file, 0);
        let fault = ledger.open().unwrap_err();
        assert!(fault.is_lasting() && fault.reason.contains("forked"), "{fault}");
        drop(inherited);
        ledger.open().unwrap();
    }

    /// It was one pass for each session, which took long in a file of many keys.
    #[test]
    fn any_number_of_dead_sessions_are_ended_in_one_pass() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(StoppedClock)).mortal();
        for n in 0..200 {
            ledger.serve(grant(&n.to_string())).unwrap();
        }
        ledger.close();
        let mut connection = Connection::open(ledger.path()).unwrap();
        let mut instructions_for = |sessions: u64| {
            let (count, counted) = mpsc::channel();
            connection.progress_handler(1, Some(move || count.send(()).is_err())).unwrap();
            let names: Vec<_> = (0..sessions).map(|n| Session::from_bytes(n.to_be_bytes())).collect();
            assert!(table::keys_of(&connection, &names).unwrap().is_empty());
            connection.progress_handler(1, None::<fn() -> bool>).unwrap();
            counted.iter().count()
        };
        let (one, many) = (instructions_for(1), instructions_for(64));
        assert!(one > 200 && many < 3 * one, "{one} instructions, {many} for many sessions");
    }

    /// Regression: the rows of killed processes were searched for in the transaction that changed
    /// them, so each start after a kill kept the whole file.
    #[test]
    fn a_start_after_a_kill_searches_for_rows_while_others_write() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(StoppedClock)).mortal();
        ledger.open().unwrap();
        let peers = directory.path().join("leases.db-peers");
        std::fs::create_dir(&peers).unwrap();
        let killed = peers.join("8000000000000007");
        std::fs::write(&killed, "").unwrap();
        let writer = Connection::open(ledger.path()).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        ledger.enter().unwrap();
        assert!(!killed.exists());
    }

    #[test]
    fn a_file_that_turned_read_only_is_a_lasting_fault_and_is_opened_again() {
        let (_directory, mut ledger) = a_ledger_with("query_only", 1);
        let fault = ledger.serve(grant("second")).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Lasting, "{fault}");
        assert!(["read-only", "make it writable"].iter().all(|it| fault.reason.contains(it)), "{fault}");
        ledger.serve(grant("second")).unwrap();
    }
}
