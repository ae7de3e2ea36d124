//! `leasehold pages`: generates the manual and the shell completions from the description of the
//! arguments.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::exit::{End, Failure};
use crate::help::{TOPICS, Topic};

/// Write the manual pages, and the completions for bash, zsh and fish, into a directory
///
/// For packaging or installing the command: DIR/man/man1/*.1, DIR/bash/leasehold,
/// DIR/zsh/_leasehold and DIR/fish/leasehold.fish.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct PagesArgs {
    /// The directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Print the completions for a shell: bash, zsh or fish
///
/// For bash, put `eval "$(leasehold completions bash)"` into ~/.bashrc. It also completes keys that
/// are held or waited for, and the command after --.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

pub(crate) fn write(args: &PagesArgs, command_line: &Command) -> Result<End, Failure> {
    let directory = &args.directory;
    let done =
        manual(&directory.join("man/man1"), command_line).and_then(|()| completions(directory, command_line));
    done.map(|()| End::SUCCESS).map_err(|error| {
        Failure::new(
            End::CANNOT_EXECUTE,
            format!("{}: {error}: name a directory that can be written to", directory.display()),
        )
    })
}

fn manual(directory: &Path, command_line: &Command) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    // These pages contain the output of `leasehold help`.
    let mut whole = command_line.clone().mut_subcommand("help", |help| help.hide(true));
    whole.build();
    let tasks = whole.get_subcommands().filter(|task| !task.is_hide_set());
    let tasks: Vec<_> = tasks.cloned().collect();
    let mut pages = vec![String::from("leasehold")];
    pages.extend(tasks.iter().map(|task| format!("leasehold-{}", task.get_name())));
    let commands = std::iter::once((whole, &TOPICS[..])).chain(tasks.into_iter().map(|task| (task, &[][..])));
    for ((command, topics), name) in commands.zip(&pages) {
        let others = pages.iter().filter(|page| *page != name);
        let others: Vec<_> = others.map(|page| format!("{page}(1)")).collect();
        let page = page(command.display_name(name.clone()), topics, &others.join(", "))?;
        fs::write(directory.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

fn page(mut command: Command, topics: &[Topic], see_also: &str) -> io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let closing = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (remarks, example) = closing.split_once("Example: ").unwrap_or((&closing, ""));
    let has_tasks = command.has_subcommands();
    let manual = Man::new(command).source(concat!("leasehold ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    as_it_stands(&mut page, "SYNOPSIS", usage.trim_start_matches("Usage: "))?;
    manual.render_description_section(&mut page)?;
    if has_tasks {
        manual.render_subcommands_section(&mut page)?;
    }
    manual.render_options_section(&mut page)?;
    if !remarks.trim().is_empty() {
        as_it_stands(&mut page, "REMARKS", remarks.trim())?;
    }
    as_it_stands(&mut page, "EXAMPLE", &capitalized(example.trim()))?;
    for topic in topics {
        as_it_stands(&mut page, topic.heading, topic.text.trim())?;
    }
    as_it_stands(&mut page, "SEE ALSO", see_also)?;
    Ok(page)
}

/// A section whose lines are kept unchanged: tables and examples.
fn as_it_stands(page: &mut Vec<u8>, heading: &str, text: &str) -> io::Result<()> {
    let mut section = Roff::new();
    section.control("SH", [heading]).control("nf", []).text([roman(text)]).control("fi", []);
    section.to_writer(page)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn completions(directory: &Path, command_line: &Command) -> io::Result<()> {
    for (shell, file) in [
        (Shell::Bash, "bash/leasehold"),
        (Shell::Zsh, "zsh/_leasehold"),
        (Shell::Fish, "fish/leasehold.fish"),
    ] {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().expect("it lies in a directory"))?;
        fs::write(path, completions_for(shell, command_line))?;
    }
    Ok(())
}

/// The options of all tasks that take a value.
fn options_with_values(command_line: &Command) -> Vec<String> {
    let all = command_line.get_subcommands().flat_map(Command::get_arguments);
    let all = all.filter(|argument| argument.get_action().takes_values());
    let names = all.flat_map(|argument| {
        let short = argument.get_short().map(|short| format!("-{short}"));
        argument.get_long().map(|long| format!("--{long}")).into_iter().chain(short)
    });
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

pub(crate) fn completions_for(shell: Shell, command_line: &Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line.clone(), "leasehold", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        script.push_str(&format!(
            "\n_leasehold_with_value=' {} '\n",
            options_with_values(command_line).join(" ")
        ));
        script.push_str(include_str!("completions.bash"));
    }
    script
}
