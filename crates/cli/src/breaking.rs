//! `leasehold break`: ends another holder's lease.

use std::ffi::{OsStr, OsString};

use clap::Args;
use leasehold::{BreakError, BreakNote, Fence, Label};
use serde::Serialize;

use crate::args::PlaceArgs;
use crate::exit::{End, Failure};
use crate::json::{self, KeyText};
use crate::keys::only_key;
use crate::label::default_label;
use crate::lock_json::HolderJson;
use crate::print::print;
use crate::say::{self, plain};
use crate::store_location::StoreLocation;

/// End another process's lease, by its fence
///
/// For a holder that hangs or cannot be reached. `leasehold show` prints the fence, which names one
/// holding exactly: if the lock has changed hands since, nothing is broken. The next waiter has the
/// lock immediately. The holder is notified at once if the store can do that, otherwise by its next
/// renewal, and a `leasehold run` then ends its command. (With RESP2, as on Redis 5.0, it is
/// notified at once only if its process also waits for a lock.) Until then it continues to work:
/// data that the lock protects is safe only if it refuses smaller fences.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold break [OPTIONS] KEY --fence N",
    after_help = "Exit codes: 0 broken, 1 free, 75 held with another fence; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BreakArgs {
    /// The fence of the lease to end
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) fence: Option<String>,

    /// The reason, up to 256 bytes, which `leasehold show` prints for a day
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Print one JSON object
    ///
    /// key, broken, and holders: the holder whose lease was broken, or the one that holds the lock
    /// instead, if any, with the same fields as in `leasehold show --json`.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing if the lease was broken, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 broken, 1 the lock is free, 65 it is another program's, 75 held with another fence; `leasehold help exit-codes`.

Example: a deployment hangs, and its machine cannot be reached:
  leasehold show deploy
  leasehold break deploy --fence 1763713011000000";

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
            // Only an inspection tells the store's clock, and a failed one changes nothing.
            let state = locks.inspect(key.as_bytes()).await.ok();
            let held_for = holder.zip(state).and_then(|(holder, state)| state.held_for(holder));
            let holders = holder.map(|holder| HolderJson::of(holder, held_for)).into_iter().collect();
            print(&json::line(&Broken { key: (&key).into(), broken: broken.is_ok(), holders }))?;
        }
    }
    let holder = broken?;
    if !args.quiet && !args.json {
        let (key, who) = (plain(&key.to_string()), plain(&holder.owner.to_string()));
        print(&format!("{key}: broken: ended the lease with fence {fence} of {who}\n"))?;
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
