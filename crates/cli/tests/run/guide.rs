//! The recipes of docs/guide.md and docs/operating.md, run as printed. Only the paths of programs
//! are replaced by the test's own.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use servers::Flavor;

use crate::first_process::{UNSHARE, has_namespaces};
use crate::harness::{OURS, Site};
use crate::home::Home;
use crate::shell::{bash, in_bash, in_shell, path, program, sh};

const GUIDE: &str =
    concat!(include_str!("../../../../docs/guide.md"), include_str!("../../../../docs/operating.md"));

/// The block with this name after its language.
fn block(name: &str) -> String {
    let mut lines = GUIDE.lines();
    lines
        .find(|line| line.strip_prefix("```").is_some_and(|info| info.split(' ').nth(1) == Some(name)))
        .unwrap_or_else(|| panic!("the guide has no block {name}"));
    lines.take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_block_is_tried_by_a_test_here() {
    let named = GUIDE.lines().filter_map(|line| line.strip_prefix("```"));
    // Blocks that are only for reading are not run.
    let named = named.filter(|info| !["", "text"].contains(info));
    let here = include_str!("guide.rs");
    for info in named {
        let name = info.split(' ').nth(1).unwrap_or_else(|| panic!("{info} has no name"));
        assert!(here.contains(&format!("block(\"{name}\")")), "nothing runs {name}");
    }
}

#[test]
fn each_row_of_the_table_for_users_of_flock_does_the_same_as_flock() {
    // Other tables list other things, such as the metrics.
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `") && line.contains("flock "));
    let rows = rows.map(|line| line.replace("\\|", "\u{1}"));
    let rows: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            [cells[1], cells[2]].map(|cell| cell.replace('\u{1}', "|"))
        })
        .collect();
    assert!(rows.len() >= 6, "{rows:?}");
    for [flock, ours] in rows {
        let site = Site::new();
        program(&site, "report", "echo reported");
        let flock = flock.replace("/tmp/report.lock", "report.lock");
        let outcomes = [flock, ours].map(|line| {
            let free = bash(&site, &line).exits_with(0);
            free.out
        });
        assert_eq!(outcomes[0], outcomes[1]);
    }
}

#[test]
fn the_script_is_alone_and_has_a_fence() {
    let site = Site::new();
    program(&site, "build", "leasehold run -nq deploy -- true; echo $? > busy");
    program(&site, "upload", "echo \"$2\" > fence");
    program(&site, "script", &block("script"));
    site.finish(in_shell(&site, "bash", &["./script"])).silent(0);
    assert_eq!(site.read("busy"), "75");
    assert!(site.read("fence").parse::<u64>().unwrap() > 0);
}

#[test]
fn a_script_that_cleans_up_after_ctrl_c_does_so_under_its_lock() {
    let site = Site::new();
    program(&site, "work", "echo $$ > running; exec sleep 60");
    program(&site, "tidy", "leasehold run -nq deploy -- true; echo $? > busy");
    program(&site, "script", &block("cleanup"));
    // A separate job, as at a terminal: every script here has its own session.
    let (script, _) = site.running(in_shell(&site, "bash", &["./script"]));
    rustix::process::kill_process_group(crate::harness::pid(script.id()), Signal::INT).unwrap();
    script.finish().exits_with(130);
    assert_eq!(site.read("busy"), "75");
    site.finish(site.run(&["-w", "10", "deploy", "--", "true"])).silent(0);
}

#[test]
fn the_scripts_look_at_its_lock_tells_held_from_lost() {
    let look = "read -r -t 0.01 more <&9";
    assert!(GUIDE.contains(&format!("`{look}`")), "the guide looks otherwise");
    let (server, site) = Site::on_server(Flavor::Redis82);
    let script = format!(
        "exec 9< <(leasehold hold -q --ttl 1500ms deploy 2> /dev/null); read -r fence <&9 || exit 75\n\
         {look}; echo $? > held; until [ -e go ]; do sleep 0.02; done; {look}; echo $?"
    );
    let run = site.start(in_bash(&site, &script));
    assert!(site.wait_for("held").parse::<u32>().unwrap() > 128);
    server.text(&["DEL", "deploy"]);
    // A renewal finds out within a third of the ttl.
    thread::sleep(Duration::from_millis(1500));
    site.go();
    run.finish().out_is("1\n");
}

#[test]
fn locks_are_taken_together_and_shown() {
    let site = Site::new();
    program(&site, "transfer", "leasehold show -q account:1 && leasehold show -q account:2 && echo both");
    sh(&site, &block("several")).prints(0, "both\n");

    let _others = site.holder(&["deploy"]);
    let done = sh(&site, &block("show")).silent(0);
    assert!(
        done.out.starts_with("key      deploy\nheld by  ") && done.out.contains("\ndeploy  "),
        "{done:?}"
    );
}

#[test]
fn a_store_is_looked_at_and_measured() {
    let site = Site::new();
    let words = [": 0 unsafe, ", "\npairs a second, 16 tasks "];
    sh(&site, &block("diagnose")).exits_with(0).out_has(&words);
}

#[test]
fn a_lock_that_is_stuck_is_broken_by_the_fence_that_is_shown() {
    let site = Site::new();
    let _others = site.holder(&["deploy"]);
    let shown = sh(&site, "leasehold show deploy");
    let fence = shown.out.lines().find_map(|line| line.strip_prefix("fence    ")).unwrap();
    let block = block("break");
    assert!(block.contains("--fence 1763713011000000"), "{block}");
    let done = sh(&site, &block.replace("1763713011000000", fence)).silent(0);
    assert!(done.out.contains("deploy: broken"), "{done:?}");
}

#[test]
fn a_program_reads_the_list() {
    let site = Site::new();
    let _others = site.holder(&["nightly:report"]);
    // Without jq, its input is checked instead.
    let pipeline = block("ls-json");
    let (list, filter) = pipeline.trim().split_once(" | ").unwrap();
    let has_jq = Command::new("jq").arg("--version").stdout(Stdio::null()).status().is_ok();
    if has_jq {
        sh(&site, &format!("{list} | {filter}")).prints(0, "nightly:report\n");
    }
    program(&site, "alarm", "echo alarm");
    let watched = |time: &str| {
        let done = sh(&site, &block("held-for").replace("2h", time));
        (done.status.code(), done.out.ends_with("alarm\n"))
    };
    assert_eq!((watched("2h"), watched("0s")), ((Some(0), false), (Some(0), true)));
    let object = sh(&site, list).silent(0).json();
    assert_eq!(object["key"], "nightly:report");
    assert!(object["holders"][0]["remaining_ms"].as_u64().unwrap() < 60_000, "{object}");
}

#[test]
fn the_command_lines_run_and_hand_out_what_they_say() {
    let site = Site::new();
    program(&site, "work", "echo worked; exit 3");
    sh(&site, &block("run")).exits_with(3).out_is("worked\n");

    program(&site, "charge", "echo \"$1 $2\"");
    let done = sh(&site, &block("fence")).silent(0);
    let fence = done.out.trim().strip_prefix("--fence ").unwrap();
    assert!(fence.parse::<u64>().unwrap() > 0);

    program(&site, "report", "true");
    for _ in 0..2 {
        sh(&site, &block("events")).silent(0);
    }
    let events = site.read("events.jsonl");
    assert_eq!(events.matches("\"event\":\"acquired\"").count(), 2, "{events}");
}

/// The command of a crontab's last line, as `sh -c` gets it from cron.
fn job(crontab: &str) -> &str {
    let line = crontab.lines().last().unwrap();
    let mut rest = line;
    for _ in 0..5 {
        let (field, behind) = rest.split_once(char::is_whitespace).unwrap();
        assert!(field.bytes().all(|byte| b"*/,-0123456789".contains(&byte)), "{line}");
        rest = behind.trim_start();
    }
    assert!(!rest.contains('%'), "cron makes a line's end of it");
    rest
}

/// The environment of cron: no home, no XDG directories, no terminal.
fn by_cron(site: &Site, crontab: &str, settings: &[(&str, &str)]) -> Command {
    let line = job(crontab).replace("/usr/local/bin/report", site.path("report").to_str().unwrap());
    let mut command = site.process("/bin/sh", &["-c", &line]);
    command.env("PATH", path()).env("SHELL", "/bin/sh").envs(settings.iter().copied());
    command
}

#[test]
fn crons_job_meets_the_same_users_shell_and_says_nothing_when_that_is_at_it() {
    let site = Site::new();
    let home = Home::of(&site);
    program(&site, "report", "echo reported");
    let crontab = block("crontab");

    let script = "echo $$ > running; until [ -e go ]; do sleep 0.02; done";
    let mut shell = site.leasehold(&["run", "nightly", "--", "sh", "-c", script]);
    for (name, value) in [("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "runtime")] {
        shell.env(name, site.path(value));
    }
    let (shell, _) = site.running(home.live_in(shell));
    site.finish(home.live_in(by_cron(&site, &crontab, &[]))).prints(0, "");
    site.go();
    shell.finish().silent(0);
    site.finish(home.live_in(by_cron(&site, &crontab, &[]))).prints(0, "reported\n");
}

#[test]
fn crons_job_on_a_server_excludes_other_machines() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    program(&site, "report", "echo reported");
    let crontab = block("crontab-store");
    let setting = crontab.lines().next().unwrap();
    assert_eq!(setting.split('=').next(), Some("LEASEHOLD_STORE"));
    let settings = [("LEASEHOLD_STORE", &*server.url())];
    site.finish(by_cron(&site, &crontab, &settings)).out_is("reported\n");
    let others = site.holder(&["nightly"]);
    site.finish(by_cron(&site, &crontab, &settings)).prints(0, "");
    drop(others);
}

#[test]
fn crons_job_that_is_done_each_night_is_tried_again_until_it_is_done_and_then_not() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    program(&site, "report", "[ -e ready ] && echo reported");
    let crontab = block("crontab-every");
    let settings = [("LEASEHOLD_STORE", &*server.url())];
    let outcomes = [false, true, true].map(|ready| {
        if ready {
            fs::write(site.path("ready"), "").unwrap();
        }
        let done = site.finish(by_cron(&site, &crontab, &settings));
        (done.status.code(), done.out, done.err)
    });
    let expected = [(1, ""), (0, "reported\n"), (0, "")];
    assert_eq!(outcomes, expected.map(|(code, out)| (Some(code), out.to_owned(), String::new())));
}

#[test]
fn a_service_starts_when_its_migration_is_done_by_whomever() {
    let site = Site::new();
    program(&site, "migrate", "[ -e ready ] && echo migrated $1");
    program(&site, "service", "echo served");
    let start = || sh(&site, &block("once"));
    start().prints(1, "");
    fs::write(site.path("ready"), "").unwrap();
    assert_eq!([start().out, start().out], ["migrated 0042\nserved\n", "served\n"]);
}

/// The words of a unit's `ExecStart=`, with the test's programs.
fn exec_start(site: &Site, unit: &str) -> Vec<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert!(!line.contains(['"', '\'', '\\', '%', '$']), "plain words: {line}");
    let here = |word: &str| match word.strip_prefix("/usr/local/bin/") {
        Some("leasehold") => OURS.into(),
        Some(name) => site.path(name).to_str().unwrap().to_owned(),
        None => word.to_owned(),
    };
    line.split(' ').map(here).collect()
}

fn by_systemd(site: &Site, unit: &str) -> Command {
    let words = exec_start(site, unit);
    let mut command = site.process(&words[0], &[]);
    command.args(&words[1..]).env("LEASEHOLD_STORE", site.store());
    command
}

/// systemd itself accepts the unit, if it is installed.
fn verify(site: &Site, name: &str, unit: &str) {
    let words = exec_start(site, unit).join(" ");
    let line = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    fs::write(site.path(name), unit.replace(line, &format!("ExecStart={words}"))).unwrap();
    if Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status().is_ok() {
        let words = ["verify", "--man=no", &format!("./{name}")];
        let done = site.finish(site.process("systemd-analyze", &words)).exits_with(0);
        // It may report other units of this machine, too.
        assert!(!done.err.contains(name), "{done:?}");
    }
}

#[test]
fn the_job_of_a_timer_is_done_by_one_machine_and_no_failure_of_the_others() {
    let site = Site::new();
    program(&site, "report", "echo reported");
    let unit = block("report.service");
    verify(&site, "report.service", &unit);
    site.finish(by_systemd(&site, &unit)).exits_with(0).out_is("reported\n");
    let _others = site.holder(&["report"]);
    let success = unit.lines().find_map(|line| line.strip_prefix("SuccessExitStatus=")).unwrap();
    site.finish(by_systemd(&site, &unit)).exits_with(success.parse().unwrap());
}

#[test]
fn a_service_is_taken_over_when_its_machine_dies_and_ends_in_good_order_when_it_is_stopped() {
    let site = Site::new();
    let works = "exec 2> /dev/null; trap 'echo stopped > stopped; exit 0' TERM; \
                 echo $$ > scheduling; while :; do sleep 0.02; done";
    program(&site, "scheduler", works);
    let unit = block("scheduler.service");
    verify(&site, "scheduler.service", &unit);
    let [first, second] = [(); 2].map(|()| {
        let machine = site.start(by_systemd(&site, &unit));
        site.wait_for("scheduling");
        machine
    });
    let _ = fs::remove_file(site.path("scheduling"));
    first.signal(Signal::KILL);
    site.wait_for("scheduling");
    second.signal(Signal::TERM);
    second.finish().silent(0);
    assert_eq!(site.read("stopped"), "stopped");
}

/// The words of an instruction in a Dockerfile.
fn instruction(dockerfile: &str, name: &str) -> Vec<String> {
    let line = dockerfile.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{name} is a list of words: {line}"))
}

#[test]
fn a_containers_first_process_ends_as_its_command() {
    let is_allowed = has_namespaces();
    let site = Site::new();
    let dockerfile = block("Dockerfile");
    let words = [instruction(&dockerfile, "ENTRYPOINT"), instruction(&dockerfile, "CMD")].concat();
    let unshare: &[&str] = if is_allowed { &UNSHARE } else { &[] };
    let words: Vec<_> = unshare.iter().copied().chain(words.iter().map(String::as_str)).collect();
    let mut contained = in_shell(&site, words[0], &words[1..]);
    contained.env("PATH", format!("{}:{}", site.path("").display(), path()));
    let first = if is_allowed { "1" } else { "" };
    // The supervisor's parent, as seen from inside.
    program(&site, "migrate", "sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status; echo \"$@\"; exit 3");
    let done = site.finish(contained).exits_with(3);
    assert!(done.out.starts_with(first) && done.out.ends_with("\n--all\n"), "{done:?}");
    site.finish(site.run(&["-n", "migrate", "--", "true"])).silent(0);
}
