//! `leasehold break`: ends another holder's lease.

use std::ffi::OsStr;

use leasehold::{BreakError, BreakNote, Fence, HolderInfo, Key, Label};
use serde::Serialize;

use crate::args::BreakArgs;
use crate::exit::{End, Failure};
use crate::json::{self, KeyText};
use crate::keys::only_key;
use crate::label::default_label;
use crate::lock_json::HolderJson;
use crate::print::{plain, print};
use crate::say;
use crate::store_location::StoreLocation;

/// Breaks the lease if it has the given fence.
pub(crate) async fn break_lease(args: BreakArgs) -> Result<End, Failure> {
    let key = only_key(args.keys, args.place.naming)?;
    let fence = fence(&args.fence.unwrap_or_default())?;
    let by = Label::new(&default_label(OsStr::new(""))).ok();
    let mut note = BreakNote { by, reason: None };
    if let Some(reason) = args.reason {
        note = note.because(&reason).map_err(|misuse| Failure::from(misuse).about("--reason"))?;
    }
    let place = StoreLocation::of(args.place.store)?;
    let locks = place.look(args.quiet).await?;
    if args.verbose {
        say::line(format_args!("{key}: at {}", locks.store()));
    }
    let broken = locks.break_lease_noting(key.as_bytes(), fence, note).await;
    if args.json {
        let holder = match &broken {
            Ok(holder) => Some(holder),
            Err(BreakError::OtherFence { held_by, .. } | BreakError::Foreign { held_by, .. }) => {
                Some(&**held_by)
            }
            Err(_) => None,
        };
        if matches!(broken, Ok(_) | Err(BreakError::NotHeld { .. })) || holder.is_some() {
            print(&object(&key, broken.is_ok(), holder))?;
        }
    }
    let holder = broken?;
    if !args.quiet && !args.json {
        let who = plain(&holder.owner.to_string());
        print(&format!(
            "{}: broken: ended the lease with fence {fence} of {who}\n",
            plain(&key.to_string())
        ))?;
    }
    Ok(End::SUCCESS)
}

/// Parses a fence. A value that cannot be a fence belongs to no lease.
pub(crate) fn fence(text: &str) -> Result<Fence, Failure> {
    text.parse().ok().and_then(Fence::new).ok_or_else(|| {
        Failure::usage(format!(
            "--fence {text}: a fence is a whole number below 2^53: take it from `leasehold show`"
        ))
    })
}

#[derive(Serialize)]
struct Broken {
    #[serde(flatten)]
    key: KeyText,
    broken: bool,
    /// The holder whose lease was broken, or the one that holds the lock instead.
    holders: Vec<HolderJson>,
}

fn object(key: &Key, broken: bool, holder: Option<&HolderInfo>) -> String {
    let holders = holder.into_iter().map(|holder| HolderJson::of(holder, None)).collect();
    json::line(&Broken { key: key.into(), broken, holders })
}

impl From<BreakError> for Failure {
    fn from(error: BreakError) -> Self {
        match error {
            BreakError::Misuse(misuse) => misuse.into(),
            BreakError::NotHeld { .. } => Self::new(End::FREE, error.to_string()),
            BreakError::OtherFence { .. } => Self::new(End::BUSY, error.to_string()),
            BreakError::Foreign { .. } => Self::new(End::NOT_A_LOCK, error.to_string()),
            BreakError::Store(fault) => Self::of_store(&fault),
            _ => Self::refused(error),
        }
    }
}
