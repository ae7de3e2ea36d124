//! Checks that waiters can be notified of their turn: sends ourselves a message, as wake-ups are.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use leasehold_core::{Channel, Fault, Severity};
use redis::cmd;
use tokio::sync::mpsc::unbounded_channel;

use super::diagnosis_run::DiagnosisRun;
use crate::client::Source;
use crate::connection::connect::Connected;
use crate::connection::link::Link;
use crate::connection::subscription::OnPush;

const ABOUT: &str = "push";

const WHY: &str = "who waits is not told of its turn, and asks several times a second instead; holders hear late of a lease that was \
                   broken";

/// The same of a user that may subscribe, but not publish.
const WHY_UNPUBLISHED: &str = "who waits is not told that this user has released the lock, and asks only after some seconds; holders hear late \
                               of a lease that was broken";

const PAYLOAD: &[u8] = b"diagnose";

/// The permissions for publishing and subscribing, in addition to the channels.
const RULES: &str = "+publish +subscribe +unsubscribe";

/// Connecting takes some round trips, and the message takes two more.
const CALLS: u32 = 5;

impl DiagnosisRun<'_> {
    pub(super) async fn push(&mut self) {
        let client = self.client;
        let Source::Ours(link) = &client.source else {
            let what = "the connection is the program's own, on which the store receives no push";
            let finding = self.setting.finding(Severity::Warning, ABOUT, what, WHY);
            return self.found(finding.advice("have the store make its own: name the server by its URL"));
        };
        let limit = client.call_limit * CALLS;
        let heard = client.runtime.within(limit, self.receives_a_push(link)).await;
        let finding = match heard {
            Some(Ok((after, has_push))) => {
                let how =
                    if has_push { "RESP3, on the one connection" } else { "RESP2, on a second connection" };
                let note =
                    format!("arrived {:.2} ms after it was published ({how})", after.as_secs_f64() * 1e3);
                self.setting.note(ABOUT, note)
            }
            Some(Err(fault)) => {
                let is_unpublished =
                    [" may not run publish", "unknown command 'PUBLISH'", "unknown command `PUBLISH`"]
                        .iter()
                        .any(|words| fault.reason.contains(words));
                let why = if is_unpublished { WHY_UNPUBLISHED } else { WHY };
                let finding = self.setting.finding(Severity::Warning, ABOUT, &fault.reason, why);
                let rules = format!("{} {RULES}", link.topology.connector.channels().rule());
                if is_refused(&fault) { finding.at_server(self.setting.allow(&rules)) } else { finding }
            }
            None => {
                let what = format!("nothing was heard within {limit:?} of what was said on a channel");
                let finding = self.setting.finding(Severity::Warning, ABOUT, what, WHY);
                finding.advice(
                    "if a proxy is in between, name the server itself, or try ?protocol=resp2 in the URL",
                )
            }
        };
        self.found(finding);
    }

    /// How long the message took, and whether it came on the connection for answers.
    async fn receives_a_push(&mut self, link: &Link) -> Result<(Duration, bool), Fault> {
        let client = self.client;
        let runtime = &client.runtime;
        let (told, mut tells) = unbounded_channel();
        let tell: OnPush = Arc::new(move |_, payload, _| {
            // The listener may have gone.
            let _ = told.send(payload.to_vec());
        });
        let channel = link.topology.connector.channels().draw(runtime.random());
        let Connected { addr, mut connection, driver, has_push, .. } = link.topology.connect(&tell).await?;
        if !has_push {
            let mut subscription = link.topology.connector.listen(&addr, &channel).await?;
            let said = runtime.now();
            self.say_to(&channel).await?;
            while let Some(message) = subscription.stream.next().await {
                if message.get_payload_bytes() == PAYLOAD {
                    return Ok((runtime.now().saturating_since(said), has_push));
                }
            }
            return Err(client.faults.passing("the connection that hears was closed"));
        }
        let listening = async {
            let subscribed = connection.subscribe(channel.as_bytes()).await;
            subscribed.map_err(|error| client.faults.of_error(error))?;
            let said = runtime.now();
            self.say_to(&channel).await?;
            while tells.recv().await.is_some_and(|payload| payload != PAYLOAD) {}
            Ok((runtime.now().saturating_since(said), has_push))
        };
        tokio::select! {
            biased;
            heard = listening => heard,
            () = driver => Err(client.faults.passing("the connection that hears was closed")),
        }
    }

    async fn say_to(&mut self, channel: &Channel) -> Result<(), Fault> {
        let publish = cmd("PUBLISH").arg(channel.as_bytes()).arg(PAYLOAD).take();
        match self.ask(vec![publish]).await?.pop() {
            Some(Err(error)) => Err(self.client.faults.of_refusal(&error)),
            _ => Ok(()),
        }
    }
}

/// Returns true if an operator must permit it: a command or the channel.
fn is_refused(fault: &Fault) -> bool {
    fault.is_lasting()
        && [" may not run ", " may not use a "].iter().any(|words| fault.reason.contains(words))
}
