//! Breaking a lease.

use leasehold_core::{BreakAnswer, BreakNote, Fault, Fence, Key};

use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::break_in;
use crate::script::break_call;

impl Client {
    pub(crate) async fn break_lease(
        &self,
        key: &Key,
        fence: Fence,
        note: &BreakNote,
        route: &mut Route,
    ) -> Result<BreakAnswer, Fault> {
        let said_at = self.channels().cloned().unwrap_or_default().broken();
        let call = break_call(key, fence, note, self.window(), &said_at, self.asked_alone());
        let heard = self.call(route, &call, self.call_limit).await?;
        self.read(heard, |value| break_in(value, key))
    }
}
