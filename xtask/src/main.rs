//! The project's own commands: `cargo xtask`.

mod api;
mod bench_start;
mod book;
mod clock_rule;
mod deny;
mod dist;
#[cfg(test)]
mod documents;
mod faults;
mod files;
mod fuzz;
mod import_circles;
mod interop;
#[cfg(test)]
mod light;
mod lint;
mod msrv;
mod mutants;
mod package;
mod pages;
mod peers;
mod programs;
mod seeded_bugs;
mod servers;
mod source_copy;
mod step;
mod stop;
mod targets;
mod test;
mod tool;
mod upgrade;
mod wine;

use std::{env, process::ExitCode};

use stop::Stop;

struct Task {
    /// Its name, and the arguments that it takes.
    usage: &'static str,
    does: &'static str,
    run: fn(&[String]) -> Result<ExitCode, Stop>,
}

const TASKS: [Task; 24] = [
    Task {
        usage: "test [--all] [ARG]…",
        does: "download missing servers and run the everyday tests, which takes some minutes; --all runs every \
               test, and downloads the other lock libraries that some of them need; other arguments go to the test runner",
        run: test::run,
    },
    Task {
        usage: "faults [TEST]…",
        does: "test queues under faults at length: processes killed, stopped and cut off, servers failing; about ten minutes",
        run: faults::run,
    },
    Task {
        usage: "soak [ARG]…",
        does: "inject random faults into every kind of lock, store and topology (--minutes N --seed SEED); see `soak --help`",
        run: programs::soak,
    },
    Task {
        usage: "interop [--seconds N]",
        does: "let all other lock libraries and Leasehold compete for one key, on one server and then on three; a minute by default",
        run: interop::run,
    },
    Task {
        usage: "lint",
        does: "check the format, clippy, the documentation, the rules about clocks and import circles, and what `deny` checks",
        run: |_| lint::run(),
    },
    Task {
        usage: "deny [--advisories]",
        does: "check licences, bans and sources of the dependencies; --advisories checks for known vulnerabilities and needs the internet",
        run: deny::run,
    },
    Task {
        usage: "bench [ARG]…",
        does: "measure Leasehold against bare loops; `bench --help` lists the options",
        run: programs::bench,
    },
    Task {
        usage: "bench-compare [ARG]…",
        does: "measure Leasehold against other lock libraries; `bench-compare --help` lists the options",
        run: programs::bench_compare,
    },
    Task {
        usage: "simulate [ARG]…",
        does: "run many seeds of the simulation (--seeds COUNT --from SEED), or replay one with its trace (--seed SEED)",
        run: programs::simulate,
    },
    Task {
        usage: "seeded-bugs [WORD]…",
        does: "put known bugs into a copy of the source, and check that tests fail for each; --list names them, words select among them",
        run: seeded_bugs::run,
    },
    Task {
        usage: "mutants [FILE]…",
        does: "change core, the quorum and the scripts in every small way, and list changes that no test notices; takes hours, or minutes \
               for one or two files",
        run: mutants::run,
    },
    Task {
        usage: "fuzz [--minutes N]",
        does: "pass random invalid input to every parser: URLs, words, values, answers, pipes, state machines; new input each time",
        run: fuzz::run,
    },
    Task {
        usage: "upgrade [TEST]…",
        does: "test this build together with an older one from the history, on the same servers and in the same queue",
        run: upgrade::run,
    },
    Task {
        usage: "servers",
        does: "download missing test servers (Redis, Valkey, PostgreSQL, PgBouncer, libfaketime) into target/servers",
        run: |_| servers::run(),
    },
    Task {
        usage: "peers",
        does: "download the other lock libraries that Leasehold is tested and measured against into target/peers",
        run: |_| peers::run(),
    },
    Task {
        usage: "package",
        does: "package the crates as for a registry, and build each from the packages of the others alone",
        run: |_| package::run(),
    },
    Task {
        usage: "msrv",
        does: "check each published crate with the oldest Rust that it declares, which is downloaded",
        run: |_| msrv::run(),
    },
    Task {
        usage: "targets",
        does: "check that the published crates compile for macOS, FreeBSD and Windows, whose standard libraries are downloaded",
        run: |_| targets::run(),
    },
    Task {
        usage: "wine",
        does: "run the tests of the library that need no server as Windows programs; needs Wine and MinGW's compiler",
        run: |_| wine::run(),
    },
    Task {
        usage: "api [--write]",
        does: "compare the library's public API with its listing in the repository, and check that programs can name all of it; --write \
               updates the listing; builds cargo-public-api and downloads a nightly toolchain",
        run: api::run,
    },
    Task {
        usage: "pages",
        does: "write the command's manual pages and completions into target/pages",
        run: |_| pages::run(),
    },
    Task {
        usage: "book",
        does: "render the manual and the guide as a book in target/book; a broken link is an error",
        run: |_| book::run(),
    },
    Task {
        usage: "dist [--twice] [--target TARGET] [--binary FILE]",
        does: "build the static release binary, and package it for tar, apt, pip, npm, containers and Homebrew; --binary packages a \
               binary that is already built; --target aarch64-unknown-linux-musl builds one for arm64; --twice builds it again in other \
               directories, and compares",
        run: dist::run,
    },
    Task {
        usage: "bench-start",
        does: "measure how much later a command starts under a lock than under timeout(1)",
        run: |_| bench_start::run(),
    },
];

impl Task {
    fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some((name, rest)) = words.split_first() else {
        print!("{}", help());
        return ExitCode::SUCCESS;
    };
    if ["--help", "-h", "help"].contains(&name.as_str()) {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let done = match (TASKS.iter().find(|task| task.name() == name), rest.first()) {
        (Some(task), Some(first)) if task.usage == name => {
            Err(Stop::Usage(format!("takes no arguments, but was given {first:?}")))
        }
        (Some(task), _) => (task.run)(rest),
        (None, _) => Err(Stop::Usage("no such command; `cargo xtask --help` lists them".to_owned())),
    };
    done.unwrap_or_else(|stop| stop.say(name))
}

fn help() -> String {
    let mut text = String::from("The commands of this project:\n\n");
    for Task { usage, does, .. } in &TASKS {
        text += &format!("  cargo xtask {usage:<22} {does}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{files::files_under, step::workspace};

    /// The pages, the workflows and the scripts of CI.
    fn texts() -> Vec<String> {
        let of_root = fs::read_dir(workspace()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = of_root.filter(|path| path.is_file()).collect();
        for directory in ["docs", "packaging", "crates/leasehold/manual", ".github", ".ci"] {
            files.extend(files_under(&workspace().join(directory)).unwrap());
        }
        // Pictures are none, nor is the database of somebody who tried a lock here.
        files.iter().filter_map(|path| String::from_utf8(fs::read(path).unwrap()).ok()).collect()
    }

    #[test]
    fn every_command_that_a_page_or_a_workflow_names_exists() {
        let mut named = 0;
        for text in texts() {
            // A name may be on the next line.
            let words: Vec<_> = text.split_whitespace().collect();
            for words in words.windows(3).filter(|words| words[0].ends_with("cargo") && words[1] == "xtask") {
                let name = words[2].trim_end_matches(|c: char| !c.is_ascii_lowercase());
                assert!(name.starts_with('-') || TASKS.iter().any(|task| task.name() == name), "{name:?}");
                named += 1;
            }
        }
        assert!(named > 50, "{named}");
    }
}
