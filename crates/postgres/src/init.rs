//! Creates the tables. No store does that on its own.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Misuse, Runtime};
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::connect::connect;
use crate::fault::Faults;
use crate::sql::{Sql, TABLES};
use crate::table::row::Columns;
use crate::version;

/// How long it waits for a lock of another transaction, as of another `init`.
const LOCK_LIMIT: &str = "5s";

/// Longer than for a lock, and for making the tables on a slow server.
const LIMIT: Duration = Duration::from_secs(30);

/// The statements that create the tables of the store at a URL, for manual migrations.
///
/// # Errors
///
/// [`Misuse::Url`].
pub fn schema_sql(url: &str) -> Result<String, Misuse> {
    Ok(Sql::of(&Address::parse(url)?.schema).schema)
}

/// The effect on the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitOutcome {
    /// They were created.
    Created,
    /// They existed already.
    Existed,
}

/// Creates the tables of the store at a URL. The user must be allowed to create a schema in the
/// database, or tables in that schema if it exists.
///
/// # Errors
///
/// A [`Fault`]: the server is unreachable, or refuses; nothing was created then. An invalid URL is
/// a fault too.
///
/// # Cancel safety
///
/// If it is dropped, either everything was created or nothing. It can be called again.
pub async fn init(url: &str, runtime: &Arc<dyn Runtime>) -> Result<InitOutcome, Fault> {
    let address = Address::parse(url).map_err(|misuse| Fault::lasting("postgres", misuse))?;
    let faults = Faults { store: Arc::from(&*address.name), init: "leasehold init".into() };
    let late = || Err(faults.timed_out(format_args!("the tables were not made within {LIMIT:?}")));
    runtime.within(LIMIT, made(&address, &faults, runtime)).await.unwrap_or_else(late)
}

async fn made(address: &Address, faults: &Faults, runtime: &Arc<dyn Runtime>) -> Result<InitOutcome, Fault> {
    let sql = Sql::of(&address.schema);
    let live = connect(address, faults, runtime, None).await?;
    let of = |error: tokio_postgres::Error| faults.of_error(&error);
    let client = &live.client;
    // Two concurrent calls wait for each other, and the second finds the tables.
    let begin =
        format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '{LOCK_LIMIT}'");
    client.batch_execute(&begin).await.map_err(of)?;
    client.batch_execute("SELECT pg_advisory_xact_lock(hashtext('leasehold init'))").await.map_err(of)?;
    let is_there = "SELECT to_regclass($1 || '.meta') IS NOT NULL, current_setting('server_encoding'), \
        (SELECT string_agg(n, ', ') FROM unnest($2::text[]) AS n WHERE to_regclass($1 || '.' || n) IS NULL)";
    let about = [(&address.schema as _, Type::TEXT), (&&TABLES[..] as _, Type::TEXT_ARRAY)];
    let row = client.query_typed_one(is_there, &about).await.map_err(of)?;
    let row = Columns(&row);
    let read = |error| faults.of(&error);
    let (is_there, encoding): (bool, &str) = (row.get(0).map_err(read)?, row.get(1).map_err(read)?);
    let missing: Option<&str> = row.get(2).map_err(read)?;
    if encoding != "UTF8" {
        return Err(faults.lasting(format_args!(
            "the database has encoding {encoding}, which cannot keep every label: use a database with encoding UTF8"
        )));
    }
    if !is_there {
        client.batch_execute(&sql.schema).await.map_err(of)?;
    } else if let Some(missing) = missing {
        return Err(faults.lasting(format_args!(
            "of Leasehold's tables, {missing} are not there: restore them, or drop the schema while no program uses it and make them \
             again"
        )));
    }
    // A later version upgrades older tables here, in the same transaction.
    let row = client.query_typed_one(&sql.version, &[]).await.map_err(of)?;
    version::identity(&row, faults)?;
    client.batch_execute("COMMIT").await.map_err(of)?;
    Ok(if is_there { InitOutcome::Existed } else { InitOutcome::Created })
}
