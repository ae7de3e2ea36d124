//! Bare loops on PostgreSQL: the same client and the same server, without Leasehold.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::AnyError;
use crate::clock;

/// How a bare loop acquires and releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// A row with the holder, its end by the server's clock, and a fence: a statement to acquire it and
    /// one to release it, sent as Leasehold sends its own, so that a pooler may be in between.
    Row,
    /// `pg_try_advisory_lock` and `pg_advisory_unlock`: no lease, no fence, nothing on disk.
    Advisory,
}

/// A connection that tasks share, with a table of its own.
#[derive(Debug)]
pub(crate) struct BareSql {
    client: Client,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare_lease \
    (key bytea PRIMARY KEY, holder bytea, ends timestamptz, fence bigint NOT NULL) WITH (fillfactor = 50)";

const ACQUIRE: &str = "INSERT INTO bare_lease AS l (key, holder, ends, fence) \
    VALUES ($1, $2, clock_timestamp() + '30 s', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) \
    ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, ends = excluded.ends, \
    fence = greatest(l.fence + 1, excluded.fence) \
    WHERE l.holder IS NULL OR l.ends <= clock_timestamp() RETURNING fence";

const RELEASE: &str = "UPDATE bare_lease SET holder = NULL WHERE key = $1 AND holder = $2";

const TRY_ADVISORY: &str = "SELECT pg_try_advisory_lock(hashtextextended(convert_from($1, 'UTF8'), 0))";

const UNLOCK_ADVISORY: &str = "SELECT pg_advisory_unlock(hashtextextended(convert_from($1, 'UTF8'), 0))";

impl BareSql {
    pub(crate) async fn connect(url: &str) -> Result<Self, AnyError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(TABLE).await?;
        Ok(Self { client })
    }

    pub(crate) async fn cycle(&self, strategy: Strategy, key: &str, serial: u64) -> Result<(), AnyError> {
        let holder = u128::from(serial).to_be_bytes();
        let (key, holder) = (key.as_bytes(), &holder[..]);
        let own = [(&key as _, Type::BYTEA), (&holder as _, Type::BYTEA)];
        let of_key = &own[..1];
        let is_alone = match strategy {
            Strategy::Row => {
                self.client.query_typed_opt(ACQUIRE, &own).await?.is_some()
                    && self.client.execute_typed(RELEASE, &own).await? == 1
            }
            Strategy::Advisory => {
                self.client.query_typed_one(TRY_ADVISORY, of_key).await?.get(0)
                    && self.client.query_typed_one(UNLOCK_ADVISORY, of_key).await?.get(0)
            }
        };
        if is_alone { Ok(()) } else { Err(format!("a bare {strategy:?} was not alone").into()) }
    }

    /// Times from a `NOTIFY` to its arrival on another connection, in µs, each after this rest.
    pub(crate) async fn notifications(url: &str, rest: Duration, count: u32) -> Result<Vec<f64>, AnyError> {
        let speaker = Self::connect(url).await?.client;
        let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let (sender, mut arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message
                    && sender.send(clock::now()).is_err()
                {
                    return;
                }
            }
        });
        listener.batch_execute("LISTEN bare").await?;
        let mut times = Vec::new();
        for _ in 0..count {
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            let sent = clock::now();
            speaker.execute_typed("SELECT pg_notify('bare', '')", &[]).await?;
            let at = arrived.recv().await.ok_or("the listening connection has ended")?;
            times.push((at - sent) as f64 / 1e3);
        }
        Ok(times)
    }
}
