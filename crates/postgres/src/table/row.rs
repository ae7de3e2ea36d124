//! Reads columns. A value that Leasehold cannot have written is reported as damage, and never used.

use leasehold_core::{Fence, Holder, Key, Label, Stamp};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::fault::TransactionError;

/// The columns of a row.
pub(crate) struct Columns<'a>(pub(crate) &'a Row);

impl<'a> Columns<'a> {
    pub(crate) fn get<T: FromSql<'a>>(&self, at: usize) -> Result<T, TransactionError> {
        self.0.try_get(at).map_err(TransactionError::damaged)
    }

    pub(crate) fn maybe_key(&self, at: usize) -> Result<Option<Key>, TransactionError> {
        let bytes: Option<&[u8]> = self.get(at)?;
        bytes.map(|bytes| Key::new(bytes).map_err(TransactionError::damaged)).transpose()
    }

    pub(crate) fn key(&self, at: usize) -> Result<Key, TransactionError> {
        self.maybe_key(at)?.ok_or_else(|| TransactionError::damaged("a row has no key"))
    }

    pub(crate) fn maybe_holder(&self, at: usize) -> Result<Option<Holder>, TransactionError> {
        let bytes: Option<&[u8]> = self.get(at)?;
        let holder = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_be_bytes).map(Holder::from_bits);
        let damaged = || TransactionError::damaged("the id of a holder has another length");
        bytes.map(|bytes| holder(bytes).ok_or_else(damaged)).transpose()
    }

    pub(crate) fn holder(&self, at: usize) -> Result<Holder, TransactionError> {
        self.maybe_holder(at)?.ok_or_else(|| TransactionError::damaged("a row names no holder"))
    }

    pub(crate) fn label(&self, at: usize) -> Result<Option<Label>, TransactionError> {
        Ok(self.get::<Option<&str>>(at)?.map(|text| Label::read(text.as_bytes())))
    }

    pub(crate) fn maybe_fence(&self, at: usize) -> Result<Option<Fence>, TransactionError> {
        let fence = |number: i64| u64::try_from(number).ok().and_then(Fence::new);
        let damaged = |number| TransactionError::damaged(format_args!("a fence is {number}"));
        self.get::<Option<i64>>(at)?.map(|number| fence(number).ok_or_else(|| damaged(number))).transpose()
    }

    pub(crate) fn fence(&self, at: usize) -> Result<Fence, TransactionError> {
        self.maybe_fence(at)?.ok_or_else(|| TransactionError::damaged("a row has no fence"))
    }

    pub(crate) fn maybe_stamp(&self, at: usize) -> Result<Option<Stamp>, TransactionError> {
        let damaged = |number| TransactionError::damaged(format_args!("something ends at {number}"));
        let stamp = |number: i64| u64::try_from(number).map_err(|_| damaged(number));
        self.get::<Option<i64>>(at)?.map(|number| stamp(number).map(Stamp::from_micros)).transpose()
    }

    pub(crate) fn stamp(&self, at: usize) -> Result<Stamp, TransactionError> {
        self.maybe_stamp(at)?.ok_or_else(|| TransactionError::damaged("a point in time is missing"))
    }
}
