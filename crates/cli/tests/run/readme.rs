//! The README's lines for a shell, run as printed. Only the programs, the server and the fence are
//! the test's.

use servers::{Flavor, Server};

use crate::harness::Site;
use crate::pty::Pty;
use crate::shell::{bash, path, program};

const README: &str = include_str!("../../../../README.md");

/// The lines of the block that begins like this.
fn block(first: &str) -> Vec<&'static str> {
    let from = README.lines().skip_while(|line| !line.starts_with(first));
    let lines: Vec<_> = from.take_while(|line| *line != "```").collect();
    assert!(!lines.is_empty(), "no block begins with {first}");
    lines
}

/// The lines that begin with these words, without their comments.
fn lines(words: &[&str]) -> Vec<&'static str> {
    let lines = block("leasehold run").into_iter().map(|line| line.split('#').next().unwrap().trim());
    lines.filter(|line| words.contains(&line.split(' ').nth(1).unwrap_or(""))).collect()
}

/// The line with this word.
fn line(word: &str) -> &'static str {
    let [line] = lines(&[word])[..] else { panic!("not one line with {word}") };
    line
}

/// The lines that run a command.
fn runs() -> Vec<&'static str> {
    let runs = lines(&["run", "every", "once"]);
    assert!(runs.len() > 10, "{runs:?}");
    runs
}

fn key(line: &str) -> &str {
    line.split(" -- ").next().unwrap().split(' ').next_back().unwrap()
}

/// Creates the program that a line runs. It prints its name, its arguments, and whether the lock is
/// held in the store that the line names.
fn with_program(site: &Site, line: &str) {
    let (_, command) = line.split_once(" -- ./").unwrap();
    let (name, _) = command.split_once(' ').unwrap_or((command, ""));
    let store = line.split(' ').skip_while(|word| *word != "--store").take(2).collect::<Vec<_>>().join(" ");
    let look = format!("leasehold show -q {store} {}", key(line));
    program(site, name, &format!("echo $0 \"$@\" \"$LEASEHOLD_FENCE\"; {look}; echo $?"));
}

/// The line, with a server that exists.
fn at(server: &Server, line: &str) -> String {
    line.replace("redis://10.0.0.5", &server.url())
}

#[test]
fn every_command_of_the_readme_has_a_test_here() {
    let here = include_str!("readme.rs");
    for line in block("leasehold run") {
        let word = line.split(' ').nth(1).unwrap();
        let is_run = runs().iter().any(|run| line.starts_with(run));
        assert!(is_run || here.contains(&format!("line(\"{word}\")")), "nothing tries {line}");
    }
}

#[test]
fn each_line_that_runs_a_command_does_so_under_its_lock_and_with_a_fence() {
    let server = Server::start(Flavor::Valkey91);
    for line in runs() {
        let line = &at(&server, line);
        let site = Site::new();
        with_program(&site, line);
        let done = bash(&site, line).silent(0);
        let (command, fence) = done.out.lines().next().unwrap().rsplit_once(' ').unwrap();
        assert_eq!(command, line.split_once(" -- ").unwrap().1, "{done:?}");
        assert!(fence.parse::<u64>().unwrap() > 0, "{done:?}");
        assert!(done.out.ends_with("\n0\n"), "nobody held {line}: {done:?}");
        // Jobs that run once, or once per period, are not run again; everything else is.
        let again = bash(&site, line).silent(0);
        let runs_again = line.starts_with("leasehold run") || line.contains(" --now ");
        assert_eq!(again.out.is_empty(), !runs_again, "{line}: {again:?}");
    }
}

#[test]
fn a_run_that_does_not_wait_says_so_by_its_code_or_not_at_all() {
    let waits_not: Vec<_> = runs().into_iter().filter(|line| line.contains(" -n")).collect();
    let codes = waits_not.iter().map(|line| {
        let site = Site::new();
        with_program(&site, line);
        let _others = site.holder(&[key(line)]);
        let done = bash(&site, line).out_is("");
        (done.status.code().unwrap(), done.err.is_empty())
    });
    assert_eq!(codes.collect::<Vec<_>>(), [(75, false), (0, true)], "{waits_not:?}");
}

#[test]
fn show_and_ls_name_the_holder_and_break_ends_its_lease() {
    let site = Site::used();
    let say = |line: &str| bash(&site, line);
    say(line("show")).exits_with(1);
    let _others = site.holder(&[key(line("show"))]);
    say(line("show")).silent(0);
    say(line("ls")).silent(0).out_has(&["nightly"]);
    say(line("metrics")).silent(0);
    let mut follows = Pty::start(&site, "env", &[&format!("PATH={}", path()), "sh", "-c", line("watch")]);
    follows.wait_for("\"key\":\"nightly\"");
    let mut screen = Pty::start(&site, "env", &[&format!("PATH={}", path()), "sh", "-c", line("top")]);
    screen.wait_for("nightly");

    let breaks = line("break");
    let _deploys = site.holder(&["deploy"]);
    let shown = say("leasehold show deploy").out;
    let fence = shown.lines().find_map(|line| line.strip_prefix("fence    ")).unwrap();
    let written = breaks.rsplit(' ').next().unwrap();
    say(&breaks.replace(written, fence)).silent(0);
    say("leasehold show -q deploy").exits_with(1);
    // It was not done.
    say(line("forget")).exits_with(1);
}

#[test]
fn a_server_is_diagnosed_mended_and_measured() {
    let server = Server::start(Flavor::Valkey91);
    let site = Site::new();
    // The server keeps nothing on disk.
    let done = bash(&site, &at(&server, line("doctor")));
    let mends = done.out.lines().find_map(|line| line.trim().strip_prefix("fix   redis-cli> ")).unwrap();
    assert_eq!((done.status.code(), mends), (Some(2), "CONFIG SET appendonly yes"), "{done:?}");
    server.text(&mends.split(' ').collect::<Vec<_>>());
    let done = bash(&site, &at(&server, line("doctor")));
    assert!(matches!(done.status.code(), Some(0 | 1)) && done.out.contains(": 0 unsafe, "), "{done:?}");
    bash(&site, &at(&server, line("bench"))).exits_with(0).out_has(&["pairs a second"]);
}

#[test]
fn the_rest_of_a_script_has_the_lock_until_it_ends() {
    let site = Site::new();
    let [holds] = block("exec 9<")[..] else { panic!("one line") };
    let script = format!("{holds}\nleasehold run -nq deploy -- true; echo $? $fence");
    let done = bash(&site, &script);
    let (busy, fence) = done.out.trim().split_once(' ').unwrap();
    assert!(busy == "75" && fence.parse::<u64>().unwrap() > 0, "{done:?}");
    site.finish(site.run(&["-w", "10", "deploy", "--", "true"])).silent(0);
}
