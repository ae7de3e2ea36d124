//! Tries mutants of the scripts, on a server.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use leasehold_redis::script;
use servers::{Flavor, Server};

use super::{Mutant, Trial};
use crate::scripts::{self, Part};
use crate::subject::Subject;
use crate::{cases, constants, costs};

/// Most mutants are noticed by the first few.
const FEW: u64 = 30;
const HISTORIES: u64 = 150;

/// A script without an answer for so long never ends. A busy machine has answered by then: an
/// unchanged script that is late would look like a mutant that was noticed.
const LIMIT: Duration = Duration::from_secs(3);

/// How long each try to stop a script waits for the server.
const STOP_LIMIT: Duration = Duration::from_millis(300);

pub(super) struct ScriptTrial {
    server: Server,
    subject: Subject,
}

impl Trial for ScriptTrial {
    fn begin() -> Self {
        let server = Server::start(Flavor::Valkey91);
        // It soon answers that a script keeps it busy.
        let limit: i64 = 20;
        let mut connection = connection(&server);
        redis::cmd("CONFIG").arg("SET").arg("busy-reply-threshold").arg(limit).exec(&mut connection).unwrap();
        let mut trial = Self { subject: Subject::on(&server), server };
        assert!(!trial.tries("", ""), "something is noticed although nothing was changed");
        trial
    }

    fn notices(&mut self, part: &Part, mutant: &Mutant) -> bool {
        self.tries(&part.text, &mutant.text)
    }
}

impl ScriptTrial {
    fn tries(&mut self, part: &str, text: &str) -> bool {
        // A case that notices it panics, and so do tests that cannot decode an answer.
        let notices = panic::catch_unwind(AssertUnwindSafe(|| self.looks(part, text))).unwrap_or(true);
        if notices && !is_free(&self.server) {
            *self = Self::begin();
        }
        notices
    }

    fn looks(&mut self, part: &str, text: &str) -> bool {
        if constants::check(text).is_err() {
            return true;
        }
        // A new connection, because the last one may still get answers of the previous mutant.
        self.subject = Subject::on(&self.server);
        let subject = &mut self.subject;
        subject.set_read_timeout(LIMIT);
        let instead: Vec<_> =
            scripts::with(part).map(|script| (script.text(), script.text().replace(part, text))).collect();
        // Otherwise the scripts of single requests must handle all cases.
        subject.batches =
            [&script::BATCH, &script::MEMBER_BATCH, &script::BATCH_RENEW, &script::MEMBER_BATCH_RENEW]
                .iter()
                .any(|batch| batch.text().contains(part));
        if subject.run_instead(instead).is_err() {
            return true;
        }
        if (0..FEW).any(|seed| subject.agrees(seed).is_err()) {
            return true;
        }
        cases::all(subject);
        costs::all(subject);
        (FEW..HISTORIES).any(|seed| subject.agrees(seed).is_err())
    }
}

fn connection(server: &Server) -> redis::Connection {
    let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(STOP_LIMIT)).unwrap();
    connection
}

/// Stops a script that runs on for ever. False if it cannot be stopped because it has written.
fn is_free(server: &Server) -> bool {
    (0..20).any(|_| {
        let mut connection = connection(server);
        // If none runs, there is nothing to stop.
        let _ = redis::cmd("SCRIPT").arg("KILL").exec(&mut connection);
        redis::cmd("PING").exec(&mut connection).is_ok()
    })
}
