//! Turns the words of the command line into a task, or into a one-line error.

mod habits;

use std::collections::HashMap;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::args::{CommandArgs, JobArgs, PrefixArgs};
use crate::command_line::{CommandLine, Task};
use crate::exit::{End, Failure};
use crate::print::{print_page, shown};

/// Parses the words. If there is nothing to do, prints why, and returns the exit code.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Task, End> {
    let words: Vec<_> = words.into_iter().collect();
    understand(&words).map_err(|misread| match misread {
        ParseError::Page(page) => print_page(&page).map_or_else(Failure::say, |()| End::SUCCESS),
        ParseError::Wrong(failure) => failure.say(),
    })
}

/// The reason why there is nothing to do.
#[derive(Debug)]
pub(crate) enum ParseError {
    /// Help or the version was requested.
    Page(clap::Error),
    Wrong(Failure),
}

/// Parses the words without printing anything.
pub(crate) fn understand(words: &[OsString]) -> Result<Task, ParseError> {
    let words = &*habits::task_first(words);
    let error = match CommandLine::try_parse_from(words) {
        Ok(CommandLine { mut task }) => {
            habits::keys_behind_dashes(&mut task);
            return unruly(&task, words).map_or(Ok(task), |failure| Err(ParseError::Wrong(failure)));
        }
        Err(error) => error,
    };
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Err(ParseError::Page(error));
    }
    let failure = habit(&error, words).or_else(|| without_dashes(words));
    Err(ParseError::Wrong(failure.unwrap_or_else(|| explain(&error, words))))
}

/// Recognizes an option of another program, before it is interpreted in another way.
fn habit(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let hint = habits::option(given).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    Some(explain(error, words).hint(hint))
}

/// Checks that the parser does not make.
fn unruly(task: &Task, words: &[OsString]) -> Option<Failure> {
    let refused = |line: &str| Some(Failure::usage(line));
    let missing = |given: &[OsString], line: &str| given.is_empty().then(|| Failure::usage(line));
    let several = |given: &[OsString], what: &str, task: &str, remedy: &str| {
        let line = || format!("{} {what}, and {task} takes one: {remedy}", given.len());
        (given.len() > 1).then(|| Failure::usage(line()))
    };
    let not_one_key = |keys: &[OsString], task: &str, purpose: &str, hint: &str| {
        let failure = missing(keys, &format!("no key: name what is to be {purpose}"));
        failure.map(|failure| failure.hint(hint)).or_else(|| several(keys, "keys", task, "name one"))
    };
    let prefixes = |which: &PrefixArgs, task, remedy| several(&which.prefixes, "prefixes", task, remedy);
    match task {
        Task::Run(args) => no_command(&args.running, words)
            .or_else(|| missing(&args.acquire.keys, "no key: name what is to be locked, before the --")),
        Task::Once(args) => unruly_job(words, &args.job, &args.keys, "once", &["key"]),
        Task::Every(args) => unruly_job(words, &args.job, &args.words, "every", &["period", "key"]),
        Task::Hold(args) if !args.command.is_empty() => {
            refused("hold runs no command: leave it out, or use `leasehold run KEY -- COMMAND`")
        }
        Task::Hold(args) => missing(&args.acquire.keys, "no key: name what is to be locked"),
        Task::Show(args) => not_one_key(&args.which.keys, "show", "shown", "leasehold ls --all"),
        Task::Ls(args) => match (args.all, &*args.which.prefixes) {
            (false, []) => refused("no prefix: name what the keys begin with, or list all of them")
                .map(|failure| failure.hint("leasehold ls --all")),
            (true, [_, ..]) => refused("PREFIX and --all exclude each other: leave one out"),
            _ => prefixes(&args.which, "ls", "name one"),
        },
        Task::Break(args) => {
            let hint = "leasehold show KEY";
            let no_fence = "no --fence: look who holds the lock, and name the fence that is to be broken";
            not_one_key(&args.keys, "break", "broken, and its fence", hint)
                .or_else(|| args.fence.is_none().then(|| Failure::usage(no_fence).hint(hint)))
        }
        Task::Forget(args) => {
            not_one_key(&args.which.keys, "forget", "forgotten", "leasehold ls --marks --all")
        }
        Task::Metrics(args) => prefixes(&args.which, "metrics", "name one, or none for all locks"),
        Task::Watch(args) => prefixes(&args.which, "watch", "name one, or none for all locks"),
        Task::Top(args) => prefixes(&args.which, "top", "name one, or filter with / on the screen"),
        Task::Init(args) => match (args.database(), &args.group, &*args.directories) {
            (Some(_), None, []) => None,
            (Some(_), ..) => {
                refused("a store URL and a directory: make the tables of a database, or a directory")
            }
            (None, ..) if args.print_sql => {
                refused("no --store: name the database whose tables are to be printed: --store URL")
            }
            (None, None, _) => refused(
                "no --group: name the group of those who are to use the store: `leasehold init --group NAME DIR`",
            ),
            (None, _, directories) if directories.iter().all(|directory| directory.is_empty()) => {
                refused("no directory: name the one to make: `leasehold init --group NAME DIR`")
            }
            (None, _, directories) => several(directories, "directories", "init", "name one"),
        },
        Task::Doctor(_) | Task::Bench(_) | Task::Help(_) | Task::Pages(_) | Task::Completions(_) => None,
    }
}

/// The same for `once` and `every`: there must be a command, and this many words before it.
fn unruly_job(
    words: &[OsString],
    job: &JobArgs,
    before: &[OsString],
    task: &str,
    wanted: &[&str],
) -> Option<Failure> {
    let usage = format!("leasehold {task} {} -- COMMAND", wanted.join(" ").to_uppercase());
    let refused = |line: String| Some(Failure::usage(format!("{line}: `{usage}`")));
    no_command(&job.running, words).or_else(|| match wanted.get(before.len()) {
        Some(missing) => refused(format!("no {missing}, before the --")),
        None if before.len() == wanted.len() => None,
        None => refused(format!("{task} takes one key, and is given several")),
    })
}

fn no_command(running: &CommandArgs, words: &[OsString]) -> Option<Failure> {
    let failure = || Failure::usage("no command behind --: name what to run");
    running.command.is_empty().then(|| without_dashes(words).unwrap_or_else(failure))
}

/// Recognizes the commonest slip: `leasehold run KEY COMMAND`.
fn without_dashes(words: &[OsString]) -> Option<Failure> {
    let (task, rest) = words.get(1..)?.split_first()?;
    let task = task.to_str().filter(|task| ["run", "once", "every"].contains(task))?;
    if rest.iter().any(|word| word == "--") {
        return None;
    }
    let command = command_start(rest, task)?;
    let (ours, command) = rest.split_at(command);
    let mut line = vec!["leasehold".into(), task.into()];
    for (nth, word) in ours.iter().enumerate() {
        let text = word.to_string_lossy();
        line.push(match text.split_once('=') {
            // A store's URL is never repeated: it may contain a password.
            _ if nth > 0 && ours[nth - 1] == "--store" => "URL".into(),
            Some(("--store", _)) => "--store=URL".into(),
            _ => shown(&text),
        });
    }
    line.push("--".into());
    if command.is_empty() {
        line.push("COMMAND".into());
    }
    line.extend(command.iter().map(|word| shown(&word.to_string_lossy())));
    let fact = "the command is missing, or no -- before it: everything behind -- is run as it stands";
    Some(Failure::usage(fact).hint(line.join(" ")))
}

/// Where the command begins in a command line without `--`: after the key. `None` if there is no key,
/// or an unknown option before it.
fn command_start(words: &[OsString], task: &str) -> Option<usize> {
    let takes_value = options(task);
    let mut missing = if task == "every" { 2 } else { 1 };
    let mut at = 0;
    while at < words.len() {
        let word = words[at].to_string_lossy();
        match option(&word, &takes_value) {
            Some(value_follows) => at += 1 + usize::from(value_follows),
            None if missing == 0 => return Some(at),
            None if word.starts_with('-') => return None,
            None => {
                missing -= 1;
                at += 1;
            }
        }
    }
    (missing == 0 && at == words.len()).then_some(at)
}

/// The options of a task; true for those that take a value.
fn options(task: &str) -> HashMap<String, bool> {
    let whole = CommandLine::command();
    let task = whole.find_subcommand(task).map(clap::Command::get_arguments);
    let mut options = HashMap::new();
    for argument in task.into_iter().flatten() {
        let takes_value = argument.get_action().takes_values();
        options.extend(argument.get_long().map(|long| (format!("--{long}"), takes_value)));
        options.extend(argument.get_short().map(|short| (format!("-{short}"), takes_value)));
    }
    options
}

/// For one of our options, returns whether its value is the next word.
fn option(word: &str, takes_value: &HashMap<String, bool>) -> Option<bool> {
    if word.starts_with("--") {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        return takes_value.get(name).map(|takes_value| *takes_value && value.is_none());
    }
    // Several letters after one dash, the last possibly with its value: -nq, -w5.
    let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    for (at, letter) in letters.char_indices() {
        if *takes_value.get(&format!("-{letter}"))? {
            return Some(at + letter.len_utf8() == letters.len());
        }
    }
    Some(false)
}

/// The parser's error, on one line.
fn explain(error: &clap::Error, words: &[OsString]) -> Failure {
    let task = words.get(1).and_then(|word| word.to_str());
    let task = task.filter(|word| CommandLine::command().find_subcommand(word).is_some());
    let help = task.map_or("`leasehold --help`".into(), |task| format!("`leasehold {task} --help`"));
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) if !texts.is_empty() => Some(texts.join(", ")),
        _ => None,
    };
    let given = context(ContextKind::InvalidArg).or_else(|| context(ContextKind::InvalidSubcommand));
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = suggested.into_iter().find_map(context);
    let mut hint = suggested.as_ref().map(|suggested| format!("did you mean {suggested}?"));
    let value = context(ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let line = match (error.kind(), given) {
        (ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, _) => {
            "nothing to do: `leasehold run KEY -- COMMAND` runs a command under a lock".into()
        }
        (ErrorKind::InvalidSubcommand, Some(given)) => {
            if suggested.is_none() || given == "version" || given == "unlock" {
                hint = habits::task(&given).or(hint);
            }
            // A key in the place of the task.
            if words.iter().any(|word| word == "--") && suggested.is_none_or(|suggested| suggested != "run") {
                hint = habits::task(&given).or_else(|| Some("leasehold run KEY -- COMMAND".into()));
            }
            // A mistyped name has a name's letters. Anything else may have been meant for --store.
            let is_name = given.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            let name = if is_name { shown(&given) } else { "…".into() };
            format!("there is no task {name}: `leasehold --help` lists them")
        }
        (ErrorKind::UnknownArgument, Some(given)) if !given.starts_with('-') => {
            if task == Some("doctor") {
                hint = Some("leasehold doctor --store URL".into());
            }
            format!("{} is one argument too many: see {help}", shown(&given))
        }
        (ErrorKind::UnknownArgument, Some(given)) => {
            if let Some(task @ ("show" | "hold" | "break" | "forget" | "ls")) = task
                && suggested.is_none()
                && !given.starts_with("--")
            {
                hint = Some(format!("write a key that begins with - after --: leasehold {task} -- -KEY"));
            }
            format!("there is no option {}: {help} lists them", shown(&given))
        }
        (ErrorKind::MissingRequiredArgument, Some(given)) => format!("{given} is missing: see {help}"),
        (ErrorKind::InvalidUtf8, _) => {
            "an option's value is not UTF-8, which is allowed only for KEY and COMMAND".into()
        }
        (ErrorKind::ArgumentConflict, Some(given)) => match context(ContextKind::PriorArg) {
            Some(other) if other == given => format!("{given} is given twice: leave one out"),
            Some(other) => format!("{given} and {other} exclude each other: leave one out"),
            None => format!("{given} does not fit the other arguments: leave it out"),
        },
        // The parser knows no other enumerated values.
        (ErrorKind::InvalidValue, _) if value.is_some() => {
            let value = shown(&value.unwrap_or_default());
            let known = context(ContextKind::ValidValue).unwrap_or_default();
            match task {
                Some("completions") => {
                    format!("there are no completions for {value}: the shells are {known}")
                }
                _ => format!("there is no help topic {value}: the topics are {known}"),
            }
        }
        (ErrorKind::InvalidValue | ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues, Some(given)) => {
            format!("{given} needs a value: see {help}")
        }
        (ErrorKind::TooManyValues, Some(given)) => format!("{given} takes no value: see {help}"),
        // Never the parser's own text: it may quote something next to a password.
        _ => format!("these arguments do not fit together: see {help}"),
    };
    let failure = Failure::usage(line);
    hint.into_iter().fold(failure, Failure::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        without_dashes(&words).map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_command_line_without_its_dashes_is_shown_with_them() {
        for (typed, meant) in [
            ("leasehold run k ls -l", "leasehold run k -- ls -l"),
            ("leasehold run -nq k ls", "leasehold run -nq k -- ls"),
            ("leasehold run -w 5 k ls", "leasehold run -w 5 k -- ls"),
            ("leasehold run -w5 --ttl=3s k -v ls -n", "leasehold run -w5 --ttl=3s k -v -- ls -n"),
            ("leasehold run --store redis://:s3cret@h k ls", "leasehold run --store URL k -- ls"),
            ("leasehold run --store=redis://:s3cret@h k ls", "leasehold run --store=URL k -- ls"),
            ("leasehold run k curl http://u:s3cret@h", "leasehold run k -- curl …"),
            ("leasehold run k psql h?password=s3cret", "leasehold run k -- psql …"),
            ("leasehold run k", "leasehold run k -- COMMAND"),
            ("leasehold once -w 5 k ls -l", "leasehold once -w 5 k -- ls -l"),
            ("leasehold every 1h k ls -l", "leasehold every 1h k -- ls -l"),
            ("leasehold every --ttl 5 1h k", "leasehold every --ttl 5 1h k -- COMMAND"),
        ] {
            assert!(
                hint(typed).is_some_and(|hint| hint.contains(&format!("{meant:?}"))),
                "{typed}: {:?}",
                hint(typed)
            );
        }
    }

    #[test]
    fn a_command_line_with_dashes_or_without_a_key_gets_another_error() {
        for typed in [
            "leasehold run k -- ls",
            "leasehold run",
            "leasehold run --nonsense k ls",
            "leasehold ls",
            "leasehold every 1h",
        ] {
            assert_eq!(hint(typed), None, "{typed}");
        }
    }
}
