//! What there is only for a store on PostgreSQL: making its tables, and checking a lock in the transaction of a write.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Fault, Misuse, Runtime};
pub use leasehold_postgres::{Made, PostgresStore, schema_sql};
use tokio_postgres::Transaction;

use crate::Guard;
use crate::runtime::TokioRuntime;

/// Makes the tables of the store at a URL, unless they are there, by a user who may create a schema in the database; `leasehold init
/// --store URL` does the same. Must be called within a tokio runtime.
///
/// # Errors
///
/// A [`Fault`]: the URL is none, the server cannot be reached or refuses, or there is no runtime; nothing was made then.
///
/// # Cancel safety
///
/// Cancel safe: all is made in one transaction.
pub async fn init(url: &str) -> Result<Made, Fault> {
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
    /// The lock is not held any more under this fence: another holder may be at work. Roll back.
    #[non_exhaustive]
    Lost {
        /// What the server says.
        reason: String,
    },
    /// The lock is not one of a PostgreSQL store.
    #[non_exhaustive]
    OtherStore {
        /// Where it is held.
        store: String,
    },
    /// The server did not say whether the lock is held, such as where the tables are in another database.
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
    /// Refuses a transaction whose lock is lost. The transaction is one in the database of the locks, by any connection.
    ///
    /// When this succeeds, the lock is held, and until the transaction ends nobody else is granted it, even if the lease ends or is
    /// broken meanwhile. So of two holders of a key that both check before they commit, the second sees all that the first wrote, and
    /// a late one cannot commit. Keep such transactions short: waiters wait for their end.
    ///
    /// It is the statement `SELECT leasehold.check(key, fence)` for each key, which other clients of the database can send themselves.
    ///
    /// # Errors
    ///
    /// [`CheckError::Lost`] when the lease has ended, was broken or went to another holder; [`CheckError::OtherStore`] for locks that
    /// are not in PostgreSQL; [`CheckError::Unknown`] when the server says something else. The transaction has failed then, and only
    /// its rollback is left; where nothing was sent, the caller must roll it back.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; what is not known to be checked must not be committed.
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
