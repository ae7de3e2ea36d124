//! Facts from the server: its settings as they apply to this user, and the tables with what this
//! user may do to them.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::fault::TransactionError;
use crate::sql::Sql;
use crate::table::row::Columns;

/// The facts that the server tells us.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) user: String,
    pub(super) schema: String,
    pub(super) is_standby: bool,
    /// The names of the replicas that are connected. A client that decodes changes is not one.
    pub(super) replicas: Vec<String>,
    /// The number of sessions of clients. An ordinary user does not see the type of others' sessions.
    pub(super) sessions: i64,
    /// What has the oldest transaction of the database that keeps old versions of rows, of those that
    /// the user may see, and for how many seconds.
    pub(super) oldest: Option<(String, i64)>,
    /// The settings by name; times are in ms.
    pub(super) settings: BTreeMap<String, String>,
    /// True if the user may use the schema; `None` if there is none.
    pub(super) may_enter: Option<bool>,
    pub(super) tables: BTreeMap<String, Table>,
    /// The functions and procedures, and whether the user may execute them.
    pub(super) routines: BTreeMap<String, bool>,
    /// The version of the tables, and the oldest that may use them, if the user may read it.
    pub(super) version: Option<(i64, i64)>,
    /// The id of the tables, likewise.
    pub(super) id: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) is_logged: bool,
    /// True if row level security may hide rows from the user.
    pub(super) hides_rows: bool,
    /// The user's rights on the table.
    pub(super) granted: BTreeSet<&'static str>,
}

pub(super) const PRIVILEGES: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('server_version_num', 'fsync', \
    'full_page_writes', 'synchronous_standby_names', 'statement_timeout', 'transaction_timeout', 'idle_session_timeout', \
    'max_connections', 'autovacuum', 'server_encoding')";

const STATE: &str = "SELECT current_user::text, pg_is_in_recovery(), \
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL \
    AND coalesce(backend_type, 'client backend') = 'client backend'), \
    (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = $1)";

/// A client that decodes changes is connected to a database.
const REPLICAS: &str = "SELECT r.application_name FROM pg_catalog.pg_stat_replication AS r \
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid = r.pid WHERE a.datid IS NULL AND r.state IS DISTINCT FROM 'backup'";

const OLDEST: &str = "SELECT o.what, floor(extract(epoch FROM clock_timestamp() - o.since))::bigint FROM (\
    SELECT 'process ' || pid, xact_start FROM pg_catalog.pg_stat_activity \
    WHERE datname = current_database() AND backend_type = 'client backend' AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) \
    UNION ALL SELECT 'prepared transaction ' || gid, prepared FROM pg_catalog.pg_prepared_xacts \
    WHERE database = current_database()) AS o (what, since) WHERE o.since IS NOT NULL ORDER BY o.since LIMIT 1";

const TABLES: &str = "SELECT c.relname::text, c.relpersistence <> 'u', has_table_privilege(c.oid, 'SELECT'), \
    has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'), row_security_active(c.oid) \
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')";

const ROUTINES: &str = "SELECT p.proname::text, has_function_privilege(p.oid, 'EXECUTE') FROM pg_catalog.pg_proc AS p \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1";

impl Facts {
    pub(super) async fn ask(client: &Client, schema: &str, sql: &Sql) -> Result<Self, TransactionError> {
        let in_schema = [(&schema as _, Type::TEXT)];
        let (settings, state, replicas, oldest, tables, routines) = tokio::try_join!(
            client.query_typed(SETTINGS, &[]),
            client.query_typed_one(STATE, &in_schema),
            client.query_typed(REPLICAS, &[]),
            client.query_typed_opt(OLDEST, &[]),
            client.query_typed(TABLES, &in_schema),
            client.query_typed(ROUTINES, &in_schema),
        )?;
        let state = Columns(&state);
        let mut facts = Self {
            user: state.get::<&str>(0)?.into(),
            schema: schema.into(),
            is_standby: state.get(1)?,
            sessions: state.get(2)?,
            may_enter: state.get(3)?,
            ..Self::default()
        };
        for row in &replicas {
            facts.replicas.push(Columns(row).get::<&str>(0)?.into());
        }
        if let Some(row) = &oldest {
            let row = Columns(row);
            facts.oldest = Some((row.get::<&str>(0)?.into(), row.get(1)?));
        }
        for row in &settings {
            let row = Columns(row);
            facts.settings.insert(row.get::<&str>(0)?.into(), row.get::<&str>(1)?.into());
        }
        for row in &routines {
            let row = Columns(row);
            facts.routines.insert(row.get::<&str>(0)?.into(), row.get(1)?);
        }
        for row in &tables {
            let row = Columns(row);
            let mut table = Table { is_logged: row.get(1)?, hides_rows: row.get(6)?, ..Table::default() };
            for (nth, privilege) in PRIVILEGES.into_iter().enumerate() {
                if row.get(2 + nth)? {
                    table.granted.insert(privilege);
                }
            }
            facts.tables.insert(row.get::<&str>(0)?.into(), table);
        }
        let may_read = facts.tables.get("meta").is_some_and(|meta| meta.granted.contains("SELECT"));
        if may_read && facts.may_enter == Some(true) {
            let row = client.query_typed_one(&sql.version, &[]).await?;
            let row = Columns(&row);
            facts.version = row.get::<Option<i64>>(0)?.zip(row.get::<Option<i64>>(1)?);
            facts.id = row.get(2)?;
        }
        Ok(facts)
    }

    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// A number, unless it is 0, which means that there is no limit.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.setting(name).parse().ok().filter(|number| *number > 0)
    }
}
