//! Bare loops: the same client and the same server, without Leasehold.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{Value, cmd, pipe};

pub use competitor::BareServer as Bare;

use crate::AnyError;
use crate::clock;

/// Acquires a key at all members at once, then releases it at all; each step waits for all answers.
pub async fn cycle_at_all(members: &[Bare], key: &str, serial: u64) -> Result<(), AnyError> {
    let value = &format!("{serial:032x}");
    let acquired = try_join_all(members.iter().map(|member| member.acquire(key, value))).await?;
    let released = try_join_all(members.iter().map(|member| member.release(key, value))).await?;
    if acquired.contains(&false) || released.contains(&false) {
        return Err(format!("a bare pair at {} servers was not alone on {key}", members.len()).into());
    }
    Ok(())
}

/// The time of a PING after this rest, in µs.
pub async fn round_trip(bare: &Bare, rest: Duration) -> Result<f64, AnyError> {
    let mut connection = bare.connection.clone();
    if !rest.is_zero() {
        tokio::time::sleep(rest).await;
    }
    let sent = clock::now();
    let _: Value = cmd("PING").query_async(&mut connection).await?;
    Ok((clock::now() - sent) as f64 / 1e3)
}

/// The minimal renewal, in a pipeline.
pub async fn renew(bare: &Bare, key: &str) -> Result<(), AnyError> {
    let mut one = pipe();
    one.cmd("EVALSHA").arg(&bare.script).arg(2).arg(key).arg(key).arg("nobody").ignore();
    Ok(one.query_async(&mut bare.connection.clone()).await?)
}
