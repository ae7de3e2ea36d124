//! The three statements, with their parameters: an element for each request.

use leasehold_core::{Label, LastFence, Nonce, Stamp};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::Chosen;
use crate::channel;
use crate::fault::TransactionError;
use crate::sql::{Parameter, interval};
use crate::table::bytes;
use crate::transaction::Scope;

pub(super) async fn grant(
    client: &Client,
    scope: &Scope,
    not_after: Stamp,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let parameters = [
        Parameter::one(&scope.lock_timeout, Type::TEXT),
        Parameter::one(not_after.as_micros().cast_signed(), Type::INT8),
        keys(chosen),
        holders(chosen),
        Parameter::each(chosen, Type::TEXT_ARRAY, |it| it.attempt.label.as_ref().map(Label::as_str)),
        lasts(chosen),
        kept(chosen),
        Parameter::each(chosen, Type::BOOL_ARRAY, |it| it.wait.is_some()),
        Parameter::each(chosen, Type::INT8_ARRAY, |it| channel::number(it.wait?.channel.as_ref()?)),
        Parameter::each(chosen, Type::BYTEA_ARRAY, |it| {
            it.wait?.nonce.map(Nonce::digit_bytes).map(Vec::from)
        }),
        Parameter::each(chosen, Type::INT8_ARRAY, |it| i64::try_from(it.wait?.queue_limit?).ok()),
    ];
    ask(client, &scope.sql.quick_grant, chosen, &parameters).await
}

pub(super) async fn renew(
    client: &Client,
    scope: &Scope,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let parameters = [
        Parameter::one(&scope.lock_timeout, Type::TEXT),
        keys(chosen),
        holders(chosen),
        lasts(chosen),
        kept(chosen),
    ];
    ask(client, &scope.sql.quick_renew, chosen, &parameters).await
}

pub(super) async fn release(
    client: &Client,
    scope: &Scope,
    own: Option<i64>,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let parameters = [
        Parameter::one(&scope.lock_timeout, Type::TEXT),
        Parameter::one(interval(scope.window), Type::INT8),
        // A process that does not listen has waiters without a channel only.
        Parameter::one(own.unwrap_or(0), Type::INT8),
        keys(chosen),
        holders(chosen),
    ];
    ask(client, &scope.sql.quick_release, chosen, &parameters).await
}

async fn ask(
    client: &Client,
    statement: &str,
    chosen: &[Chosen<'_>],
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, TransactionError> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query_typed(statement, &Parameter::list(parameters)).await?)
}

fn keys<'a>(chosen: &'a [Chosen<'_>]) -> Parameter<'a> {
    Parameter::each(chosen, Type::BYTEA_ARRAY, |it| it.key.as_bytes())
}

fn holders<'a>(chosen: &'a [Chosen<'_>]) -> Parameter<'a> {
    Parameter::each(chosen, Type::BYTEA_ARRAY, |it| bytes(it.attempt.holder))
}

/// How long each lease lasts.
fn lasts<'a>(chosen: &'a [Chosen<'_>]) -> Parameter<'a> {
    Parameter::each(chosen, Type::INT8_ARRAY, |it| interval(it.attempt.ttl.duration()))
}

/// How long the fence of each is remembered.
fn kept<'a>(chosen: &'a [Chosen<'_>]) -> Parameter<'a> {
    Parameter::each(chosen, Type::INT8_ARRAY, |it| interval(LastFence::kept_for(it.attempt.ttl)))
}
