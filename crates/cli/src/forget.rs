//! `leasehold forget`: deletes the mark of a job, so that it counts as not done.

use serde::Serialize;

use crate::args::ForgetArgs;
use crate::exit::{End, Failure};
use crate::json::{self, KeyText};
use crate::keys::only_key;
use crate::mark::{MarkJson, begun};
use crate::print::{plain, print};
use crate::store_location::StoreLocation;

/// Deletes the mark; the exit code says whether there was one.
pub(crate) async fn forget(args: ForgetArgs) -> Result<End, Failure> {
    let key = only_key(args.keys, args.place.naming)?;
    let place = StoreLocation::of(args.place.store)?;
    let locks = place.look(args.quiet).await?;
    let forgotten = locks.forget(key.as_bytes()).await?;
    if args.json {
        #[derive(Serialize)]
        struct Forgotten {
            #[serde(flatten)]
            key: KeyText,
            forgotten: bool,
            mark: Option<MarkJson>,
        }
        print(&json::line(&Forgotten {
            key: (&key).into(),
            forgotten: forgotten.is_some(),
            mark: forgotten.as_ref().map(Into::into),
        }))?;
    } else if !args.quiet {
        let shown = plain(&key.to_string());
        print(&match &forgotten {
            Some(mark) => format!("{shown}: forgotten; it was last begun {}\n", begun(mark)),
            None => format!("{shown}: nothing was noted\n"),
        })?;
    }
    Ok(if forgotten.is_some() { End::SUCCESS } else { End::FREE })
}
