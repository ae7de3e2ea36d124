//! Turns errors of the server and the connection into faults: their texts, and whether they will
//! pass.

use std::error::Error as _;
use std::sync::Arc;
use std::{fmt, io};

use leasehold_core::{Escaped, Fault, FaultCause};
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Creates the faults of one store.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) store: Arc<str>,
    /// How to create the schema, for an error about a missing one.
    pub(crate) init: Arc<str>,
}

impl Faults {
    pub(crate) fn passing(&self, reason: impl fmt::Display) -> Fault {
        Fault::passing(&self.store, reason)
    }

    pub(crate) fn lasting(&self, reason: impl fmt::Display) -> Fault {
        Fault::lasting(&self.store, reason)
    }

    pub(crate) fn timed_out(&self, reason: impl fmt::Display) -> Fault {
        self.passing(reason).caused_by(FaultCause::TimedOut)
    }

    pub(crate) fn of(&self, error: &TransactionError) -> Fault {
        match error {
            TransactionError::Client(error) => self.of_error(error),
            TransactionError::Silent => self.timed_out("no answer in time: the server or the network is stalled"),
            TransactionError::Damaged(what) => self.lasting(format_args!(
                "the tables are damaged ({}): somebody else wrote there; delete that row while no program uses it",
                Escaped(what.as_bytes())
            )),
        }
    }

    /// The key is not held by this holder after its release failed in this way.
    pub(crate) fn doubted_release(&self, error: &TransactionError) -> Fault {
        self.passing(format_args!(
            "it may have released the lock before it failed: {}",
            self.of(error).reason
        ))
    }

    pub(crate) fn of_error(&self, error: &tokio_postgres::Error) -> Fault {
        match error.as_db_error() {
            Some(said) => self.of_refusal(said),
            None => self.of_connection(error),
        }
    }

    /// The connection failed, or could not be made.
    fn of_connection(&self, error: &tokio_postgres::Error) -> Fault {
        if let Some(error) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            return self.of_socket(error);
        }
        if let Some(reason) = error.source().filter(|_| is_about_login(error)) {
            return self
                .lasting(format_args!("cannot log in: {reason}"))
                .caused_by(FaultCause::Authentication);
        }
        if error.source().is_some_and(|source| source.to_string() == NO_TLS) {
            let reason = format!("{NO_TLS}: turn on ssl there, or leave sslmode out of the store URL");
            return self.lasting(reason).caused_by(FaultCause::Tls);
        }
        let reason = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        self.passing(format_args!("the connection broke: {reason}")).caused_by(FaultCause::Connection)
    }

    fn of_socket(&self, error: &io::Error) -> Fault {
        if let Some(cause) = crate::tls::cause(error) {
            return self.lasting(cause).caused_by(FaultCause::Tls);
        }
        match error.kind() {
            // The client library's own error: no host of the URL takes writes. The kernel's errors
            // have a number.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                self.standby("or default_transaction_read_only is on for this user or database")
            }
            io::ErrorKind::PermissionDenied => {
                let fault =
                    self.lasting(format_args!("may not connect: {error}: change who may use the socket"));
                fault.caused_by(FaultCause::Permission)
            }
            kind => self.passing(format_args!("cannot reach the server: {error}")).caused_by(match kind {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FaultCause::ConnectionRefused,
                io::ErrorKind::TimedOut => FaultCause::TimedOut,
                _ if error.to_string().contains("failed to lookup") => FaultCause::NameResolution,
                _ => FaultCause::Connection,
            }),
        }
    }

    /// The server's refusal. Its message is in the language of the server (`lc_messages`), so its code
    /// decides, but for names in the message and for PgBouncer.
    fn of_refusal(&self, said: &DbError) -> Fault {
        let message = Escaped(said.message().as_bytes()).to_string();
        let code = said.code();
        let class = code.code().get(..2).unwrap_or_default();
        match *code {
            // The table meta is the first one that is read, and there.
            SqlState::UNDEFINED_TABLE if !message.contains(".meta") => self.lasting(format_args!(
                "one of Leasehold's tables is missing ({message}): restore it, or drop the schema while no program uses it and make \
                 the tables again with `{}`",
                self.init
            )),
            SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_FUNCTION => self
                .lasting(format_args!(
                    "Leasehold's tables are not in this database ({message}): make them with `{}`",
                    self.init
                )),
            SqlState::UNDEFINED_COLUMN => self.lasting(format_args!(
                "the tables in that schema are of another version, or not Leasehold's ({message}): name another schema in the URL, or use \
                 a program of that version"
            )),
            SqlState::INSUFFICIENT_PRIVILEGE => self
                .lasting(format_args!(
                    "{message}: grant the user what docs/postgres.md lists, disable row level security on Leasehold's tables if it is on, \
                     or use the owner of the tables"
                ))
                .caused_by(FaultCause::Permission),
            SqlState::INVALID_CATALOG_NAME => {
                self.lasting(format_args!("{message}: create it, or name another in the URL"))
            }
            // A server that crashes has perhaps committed the request.
            SqlState::DISK_FULL if !ends_the_connection(said) => self
                .lasting(format_args!(
                    "the server's disk is full ({message}), so nothing was taken or changed: free some space"
                ))
                .caused_by(FaultCause::DiskFull),
            SqlState::OUT_OF_MEMORY => self.passing(&message).caused_by(FaultCause::OutOfMemory),
            SqlState::READ_ONLY_SQL_TRANSACTION => self.standby(&message),
            // `BEGIN READ WRITE` on a standby.
            SqlState::FEATURE_NOT_SUPPORTED => self.standby(&message),
            SqlState::TOO_MANY_CONNECTIONS => self
                .passing(format_args!(
                    "{message}: raise max_connections, or the limit of the user or the database, or end connections that nobody needs"
                ))
                .caused_by(FaultCause::NotServing),
            SqlState::LOCK_NOT_AVAILABLE => self
                .passing(format_args!(
                    "a key or a table is locked by another transaction for longer than a call may take ({message}): end that transaction, \
                     which pg_stat_activity shows; if its wait_event is SyncRep, it is complete and waits for a synchronous standby: bring \
                     that back, or change synchronous_standby_names"
                ))
                .caused_by(FaultCause::NotServing),
            SqlState::QUERY_CANCELED => self
                .passing(format_args!(
                    "the server gave up ({message}): if it is not overloaded, give the user a longer statement_timeout"
                ))
                .caused_by(FaultCause::NotServing),
            SqlState::PROGRAM_LIMIT_EXCEEDED => self
                .passing(format_args!(
                    "the server's queue of notifications is full ({message}): end the oldest transaction of a session that listens, which \
                     pg_stat_activity shows"
                ))
                .caused_by(FaultCause::NotServing),
            _ if class == "28" => self.lasting(&message).caused_by(FaultCause::Authentication),
            // PgBouncer. Its errors have the codes of a connection that failed.
            _ if message.contains("statement pooling mode") => self.lasting(format_args!(
                "{message}, and locks need transactions: use transaction mode, or name the server itself in the store URL"
            )),
            // The server is starting or shutting down, has no free connection, or was stopped by an
            // operator.
            _ if matches!(class, "57" | "53" | "08" | "40" | "25") => {
                self.passing(&message).caused_by(FaultCause::Connection)
            }
            // A value that a column does not accept: ours are never like that.
            _ if matches!(class, "22" | "23" | "42") => {
                self.lasting(format_args!("{message} (SQLSTATE {})", code.code()))
            }
            _ => self.passing(format_args!("{message} (SQLSTATE {})", code.code())),
        }
    }

    /// A standby passes, because it may be promoted.
    fn standby(&self, reason: &str) -> Fault {
        self.passing(format_args!(
            "the server is a standby and takes no writes ({reason}): name its primary in the URL, or all hosts"
        ))
        .caused_by(FaultCause::NotServing)
    }
}

/// The client library's error if the server refuses TLS.
const NO_TLS: &str = "server does not support TLS";

/// Returns true if the client itself could not log in, because it has no password or does not
/// support the server's authentication method.
fn is_about_login(error: &tokio_postgres::Error) -> bool {
    let said = error.to_string();
    said.contains("authentication") || said.contains("invalid configuration")
}

/// Returns true if trying the same again at once may succeed.
///
/// While `REINDEX CONCURRENTLY` replaces an index, two transactions that add the same row at the same
/// moment conflict in the new one, which `ON CONFLICT` does not consider.
pub(crate) fn is_conflict(error: &TransactionError) -> bool {
    code(error).is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE
            || *code == SqlState::T_R_DEADLOCK_DETECTED
            || *code == SqlState::UNIQUE_VIOLATION
    })
}

/// Returns true if another transaction blocked this one for too long.
pub(crate) fn is_blocked(error: &TransactionError) -> bool {
    code(error) == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Returns true if the server refused a message because its queue is full.
pub(crate) fn is_queue_full(error: &TransactionError) -> bool {
    code(error) == Some(&SqlState::PROGRAM_LIMIT_EXCEEDED)
}

/// Returns true if the server is a standby, which refuses `BEGIN READ WRITE`.
pub(crate) fn is_standby(error: &TransactionError) -> bool {
    code(error) == Some(&SqlState::FEATURE_NOT_SUPPORTED)
}

/// Returns true if the server did not begin with the statement: the user may not execute it, or not
/// write. An error within a function has a context.
pub(crate) fn is_refused_at_once(error: &TransactionError) -> bool {
    let is_at_once = |said: &DbError| match said.code().code().get(..2) {
        Some("42") => said.where_().is_none(),
        class => class == Some("25"),
    };
    said(error).is_some_and(is_at_once)
}

fn code(error: &TransactionError) -> Option<&SqlState> {
    said(error).map(DbError::code)
}

fn said(error: &TransactionError) -> Option<&DbError> {
    match error {
        TransactionError::Client(error) => error.as_db_error(),
        TransactionError::Damaged(_) | TransactionError::Silent => None,
    }
}

/// Why a transaction failed, or why its result is unknown.
#[derive(Debug)]
pub(crate) enum TransactionError {
    /// The error of the server or the connection.
    Client(tokio_postgres::Error),
    /// The tables contain a value that Leasehold cannot have written.
    Damaged(String),
    /// No answer within the limit of a batch.
    Silent,
}

impl TransactionError {
    /// Returns true if the connection is lost.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Client(error) => error.as_db_error().is_none_or(ends_the_connection),
            Self::Damaged(_) => false,
            Self::Silent => true,
        }
    }

    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        Self::Damaged(what.to_string())
    }
}

pub(crate) fn ends_the_connection(said: &DbError) -> bool {
    // Class 08 is of a pooler that lost its connection to the server, which may still be at work.
    said.code().code().starts_with("08")
        || matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

impl From<tokio_postgres::Error> for TransactionError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_postgres::NoTls;

    use super::*;

    /// The fault for a server that answers with this error.
    async fn fault_of(severity: &str, code: &str, message: &str) -> Fault {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = format!("host=127.0.0.1 port={} user=u", listener.local_addr().unwrap().port());
        let said = format!("S{severity}\0V{severity}\0C{code}\0M{message}\0\0");
        let length = u32::try_from(said.len() + 4).unwrap().to_be_bytes();
        let answer = [b"E", &length[..], said.as_bytes()].concat();
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_u32().await.unwrap();
            socket.write_all(&answer).await.unwrap();
            socket
        };
        let (connected, _) = tokio::join!(tokio_postgres::connect(&config, NoTls), server);
        Faults { store: "s".into(), init: "init".into() }.of_error(&connected.err().unwrap())
    }

    /// Regression: a server without space for its log crashed, and its answer counted as a refusal, so
    /// that what it may have granted was not released.
    #[tokio::test]
    async fn a_server_that_crashes_on_a_full_disk_has_not_refused() {
        for (severity, is_lasting) in [("ERROR", true), ("PANIC", false)] {
            let fault = fault_of(severity, "53100", "no space").await;
            assert_eq!(fault.is_lasting(), is_lasting, "{fault}");
        }
    }

    /// Regression: with `lc_messages = 'de_DE.UTF-8'`, a standby was not named as one, and the remedy for
    /// row level security was a grant.
    #[tokio::test]
    async fn the_language_of_the_server_changes_no_remedy() {
        for (code, message, remedy) in [
            (
                "0A000",
                "kann den Read/Write-Modus nicht während der Wiederherstellung setzen",
                "name its primary",
            ),
            ("42501", "Policy für Sicherheit auf Zeilenebene", "disable row level security"),
            ("54000", "demasiadas notificaciones en la cola", "end the oldest transaction"),
        ] {
            let fault = fault_of("ERROR", code, message).await.to_string();
            assert!(fault.contains(message) && fault.contains(remedy), "{fault}");
        }
    }
}
