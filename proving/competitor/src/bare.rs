//! The technique of most lock libraries, without a library.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value, cmd};

use crate::cycle::{AnyError, Cycle, TTL};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Clients give up after half a second, which a busy machine can take; a slow loop is a result
/// rather than a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that tasks share, with the script loaded.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    connection: MultiplexedConnection,
    script: String,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Result<Self, AnyError> {
        let limits = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let mut connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&limits).await?;
        let script = cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
        Ok(Self { connection, script })
    }
}

impl Cycle for Bare {
    async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        let mut connection = self.connection.clone();
        let value = format!("{serial:032x}");
        let mut set = cmd("SET");
        set.arg(key).arg(&value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        let granted: Value = set.query_async(&mut connection).await?;
        let mut release = cmd("EVALSHA");
        release.arg(&self.script).arg(1).arg(key).arg(&value);
        let released: i64 = release.query_async(&mut connection).await?;
        if granted == Value::Nil || released != 1 {
            return Err(format!("the bare loop was not alone on {key}").into());
        }
        Ok(())
    }
}
