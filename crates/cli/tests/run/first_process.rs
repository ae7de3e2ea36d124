//! `leasehold` as the first process of a container: it inherits all orphans, and the kernel drops
//! signals for which it has no handler.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{OURS, Running, Site, child_of, is_alive, kill, kill_with, until};

pub(crate) const UNSHARE: [&str; 7] =
    ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The same with the /proc of the namespace around it.
const WITHOUT_PROC: [&str; 6] = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

/// True if the kernel allows a namespace of process ids; otherwise prints why a test is skipped.
pub(crate) fn has_namespaces() -> bool {
    let tried = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output();
    let permitted = tried.is_ok_and(|done| done.status.success());
    if !permitted {
        eprintln!("skipped: no namespace of process ids may be made here (unshare --user --pid)");
    }
    permitted
}

/// `leasehold run` with these words, as process 1, and a script as the command.
fn contained(site: &Site, words: &[&str], script: &str) -> Command {
    let run = [OURS, "run", "--store", site.store()];
    site.process(UNSHARE[0], &[&UNSHARE[1..], &run, words, &["--", "sh", "-c", script]].concat())
}

/// Sends a signal to the first process inside.
fn signal_first(run: &Running, signal: Signal) {
    kill_with(&child_of(run.id()), signal);
}

#[test]
fn the_first_process_ends_as_the_command_does() {
    let Some(site) = has_namespaces().then(Site::new) else { return };
    let script = "[ \"$(tr '\\0' ' ' < /proc/1/cmdline | grep -o 'leasehold run')\" ] && exit 5";
    site.finish(contained(&site, &["k"], script)).silent(5);
    // Process 1 cannot kill itself by a signal, so it exits with the code of a shell.
    site.finish(contained(&site, &["k"], "kill -TERM $$")).silent(128 + 15);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn the_first_process_passes_signals_on_although_the_kernel_would_spare_it() {
    let Some(site) = has_namespaces().then(Site::new) else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1] {
        let number = signal.as_raw();
        let script =
            format!("trap 'exit {number}' {number}; echo $$ > running; while :; do sleep 0.02; done");
        let (run, _) = site.running(contained(&site, &["k"], &script));
        signal_first(&run, signal);
        run.finish().exits_with(number);
    }
    // The same while it waits.
    let holder = site.holder(&["k"]);
    let run = site.start(contained(&site, &["-v", "k"], "true"));
    until("it waits", || run.err().contains("waiting for k, held by "));
    signal_first(&run, Signal::TERM);
    run.finish().exits_with(128 + 15);
    drop(holder);
}

#[test]
fn the_first_process_and_the_supervisor_wait_for_orphans() {
    let Some(site) = has_namespaces().then(Site::new) else { return };
    // Forty orphans below the supervisor, which then end.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true & true & true & true & sleep 0.01 &); done; \
                  until [ \"$(grep -l '^State:.Z' /proc/[0-9]*/status 2> /dev/null)\" = '' ]; do sleep 0.02; done; \
                  echo $$ > running; until [ -e go ]; do sleep 0.02; done; \
                  grep -h '^State:.Z' /proc/[0-9]*/status; exit 4";
    let (run, _) = site.running(contained(&site, &["k"], script));
    // And an orphan that came from outside, as by `docker exec`: it becomes a child of process 1.
    let inside = child_of(run.id());
    let entering = ["--user", "--pid", "--mount", "--preserve-credentials", "--target", &inside];
    let orphaning = ["sh", "-c", "(sleep 0.05 &)"];
    site.finish(site.process("nsenter", &[&entering[..], &orphaning].concat())).silent(0);
    let children = format!("/proc/{inside}/task/{inside}/children");
    // Only the supervisor stays.
    until("the orphan is gone", || {
        fs::read_to_string(&children).unwrap_or_default().split_ascii_whitespace().count() == 1
    });
    site.go();
    run.finish().prints(4, "");
}

/// Regression: the supervisor looked for what the command had started among the processes of the other
/// namespace. It found nothing to end, so the command ran on without its lease, next to the next holder.
#[test]
fn a_command_is_not_run_where_proc_shows_the_processes_of_another_namespace() {
    let Some(site) = has_namespaces().then(Site::new) else { return };
    for task in ["run k", "once k", "every 1h k"] {
        let task: Vec<_> = task.split(' ').collect();
        let words = [&WITHOUT_PROC[1..], &[OURS], &task, &["--store", site.store(), "--", "true"]].concat();
        site.finish(site.process("unshare", &words))
            .says(126, &["/proc does not show the processes of this namespace", "unshare --mount-proc"]);
    }
    assert!(!site.path("leases.db").exists(), "refused before anything is opened");
}

#[test]
fn a_loss_ends_all_in_the_container_that_the_command_started() {
    let Some(site) = has_namespaces().then(Site::new) else { return };
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo x > far; while :; do sleep 0.05; done' & \
                  echo x > running; while :; do sleep 0.05; done";
    let (run, _) = site.running(contained(&site, &["--ttl", "1", "k"], script));
    site.wait_for("far");
    let first = child_of(run.id());
    kill(&child_of(first.parse().unwrap()));
    run.finish().says(70, &["k: the supervisor of the command was killed"]);
    until("the first process is gone", || !is_alive(&first));
}
