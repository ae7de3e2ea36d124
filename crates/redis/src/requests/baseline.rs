//! The baseline that locks are measured against, on the same connection.

use leasehold_core::{Attempt, Baseline, Fault, Holder, Key, Ttl};
use redis::{Value, cmd};

use crate::client::Client;
use crate::connection::route::Route;
use crate::connection::send::{ServerReply, say_one};
use crate::script::{delete_call, read_batch};

impl Client {
    pub(crate) async fn run_baseline(&self, what: &Baseline, route: &mut Route) -> Result<(), Fault> {
        match what {
            Baseline::Pair { key, holder, ttl, .. } => self.pair(key, *holder, *ttl, route).await,
            _ => self.one(cmd("PING"), route).await?.map(drop).map_err(|no| self.faults.of_refusal(&no)),
        }
    }

    async fn pair(&self, key: &Key, holder: Holder, ttl: Ttl, route: &mut Route) -> Result<(), Fault> {
        let mut set = cmd("SET");
        set.arg(key.as_bytes()).arg(holder.digits()).arg("NX").arg("PX").arg(ttl.as_millis());
        match self.one(set, route).await? {
            Ok(Value::Nil) => return Err(self.faults.passing(format_args!("{key}: somebody else has it"))),
            Ok(_) => {}
            Err(refusal) => return Err(self.faults.of_refusal(&refusal)),
        }
        let release = delete_call(key, &holder.digit_bytes());
        let released = self.call(route, &release).await?;
        let value = released.map_err(|refusal| self.faults.of_refusal(&refusal))?;
        match read_batch::<Attempt>(&value, &[], 1, false)
            .map_err(|strange| self.faults.lasting(strange))?
            .released[..]
        {
            [true] => Ok(()),
            _ => Err(self.faults.passing(format_args!("{key}: it was gone before it was let go"))),
        }
    }

    async fn one(&self, command: redis::Cmd, route: &mut Route) -> Result<ServerReply, Fault> {
        let (sent, limit, asks) = (self.runtime.now(), self.call_limit, route.asks);
        let said = self.runtime.within(limit, say_one(route.connection(), asks, &command)).await;
        self.heard(route, sent, said, limit)
    }
}
