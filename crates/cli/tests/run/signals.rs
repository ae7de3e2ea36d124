//! Signals: `leasehold` passes them to the command, and ends as the command ends.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use servers::{Flavor, Server};

use crate::harness::{Site, is_alive, until};
use crate::shell::{in_shell, sh};

#[test]
fn each_signal_is_passed_on_and_the_commands_own_end_is_ours() {
    let site = Site::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        let number = signal.as_raw();
        let script = format!(
            "trap 'echo got {number}; exit 7' {number}; echo $$ > running; while :; do sleep 0.02; done"
        );
        let (run, _) = site.running(site.run_script(&["k"], &script));
        run.signal(signal);
        run.finish().exits_with(7).out_is(&format!("got {number}\n"));
    }
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_signal_reaches_all_that_the_command_started_and_we_die_of_it_too() {
    let site = Site::new();
    let script = "sleep 60 & echo $! > child; echo $$ > running; wait";
    let (run, command) = site.running(site.run_script(&["k"], script));
    let child = site.wait_for("child");
    run.signal(Signal::TERM);
    run.finish().died_of(Signal::TERM);
    until("all have ended", || !is_alive(&command) && !is_alive(&child));
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_second_wish_to_end_kills() {
    let site = Site::new();
    let script = "trap 'echo x > asked' TERM INT; echo $$ > running; while :; do sleep 0.02; done";
    let (run, command) = site.running(site.run_script(&["k"], script));
    run.signal(Signal::TERM);
    site.wait_for("asked");
    assert!(is_alive(&command));
    run.signal(Signal::INT);
    run.finish().died_of(Signal::KILL);
    assert!(!is_alive(&command));
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

/// They mean whatever the command makes of them.
#[test]
fn other_signals_are_no_wish_to_end_and_each_is_passed_on_however_soon_it_comes_again() {
    let site = Site::new();
    let script = "trap 'echo x >> hup' HUP; trap 'echo x >> usr' USR1; trap 'sleep 0.1; exit 7' TERM
        echo $$ > running; while :; do sleep 0.02; done";
    let (run, _) = site.running(site.run_script(&["k"], script));
    for count in 1..=5 {
        run.signal(Signal::USR1);
        until("it is passed on", || site.read("usr").lines().count() == count);
    }
    run.signal(Signal::HUP);
    site.wait_for("hup");
    run.signal(Signal::TERM);
    run.finish().exits_with(7);
}

/// timeout(1) sends each signal to its child, and then to the group of its child.
#[test]
fn a_signal_that_is_sent_twice_at_once_is_one_wish() {
    let site = Site::new();
    for _ in 0..4 {
        let script = "exec 2> /dev/null; trap 'sleep 0.3; exit 7' TERM; echo $$ > running; while :; do sleep 0.02; done";
        let (run, _) = site.running(site.run_script(&["k"], script));
        run.signal(Signal::TERM);
        // The first has been read by then, or the kernel makes one of two.
        thread::sleep(Duration::from_millis(5));
        run.signal(Signal::TERM);
        run.finish().silent(7);
    }
}

#[test]
fn a_command_that_stopped_itself_continues_when_we_are_told_to() {
    let site = Site::new();
    let (run, command) = site.running(site.run_script(&["k"], "echo $$ > running; kill -STOP $$; exit 5"));
    let stat = format!("/proc/{command}/stat");
    until("it is stopped", || fs::read_to_string(&stat).unwrap().contains(") T "));
    until("it continues", || {
        run.signal(Signal::CONT);
        !is_alive(&command)
    });
    run.finish().exits_with(5);
}

#[test]
fn a_signal_while_waiting_ends_us_of_it_and_leaves_nothing() {
    let server = Server::start(Flavor::Redis82);
    for site in [Site::new(), Site::on(&server.url())] {
        let holder = site.holder(&["k"]);
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let waiter = site.start(site.run_script(&["-v", "k"], "echo x > ran"));
            until("it waits", || waiter.err().contains("waiting for k, held by "));
            waiter.signal(signal);
            waiter.finish().died_of(signal);
        }
        drop(holder);
        site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
        assert_eq!(site.read("ran"), "");
    }
    // Only the last fence of the key is left.
    assert_eq!(server.text(&["DBSIZE"]).as_integer(), Some(1));
    assert_eq!(server.text(&["EXISTS", "k"]).as_integer(), Some(0));
}

#[test]
fn a_signal_while_a_server_is_silent_ends_us_at_once() {
    let (_server, proxy, site) = Site::on_proxy(Flavor::Redis62);
    proxy.black_hole();
    let run = site.start(site.run(&["-v", "k", "--", "true"]));
    until("it connects", || run.err().contains("k: asking "));
    let sent = Instant::now();
    run.signal(Signal::TERM);
    run.finish().died_of(Signal::TERM);
    assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
}

#[test]
fn the_command_ignores_signals_that_nohup_made_us_ignore() {
    let site = Site::new();
    let inner = "echo $$ > running; until [ -e go ]; do sleep 0.02; done; grep SigIgn /proc/$$/status";
    let script = format!("trap '' HUP; exec leasehold run k -- sh -c '{inner}'");
    let (run, _) = site.running(in_shell(&site, "sh", &["-c", &script]));
    run.signal(Signal::HUP);
    site.go();
    let done = run.finish().silent(0);
    assert!(done.out.trim().ends_with('1'), "{done:?}");
}

/// With SIGCHLD ignored, the kernel discards the exit status of children.
#[test]
fn the_exit_code_of_the_command_is_seen_also_if_sigchld_was_ignored() {
    let site = Site::new();
    sh(&site, "trap '' CHLD; exec leasehold run k -- sh -c 'exit 5'").silent(5);
}

#[test]
fn runs_that_are_interrupted_at_any_moment_leave_no_lock() {
    for site in Site::on_file_and(Flavor::Valkey91) {
        for moment in 0..20 {
            let run = site.start(site.run(&["k", "--", "sleep", "60"]));
            // The test sleeps because it tests this moment; it waits for no condition.
            thread::sleep(Duration::from_millis(moment));
            run.signal(Signal::TERM);
            run.finish().died_of(Signal::TERM);
            site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
        }
    }
}
