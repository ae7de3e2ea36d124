//! The version of the tables, and which program may use which tables.

use std::sync::Arc;

use leasehold_core::Fault;
use tokio_postgres::Row;

use crate::fault::{Faults, TransactionError};
use crate::table::row::Columns;

/// The version of the tables that this program makes. A change that only adds to them keeps older
/// programs working, because no statement names a column that it does not need.
pub(crate) const VERSION: i64 = 2;

/// The remedy for tables of an older version, none of which was released.
pub(crate) const OLDER: &str = "name another schema in the store URL, or drop this one if nothing else is in it and no program uses it; then make them";

/// Returns the identity of the tables, or why this program must not use them.
pub(crate) fn identity(row: &Row, faults: &Faults) -> Result<Arc<str>, Fault> {
    let read = || -> Result<_, TransactionError> {
        let row = Columns(row);
        Ok((row.get::<Option<i64>>(0)?, row.get::<Option<i64>>(1)?, row.get::<Option<&str>>(2)?))
    };
    let (version, readable_by, identity) = read().map_err(|error| faults.of(&error))?;
    let (Some(version), Some(readable_by), Some(identity)) = (version, readable_by, identity) else {
        let lacks = TransactionError::damaged("the table meta lacks version, readable_by or id");
        return Err(faults.of(&lacks));
    };
    if version < VERSION {
        return Err(faults.lasting(format_args!(
            "Leasehold's tables are of version {version}, and this program needs {VERSION}: {OLDER} with `{}`",
            faults.init
        )));
    }
    if readable_by > VERSION {
        return Err(faults.lasting(format_args!(
            "Leasehold's tables are of version {version}, which takes a program of version {readable_by}, and this one is of \
             version {VERSION}: update the program"
        )));
    }
    Ok(identity_of(identity))
}

/// The identity of the tables with this id.
pub(crate) fn identity_of(id: &str) -> Arc<str> {
    format!("postgres {id}").into()
}
