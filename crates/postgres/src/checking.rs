//! The statement that refuses a writer whose lock is lost.

use leasehold_core::Misuse;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::sql::quoted;

/// The type of the key, as the statement takes it.
pub const KEY: Type = Type::BYTEA;

/// The type of the fence.
pub const FENCE: Type = Type::INT8;

/// The SQLSTATE of the refusal.
pub const LOST: &str = "LH001";

/// The statement for the store with this URL or [name](leasehold_core::Store::name). Its arguments
/// are the key and the fence.
///
/// # Errors
///
/// [`Misuse::Url`] if that is not a PostgreSQL store.
pub fn check_sql(store: &str) -> Result<String, Misuse> {
    Ok(format!("SELECT {}.\"check\"($1, $2)", quoted(&Address::parse(store)?.schema)))
}
