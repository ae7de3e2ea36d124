//! Help, manual and completions, which all come from one description.

use std::fs;
use std::path::PathBuf;

use crate::harness::Site;
use crate::shell::bash;

const TASKS: [&str; 14] = [
    "run", "once", "every", "hold", "show", "ls", "break", "doctor", "bench", "top", "init", "forget",
    "metrics", "watch",
];
/// The programs of the examples.
const PROGRAMS: [&str; 5] = ["leasehold", "exec", "read", "groupadd", "usermod"];
const TOPICS: [&str; 4] = ["exit-codes", "environment", "stores", "events"];

fn read(site: &Site, words: &[&str]) -> String {
    let done = site.finish(site.leasehold(words)).silent(0);
    done.out
}

/// The options that a task's short help lists.
fn options(site: &Site, task: &str) -> Vec<String> {
    let help = read(site, &[task, "-h"]);
    let words = help.split_whitespace().filter(|word| word.starts_with("--"));
    let mut words: Vec<_> = words.map(|word| word.trim_end_matches([',', '.', ')']).to_owned()).collect();
    words.retain(|word| word.len() > 2 && word.bytes().skip(2).all(|b| b.is_ascii_lowercase() || b == b'-'));
    words.sort();
    words.dedup();
    let least = match task {
        "run" | "once" | "every" | "hold" => 9,
        // It prints nothing, so it has no output options.
        "top" | "metrics" => 3,
        "watch" => 4,
        "init" => 2,
        _ => 5,
    };
    assert!(words.len() >= least, "{words:?}");
    words
}

fn pages(site: &Site) -> PathBuf {
    let directory = site.path("pages");
    let words = ["pages", directory.to_str().unwrap()];
    site.finish(site.leasehold(&words)).silent(0);
    directory
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_has_an_example() {
    let site = Site::new();
    for task in TASKS {
        let short = read(&site, &[task, "-h"]);
        let long = read(&site, &[task, "--help"]);
        assert!(short.lines().count() <= 40, "{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
        assert!(!short.contains("Example") && long.contains("\nExample: "), "{long}");
        assert!(
            long.contains(&format!("\n  leasehold {task} ")) || long.contains("(leasehold hold "),
            "{long}"
        );
        assert_eq!(read(&site, &["help", task]), long);
        let (_, examples) = long.split_once("\nExample: ").unwrap();
        for line in examples.lines().filter_map(|line| line.strip_prefix("  ")) {
            let program = line.split(' ').next().unwrap();
            assert!(PROGRAMS.contains(&program), "an example is broken in two, and cannot be copied: {line}");
        }
    }
    for words in [&["help"][..], &["help", "help"]] {
        assert_eq!(read(&site, words), read(&site, &["--help"]));
    }
    let whole = read(&site, &["-h"]);
    for task in TASKS {
        assert!(whole.contains(&format!("\n  {task}")), "{whole}");
    }
    assert!(!whole.contains("pages"), "{whole}");
    assert!(read(&site, &["--version"]).starts_with("leasehold "));
}

#[test]
fn each_topic_is_said_and_a_slip_in_its_name_is_understood() {
    let site = Site::new();
    for (topic, word) in TOPICS.into_iter().zip(["75 ", "LEASEHOLD_FENCE", "redis+unix:", "remaining_ms"]) {
        let text = read(&site, &["help", topic]);
        assert!(text.contains(word), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
    site.finish(site.leasehold(&["help", "exit-code"])).says_and_hints(
        64,
        &["there is no help topic exit-code", "stores"],
        "did you mean exit-codes?",
    );
    site.finish(site.leasehold(&["help", "zebra"])).says(64, &["there is no help topic zebra"]);
    site.finish(site.leasehold(&["help", "run", "show"]))
        .says(64, &["show is one argument too many: see `leasehold help --help`"]);
    site.finish(site.leasehold(&["completions", "tcsh"])).says_and_hints(
        64,
        &["there are no completions for tcsh", "bash"],
        "did you mean zsh?",
    );
}

#[test]
fn help_that_cannot_be_printed_is_126_and_a_reader_that_has_seen_enough_is_no_failure() {
    let site = Site::new();
    for words in
        ["--version", "--help", "run -h", "help", "help run", "help stores", "run k -- leasehold ls --all"]
    {
        bash(&site, &format!("leasehold {words} > /dev/full")).says(126, &["cannot be printed"]);
        bash(&site, &format!("leasehold {words} | true; exit ${{PIPESTATUS[0]}}")).silent(0);
    }
}

/// Every exit code of the source is explained, and every explained code is in the source.
#[test]
fn the_exit_codes_that_are_explained_are_those_that_there_are() {
    let site = Site::new();
    let text = read(&site, &["help", "exit-codes"]);
    let explained: Vec<u8> =
        text.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()?.parse().ok()).collect();
    let source = include_str!("../../src/exit.rs");
    let consts = source.lines().filter(|line| line.contains("const ") && line.contains("Self::Code("));
    let mut there: Vec<u8> =
        consts.map(|line| line.split(['(', ')']).nth(3).unwrap().parse().unwrap()).collect();
    there.sort_unstable();
    assert_eq!(explained, there);
}

fn has_section(page: &str, section: &str) -> bool {
    page.lines().any(|line| line.replace('"', "") == format!(".SH {section}"))
}

#[test]
fn the_manual_has_its_sections_every_option_and_every_topic() {
    let site = Site::new();
    let manual = pages(&site).join("man/man1");
    for task in TASKS {
        let page = fs::read_to_string(manual.join(format!("leasehold-{task}.1"))).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLE", "SEE ALSO"] {
            assert!(has_section(&page, section), "{section}: {page}");
        }
        let operand = match task {
            "ls" => " PREFIX|--all",
            "doctor" => "",
            "init" => " DIR",
            "every" => " PERIOD KEY",
            "top" | "metrics" | "watch" => " [PREFIX]",
            "bench" => " [URL]...",
            _ => " KEY",
        };
        // Regression: the pages of the tasks named the task in place of the program and its version.
        assert!(page.contains(concat!("\"leasehold ", env!("CARGO_PKG_VERSION"), "\"")), "{page}");
        // A hyphen is escaped so that it is not rendered as a dash.
        let plain = page.replace("\\-", "-");
        for option in options(&site, task) {
            assert!(plain.contains(&option), "{option}: {plain}");
        }
        assert!(plain.contains(&format!("leasehold {task} [OPTIONS]{operand}")), "{plain}");
    }
    let whole = fs::read_to_string(manual.join("leasehold.1")).unwrap();
    for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "STORES", "EVENTS"] {
        assert!(has_section(&whole, section), "{section}: {whole}");
    }
    assert!(whole.is_ascii(), "not every terminal has the rest");
    // A line of text that begins with a dot would be an instruction.
    let known = [".ie", ".el", ".TH", ".SH", ".TP", ".RS", ".RE", ".PP", ".br", ".nf", ".fi", ".SS", ".IP"];
    for line in whole.lines().filter(|line| line.starts_with('.')) {
        assert!(known.contains(&line.split(' ').next().unwrap()), "{line}");
    }
    let names: Vec<_> = fs::read_dir(&manual).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), TASKS.len() + 1, "{names:?}");
}

/// If groff is installed, it reports no error.
#[test]
fn the_manual_can_be_set() {
    let site = Site::new();
    let manual = pages(&site).join("man/man1");
    let has_groff = std::process::Command::new("groff").arg("--version").output().is_ok();
    for page in fs::read_dir(&manual).unwrap().map(|entry| entry.unwrap().path()).filter(|_| has_groff) {
        let words = ["-man", "-Tascii", "-P-cbou", "-ww", "-rLL=100n", page.to_str().unwrap()];
        site.finish(site.process("groff", &words)).silent(0).out_has(&["SYNOPSIS"]);
    }
}

#[test]
fn zsh_and_fish_are_told_every_option_and_what_it_does() {
    let site = Site::new();
    let directory = pages(&site);
    for (file, dashes) in [("zsh/_leasehold", "--"), ("fish/leasehold.fish", "-l ")] {
        let script = fs::read_to_string(directory.join(file)).unwrap();
        for option in TASKS.iter().flat_map(|task| options(&site, task)) {
            let written = option.replacen("--", dashes, 1);
            assert!(script.contains(&written), "{file}: {option}");
        }
        assert!(script.contains("Wait no longer than this"), "{file}");
    }
    for (shell, file) in
        [("bash", "bash/leasehold"), ("zsh", "zsh/_leasehold"), ("fish", "fish/leasehold.fish")]
    {
        if std::process::Command::new(shell).arg("--version").output().is_ok() {
            let path = directory.join(file);
            site.finish(site.process(shell, &["-n", path.to_str().unwrap()])).silent(0);
        }
    }
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    let site = Site::new();
    fs::write(site.path("file"), "").unwrap();
    site.finish(site.leasehold(&["pages", "file/pages"])).says(126, &["file/pages: ", "directory"]);
    site.finish(site.leasehold(&["pages"])).says(64, &["DIR"]);
}
