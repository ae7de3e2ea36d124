//! The words of a trace: short, and with the round of an attempt, which `Display` leaves out.

use leasehold_core::{
    Answer, Attempt, GrantAnswer, HoldAnswer, Holder, HolderInfo, Owner, Push, PushEvent, RaiseAnswer,
    Request,
};

use crate::message::Says;

/// An id: its first eight digits, and the number of its round.
pub(crate) fn id(holder: Holder) -> String {
    format!("{holder}.{:x}", holder.bits() & 0xffff)
}

fn attempt(attempt: &Attempt) -> String {
    let keys: Vec<_> = attempt.claim.keys().map(ToString::to_string).collect();
    let label = attempt.label.as_ref().map_or("", leasehold_core::Label::as_str);
    let fence = attempt.proposal.map_or(String::new(), |proposal| format!(" fence {}", proposal.fence));
    format!("{} {label} {} for {}{fence}", id(attempt.holder), keys.join("+"), attempt.ttl)
}

pub(crate) fn says(says: &Says) -> String {
    match says {
        Says::Hello => "hello".into(),
        Says::Bye => "bye".into(),
        Says::Ask(requests) => requests.iter().map(request).collect::<Vec<_>>().join("; "),
    }
}

fn request(request: &Request) -> String {
    match request {
        Request::Grant { attempt: asks, wait, not_after } => {
            let manner = if wait.is_some() { "ask and wait" } else { "ask" };
            let late = not_after.map_or(0, leasehold_core::Stamp::as_micros);
            format!("{manner} {} not after {late}", attempt(asks))
        }
        Request::Renew(asks) => format!("renew {}", attempt(asks)),
        Request::Rejoin { attempt: asks, not_after } => {
            let late = not_after.map_or(0, leasehold_core::Stamp::as_micros);
            format!("rejoin {} not after {late}", attempt(asks))
        }
        Request::Raise(asks) => format!("raise {}", attempt(asks)),
        Request::Release(asks) => format!("release {}", attempt(asks)),
        other => format!("{other:?}"),
    }
}

pub(crate) fn answers(answers: &[Answer]) -> String {
    answers.iter().map(answer).collect::<Vec<_>>().join("; ")
}

fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Grant(GrantAnswer::Granted { fence }) => format!("granted {fence}"),
        Answer::Grant(GrantAnswer::Busy { held_by, place }) => {
            let place = place.map_or(String::new(), |place| format!(", {} before", place.before));
            format!("busy: {}{place}", holding(held_by))
        }
        Answer::Renew(held) | Answer::Rejoin(held) | Answer::Release(held) => match held {
            HoldAnswer::Done => "done".into(),
            HoldAnswer::NotHeld { key, held_by } => {
                format!("not held: {key}, {}", held_by.as_ref().map_or("free".into(), holding))
            }
        },
        Answer::Raise(RaiseAnswer::Raised { fence }) => format!("raised {fence}"),
        other => format!("{other:?}"),
    }
}

fn holding(holding: &HolderInfo) -> String {
    let who = match &holding.owner {
        Owner::Holder { holder, .. } => id(*holder),
        other => format!("{other:?}"),
    };
    format!("{who} for {:?}", holding.remaining.unwrap_or_default())
}

pub(crate) fn pushes(pushes: &[Push]) -> String {
    pushes.iter().map(|push| format!("  tells {}: {}", id(push.holder), event(push.event))).collect()
}

fn event(event: PushEvent) -> String {
    match event {
        PushEvent::Granted { fence, lasts } => format!("granted {fence} for {lasts}"),
        PushEvent::AskAgain => "ask again".into(),
        PushEvent::Broken => "broken".into(),
        PushEvent::First { left } => format!("first, {left:?} left"),
    }
}
