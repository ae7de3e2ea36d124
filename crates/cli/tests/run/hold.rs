//! `leasehold hold`: a lock for a script.

use std::time::Duration;

use rustix::process::Signal;
use servers::Flavor;

use crate::harness::{Site, names, until};
use crate::pty::{CTRL_C, Pty};
use crate::shell::{bash, in_bash};

#[test]
fn a_script_is_alone_from_the_fence_to_its_end() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let script = "\
            exec 9< <(leasehold hold deploy)
            read -r fence <&9 || exit 75
            echo \"$fence\"
            leasehold run -n deploy -- true 2> /dev/null; echo $?";
        let done = bash(&site, script).silent(0);
        let lines: Vec<_> = done.out.lines().collect();
        assert!(lines[0].parse::<u64>().unwrap() > 0, "{done:?}");
        assert_eq!(lines[1], "75");
        // Released soon after the script ends; the next fence is greater.
        let after = site.finish(site.run_script(&["-w", "10", "deploy"], "echo $LEASEHOLD_FENCE")).silent(0);
        assert!(after.out.trim().parse::<u64>().unwrap() > lines[0].parse().unwrap());
    }
}

#[test]
fn closing_the_descriptor_lets_the_lock_go_with_0() {
    let site = Site::new();
    let script = "\
        exec 9< <(leasehold hold deploy; echo $? > code)
        read -r fence <&9 || exit 75
        exec 9<&-
        leasehold run -w 10 deploy -- true || exit 1
        until [ -s code ]; do sleep 0.02; done; cat code";
    bash(&site, script).prints(0, "0\n");
}

#[test]
fn a_refused_request_reads_no_fence() {
    let site = Site::new();
    let holder = site.holder(&["deploy"]);
    let script = "exec 9< <(leasehold hold -nq deploy); read -r fence <&9 || exit 75";
    bash(&site, script).silent(75);
    bash(&site, "leasehold hold -w 50ms -E 9 deploy").says(9, &["deploy: not free within"]).out_is("");
    drop(holder);
}

#[test]
fn a_loss_is_the_end_of_the_pipe_and_70() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let script = "\
        exec 9< <(leasehold hold --ttl 600ms deploy; echo $? > code)
        read -r fence <&9 || exit 75
        echo $fence > fence
        read -r more <&9; echo \"end $?\"
        until [ -s code ]; do sleep 0.02; done; cat code";
    let run = site.start(in_bash(&site, script));
    site.wait_for("fence");
    server.text(&["DEL", "deploy"]);
    let done = run.finish().out_is("end 1\n70\n");
    done.says(0, &["deploy: lease lost", "deleted"]);
}

/// The reader must not rely on the lock while we search for a server that is gone.
#[test]
fn a_lease_that_cannot_be_renewed_is_the_end_of_the_pipe_by_its_end() {
    let (_server, proxy, site) = Site::on_proxy(Flavor::Valkey91);
    let script = "\
        exec 9< <(leasehold hold --ttl 1 deploy)
        read -r fence <&9 || exit 75
        echo $fence > fence
        read -r more <&9; echo end";
    let run = site.start(in_bash(&site, script));
    site.wait_for("fence");
    proxy.black_hole();
    let silent = std::time::Instant::now();
    run.finish().out_is("end\n");
    assert!(silent.elapsed() < Duration::from_millis(1000 + 500), "{:?}", silent.elapsed());
}

/// The holder is not notified of this, and would find out at its next renewal.
#[test]
fn a_lock_that_was_lost_before_its_release_is_70() {
    let (server, site) = Site::on_server(Flavor::Redis62);
    let script = "\
        exec 9< <(leasehold hold deploy; echo $? > code)
        read -r fence <&9 || exit 75
        echo $fence > fence; until [ -e go ]; do sleep 0.02; done; exec 9<&-
        until [ -s code ]; do sleep 0.02; done; cat code";
    let run = site.start(in_bash(&site, script));
    site.wait_for("fence");
    server.text(&["SET", "deploy", "theirs"]);
    site.go();
    run.finish().out_is("70\n").says(0, &["deploy: ", "may not have been alone"]);
    assert_eq!(server.text(&["GET", "deploy"]).as_text(), Some("theirs"));
}

/// Regression: the print of the fence blocked, and nobody renewed the lease.
#[test]
fn while_a_full_pipe_is_not_read_the_lease_is_renewed() {
    let site = Site::new();
    let script = "\
        mkfifo pipe; exec 9<>pipe; head -c 65536 /dev/zero >&9
        leasehold hold --ttl 600ms --status-fd 7 k >&9 7>events &
        until [ -e go ]; do sleep 0.02; done
        head -c 65536 <&9 >/dev/null; read -r fence <&9; echo $fence; kill $!";
    let run = site.start(in_bash(&site, script));
    until("it is renewed", || site.read("events").matches("renewed").count() >= 3);
    site.finish(site.run(&["-nq", "k", "--", "true"])).silent(75);
    site.go();
    assert!(run.finish().out.trim().parse::<u64>().unwrap() > 0);
}

#[test]
fn a_longest_hold_is_70_and_says_so() {
    let site = Site::new();
    site.outcome(&["hold", "--max-hold", "300ms", "k"])
        .says(70, &["k: held for as long as --max-hold 300ms allows"]);
    site.finish(site.telling("hold", "--max-hold 300ms k >/dev/null")).exits_with(70);
    let events = site.events();
    let names = names(&events);
    assert_eq!((names.first(), names.last()), (Some(&"acquired"), Some(&"lost")), "{names:?}");
}

#[test]
fn into_a_file_it_holds_until_a_signal_and_ends_of_that() {
    let site = Site::new();
    let holds = [("a", Signal::TERM), ("b", Signal::INT), ("c", Signal::HUP)].map(|(key, signal)| {
        let hold = site.start(site.task("hold", &["--ttl", "1500ms", key]));
        until("it holds", || !hold.out().is_empty());
        assert!(hold.out().ends_with('\n'));
        (key, signal, hold)
    });
    // Longer than their ttl.
    std::thread::sleep(Duration::from_secs(2));
    for (key, signal, hold) in holds {
        site.finish(site.run(&["-nq", key, "--", "true"])).silent(75);
        hold.signal(signal);
        hold.finish().died_of(signal);
        site.finish(site.run(&["-n", key, "--", "true"])).silent(0);
    }
}

#[test]
fn on_a_terminal_it_holds_until_ctrl_c() {
    let site = Site::new();
    let mut pty = Pty::script(&site, "exec $L hold k");
    pty.wait_for("k: held until Ctrl-C");
    site.finish(site.run(&["-nq", "k", "--", "true"])).silent(75);
    pty.types(CTRL_C);
    pty.dies_of(Signal::INT);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_release_that_the_server_did_not_confirm_is_told() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let hold = site.start(site.task("hold", &["k"]));
    until("it holds", || !hold.out().is_empty());
    server.kill_9();
    hold.signal(Signal::TERM);
    hold.finish().died_of(Signal::TERM).err_has(&["did not confirm the release: others may have to wait"]);
}

#[test]
fn without_a_reader_it_lets_go_at_once() {
    let site = Site::new();
    bash(&site, "leasehold hold k | true; echo ${PIPESTATUS[0]}").prints(0, "0\n");
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

/// Regression: a hold noticed that its script had ended only once it had the lock, which it then
/// took for a moment for nobody.
#[test]
fn a_hold_whose_script_ends_does_not_wait_any_more() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let holder = site.holder(&["deploy"]);
        let script = "\
            exec 9< <(leasehold hold -q --status-fd 7 deploy 7>events; echo $? > code)
            until grep -qs waiting events; do sleep 0.02; done
            exec 9<&-
            for i in {1..500}; do [ -s code ] && break; sleep 0.02; done; cat code
            leasehold show deploy | grep waiting";
        bash(&site, script).prints(0, "0\nwaiting  0\n");
        drop(holder);
    }
}

/// The second one inherits the end of the first one's pipe.
#[test]
fn each_of_two_holds_in_one_script_can_be_released_alone() {
    for first in [8, 3] {
        let site = Site::new();
        let script = format!(
            "exec {first}< <(leasehold hold one); read -r fence <&{first} || exit 75
            exec 9< <(leasehold hold --status-fd 7 two 7>events); read -r fence <&9 || exit 75
            exec {first}<&-
            leasehold run -w 10 one -- leasehold run -nqE 9 two -- true"
        );
        bash(&site, &script).silent(9);
        assert_eq!(site.events()[0]["event"], "acquired");
    }
}
