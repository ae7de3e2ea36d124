//! The file as one caller after another sees it: requests in, answers out, each in one transaction.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::{Fault, Fence, Key, Records, Request, Runtime, Scene, Served, Stamp, apply};
use rusqlite::Connection;

use crate::boot::BootId;
use crate::connection::{Begin, Open};
use crate::place::Place;
use crate::trouble::Trouble;
use crate::{schema, table};

/// The locks of a file, for a caller that blocks.
///
/// It opens nothing before the first request, and opens anew at the next one what could not be opened or went bad.
///
/// Every request may block: for the disk, and up to a second for other processes.
pub struct Ledger {
    place: Place,
    name: Arc<str>,
    runtime: Arc<dyn Runtime>,
    boot: Option<BootId>,
    open: Option<Open>,
}

impl Ledger {
    /// The ledger in the file at a path; a relative one counts from the directory that the process is in now.
    #[must_use]
    pub fn at(path: impl AsRef<Path>, runtime: Arc<dyn Runtime>) -> Self {
        let place = Place::new(path.as_ref());
        let name = place.name().into();
        Self { place, name, runtime, boot: None, open: None }
    }

    /// The same, as if the machine had been booted under this id.
    #[must_use]
    pub fn in_boot(self, boot: BootId) -> Self {
        Self { boot: Some(boot), ..self }
    }

    /// The place, as a person would write it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the file, or finds out why it cannot be opened.
    ///
    /// # Errors
    ///
    /// A lasting [`Fault`] where the place is not safe or the file is not ours; a passing one where the file is busy.
    pub fn open(&mut self) -> Result<(), Fault> {
        self.within(Begin::ToRead, |_, _| Ok(()))
    }

    /// Serves one request, and says whom else it concerns.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used; then the request was not done.
    pub fn serve(&mut self, request: Request) -> Result<Served, Fault> {
        let begin = if matches!(request, Request::Inspect(_)) { Begin::ToRead } else { Begin::ToWrite };
        self.within(begin, |connection, runtime| serve(connection, runtime, &request))
    }

    /// Serves several requests in one transaction: all are done, or none.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used; then none of the requests was done.
    pub fn serve_all(&mut self, requests: &[Request]) -> Result<Vec<Served>, Fault> {
        self.within(Begin::ToWrite, |connection, runtime| {
            requests.iter().map(|request| serve(connection, runtime, request)).collect()
        })
    }

    /// Everything that is written in the file, also what has ended. For tests and diagnosis.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used.
    pub fn dump(&mut self) -> Result<Records, Fault> {
        self.within(Begin::ToRead, |connection, _| table::load_all(connection))
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Closes the file; the next request opens it anew.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Does some work in a transaction of the file that is at the path now.
    fn within<T>(
        &mut self,
        begin: Begin,
        work: impl Fn(&Connection, &dyn Runtime) -> Result<T, Trouble>,
    ) -> Result<T, Fault> {
        self.transact(begin, work).map_err(|trouble| {
            if trouble.reopen() {
                self.open = None;
            }
            trouble.of(&self.name)
        })
    }

    fn transact<T>(
        &mut self,
        begin: Begin,
        work: impl Fn(&Connection, &dyn Runtime) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        // Somebody may have moved the file away, and others use another one there by now.
        let open = match self.open.take().filter(|open| Some(open.file()) == self.place.file_now()) {
            Some(open) => open,
            None => {
                let boot = self.boot.clone().map_or_else(BootId::current, Ok)?;
                Open::new(&self.place, |connection| schema::settle(connection, &boot, now(&*self.runtime)))?
            }
        };
        let open = self.open.insert(open);
        open.transaction(begin, |connection| work(connection, &*self.runtime))
    }
}

/// Loads, applies, saves. The clock is read when the transaction has begun: what another process did while this one waited for
/// it is then in the past.
fn serve(connection: &Connection, runtime: &dyn Runtime, request: &Request) -> Result<Served, Trouble> {
    let keys = keys(request);
    let before = table::load(connection, keys.iter().copied())?;
    let now = now(runtime);
    let since_epoch = u64::try_from(runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
    let scene = Scene::new(now, Fence::new(since_epoch).unwrap_or(Fence::MAX));
    let mut after = before.clone();
    let served = apply(&mut after, request.clone(), &scene);
    table::save(connection, keys.iter().copied(), &before, &after, now)?;
    Ok(served)
}

fn now(runtime: &dyn Runtime) -> Stamp {
    Stamp::from_micros(runtime.now().as_nanos() / 1000)
}

/// The keys whose records a request is about.
fn keys(request: &Request) -> Vec<&Key> {
    match request {
        Request::Grant { attempt, .. }
        | Request::Rejoin { attempt, .. }
        | Request::Renew(attempt)
        | Request::Raise(attempt)
        | Request::Release(attempt) => attempt.claim.keys().collect(),
        Request::Advance(keys) => keys.iter().collect(),
        Request::Inspect(key) => vec![key],
    }
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
    use std::time::Duration;

    use leasehold_core::{Attempt, Claim, FaultKind, Holder, Ttl};
    use tempfile::TempDir;

    use super::*;
    use crate::stopped::Stopped;

    fn grant(name: &str) -> Request {
        let claim = Claim::exclusive(Key::new(name).unwrap());
        let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
        Request::Grant {
            attempt: Attempt::new(claim, Holder::from_bits(1), None, ttl),
            wait: None,
            not_after: None,
        }
    }

    /// A ledger whose connection was told to do something out of the ordinary.
    fn a_ledger_with(pragma: &str, value: i64) -> (TempDir, Ledger) {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::new(Stopped));
        ledger.serve(grant("first")).unwrap();
        let open = ledger.open.as_ref().unwrap();
        open.pragma(pragma, value);
        (directory, ledger)
    }

    #[test]
    fn a_grant_that_finds_no_room_is_no_grant_and_leaves_the_rest_in_use() {
        let (_directory, mut ledger) = a_ledger_with("max_page_count", 1);
        let fault = (0..10_000).find_map(|n| ledger.serve(grant(&format!("{n:0>500}"))).err()).unwrap();
        assert!(fault.kind == FaultKind::Passing && fault.reason.contains("the disk is full"), "{fault}");
        let written = ledger.dump().unwrap();
        assert_eq!(written.locks.keys().collect::<Vec<_>>(), written.fences.keys().collect::<Vec<_>>());
        ledger.serve(grant("first")).unwrap();
    }

    #[test]
    fn a_file_that_turned_read_only_is_a_lasting_fault_and_opened_anew() {
        let (_directory, mut ledger) = a_ledger_with("query_only", 1);
        let fault = ledger.serve(grant("second")).unwrap_err();
        assert!(fault.kind == FaultKind::Lasting && fault.reason.contains("read-only"), "{fault}");
        ledger.serve(grant("second")).unwrap();
    }
}
