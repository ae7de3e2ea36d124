//! Terminals: job control and keys work as if the command ran directly.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::harness::{Site, is_alive, kill, kill_with, pid, until};
use crate::pty::{CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, Pty};

/// Prints whether it is in the terminal's foreground group, and the terminal's settings.
const LOOK: &str = "read -r _ _ _ _ group _ _ foreground _ < /proc/$$/stat; \
                    [ $group = $foreground ] && echo in front || echo behind; stty -g < /dev/tty";

/// True if a program is installed; otherwise prints why a test is skipped.
pub(crate) fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A shell in which somebody typed this line.
fn entered(line: &str) -> (Site, Pty) {
    let site = Site::new();
    let mut pty = Pty::shell(&site);
    pty.enters(line);
    (site, pty)
}

fn is_stopped(number: &str) -> bool {
    fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// Regression: no column counted as few columns, and the line lacked the holder.
#[test]
fn the_line_of_a_wait_is_whole_on_a_terminal_without_a_size() {
    let site = Site::new();
    let mut holder = Pty::script(&site, "exec $L run k -- cat");
    holder.types_until("held\n", "held\r\nheld\r\n");
    let mut waiter = Pty::sized(&site, [0, 0], "bash", &["-c", "exec $L run k -- true"]);
    waiter.wait_for(", held by ");
    waiter.wait_for(" in the queue, waited ");
    holder.types(CTRL_D);
    holder.ends_with(0);
    waiter.ends_with(0);
}

#[test]
fn vim_edits_a_file_and_leaves_the_terminal_as_it_was() {
    let Some(site) = has("vim").then(Site::new) else { return };
    let script = "stty -g > before; $L run k -- vim -u NONE -n text; echo $? > code; stty -g > after";
    let mut pty = Pty::script(&site, script);
    pty.wait_for("\"text\" [New");
    pty.types("ihello\x1b:wq\n");
    pty.ends_with(0);
    assert_eq!((&*site.read("text"), &*site.read("code")), ("hello", "0"));
    assert!(!site.read("before").is_empty());
    assert_eq!(site.read("before"), site.read("after"));
}

#[test]
fn vim_is_stopped_by_ctrl_z_and_goes_on_with_fg() {
    let Some(site) = has("vim").then(Site::new) else { return };
    let mut pty = Pty::shell(&site);
    pty.enters_until("$L run k -- vim -u NONE -n text", "\"text\" [New");
    pty.types("ihello\x1b");
    pty.is_stopped();
    pty.enters_until("stty -a | grep -o ' icanon'", " icanon\r\n");
    pty.enters("fg");
    // The alternate screen.
    pty.wait_for("\x1b[?1049h");
    pty.types("o more\x1b:wq\n");
    until("the text is written", || site.read("text") == "hello\n more");
}

#[test]
fn less_pages_piped_text_on_either_side_of_a_run() {
    let Some(site) = has("less").then(Site::new) else { return };
    for script in ["seq 1000 | $L run k -- less", "$L run k -- sh -c 'seq 1000 | less'"] {
        let mut pty = Pty::script(&site, script);
        pty.wait_for("23\r\n");
        pty.types_until(" ", "46\r\n");
        pty.types("q");
        pty.ends_with(0);
    }
}

#[test]
fn foreground_and_modes_are_as_without_us_before_during_and_after() {
    let site = Site::new();
    fs::write(site.path("look"), LOOK).unwrap();
    let seen = |middle: &str| {
        let mut pty = Pty::script(&site, &format!("(. ./look; {middle}; . ./look) > seen 2>&1"));
        pty.ends_with(0);
        site.read("seen")
    };
    let without_us = seen("sh ./look");
    assert_eq!(without_us.matches("in front").count(), 3, "{without_us}");
    assert_eq!(seen("$L run k -- sh ./look"), without_us);
    assert_eq!(seen("true | $L run k -- sh ./look"), without_us);
    // Settings that the command changed stay so.
    let mut pty = Pty::script(&site, "$L run k -- stty -echo; stty -a");
    pty.wait_for(" -echo ");
    // With `--no-tty`, it is.
    assert_eq!(seen("$L run --no-tty k -- sh ./look").matches("behind").count(), 1);
}

/// Regression: a run that waited for processes that its command had left was not stopped with them, so
/// the shell had no prompt, and Ctrl-C did not reach them because they were stopped.
#[test]
fn ctrl_z_stops_a_run_that_waits_for_what_its_command_left() {
    let site = Site::new();
    let mut pty = Pty::shell(&site);
    // Without programs of its own: a shell that waits for its child to begin one does not stop.
    let left = "while kill -0 $$; do :; done 2>&-; echo al''one; read -r x < go";
    pty.enters_until(&format!("mkfifo go; $L run --wait-for-all k -- sh -c '({left}) & exit 3'"), "alone");
    pty.is_stopped();
    pty.enters("fg");
    site.go();
    pty.wait_for("> ");
    pty.enters_until("echo code''=$?", "code=3");
}

#[test]
fn an_interactive_shell_has_job_control() {
    let site = Site::new();
    let mut pty = Pty::shell(&site);
    pty.enters_until("$L run k -- sh -i", "> ");
    pty.enters("cat");
    pty.types_until("in\n", "in\r\nin\r\n");
    pty.types_until(CTRL_Z, "Stopped");
    pty.enters("jobs; echo jobs''-end");
    pty.wait_for("Stopped");
    pty.wait_for("jobs-end");
    pty.enters_until("fg", "cat\r\n");
    pty.types_until("on\n", "on\r\non\r\n");
    pty.types_until(CTRL_C, "> ");
    pty.enters_until("exit 3", "> ");
    pty.enters_until("echo code''=$?", "code=3");
    pty.wait_for("> ");
    // The outer shell has the terminal again.
    pty.enters("cat");
    pty.types_until("me\n", "me\r\nme\r\n");
    assert!(!pty.all().contains("job control"), "{}", pty.all());
}

#[test]
fn ctrl_c_ends_a_loop_of_runs_at_once() {
    let site = Site::new();
    let mut pty =
        Pty::script(&site, "for i in 1 2 3; do $L run k -- sh -c 'echo begun; exec sleep 60'; done");
    pty.wait_for("begun");
    pty.types(CTRL_C);
    pty.dies_of(Signal::INT);
    assert_eq!(pty.all().matches("begun").count(), 1, "{}", pty.all());
    assert!(!pty.all().contains("leasehold"), "{}", pty.all());
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_command_that_handles_ctrl_c_gets_each_exactly_once() {
    let site = Site::new();
    let mut pty = Pty::script(
        &site,
        "exec $L run k -- sh -c 'trap \"n=x\\$n; echo INT=\\$n.\" INT; trap \"exit 4\" QUIT; echo begun; \
         while :; do sleep 0.02; done'",
    );
    pty.wait_for("begun");
    for seen in ["INT=x.", "INT=xx.", "INT=xxx."] {
        pty.types_until(CTRL_C, seen);
    }
    pty.types(CTRL_BACKSLASH);
    pty.ends_with(4);
    assert!(!pty.all().contains("INT=xxxx"), "{}", pty.all());
}

/// In a container with a terminal, `docker stop` may send SIGINT or SIGQUIT to its first process,
/// without a key press.
#[test]
fn an_interrupt_that_nobody_typed_is_passed_on_at_a_terminal_too() {
    let site = Site::new();
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut pty = Pty::script(&site, "exec $L run k -- sh -c 'echo begun; ulimit -c 0; exec sleep 60'");
        pty.wait_for("begun");
        kill_process(pid(pty.id()), signal).unwrap();
        pty.dies_of(signal);
    }
}

#[test]
fn a_job_that_is_stopped_and_continued_within_its_lease_goes_on_and_keeps_the_lock() {
    let (site, mut pty) = entered("$L run --ttl 3 k -- sh -c 'echo $$ > running; read -r x; echo got''=$x'");
    let command = site.wait_for("running");
    for _ in 0..3 {
        pty.is_stopped();
        pty.enters("fg");
        until("the command goes on", || !is_stopped(&command));
    }
    let continued = Instant::now();
    until("the lease would have ended", || continued.elapsed() > Duration::from_millis(3200));
    assert!(is_alive(&command));
    site.finish(site.run(&["-nq", "k", "--", "true"])).silent(75);
    pty.types_until("word\n", "got=word");
    site.finish(site.run(&["-w", "9", "k", "--", "true"])).silent(0);
}

#[test]
fn a_run_that_another_process_stops_again_and_again_stops_its_command_each_time() {
    let (site, mut pty) = entered("$L run --status-fd 7 k -- sh -c 'echo $$ > running; read -r x' 7>events");
    let command = site.wait_for("running");
    let run = site.events()[0]["pid"].to_string();
    for _ in 0..3 {
        // One that comes just before it is continued is forgotten by the kernel.
        until("it stops", || {
            kill_with(&run, Signal::TSTP);
            is_stopped(&run)
        });
        pty.wait_for("Stopped");
        pty.wait_for("> ");
        assert!(is_stopped(&command));
        pty.enters("fg");
        until("the command goes on", || !is_stopped(&command));
    }
}

/// A process that is stopped in the middle of a transaction keeps the file from everybody.
#[test]
fn a_run_stops_only_after_the_request_that_is_under_way() {
    let (site, mut pty) = entered(
        "$L run --status-fd 7 k -- sh -c 'echo $$ > running; until [ -e go ]; do sleep 0.02; done' 7>events",
    );
    site.wait_for("running");
    let file = rusqlite::Connection::open(site.path("leases.db")).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    site.go();
    until("it begins to release", || site.read("events").contains(r#""event":"ended""#));
    let run = site.events()[0]["pid"].to_string();
    kill_with(&run, Signal::TSTP);
    until("it has read the signal", || {
        let status = fs::read_to_string(format!("/proc/{run}/status")).unwrap();
        status.contains("ShdPnd:\t0000000000000000")
    });
    file.execute_batch("COMMIT").unwrap();
    until("it stops", || is_stopped(&run));
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
    pty.wait_for("> ");
    pty.enters("fg");
    pty.wait_for("> ");
}

#[test]
fn a_job_that_is_stopped_past_its_lease_is_70_when_it_goes_on_and_the_lock_was_free() {
    let (site, mut pty) = entered("$L run --ttl 1 k -- sh -c 'trap \"\" TERM; echo $$ > running; read -r x'");
    let command = site.wait_for("running");
    pty.types_until(CTRL_Z, "Stopped");
    let look =
        format!("exec 2> /dev/null; grep -q '^State:.[^Z]' /proc/{command}/status && echo alive; true");
    site.finish(site.run_script(&["k"], &look)).silent(0).out_is("");
    pty.enters("fg");
    pty.wait_for(
        "leasehold: k: lease lost, so the command was ended: it was not renewed while this run was stopped",
    );
    pty.wait_for("> ");
    pty.enters_until("echo code''=$?", "code=70");
}

/// The supervisor continues the command so that it can end, and that continues us.
#[test]
fn a_job_that_is_ended_while_it_is_stopped_says_so_although_its_lease_can_still_be_renewed() {
    let (site, mut pty) =
        entered("$L run --ttl 1 k -- sh -c 'trap \"\" TERM; echo $$ > running; exec sleep 60'");
    site.wait_for("running");
    pty.types_until(CTRL_Z, "Stopped");
    pty.wait_for("lease lost, so the command was ended: it was not renewed while this run was stopped");
    // The shell still has the terminal.
    pty.enters("cat");
    pty.types_until("mine\n", "mine\r\nmine\r\n");
}

/// The same for a stop that no program can notice. Many at once, because some then renew their lease
/// before they see that they were continued.
#[test]
fn a_run_that_was_stopped_by_force_past_its_lease_says_so() {
    let site = Site::new();
    let runs: Vec<_> = (0..24)
        .map(|nth| {
            let script = format!("echo $$ > running{nth}; exec sleep 60");
            let run = site.start(site.run_script(&["--ttl", "1", &format!("k{nth}")], &script));
            let command = site.wait_for(&format!("running{nth}"));
            run.signal(Signal::STOP);
            (run, command)
        })
        .collect();
    for (run, command) in runs {
        until("the command is ended", || !is_alive(&command));
        run.signal(Signal::CONT);
        run.finish().says(70, &["it was not renewed while this run was stopped"]);
    }
}

/// Then only we are stopped, and nothing renews the lease.
#[test]
fn a_command_that_is_continued_by_hand_continues_us() {
    let (site, mut pty) = entered("mkfifo go; $L run --ttl 2 k -- sh -c 'echo $$ > running; read -r x < go'");
    let command = site.wait_for("running");
    pty.is_stopped();
    pty.enters(&format!("kill -CONT {command}"));
    let continued = Instant::now();
    until("the lease would have ended", || continued.elapsed() > Duration::from_millis(2500));
    assert!(is_alive(&command));
    fs::write(site.path("go"), "\n").unwrap();
    pty.enters("wait; echo waited''=$?");
    pty.wait_for("waited=0");
}

#[test]
fn a_command_that_stops_itself_gives_the_shell_its_prompt() {
    let site = Site::new();
    for stop in ["kill -STOP $$", "kill -TSTP $$"] {
        let mut pty = Pty::shell(&site);
        pty.enters(&format!("$L run k -- sh -c 'echo beg''an; {stop}; read -r x; echo got''=$x'"));
        pty.wait_for("began");
        pty.wait_for("Stopped");
        pty.wait_for("> ");
        pty.enters("fg");
        pty.types_until("on\n", "got=on");
        // Not before it has released the lock.
        pty.wait_for("> ");
    }
    // A shell that suspends itself has its own process group.
    let mut pty = Pty::shell(&site);
    pty.enters_until("$L run k -- bash --norc --noediting -i", "> ");
    pty.enters_until("suspend", "Stopped");
    pty.wait_for("> ");
    pty.enters("fg");
    pty.enters("echo in''ner; exit 5");
    pty.wait_for("inner");
    pty.wait_for("> ");
    pty.enters_until("echo code''=$?", "code=5");
}

/// Otherwise vim and other programs that restore the screen first would be stopped again as soon as
/// they continue.
#[test]
fn a_command_that_stops_its_group_is_not_stopped_by_us_as_well() {
    const STOPS: usize = 20;
    let (_site, mut pty) = entered(
        "$L run k -- sh -c 'trap \"echo to''ld\" TSTP; while read -r x; do kill -TSTP 0; done; echo over'",
    );
    for _ in 0..STOPS {
        pty.types_until("\n", "told");
    }
    pty.types_until(CTRL_D, "over");
    pty.wait_for("> ");
    assert_eq!(pty.all().matches("told").count(), STOPS, "{}", pty.all());
}

#[test]
fn ctrl_z_is_ignored_if_the_command_ignores_it_or_no_shell_could_continue_it() {
    let (site, mut pty) = entered("$L run k -- sh -c 'trap \"\" TSTP; echo beg''an; exec cat'");
    pty.wait_for("began");
    pty.types(CTRL_Z);
    pty.types_until("still\n", "still\r\nstill\r\n");
    drop(pty);
    // As with `ssh -t host leasehold …`: the session has no shell with job control.
    let mut pty = Pty::script(&site, "exec $L run other -- sh -c 'kill -STOP $$; exec cat'");
    pty.types_until("there?\n", "there?\r\nthere?\r\n");
    pty.types(CTRL_Z);
    pty.types_until("still\n", "still\r\nstill\r\n");
    pty.types(CTRL_D);
    pty.ends_with(0);
}

#[test]
fn a_background_job_reads_the_terminal_once_it_is_in_front() {
    let site = Site::new();
    let mut pty = Pty::shell(&site);
    // Bash then reports the job at once.
    pty.enters("set -b");
    pty.enters("$L run k -- sh -c 'read -r x; echo got''=$x' &");
    pty.wait_for("Stopped");
    pty.enters("fg");
    pty.types_until("word\n", "got=word");
}

#[test]
fn without_the_terminal_a_typed_signal_reaches_the_commands_group_through_us() {
    let (site, mut pty) = entered(
        "$L run --no-tty k -- sh -c 'echo $$ > running; sh -c \"echo \\$\\$ > child; exec sleep 60\"; exit 1'; echo code''=$?",
    );
    let all = [site.wait_for("running"), site.wait_for("child")];
    pty.types_until(CTRL_Z, "Stopped");
    until("all are stopped", || all.iter().all(|number| is_stopped(number)));
    pty.enters("fg");
    until("all go on", || !all.iter().any(|number| is_stopped(number)));
    pty.types(CTRL_C);
    until("all have ended", || !all.iter().any(|number| is_alive(number)));
}

#[test]
fn the_terminal_is_in_order_after_a_command_that_had_to_end() {
    let site = Site::new();
    let supervisor = || {
        let command = site.wait_for("running");
        let stat = fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned()
    };
    let mut pty = Pty::script(
        &site,
        "stty -g > before; $L run k -- sh -c 'stty raw -echo; echo $$ > running; exec sleep 60'; stty -g > after",
    );
    kill(&supervisor());
    pty.ends_with(0);
    assert_eq!(site.read("before"), site.read("after"));
    fs::remove_file(site.path("running")).unwrap();
    // A nested shell took the terminal, and died with it.
    let mut pty = Pty::script(&site, "$L run k -- bash --norc -i; read -r x; echo got''=$x");
    pty.wait_for("bash");
    pty.types("echo $$ > running\n");
    kill(&supervisor());
    pty.wait_for("the supervisor of the command was killed");
    pty.types_until("word\n", "got=word");
}
