//! Errors within a transaction, before they become faults.

use std::fmt;

use tokio_postgres::error::{DbError, Severity};

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
