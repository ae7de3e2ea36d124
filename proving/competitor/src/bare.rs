//! The technique of most lock libraries, without a library.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value, cmd};
use tokio_postgres::{NoTls, Statement};

use crate::cycle::{AnyError, Cycle, TTL};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// redis-rs gives up after half a second; on a busy machine, a slow loop is a result, not a failure.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A connection that tasks share, with its scripts or statements prepared.
#[derive(Clone)]
pub(crate) enum Bare {
    Server(BareServer),
    Database(BareDatabase),
}

/// `SET NX PX`, and a script that compares and deletes: no fence.
#[derive(Clone, Debug)]
pub struct BareServer {
    pub connection: MultiplexedConnection,
    /// The script's hash.
    pub script: String,
}

/// `pg_try_advisory_lock` and `pg_advisory_unlock`.
#[derive(Clone)]
pub(crate) struct BareDatabase {
    client: Arc<tokio_postgres::Client>,
    acquire: Statement,
    release: Statement,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Result<Self, AnyError> {
        Ok(if url.starts_with("postgres") {
            Self::Database(BareDatabase::connect(url).await?)
        } else {
            Self::Server(BareServer::connect(url).await?)
        })
    }
}

impl BareServer {
    pub async fn connect(url: &str) -> Result<Self, AnyError> {
        let limits =
            AsyncConnectionConfig::new().set_connection_timeout(PATIENCE).set_response_timeout(PATIENCE);
        let mut connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&limits).await?;
        let script = cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
        Ok(Self { connection, script })
    }

    /// True if nobody had the key.
    pub async fn acquire(&self, key: &str, value: &str) -> Result<bool, AnyError> {
        let mut set = cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        Ok(set.query_async::<Value>(&mut self.connection.clone()).await? != Value::Nil)
    }

    /// True if the key had this value.
    pub async fn release(&self, key: &str, value: &str) -> Result<bool, AnyError> {
        let mut release = cmd("EVALSHA");
        release.arg(&self.script).arg(1).arg(key).arg(value);
        Ok(release.query_async::<i64>(&mut self.connection.clone()).await? == 1)
    }

    pub async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        let value = format!("{serial:032x}");
        alone(self.acquire(key, &value).await? & self.release(key, &value).await?, key)
    }
}

impl BareDatabase {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let acquire = client.prepare("SELECT pg_try_advisory_lock(hashtextextended($1, 0))").await?;
        let release = client.prepare("SELECT pg_advisory_unlock(hashtextextended($1, 0))").await?;
        Ok(Self { client: client.into(), acquire, release })
    }

    async fn cycle(&self, key: &str) -> Result<(), AnyError> {
        let granted: bool = self.client.query_one(&self.acquire, &[&key]).await?.get(0);
        let released: bool = self.client.query_one(&self.release, &[&key]).await?.get(0);
        alone(granted && released, key)
    }
}

fn alone(was_alone: bool, key: &str) -> Result<(), AnyError> {
    if was_alone { Ok(()) } else { Err(format!("a bare loop was not alone on {key}").into()) }
}

impl Cycle for Bare {
    async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        match self {
            Self::Server(server) => server.cycle(key, serial).await,
            Self::Database(database) => database.cycle(key).await,
        }
    }
}
