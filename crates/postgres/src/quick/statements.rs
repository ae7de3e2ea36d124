//! The three statements, with their parameters: an element for each request.

use leasehold_core::{Label, LastFence, Nonce, Stamp};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::Chosen;
use crate::channel;
use crate::sql::interval;
use crate::table::bytes;
use crate::transaction::Scope;
use crate::transaction_error::TransactionError;

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub(super) async fn grant(
    client: &Client,
    scope: &Scope,
    not_after: Stamp,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let not_after = not_after.as_micros().cast_signed();
    let labels = each(chosen, |it| it.attempt.label.as_ref().map(Label::as_str));
    let waits = each(chosen, |it| it.wait.is_some());
    let channels = each(chosen, |it| it.wait.and_then(|wait| channel::number(wait.channel.as_ref()?)));
    let nonces = each(chosen, |it| it.wait.and_then(|wait| wait.nonce).map(Nonce::digit_bytes));
    let nonces = each(&nonces, |nonce| nonce.as_ref().map(|digits| &digits[..]));
    let limits = each(chosen, |it| it.wait.and_then(|wait| i64::try_from(wait.queue_limit?).ok()));
    let (keys, holders) = (keys_of(chosen), holders_of(chosen));
    let (holders, [lasts, kept]) = (slices(&holders), times(chosen));
    let parameters = [
        (&scope.lock_timeout as _, Type::TEXT),
        (&not_after as _, Type::INT8),
        (&keys as _, Type::BYTEA_ARRAY),
        (&holders as _, Type::BYTEA_ARRAY),
        (&labels as _, Type::TEXT_ARRAY),
        (&lasts as _, Type::INT8_ARRAY),
        (&kept as _, Type::INT8_ARRAY),
        (&waits as _, Type::BOOL_ARRAY),
        (&channels as _, Type::INT8_ARRAY),
        (&nonces as _, Type::BYTEA_ARRAY),
        (&limits as _, Type::INT8_ARRAY),
    ];
    ask(client, &scope.sql.quick_grant, chosen, &parameters).await
}

pub(super) async fn renew(
    client: &Client,
    scope: &Scope,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let (keys, holders) = (keys_of(chosen), holders_of(chosen));
    let (holders, [lasts, kept]) = (slices(&holders), times(chosen));
    let parameters = [
        (&scope.lock_timeout as _, Type::TEXT),
        (&keys as _, Type::BYTEA_ARRAY),
        (&holders as _, Type::BYTEA_ARRAY),
        (&lasts as _, Type::INT8_ARRAY),
        (&kept as _, Type::INT8_ARRAY),
    ];
    ask(client, &scope.sql.quick_renew, chosen, &parameters).await
}

pub(super) async fn release(
    client: &Client,
    scope: &Scope,
    own: Option<i64>,
    chosen: &[Chosen<'_>],
) -> Result<Vec<Row>, TransactionError> {
    let window = interval(scope.window);
    // A process that does not listen has waiters without a channel only.
    let own = own.unwrap_or(0);
    let (keys, holders) = (keys_of(chosen), holders_of(chosen));
    let holders = slices(&holders);
    let parameters = [
        (&scope.lock_timeout as _, Type::TEXT),
        (&window as _, Type::INT8),
        (&own as _, Type::INT8),
        (&keys as _, Type::BYTEA_ARRAY),
        (&holders as _, Type::BYTEA_ARRAY),
    ];
    ask(client, &scope.sql.quick_release, chosen, &parameters).await
}

async fn ask(
    client: &Client,
    statement: &str,
    chosen: &[Chosen<'_>],
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, TransactionError> {
    if chosen.is_empty() { Ok(Vec::new()) } else { Ok(client.query_typed(statement, parameters).await?) }
}

fn each<'a, T, U>(all: &'a [T], of: impl FnMut(&'a T) -> U) -> Vec<U> {
    all.iter().map(of).collect()
}

fn keys_of<'a>(chosen: &[Chosen<'a>]) -> Vec<&'a [u8]> {
    each(chosen, |it| it.key.as_bytes())
}

fn holders_of(chosen: &[Chosen<'_>]) -> Vec<[u8; 16]> {
    each(chosen, |it| bytes(it.attempt.holder))
}

fn slices(holders: &[[u8; 16]]) -> Vec<&[u8]> {
    each(holders, |holder| &holder[..])
}

/// How long each lease lasts, and how long its fence is remembered.
fn times(chosen: &[Chosen<'_>]) -> [Vec<i64>; 2] {
    let lasts = each(chosen, |it| interval(it.attempt.ttl.duration()));
    [lasts, each(chosen, |it| interval(LastFence::kept_for(it.attempt.ttl)))]
}
