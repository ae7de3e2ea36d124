//! Habits from flock, consul, kubectl and similar commands.

use std::ffi::OsString;

use clap::CommandFactory as _;

use crate::command_line::{CommandLine, Task};

/// Moves options in front of the task, as git and docker accept them, behind it.
pub(super) fn task_first(words: &[OsString]) -> Vec<OsString> {
    const WITH_VALUE: [&str; 4] = ["--store", "--max-ttl", "--outage-limit", "--naming"];
    let mut at = 1;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if !WITH_VALUE.contains(&name) {
            break;
        }
        at += if value.is_some() { 1 } else { 2 };
    }
    if at >= words.len() {
        return words.to_vec();
    }
    [&words[..1], &words[at..=at], &words[1..at], &words[at + 1..]].concat()
}

/// In `run -n -- -k -- COMMAND`, everything before the second `--` is a key, whatever it begins with.
pub(super) fn keys_behind_dashes(task: &mut Task) {
    let (keys, command) = match task {
        Task::Run(args) => (&mut args.acquire.keys, &mut args.running.command),
        Task::Once(args) => (&mut args.keys, &mut args.job.running.command),
        Task::Every(args) => (&mut args.words, &mut args.job.running.command),
        Task::Hold(args) if args.acquire.keys.is_empty() => {
            args.acquire.keys = std::mem::take(&mut args.command);
            return;
        }
        _ => return,
    };
    if let Some(dashes) = command.iter().position(|word| word == "--").filter(|_| keys.is_empty()) {
        *keys = command.drain(..=dashes).take(dashes).collect();
    }
}

/// Our name for an option that we do not have.
pub(super) fn option(typed: &str) -> Option<&'static str> {
    let name = typed.split('=').next().unwrap_or_default();
    Some(match name {
        "--timeout" | "--wait" | "-t" => "--within TIME waits so long",
        "-c" | "--command" => "a shell reads a command as in: leasehold run KEY -- sh -c 'COMMAND'",
        "--nonblock" | "--nb" | "--no-wait" => "--try, or -n",
        "-x" | "-e" | "--exclusive" => "a lock is exclusive unless it is taken with --shared",
        "-s" => "--shared",
        "-u" | "--unlock" => "the lock is released when COMMAND ends",
        "-o" | "--close" => "leave it out: processes that COMMAND leaves running do not hold the lock",
        "-F" | "--no-fork" => "leave it out: leasehold runs next to COMMAND, to renew the lease",
        "--conflict-exit-code" => "--busy-exit-code N",
        _ => return None,
    })
}

/// Our name for a task that we do not have.
pub(super) fn task(typed: &str) -> Option<String> {
    Some(match typed {
        "status" | "info" | "get" | "who" => "leasehold show KEY".into(),
        "list" | "locks" | "ps" => "leasehold ls --all".into(),
        "lock" | "acquire" | "exec" => "leasehold run KEY -- COMMAND".into(),
        "unlock" | "release" | "kill" => {
            "a lock is released when its command ends; leasehold break KEY --fence N ends somebody else's"
                .into()
        }
        "version" => "leasehold --version".into(),
        "log" | "logs" | "events" | "follow" => "leasehold watch".into(),
        _ => format!("did you mean {}?", near(typed)?),
    })
}

/// The task whose name has the same letters.
fn near(typed: &str) -> Option<String> {
    let sorted = |word: &str| {
        let mut letters: Vec<_> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let whole = CommandLine::command();
    let mut tasks = whole.get_subcommands().map(clap::Command::get_name);
    tasks.find(|task| task.len() > 2 && sorted(task) == sorted(typed)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        task_first(&words).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn options_before_the_task_are_moved_behind_it() {
        assert_eq!(moved("leasehold --store file:/x ls --all"), "leasehold ls --store file:/x --all");
        assert_eq!(
            moved("leasehold --store=file:/x --max-ttl 9 run k -- ls"),
            "leasehold run --store=file:/x --max-ttl 9 k -- ls"
        );
        for line in [
            "leasehold ls --store x",
            "leasehold --store x",
            "leasehold --store",
            "leasehold",
            "leasehold -h",
        ] {
            assert_eq!(moved(line), line);
        }
    }
}
