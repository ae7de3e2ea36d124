//! Checks that the user may run every command that the store needs: each is tried in a form that
//! changes nothing.
//!
//! A server checks the permission for a command before it checks the keys, the cluster's slots and
//! the arguments. So any answer except "may not run" shows that the user may run it.

use leasehold_core::{Fault, Finding, Severity, StoreRole};
use redis::{Cmd, ServerError, cmd};

use super::diagnosis_run::{DiagnosisRun, Setting, is_denied, is_unknown};
use crate::script::opening_call;
use crate::slot::{MEMBER_KEY, member_key_in};

/// The commands of [`ALLOWED`](crate::fault::ALLOWED), except those that [`push`](super::push)
/// tries. The key never exists, and none of these commands creates it.
const TRIED: [&str; 25] = [
    "PING",
    "GET leasehold:diagnose",
    "SET leasehold:diagnose x XX",
    "DEL leasehold:diagnose",
    "EXISTS leasehold:diagnose",
    "PEXPIRE leasehold:diagnose 1",
    "PEXPIREAT leasehold:diagnose 1",
    "PTTL leasehold:diagnose",
    "TIME",
    "ZADD leasehold:diagnose XX 1 x",
    "ZCARD leasehold:diagnose",
    "ZRANGE leasehold:diagnose 0 0",
    "ZRANGEBYSCORE leasehold:diagnose 0 0",
    "ZREVRANGEBYSCORE leasehold:diagnose 0 0",
    "ZRANK leasehold:diagnose x",
    "ZREM leasehold:diagnose x",
    "ZSCORE leasehold:diagnose x",
    "HDEL leasehold:diagnose x",
    "HGET leasehold:diagnose x",
    "HMGET leasehold:diagnose x",
    // A field without a value, which is refused on execution.
    "HSET leasehold:diagnose x x x",
    "PUBSUB NUMSUB leasehold:diagnose",
    "SCAN 0 COUNT 1",
    "GETRANGE leasehold:diagnose 0 0",
    // Of two slots, which a node of a cluster refuses, whichever of them it has.
    "MGET leasehold:diagnose leasehold:diagnosis",
];

/// Without this one, locks cannot be listed or watched; everything else works.
const TO_LIST: &str = "scan";

/// Without this one, requests are sent one by one and not in batches.
const TO_BATCH: &str = "mget";

impl DiagnosisRun<'_> {
    pub(super) async fn permissions(&mut self) -> Result<(), Fault> {
        let commands = self.to_try();
        let names: Vec<_> = commands.iter().map(rule).collect();
        let heard = self.ask(commands).await?;
        let user = self.setting.user.clone();
        let (mut denied, mut unknown) = (Vec::new(), Vec::new());
        let (mut elsewhere, mut refused) = (false, None);
        for (name, heard) in names.into_iter().zip(heard) {
            let Err(error) = heard else { continue };
            let (is_denied, is_unknown) = (is_denied(&error), is_unknown(&error));
            if (is_denied || is_unknown) && [TO_BATCH, TO_LIST].contains(&&*name) {
                self.found(self.setting.dispensable(&name, is_denied));
            } else if is_denied {
                denied.push(format!("+{name}"));
            } else if is_unknown {
                unknown.push(name.to_ascii_uppercase());
            } else if error.code() == "NOPERM" && self.setting.role != StoreRole::Alone {
                elsewhere = true;
            } else if refuses_all_keys(&error, self.client.is_node()) {
                refused = Some(self.client.faults.of_refusal(&error));
            }
        }
        if let Some(fault) = refused {
            let why = "as long as it refuses, nobody takes or renews a lock here";
            self.found(self.setting.finding(Severity::Unsafe, "reach", &fault.reason, why));
        }
        if !denied.is_empty() {
            let rules = denied.join(" ");
            let what = format!("user {user} may not run all that a lock needs: it lacks {rules}");
            let why = "locks cannot be acquired, renewed or released, or no waiter is notified of its turn";
            let finding = self.setting.finding(Severity::Unsafe, "permissions", what, why);
            let mend = self.setting.allow(&rules);
            self.found(finding.at_server(mend));
        }
        if elsewhere {
            self.member_key(&user).await?;
        }
        if !unknown.is_empty() {
            let what = format!("the server does not know {}", unknown.join(", "));
            let why = "the store needs it: locks fail, or part of what the URL asks for does";
            let finding = self.setting.finding(Severity::Unsafe, "commands", what, why);
            self.found(finding.advice(match &*unknown {
                [only] if only == "WAITAOF" => {
                    "use Redis 7.2 or later there, or Valkey, or leave fsync out of the URL"
                }
                _ => "undo what renames it there, or name the server itself and no proxy",
            }));
        } else if denied.is_empty() {
            let note = format!("user {user} may run all that a lock needs (keys are not tried)");
            self.found(self.setting.note("permissions", note));
        }
        Ok(())
    }

    /// A member of a quorum records the run that vouches for it.
    async fn member_key(&mut self, user: &str) -> Result<(), Fault> {
        // A node checks permissions first, and the owner of the slot afterwards.
        let (key, rule) = match self.client.shared.cluster {
            Some(_) => (member_key_in(0), "~leasehold:member{*}"),
            None => (MEMBER_KEY.to_owned(), "~leasehold:member"),
        };
        let heard = self.ask(vec![cmd("EXISTS").arg(&key).take()]).await?.pop();
        if let Some(Err(error)) = heard
            && error.code() == "NOPERM"
            && !is_denied(&error)
        {
            let what = format!("user {user} may not use the key {}", rule.trim_start_matches('~'));
            let why = "a member of a quorum records its run there: without that key, it grants nothing";
            let mend = self.setting.allow(rule);
            self.found(self.setting.finding(Severity::Unsafe, "permissions", what, why).at_server(mend));
        }
        Ok(())
    }

    fn to_try(&self) -> Vec<Cmd> {
        let open = opening_call();
        let mut commands = vec![open.by_text(), open.into_command()];
        commands.extend(TRIED.iter().map(|words| said(words)));
        if self.route.live().is_some_and(|live| live.minds_roles) {
            commands.push(cmd("ROLE"));
        }
        if let Some(confirmation) = self.client.confirmation {
            commands.push(if confirmation.on_disk { said("WAITAOF 0 0 1") } else { said("WAIT 0 1") });
        }
        if self.setting.role != StoreRole::Alone {
            commands.push(said("INFO server"));
        }
        if self.client.shared.cluster.is_some() {
            commands.push(said("CLUSTER SLOTS"));
            // It affects only the next command, which must therefore have no key.
            commands.push(said("ASKING"));
            commands.push(said("PING"));
        }
        commands
    }
}

impl Setting {
    /// The finding about a command without which locks work all the same: the user may not run it, or
    /// the server does not know it.
    fn dispensable(&self, name: &str, is_denied: bool) -> Finding {
        let lacks = match is_denied {
            true => format!("user {} may not run {name}", self.user),
            false => format!("the server does not know {}", name.to_ascii_uppercase()),
        };
        if name == TO_BATCH {
            let what = format!("{lacks}: locks are requested one by one, which takes longer");
            return self.note("batches", what);
        }
        let what = format!("{lacks}: locks cannot be listed or watched, and leftovers were not checked");
        let finding = self.finding(Severity::Unknown, "listing", what, "locks work all the same");
        match is_denied {
            true => finding.at_server(self.allow(&format!("+{name}"))),
            false => finding.advice("undo what renames it there, or name the server itself and no proxy"),
        }
    }
}

/// Returns true if a cluster refuses requests for any keys: it is down, or was named like a single
/// server.
fn refuses_all_keys(error: &ServerError, is_node: bool) -> bool {
    match error.code() {
        "CLUSTERDOWN" => !is_node || error.details().is_some_and(|details| details.contains("is down")),
        "MOVED" | "CROSSSLOT" => !is_node,
        _ => false,
    }
}

fn said(words: &str) -> Cmd {
    Cmd::new().arg(words.split(' ').collect::<Vec<_>>()).take()
}

/// The name of a command in an ACL rule.
fn rule(command: &Cmd) -> String {
    let word = |nth| match command.args_iter().nth(nth) {
        Some(redis::Arg::Simple(word)) => String::from_utf8_lossy(word).to_ascii_lowercase(),
        _ => String::new(),
    };
    match &*word(0) {
        "cluster" => format!("cluster|{}", word(1)),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::ALLOWED;

    /// Commands that are tried elsewhere: scripts by the calls themselves, and subscribing by the
    /// check of push.
    const ELSEWHERE: [&str; 5] = ["+eval", "+evalsha", "+publish", "+subscribe", "+unsubscribe"];

    #[test]
    fn all_that_a_user_must_be_allowed_is_tried() {
        let tried: Vec<_> = TRIED.iter().map(|words| format!("+{}", rule(&said(words)))).collect();
        for allowed in ALLOWED.split_whitespace().filter(|allowed| !ELSEWHERE.contains(allowed)) {
            assert!(tried.iter().any(|tried| tried == allowed), "{allowed}");
        }
        assert!(TRIED.iter().all(|words| !words.contains(':') || words.contains("leasehold:diagnose")));
    }
}
