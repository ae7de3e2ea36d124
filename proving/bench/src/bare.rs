//! Bare loops: the same client and the same server, without Leasehold.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value, cmd, pipe};

use crate::AnyError;
use crate::clock;

/// A connection with the script loaded.
#[derive(Clone, Debug)]
pub struct Bare {
    connection: MultiplexedConnection,
    compare_and_delete: String,
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Connection settings with a longer timeout: redis-rs gives up after half a second, which a busy
/// machine can take, and a slow loop is a result rather than a failure.
fn patient() -> AsyncConnectionConfig {
    const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
    AsyncConnectionConfig::new().set_connection_timeout(LIMIT).set_response_timeout(LIMIT)
}

/// Leasehold's default TTL, in ms.
const TTL: u64 = 30_000;

impl Bare {
    /// Connects to the server at a URL.
    pub async fn at(url: &str) -> Result<Self, AnyError> {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient()).await?;
        let script = cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
        Ok(Self { connection, compare_and_delete: script })
    }

    /// Acquires a key and releases it, as most lock libraries do: without a fence.
    pub async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        let mut connection = self.connection.clone();
        let value = format!("{serial:032x}");
        let granted: Value = set(key, &value).query_async(&mut connection).await?;
        let released: i64 = self.release(key, &value).query_async(&mut connection).await?;
        if granted == Value::Nil || released != 1 {
            return Err(format!("a bare pair was not alone on {key}").into());
        }
        Ok(())
    }

    /// Acquires a key at all members at once, then releases it at all of them at once; each step
    /// waits for all answers.
    pub async fn cycle_at_all(members: &[Self], key: &str, serial: u64) -> Result<(), AnyError> {
        let value = &format!("{serial:032x}");
        let takes = members
            .iter()
            .map(async |member| set(key, value).query_async::<Value>(&mut member.connection.clone()).await);
        if try_join_all(takes).await?.contains(&Value::Nil) {
            return Err(format!("a bare pair at {} servers was not alone on {key}", members.len()).into());
        }
        let releases = members.iter().map(async |member| {
            member.release(key, value).query_async::<i64>(&mut member.connection.clone()).await
        });
        if try_join_all(releases).await?.contains(&0) {
            return Err(format!("a bare pair at {} servers lost {key}", members.len()).into());
        }
        Ok(())
    }

    fn release(&self, key: &str, value: &str) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(&self.compare_and_delete).arg(1).arg(key).arg(value);
        command
    }

    /// The time of a PING after this rest, in µs.
    pub async fn round_trip(&self, rest: Duration) -> Result<f64, AnyError> {
        let mut connection = self.connection.clone();
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
        let sent = clock::now();
        let _: Value = cmd("PING").query_async(&mut connection).await?;
        Ok((clock::now() - sent) as f64 / 1e3)
    }

    /// The minimal renewal, in a pipeline.
    pub async fn renew(&self, key: &str) -> Result<(), AnyError> {
        let mut one = pipe();
        one.cmd("EVALSHA").arg(&self.compare_and_delete).arg(2).arg(key).arg(key).arg("nobody").ignore();
        Ok(one.query_async(&mut self.connection.clone()).await?)
    }
}

fn set(key: &str, value: &str) -> Cmd {
    let mut command = cmd("SET");
    command.arg(key).arg(value).arg("NX").arg("PX").arg(TTL);
    command
}
