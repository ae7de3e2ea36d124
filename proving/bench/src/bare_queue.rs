//! The minimal hand-over: two scripts over bare redis-rs, one that takes the key or joins its
//! queue, and one that hands the key to the first waiter and notifies it. It has fences and a queue
//! like ours, but handles no dead waiter, no waiter that gave up and no lost connection.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Script, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;

use crate::AnyError;
use crate::bare::patient;
use crate::clock;
use crate::turn::Turn;

/// Takes the key, or joins its queue.
const JOIN: &str = "local clock = redis.call('TIME') \
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then \
        local fence = clock[1] .. string.sub('00000' .. clock[2], -6) \
        redis.call('SET', KEYS[2], fence, 'PX', 600000) \
        return fence \
    end \
    redis.call('RPUSH', KEYS[3], ARGV[1] .. ' ' .. ARGV[2]) \
    return false";

/// Releases the key, and hands it to the first waiter.
const HAND_OVER: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    local first = redis.call('LPOP', KEYS[3]) \
    if not first then return redis.call('DEL', KEYS[1]) end \
    local holder, channel = string.match(first, '^([^ ]+) ([^ ]+)$') \
    local clock = redis.call('TIME') \
    local fence = clock[1] .. string.sub('00000' .. clock[2], -6) \
    redis.call('SET', KEYS[1], holder, 'PX', 30000) \
    redis.call('SET', KEYS[2], fence, 'PX', 600000) \
    redis.call('PUBLISH', channel, holder .. ' ' .. fence) \
    return 1";

/// A connection that takes turns.
#[derive(Debug)]
pub(crate) struct BareQueue {
    connection: MultiplexedConnection,
    pushes: UnboundedReceiver<PushInfo>,
    channel: String,
    join: Script,
    hand_over: Script,
}

impl BareQueue {
    pub(crate) async fn connect(url: &str, waiter: u64) -> Result<Self, AnyError> {
        let (sender, pushes) = unbounded_channel();
        let config = patient().set_push_sender(sender);
        let client = redis::Client::open(format!("{url}?protocol=resp3"))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let channel = format!("turns:{waiter}");
        connection.subscribe(&channel).await?;
        let (join, hand_over) = (Script::new(JOIN), Script::new(HAND_OVER));
        for script in [&join, &hand_over] {
            script.prepare_invoke().load_async(&mut connection).await?;
        }
        Ok(Self { connection, pushes, channel, join, hand_over })
    }

    /// Takes `each` turns at a key.
    pub(crate) async fn take_turns(
        &mut self,
        key: &str,
        waiter: u64,
        each: u32,
        [hold, think]: [Duration; 2],
    ) -> Result<Vec<Turn>, AnyError> {
        let (fence_key, queue) = (format!("{{{key}}}:fence"), format!("{{{key}}}:queue"));
        let mut turns = Vec::with_capacity(each as usize);
        for turn in 0..each {
            let holder = format!("{waiter:016x}{turn:016x}");
            let asked = clock::now();
            let mut join = self.join.key(key);
            join.key(&fence_key).key(&queue).arg(&holder).arg(&self.channel);
            let granted: Option<u64> = join.invoke_async(&mut self.connection).await?;
            let fence = match granted {
                Some(fence) => fence,
                None => self.told(&holder).await?,
            };
            let had = clock::now();
            if !hold.is_zero() {
                sleep(hold).await;
            }
            let released = clock::now();
            let mut hand_over = self.hand_over.key(key);
            hand_over.key(&fence_key).key(&queue).arg(&holder);
            if hand_over.invoke_async::<u64>(&mut self.connection).await? != 1 {
                return Err(format!("a bare turn at {key} was lost").into());
            }
            turns.push(Turn { waiter, asked, had, released, fence, asks: 1 });
            if !think.is_zero() {
                sleep(think).await;
            }
        }
        Ok(turns)
    }

    /// The fence with which the key is handed to this waiter.
    async fn told(&mut self, holder: &str) -> Result<u64, AnyError> {
        while let Some(PushInfo { kind, data }) = self.pushes.recv().await {
            let Some(Value::BulkString(said)) = data.last().filter(|_| kind == PushKind::Message) else {
                continue;
            };
            let said = std::str::from_utf8(said)?;
            if let Some(fence) = said.strip_prefix(holder) {
                return Ok(fence.trim_start().parse()?);
            }
        }
        Err("the connection of a bare turn has ended".into())
    }
}
