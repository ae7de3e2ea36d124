//! A diagnosis in progress, and what its parts share.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Diagnosis, Fault, Finding, Severity, StoreRole};
use redis::{Cmd, ServerError};

use crate::address::parameters::Confirmation;
use crate::client::Client;
use crate::connection::route::Route;
use crate::connection::send::ServerReply;

pub(super) struct DiagnosisRun<'a> {
    pub(super) client: &'a Client,
    pub(super) route: Route,
    pub(super) setting: Setting,
    pub(super) brought: Diagnosis,
}

/// The facts, other than the server's answers, on which a finding depends.
pub(super) struct Setting {
    pub(super) at: Arc<str>,
    pub(super) role: StoreRole,
    pub(super) quarantine: bool,
    pub(super) confirmation: Option<Confirmation>,
    pub(super) user: String,
}

#[cfg(test)]
impl Setting {
    /// A server on its own, of a user who may do everything.
    pub(super) fn of_one_server() -> Self {
        let (at, user) = ("redis://h".into(), "default".into());
        Self { at, role: StoreRole::Alone, quarantine: true, confirmation: None, user }
    }
}

/// The program itself logged its connection in; we do not know as which user.
pub(super) const SOMEBODY: &str = "USER";

impl DiagnosisRun<'_> {
    /// Sends several requests in one round trip.
    pub(super) async fn ask(&mut self, commands: Vec<Cmd>) -> Result<Vec<ServerReply>, Fault> {
        self.client.say(&mut self.route, commands).await
    }

    pub(super) fn found(&mut self, finding: Finding) {
        self.brought.findings.push(finding);
    }
}

impl Setting {
    pub(super) fn finding(
        &self,
        severity: Severity,
        about: &'static str,
        what: impl fmt::Display,
        why: &str,
    ) -> Finding {
        Finding::new(severity, about, &self.at, what, why)
    }

    pub(super) fn note(&self, about: &'static str, what: impl fmt::Display) -> Finding {
        Finding::note(about, &self.at, what)
    }

    /// The command with which an operator gives the user more permissions.
    pub(super) fn allow(&self, rules: &str) -> String {
        format!("ACL SETUSER {} {rules}", self.user)
    }
}

pub(super) fn is_denied(error: &ServerError) -> bool {
    error.code() == "NOPERM" && error.details().is_some_and(|details| details.contains("run the"))
}

pub(super) fn is_unknown(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.contains("unknown command"))
}
