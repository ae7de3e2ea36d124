//! `leasehold forget`: deletes the mark of a job, so that it counts as not done.

use clap::Args;
use serde::Serialize;

use crate::args::KeyArgs;
use crate::exit::{End, Failure};
use crate::json::{self, KeyText};
use crate::mark::{MarkJson, begun};
use crate::print::print;
use crate::say::plain;

/// Forget that `once` or `every` ran a command, so that the next one runs it again
///
/// Deletes the mark that is left when COMMAND has ended with 0; `leasehold show KEY` prints it. A
/// process that runs COMMAND now is not disturbed, and leaves a new mark. In a quorum, every store
/// must answer.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold forget [OPTIONS] KEY",
    after_help = "Exit codes: 0 forgotten, 1 the job did not count as done; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE,
    mut_arg("keys", |arg| arg.help("The name of the job"))
)]
pub(crate) struct ForgetArgs {
    /// Print one JSON object
    ///
    /// key, forgotten, and mark: the deleted mark (null: there was none), as in `leasehold show
    /// --json`.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) which: KeyArgs,
}

const EXAMPLE: &str = "\
Exit codes: 0 forgotten, 1 the job did not count as done; `leasehold help exit-codes`.

Example: the migration was rolled back, and is to run again:
  leasehold forget migrate:0042";

pub(crate) async fn forget(args: ForgetArgs) -> Result<End, Failure> {
    let quiet = args.which.quiet;
    let (key, place) = args.which.resolve()?;
    let locks = place.look(quiet).await?;
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
    } else if !quiet {
        let shown = plain(&key.to_string());
        print(&match &forgotten {
            Some(mark) => format!("{shown}: forgotten; it was last begun {}\n", begun(mark)),
            None => format!("{shown}: no job of this name counts as done\n"),
        })?;
    }
    Ok(if forgotten.is_some() { End::SUCCESS } else { End::FREE })
}
