//! The holders and waiters of a key.

use leasehold_core::{Fault, Key, KeyState};

use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::state_in;
use crate::script::inspect_call;

impl Client {
    pub(crate) async fn inspect(&self, key: &Key, route: &mut Route) -> Result<KeyState, Fault> {
        let heard = self.call(route, &inspect_call(key, self.asked_alone()), self.call_limit).await?;
        self.read(heard, |value| state_in(value, key))
    }
}
