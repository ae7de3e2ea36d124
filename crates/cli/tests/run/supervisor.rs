//! The supervisor: no process of the command outlives the lease, even if `leasehold` is killed or
//! stopped.

use std::fs::{self, File};
use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Signal, geteuid};
use servers::Flavor;

use crate::harness::{OURS, Running, SECRET, Site, child_of, is_alive, kill, kill_with, until};
use crate::shell::in_shell;

/// Records its own process id and that of an orphan in another session; both ignore SIGTERM.
const SCATTERED: &str = "\
    trap '' TERM INT HUP; \
    setsid sh -c 'sh -c \"echo \\$\\$ > far; while :; do sleep 0.05; done\" &' & \
    echo $$ > running; while :; do sleep 0.05; done";

/// The delay that a busy machine may add to the allowed 0.2 s.
const SLACK: Duration = Duration::from_millis(300);
const ALLOWED: Duration = Duration::from_millis(200);

fn scattered(site: &Site, words: &[&str]) -> (Running, [String; 2]) {
    let (run, command) = site.running(site.run_script(words, SCATTERED));
    let all = [command, site.wait_for("far")];
    assert!(all.iter().all(|number| is_alive(number)));
    (run, all)
}

fn are_gone(all: &[String]) -> bool {
    !all.iter().any(|number| is_alive(number))
}

/// The supervisor of a run: the only child of the process that holds the lock.
fn supervisor_of(run: &Running) -> String {
    child_of(run.id())
}

#[test]
fn a_kill_of_leasehold_ends_all_of_the_command_at_once() {
    for site in Site::on_file_and(Flavor::Redis82) {
        let (run, all) = scattered(&site, &["--ttl", "20", "k"]);
        let killed = Instant::now();
        run.signal(Signal::KILL);
        until("all are gone", || are_gone(&all));
        assert!(killed.elapsed() < ALLOWED + SLACK, "{:?}", killed.elapsed());
    }
}

#[test]
fn a_stop_of_leasehold_past_its_lease_ends_all_of_the_command_before_the_lock_is_anothers() {
    for site in Site::on_file_and(Flavor::Valkey91) {
        // Killed a fiftieth of it before its end, the processes have time to be gone on a busy machine.
        let ttl = Duration::from_secs(8);
        let (run, all) = scattered(&site, &["--ttl", "8", "k"]);
        run.signal(Signal::STOP);
        // The last renewal was sent before this.
        let end = Instant::now() + ttl;
        // The shell records both at the moment of the grant.
        let look = format!(
            "for p in {} {}; do grep -q '^State:.[^Z]' /proc/$p/status && echo $p; done",
            all[0], all[1]
        );
        let next = site.start(site.run_script(&["k"], &format!("{look} 2> /dev/null; true")));
        until("all are gone", || are_gone(&all));
        assert!(Instant::now() < end + ALLOWED + SLACK, "{:?} too late", end.elapsed());
        next.finish().silent(0).out_is("");
        run.signal(Signal::CONT);
        run.finish().says(70, &["k: lease lost, so the command was ended"]);
    }
}

/// Regression: the supervisor started the command before it looked at the clock, so a command could begin
/// after its lease if somebody stopped `leasehold` between the grant and the start.
#[test]
fn a_command_is_not_started_after_its_lease() {
    let site = Site::new();
    site.finish(site.process("mkfifo", &["events"])).exits_with(0);
    // The stop may come too late.
    until("a command is not started", || {
        let run = site.start(site.telling("run", "--ttl 300ms k -- touch ran"));
        let mut events = File::open(site.path("events")).unwrap();
        // The first event is the grant.
        events.read_exact(&mut [0]).unwrap();
        run.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(400));
        let ran = site.path("ran").exists();
        run.signal(Signal::CONT);
        let done = run.finish().exits_with(70);
        assert!(ran || !site.path("ran").exists(), "{done:?}");
        let _ = fs::remove_file(site.path("ran"));
        done.err.starts_with("leasehold: k: lease lost, so the command was not run: ")
    });
}

#[test]
fn a_lock_that_was_deleted_ends_what_the_command_left_in_other_sessions_too() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let (run, all) = scattered(&site, &["--ttl", "1500ms", "--grace", "100ms", "k"]);
    server.text(&["DEL", "k"]);
    run.finish().says(70, &["k: lease lost, so the command was ended", "deleted"]);
    assert!(are_gone(&all));
}

/// Both are stopped first, so that neither can do anything about the death of the other.
#[test]
fn a_kill_of_leasehold_and_its_supervisor_at_once_ends_the_command_16_times_of_16() {
    for _ in 0..16 {
        let site = Site::new();
        let script = "echo $$ > running; while :; do sleep 0.05; done";
        let (run, command) = site.running(site.run_script(&["k"], script));
        let both = [run.id().to_string(), supervisor_of(&run)];
        for signal in [Signal::STOP, Signal::KILL] {
            both.iter().for_each(|process| kill_with(process, signal));
        }
        let killed = Instant::now();
        until("the command is gone", || !is_alive(&command));
        assert!(killed.elapsed() < ALLOWED + SLACK, "{:?}", killed.elapsed());
    }
}

/// As `pkill -9 -f leasehold` does. The supervisor has another name, and ends what the kernel does
/// not end with us.
#[test]
fn a_kill_of_all_that_is_called_leasehold_ends_all_that_the_command_started() {
    let site = Site::new();
    let (run, all) = scattered(&site, &["k"]);
    let both = [run.id().to_string(), supervisor_of(&run)];
    let is_called_so = |process: &&String| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap();
        String::from_utf8_lossy(&words).contains("leasehold")
    };
    both.iter().filter(is_called_so).for_each(|process| kill(process));
    until("all are gone", || are_gone(&all));
}

#[test]
fn a_kill_of_the_supervisor_ends_all_of_the_command_and_us_with_70() {
    let site = Site::new();
    let (run, all) = scattered(&site, &["k"]);
    kill(&supervisor_of(&run));
    run.finish().says(70, &["k: the supervisor of the command was killed"]);
    assert!(are_gone(&all));
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

/// Regression: a script that starts something and then becomes `leasehold` is the parent of both.
#[test]
fn a_kill_of_the_supervisor_spares_what_was_started_before_the_command() {
    let site = Site::new();
    let script = "\
        sh -c 'sleep 60 & echo $! > below; wait' & echo $! > earlier; until [ -s below ]; do sleep 0.02; done; \
        exec leasehold run k -- sh -c 'echo $PPID > supervisor; echo $$ > running; exec sleep 60'";
    let (run, command) = site.running(in_shell(&site, "sh", &["-c", script]));
    kill(&site.wait_for("supervisor"));
    run.finish().says(70, &["k: the supervisor of the command was killed"]);
    assert!(!is_alive(&command));
    for earlier in ["earlier", "below"].map(|name| site.read(name)) {
        assert!(is_alive(&earlier));
        kill(&earlier);
    }
}

#[test]
fn a_stop_of_the_supervisor_ends_all_of_the_command_by_the_leases_end() {
    let (_server, proxy, site) = Site::on_proxy(Flavor::Redis82);
    let ttl = Duration::from_secs(2);
    let (run, all) = scattered(&site, &["--ttl", "2", "k"]);
    let supervisor = supervisor_of(&run);
    kill_with(&supervisor, Signal::STOP);
    // It is stopped, so it receives no renewal and cannot act.
    let stopped = Instant::now();
    until("the first lease is over", || stopped.elapsed() > ttl + ALLOWED + SLACK);
    assert!(all.iter().all(|number| is_alive(number)));
    proxy.black_hole();
    let end = Instant::now() + ttl;
    until("all are gone", || {
        // Stopping it is deliberate.
        kill_with(&supervisor, Signal::STOP);
        are_gone(&all)
    });
    assert!(Instant::now() < end + ALLOWED + SLACK, "{:?} too late", end.elapsed());
    run.finish().says(70, &["k: lease lost, so the command was ended"]);
}

/// Regression: the ends of the lease came between the other orders, and once those filled the queue
/// of a stopped supervisor, it learnt of no newer end.
#[test]
fn a_supervisor_that_was_stopped_for_long_ends_nothing_while_the_lease_is_renewed() {
    let site = Site::new();
    let ttl = Duration::from_secs(1);
    let script =
        "trap 'echo x > heard' USR1; echo $$ > running; until [ -e go ]; do sleep 0.02; done; exit 3";
    let (run, _) = site.running(site.run_script(&["--ttl", "1", "k"], script));
    let supervisor = supervisor_of(&run);
    kill_with(&supervisor, Signal::STOP);
    // A queue has room for less than three hundred.
    for _ in 0..400 {
        run.signal(Signal::USR1);
        until("it is taken", || {
            let status = fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap();
            status.contains("ShdPnd:\t0000000000000000")
        });
    }
    let full = Instant::now();
    until("every lease whose end it knew is over", || full.elapsed() > ttl + SLACK);
    kill_with(&supervisor, Signal::CONT);
    site.wait_for("heard");
    site.go();
    run.finish().exits_with(3);
}

#[test]
fn a_supervisor_that_was_stopped_is_woken_by_a_second_wish_to_end() {
    let site = Site::new();
    let (run, all) = scattered(&site, &["k"]);
    kill_with(&supervisor_of(&run), Signal::STOP);
    run.signal(Signal::TERM);
    run.signal(Signal::INT);
    until("all are gone", || are_gone(&all));
    assert!(!run.finish().status.success());
}

#[test]
fn a_supervisor_that_was_stopped_is_woken_when_the_lock_is_lost() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let run = site.holder(&["--ttl", "1500ms", "k"]);
    let command = site.read("running");
    kill_with(&supervisor_of(&run), Signal::STOP);
    server.text(&["DEL", "k"]);
    run.finish().says(70, &["k: lease lost, so the command was ended", "deleted"]);
    assert!(!is_alive(&command));
}

/// Regression: the kernel refused the message with the supervisor's descriptors, as too many were
/// in flight. So it waited for them, and the run kept its lock, for ever.
#[test]
fn a_supervisor_that_gets_no_descriptors_fails_the_run() {
    let site = Site::new();
    // Nobody receives these, which no other process notices that may have more files open.
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let fds = [ours.as_fd(); 100];
    for _ in 0..3 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&ours, &[IoSlice::new(b"x")], &mut rights, SendFlags::empty()).unwrap();
    }
    let script = "ulimit -n 256; exec leasehold run k -- true";
    // Root without its capabilities is a user like others.
    let bare = ["--bounding-set=-all", "sh", "-c", script];
    let done = if geteuid().is_root() {
        in_shell(&site, "setpriv", &bare)
    } else {
        in_shell(&site, "sh", &bare[2..])
    };
    site.finish(done).says(126, &["supervisor", "cannot be started", "open files"]);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

/// A site of the user `nobody` with a setuid root program, like sudo.
struct Mixed {
    site: Site,
    leasehold: String,
    sudo: String,
}

impl Mixed {
    /// `None` if we are not root and cannot create such a program.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can make a program that makes itself root's");
            return None;
        }
        let site = Site::new();
        let own = |name: &str| site.path(name).display().to_string();
        let copy = |from: &str, name: &str, mode: u32| {
            // A build with debug information is large.
            let linked = mode == 0o755 && fs::hard_link(from, site.path(name)).is_ok();
            let _ = linked || fs::copy(from, site.path(name)).is_ok();
            fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        // Other users may not enter the directory in which the tests were built.
        copy(OURS, "leasehold", 0o755);
        let setpriv = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join("setpriv"))
            .find(|path| path.exists())
            .expect("setpriv is there, as setsid is");
        copy(setpriv.to_str().unwrap(), "sudo", 0o4755);
        chown(site.path(""), Some(65534), Some(65534)).unwrap();
        Some(Self { leasehold: own("leasehold"), sudo: own("sudo"), site })
    }

    /// `leasehold run` by nobody.
    fn run(&self, words: &[&str]) -> std::process::Command {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let run = [&*self.leasehold, "run", "--store", self.site.store()];
        self.site.process("setpriv", &[&nobody, &run[..], words].concat())
    }

    /// Starts it with a process of `nobody` and one of root below it, and returns their process
    /// ids.
    fn start(&self, options: &[&str]) -> (Running, [String; 2]) {
        let script = format!(
            "{} --reuid=0 --regid=0 --clear-groups sh -c 'echo $$ > far; exec sleep 60' & echo $$ > running; wait",
            self.sudo
        );
        let run = self.run(&[options, &["k", "--", "sh", "-c", &script]].concat());
        let run = self.site.start(run);
        (run, [self.site.wait_for("running"), self.site.wait_for("far")])
    }
}

#[test]
fn a_process_that_we_may_not_kill_is_named_and_waited_for() {
    let Some(mixed) = Mixed::new() else { return };
    let (run, [command, far]) = mixed.start(&["--ttl", "2"]);
    let supervisor = supervisor_of(&run);
    kill_with(&run.id().to_string(), Signal::STOP);
    until("it is named", || run.err().contains("belongs to another user"));
    until("the rest is gone", || !is_alive(&command));
    assert!(is_alive(&far) && is_alive(&supervisor));
    assert!(run.err().contains(&format!("leasehold: process {far} (sleep) must end")), "{}", run.err());
    kill_with(&run.id().to_string(), Signal::CONT);
    kill(&far);
    let done = run.finish().exits_with(70);
    assert_eq!(done.err.matches("another user").count(), 1, "{done:?}");
}

/// Without the lock, it would run at the same time as the next holder.
#[test]
fn a_process_that_we_may_not_kill_keeps_the_lock_past_the_longest_hold() {
    let Some(mixed) = Mixed::new() else { return };
    let (ttl, max_hold) = (Duration::from_secs(1), Duration::from_secs(2));
    let (run, [command, far]) = mixed.start(&["--ttl", "1", "--max-hold", "2"]);
    let started = Instant::now();
    until("it is named", || run.err().contains("belongs to another user"));
    assert!(started.elapsed() + SLACK > max_hold, "{:?}", started.elapsed());
    assert!(!is_alive(&command));
    until("the last lease before the longest hold is over", || started.elapsed() > max_hold + ttl + SLACK);
    mixed.site.finish(mixed.run(&["-n", "k", "--", "true"])).says(75, &["k: held by"]);
    assert!(is_alive(&far));
    kill(&far);
    let end = "so the command was ended: see why it takes so long, or allow more\n";
    let done = run.finish().exits_with(70);
    assert!(done.err.ends_with(end), "{done:?}");
    mixed.site.finish(mixed.run(&["-n", "k", "--", "true"])).silent(0);
}

/// Regression: we waited for such a process on the only thread, so nobody renewed the lease.
#[test]
fn a_process_that_we_may_not_kill_keeps_the_lock_when_the_supervisor_was_killed() {
    let Some(mixed) = Mixed::new() else { return };
    let ttl = Duration::from_secs(1);
    let (run, [command, far]) = mixed.start(&["--ttl", "1"]);
    kill(&supervisor_of(&run));
    until("it is named", || run.err().contains("belongs to another user"));
    let named = Instant::now();
    until("the last lease before is over", || named.elapsed() > ttl + SLACK);
    mixed.site.finish(mixed.run(&["-n", "k", "--", "true"])).says(75, &["k: held by"]);
    assert!(is_alive(&far) && !is_alive(&command));
    kill(&far);
    let done = run.finish().exits_with(70).err_has(&["k: the supervisor of the command was killed"]);
    assert_eq!(done.err.matches("another user").count(), 1, "{done:?}");
    mixed.site.finish(mixed.run(&["-n", "k", "--", "true"])).silent(0);
}

/// On a file store the lock of a killed process is free at once, but not while its command runs.
#[test]
fn a_process_that_we_may_not_kill_keeps_the_lock_when_leasehold_was_killed() {
    let Some(mixed) = Mixed::new() else { return };
    let (run, [command, far]) = mixed.start(&["--ttl", "60"]);
    run.signal(Signal::KILL);
    until("it is named", || run.err().contains("belongs to another user"));
    until("the rest is gone", || !is_alive(&command));
    mixed.site.finish(mixed.run(&["-n", "k", "--", "true"])).says(75, &["k: held by"]);
    assert!(is_alive(&far));
    kill(&far);
    mixed.site.finish(mixed.run(&["-w", "20", "k", "--", "true"])).silent(0);
}

/// Regression: a quorum had no lifelines, so files that are members of one freed the lock when
/// `leasehold` was killed, although the supervisor had not ended the command yet.
#[test]
fn files_in_a_quorum_keep_the_lock_of_a_killed_process_while_its_supervisor_lives() {
    let directory = Site::new();
    let files = ["a", "b", "c"].map(|name| format!("file:{}", directory.path(name).display()));
    let site = Site::on(&format!("quorum:max-ttl=10s,{}", files.join(",")));
    let (run, all) = scattered(&site, &["--ttl", "10", "k"]);
    let supervisor = supervisor_of(&run);
    kill_with(&supervisor, Signal::STOP);
    run.signal(Signal::KILL);
    run.finish().died_of(Signal::KILL);
    site.finish(site.run(&["-n", "--ttl", "10", "k", "--", "true"])).says(75, &["k: held by"]);
    kill_with(&supervisor, Signal::CONT);
    until("all are gone", || are_gone(&all));
    site.finish(site.run(&["-w", "10", "--ttl", "10", "k", "--", "true"])).silent(0);
}

#[test]
fn the_supervisor_survives_signals_that_end_other_processes() {
    let site = Site::new();
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.02; done; exit 6";
    let (run, _) = site.running(site.run_script(&["k"], script));
    let supervisor = supervisor_of(&run);
    for signal in ["INT", "QUIT", "HUP", "TERM", "USR1", "USR2", "TSTP", "TTIN", "TTOU"] {
        site.finish(site.process("kill", &[&format!("-{signal}"), &supervisor])).silent(0);
    }
    site.go();
    run.finish().silent(6);
}

/// Regression: no message said that the lock of an ended command stays held until its lease ends,
/// which may take minutes.
#[test]
fn a_command_that_was_ended_reports_a_release_that_was_not_confirmed() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let run = site.holder(&["k"]);
    let supervisor = supervisor_of(&run);
    server.stop();
    kill(&supervisor);
    run.finish()
        .exits_with(70)
        .err_has(&["did not confirm the release", "the supervisor of the command was killed"]);
}

#[test]
fn processes_that_the_command_leaves_running_continue_without_the_lock_and_verbose_counts_them() {
    let site = Site::new();
    let script = "sleep 60 & echo $! > one; setsid sleep 60 & echo $! > two";
    site.finish(site.run_script(&["k"], script)).silent(0);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
    let end_all = || {
        for left in ["one", "two"].map(|file| site.wait_for(file)) {
            assert!(is_alive(&left));
            kill(&left);
        }
    };
    end_all();
    let done = site.finish(site.run_script(&["-v", "k"], script)).exits_with(0);
    let says = "k: 2 processes of the command still run, without the lock";
    assert!(done.err.contains(says), "{done:?}");
    end_all();
    let done = site.finish(site.run_script(&["-v", "k"], "true"));
    assert!(!done.err.contains("still run"), "{done:?}");
}

#[test]
fn the_lock_is_kept_until_all_that_the_command_started_has_ended_if_that_is_wanted() {
    let site = Site::new();
    let script = "setsid sh -c 'trap \"exit 0\" USR1; while :; do sleep 0.05; done' & echo $! > left; exit 3";
    for end in [Signal::KILL, Signal::USR1] {
        let run = site.start(site.run_script(&["--ttl", "1", "--wait-for-all", "k"], script));
        let left = site.wait_for("left");
        let started = Instant::now();
        until("the lease of the beginning is over", || started.elapsed() > Duration::from_millis(1500));
        site.finish(site.run(&["-nq", "k", "--", "true"])).silent(75);
        assert!(is_alive(&left));
        // Signals to us are passed to the command.
        if end == Signal::USR1 {
            run.signal(end);
        } else {
            kill(&left);
        }
        // The shell prints the signal that killed its sleep.
        assert_eq!(run.finish().status.code(), Some(3));
        site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
        fs::remove_file(site.path("left")).unwrap();
    }
}

#[test]
fn a_password_is_neither_in_the_words_nor_in_the_environment_of_the_supervisor() {
    let (_server, site) = Site::with_password(Flavor::Redis82, SECRET);
    let script = "echo $$ > running; exec sleep 60";
    let from_environment = site.by_environment(&["run", "k", "--", "sh", "-c", script]);
    let by_option = site.run_script(&["-q", "other"], script);
    for command in [from_environment, by_option] {
        let (run, _) = site.running(command);
        let supervisor = supervisor_of(&run);
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{supervisor}/{file}")).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(!text.is_empty() && !text.contains(SECRET), "{file}: {text}");
        }
    }
}
