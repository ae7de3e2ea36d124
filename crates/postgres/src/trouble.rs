//! What goes wrong within a transaction, before it is known whose fault it becomes.

use std::fmt;

/// Why a transaction came to nothing, or why nobody knows what it came to.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// What the server or the connection said.
    Said(tokio_postgres::Error),
    /// The tables have something that Leasehold cannot have written.
    Damaged(String),
    /// No answer within the limit of a batch.
    Silent,
}

impl Trouble {
    /// Whether the connection is, so that nothing more can be said on it.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Said(error) => error.as_db_error().is_none(),
            Self::Damaged(_) => false,
            Self::Silent => true,
        }
    }

    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        Self::Damaged(what.to_string())
    }
}

/// An error of a column is one of what is in it.
impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Said(error)
    }
}
