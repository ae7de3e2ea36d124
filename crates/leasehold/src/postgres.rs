//! Functions for PostgreSQL stores only: creating the tables, and checking a lock in the
//! transaction of a write.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Fault, Misuse, Runtime};
pub use leasehold_postgres::{InitOutcome, PostgresStore, schema_sql};
use tokio_postgres::Transaction;

use crate::Guard;
use crate::runtime::TokioRuntime;

/// Creates the tables of the store at a URL, unless they exist. The user must be allowed to create
/// a schema in the database, or tables in that schema if it exists; `leasehold init --store URL` does
/// the same. This must be called within a tokio runtime.
///
/// # Errors
///
/// A [`Fault`]: the URL is invalid, the server is unreachable or refuses, or there is no runtime.
/// Nothing was created then.
///
/// # Cancel safety
///
/// Cancel safe: everything is created in one transaction.
pub async fn init(url: &str) -> Result<InitOutcome, Fault> {
    let runtime = TokioRuntime::current();
    let runtime =
        runtime.ok_or_else(|| Fault::lasting("postgres", "there is no tokio runtime: call it within one"))?;
    let runtime: Arc<dyn Runtime> = Arc::new(runtime);
    leasehold_postgres::init(url, &runtime).await
}

/// Why a transaction must not be committed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// The lock is no longer held under this fence: another holder may be at work. Roll back.
    #[non_exhaustive]
    Lost {
        /// The server's error message.
        reason: String,
    },
    /// The lock is not held in a PostgreSQL store.
    #[non_exhaustive]
    OtherStore {
        /// The store in which it is held.
        store: String,
    },
    /// The server did not say whether the lock is held, for example because the tables are in
    /// another database.
    Unknown(tokio_postgres::Error),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { reason } => f.write_str(reason),
            Self::OtherStore { store } => write!(
                f,
                "the lock is held at {store}, and only one that is held in a PostgreSQL database can be checked there"
            ),
            Self::Unknown(error) => match error.as_db_error() {
                Some(said) => write!(f, "the lock cannot be checked in this database: {}", said.message()),
                None => write!(f, "the lock cannot be checked: {error}"),
            },
        }
    }
}

impl std::error::Error for CheckError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unknown(error) => Some(error),
            Self::Lost { .. } | Self::OtherStore { .. } => None,
        }
    }
}

impl Guard {
    /// Refuses a transaction whose lock is lost, on any connection to the database of the locks.
    ///
    /// On success, the lock is held, and nobody else is granted it until the transaction ends, even
    /// if the lease ends or is broken meanwhile. So if two holders of a key both check before they
    /// commit, the second sees everything that the first wrote, and a late holder cannot commit.
    /// A check in a savepoint ([`Transaction::transaction`]) that is rolled back does not count any
    /// more. Keep such transactions short: waiters wait for their end. End them before the lock is
    /// released or downgraded: that may wait for their end too, and if it waits for too long, a lock
    /// that was released remains until its lease ends, and one that was downgraded is lost then.
    ///
    /// It executes the statement `SELECT leasehold.check(key, fence)` for each key. Other clients
    /// of the database can send that statement themselves.
    ///
    /// # Errors
    ///
    /// [`CheckError::Lost`] if the lease has ended, was broken or went to another holder;
    /// [`CheckError::OtherStore`] for locks that are not in PostgreSQL; [`CheckError::Unknown`] for
    /// any other error of the server. Then the transaction has failed and can only be rolled back;
    /// if nothing was sent, the caller must roll it back.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; a transaction whose check did not complete must not be committed.
    pub async fn check(&self, transaction: &Transaction<'_>) -> Result<(), CheckError> {
        let store = self.store_name();
        let sql = leasehold_postgres::check_sql(store)
            .map_err(|_: Misuse| CheckError::OtherStore { store: store.to_owned() })?;
        let fence: i64 = self.fence().into();
        for key in self.keys() {
            let bytes = key.as_bytes();
            let parameters =
                [(&bytes as _, leasehold_postgres::KEY), (&fence as _, leasehold_postgres::FENCE)];
            if let Err(error) = transaction.execute_typed(&sql, &parameters).await {
                return Err(match error.as_db_error() {
                    Some(said) if said.code().code() == leasehold_postgres::LOST => {
                        CheckError::Lost { reason: said.message().to_owned() }
                    }
                    _ => CheckError::Unknown(error),
                });
            }
        }
        Ok(())
    }
}
