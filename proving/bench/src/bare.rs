//! Bare loops: the same client and the same server, without Leasehold.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value, cmd, pipe};

use crate::AnyError;
use crate::clock;

/// How a bare loop acquires and releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the uncontended workload runs all of them")]
pub enum Strategy {
    /// `SET NX PX`, and a script that compares and deletes: what most lock libraries do. No fence.
    Pair,
    /// `SET NX PX` and `INCR` of a fence in one pipeline; a script that compares, deletes, and
    /// checks for a queue.
    FencedPair,
    /// The same, with the server's own compare-and-delete command.
    FencedNative,
}

/// A connection with the scripts loaded.
#[derive(Clone, Debug)]
pub struct Bare {
    connection: MultiplexedConnection,
    compare_and_delete: String,
    release: String,
    grant: String,
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    redis.call('DEL', KEYS[1]) return 1 + redis.call('EXISTS', KEYS[2])";

const GRANT: &str = "local clock = redis.call('TIME') \
    if redis.call('GET', KEYS[1]) then return false end \
    local last = tonumber(redis.call('GET', KEYS[2]) or 0) \
    local fence = string.format('%.0f', math.max(last + 1, clock[1] * 1000000 + clock[2])) \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) \
    redis.call('SET', KEYS[2], fence, 'PX', ARGV[3]) \
    return fence";

/// Connection settings with a longer timeout: redis-rs gives up after half a second, which a busy
/// machine can take, and a slow loop is a result rather than a failure.
pub(crate) fn patient() -> AsyncConnectionConfig {
    const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
    AsyncConnectionConfig::new().set_connection_timeout(LIMIT).set_response_timeout(LIMIT)
}

/// Leasehold's default TTL, in ms.
const TTL: u64 = 30_000;

/// How long a fence is kept at that TTL, in ms.
const KEEP: u64 = 600_000;

impl Bare {
    /// Connects to the server at a URL.
    pub async fn at(url: &str) -> Result<Self, AnyError> {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient()).await?;
        let mut load =
            async |text: &str| cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut connection).await;
        let (compare_and_delete, release, grant) =
            (load(COMPARE_AND_DELETE).await?, load(RELEASE).await?, load(GRANT).await?);
        Ok(Self { connection, compare_and_delete, release, grant })
    }

    /// Acquires a key and releases it.
    pub async fn cycle(&self, strategy: Strategy, key: &str, serial: u64) -> Result<(), AnyError> {
        let mut connection = self.connection.clone();
        let value = format!("{serial:032x}");
        let set = set(key, &value);
        let (fence, queue) = (format!("fence:{{{key}}}"), format!("queue:{{{key}}}"));
        let granted: Value = match strategy {
            Strategy::Pair => set.query_async(&mut connection).await?,
            Strategy::FencedPair | Strategy::FencedNative => {
                let mut both = pipe();
                both.add_command(set).cmd("INCR").arg(&fence);
                let (granted, _): (Value, u64) = both.query_async(&mut connection).await?;
                granted
            }
        };
        let release = match strategy {
            Strategy::Pair => evalsha(&self.compare_and_delete, &[key], &value),
            Strategy::FencedPair => evalsha(&self.release, &[key, &queue], &value),
            Strategy::FencedNative => {
                let mut native = cmd("DELIFEQ");
                native.arg(key).arg(&value);
                native
            }
        };
        let released: i64 = release.query_async(&mut connection).await?;
        if granted == Value::Nil || released != 1 {
            return Err(format!("a bare {strategy:?} was not alone on {key}").into());
        }
        Ok(())
    }

    /// Acquires a key at all members at once, then releases it at all of them at once; each step
    /// waits for all answers. With a fence from each by the smallest script that gives one, without
    /// fences by [`Strategy::Pair`].
    pub async fn cycle_at_all(
        members: &[Self],
        fenced: bool,
        key: &str,
        serial: u64,
    ) -> Result<(), AnyError> {
        let value = &format!("{serial:032x}");
        let (fence, queue) = (&format!("fence:{{{key}}}"), &*format!("queue:{{{key}}}"));
        let takes = members.iter().map(async |member| {
            let mut connection = member.connection.clone();
            let take = if fenced { member.granting(key, fence, value) } else { set(key, value) };
            take.query_async::<Value>(&mut connection).await
        });
        if try_join_all(takes).await?.contains(&Value::Nil) {
            return Err(format!("a bare pair at {} servers was not alone on {key}", members.len()).into());
        }
        let releases = members.iter().map(async |member| {
            let mut connection = member.connection.clone();
            let release = if fenced {
                evalsha(&member.release, &[key, queue], value)
            } else {
                evalsha(&member.compare_and_delete, &[key], value)
            };
            release.query_async::<i64>(&mut connection).await
        });
        if try_join_all(releases).await?.contains(&0) {
            return Err(format!("a bare pair at {} servers lost {key}", members.len()).into());
        }
        Ok(())
    }

    fn granting(&self, key: &str, fence: &str, value: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.grant).arg(2).arg(key).arg(fence).arg(value).arg(TTL).arg(KEEP);
        call
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

    /// Renews these leases, each by its own command, in one pipeline: the minimal renewal.
    pub async fn renew(&self, keys: &[String]) -> Result<(), AnyError> {
        let mut connection = self.connection.clone();
        let mut all = pipe();
        for key in keys {
            all.cmd("EVALSHA").arg(&self.release).arg(2).arg(key).arg(key).arg("nobody");
        }
        Ok(all.ignore().query_async(&mut connection).await?)
    }
}

fn set(key: &str, value: &str) -> Cmd {
    let mut command = cmd("SET");
    command.arg(key).arg(value).arg("NX").arg("PX").arg(TTL);
    command
}

fn evalsha(script: &str, keys: &[&str], value: &str) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(script).arg(keys.len()).arg(keys).arg(value);
    command
}
