//! `leasehold top`: holders and waiters on a terminal.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use servers::{Flavor, Reply, Server};

use crate::harness::{OURS, Running, SECRET, Site, pid, until};
use crate::held::Held;
use crate::pty::{CTRL_C, Pty};

fn holder(site: &Site, key: &str, label: &str) -> Running {
    let words = ["--ttl", "20", "--label", label, key];
    let run = site.start(site.run_script(&words, &format!("echo $LEASEHOLD_FENCE > {label}; exec sleep 60")));
    site.wait_for(label);
    run
}

#[test]
fn holders_and_waiters_are_seen_filtered_sorted_and_one_is_broken_after_a_yes() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let hangs = holder(&site, "deploy", "web-3");
        let works = holder(&site, "nightly", "cron");
        let next =
            site.start(site.run_script(&["--label", "web-4", "deploy"], "echo $LEASEHOLD_FENCE > next"));
        let fence = site.read("web-3");
        let mut pty = Pty::script(&site, "stty -g > before; $L top; echo code=$?; stty -g > after");
        let screen =
            pty.shows(&["2 held or waited for, 1 waiting", "waiting for deploy: 1", "web-4", &fence]);
        let row = |name: &str| screen.lines().position(|line| line.starts_with(name)).unwrap();
        assert!(row("deploy ") < row("nightly "), "{screen}");
        assert!(screen.lines().nth(row("deploy ")).unwrap().contains(" web-3 ("), "{screen}");

        pty.types("/cron\r");
        until("the filter", || !pty.screen().contains(&fence));
        pty.shows(&["nightly", "with \"cron\""]);
        pty.draws("\x1b", &[&fence]);
        pty.draws("s", &["by most waiting"]);

        pty.draws("gb", &["Break the lease on deploy", "held by web-3 (", &format!("with fence {fence}?")]);
        pty.draws("n", &["nothing was broken"]);
        pty.draws("b", &["Break the lease on deploy"]);
        pty.draws("y", &[&format!("deploy: broken: ended the lease with fence {fence} of web-3 (")]);
        hangs.finish().says(70, &["deploy: lease lost", "somebody broke the lease"]);
        let broken = site.outcome(&["show", "--json", "deploy"]).json()["last_break"].clone();
        assert!(broken["by"].as_str().unwrap().ends_with(" top"), "{broken}");
        next.finish().silent(0);
        assert!(site.read("next").parse::<u64>().unwrap() > fence.parse().unwrap());
        // It also disappears from the screen, and the other holder continues.
        pty.shows(&["1 held or waited for, 0 waiting", "nightly"]);

        pty.types_until("q", "code=0");
        pty.ends_with(0);
        assert_eq!(site.read("before"), site.read("after"));
        drop(works);
    }
}

#[test]
fn with_a_prefix_only_its_locks_and_jobs_are_shown() {
    let site = Site::new();
    let _held = ["nightly:one", "elsewhere"].map(|key| holder(&site, key, &format!("of-{key}")));
    for job in ["nightly:done", "undone"] {
        site.outcome(&["once", job, "--", "true"]).silent(0);
    }
    let mut pty = Pty::start(&site, OURS, &["top", "nightly:"]);
    let screen = pty.shows(&["1 held or waited for", "nightly:one"]);
    assert!(!screen.contains("elsewhere"), "{screen}");
    let screen = pty.draws("m", &["nightly:done"]);
    assert!(!screen.contains("undone"), "{screen}");
    pty.types("q");
    pty.ends_with(0);
}

#[test]
fn the_terminal_is_restored_after_any_end_of_top() {
    let site = Site::new();
    let _held = holder(&site, "k", "web-3");
    for (signal, code) in [(None, 130), (Some(Signal::TERM), 143), (Some(Signal::HUP), 129)] {
        let mut pty = Pty::script(
            &site,
            "trap : INT HUP TERM; stty -g > before; sh -c 'echo $$ > top; exec $L top'; echo code=$?; stty -g > after; echo done",
        );
        pty.shows(&["1 held or waited for", "web-3"]);
        until("a screen of its own", || {
            let terminal = pty.terminal();
            terminal.alternate_screen() && terminal.hide_cursor()
        });
        match signal {
            None => pty.types(CTRL_C),
            Some(signal) => kill_process(pid(site.read("top").parse().unwrap()), signal).unwrap(),
        }
        pty.wait_for(&format!("code={code}"));
        pty.wait_for("done");
        pty.ends_with(0);
        assert_eq!(site.read("before"), site.read("after"));
        let terminal = pty.terminal();
        assert!(!terminal.alternate_screen() && !terminal.hide_cursor(), "{:?}", pty.all());
    }
}

/// Regression: nobody noticed that if SIGHUP was ignored, and one thread kept a processor busy. When a
/// line could not be drawn, ratatui could not print that either, and panicked twice, which aborts.
#[test]
fn top_ends_when_its_terminal_is_gone() {
    let site = Site::new();
    let _held = holder(&site, "k", "web-3");
    let top = r#"script -qc 'trap "" HUP; $L top; echo $? > code' /dev/null"#;
    let pty = Pty::script(&site, &format!("exec 3<&0; {top} <&3 & echo $! > terminal; wait"));
    pty.shows(&["1 held or waited for", "web-3"]);
    kill_process(pid(site.read("terminal").parse().unwrap()), Signal::KILL).unwrap();
    site.wait_for("code");
    assert_eq!(site.read("code"), "129");
}

#[test]
fn ctrl_z_gives_the_shell_its_terminal_and_fg_draws_all_of_it_again() {
    let site = Site::new();
    let _held = holder(&site, "k", "web-3");
    let mut pty = Pty::shell(&site);
    pty.enters("$L top");
    pty.shows(&["1 held or waited for", "web-3"]);
    pty.is_stopped();
    assert!(!pty.terminal().alternate_screen());
    pty.enters("fg");
    pty.shows(&["1 held or waited for", "web-3"]);
    pty.types_until("q", "> ");
    pty.enters_until("echo code''=$?", "code=0");
}

/// Regression: it read signals only once it was connected, so Ctrl-C did nothing for as long as it tried.
#[test]
fn ctrl_c_ends_top_while_it_tries_to_reach_a_store() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    server.stop();
    let mut pty = Pty::script(&site, "$L top --outage-limit 10m; echo code=$?");
    pty.wait_for("cannot reach");
    pty.types(CTRL_C);
    pty.dies_of(Signal::INT);
    server.cont();
}

#[test]
fn without_a_terminal_it_says_what_to_do_before_anything_is_sent() {
    let site = Site::on(&format!("redis://user:{SECRET}@127.0.0.1:1"));
    site.outcome(&["top"]).keeps_the_secret().says_and_hints(
        64,
        &["stdin is not a terminal"],
        "leasehold ls --json --all",
    );
    let mut pty = Pty::script(&site, "$L top > file; TERM=dumb $L top");
    pty.wait_for("leasehold: stdout is not a terminal to draw on");
    pty.wait_for("hint: leasehold ls --json --all");
    pty.wait_for("leasehold: this terminal cannot be drawn on (TERM)");
    pty.ends_with(64);
    site.finish(site.leasehold(&["top", "leasehold:x"])).says(64, &["PREFIX"]);
}

#[test]
fn a_silent_store_is_reported_and_the_last_state_stays_until_it_is_back() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let _held = holder(&site, "k", "web-3");
    let pty = Pty::start(&site, OURS, &["top"]);
    pty.shows(&["1 held or waited for", "web-3"]);
    server.stop();
    pty.shows(&["no answer within", "asking again", "web-3"]);
    server.cont();
    until("no fault any more", || !pty.screen().contains("asking again"));
    pty.shows(&["? help"]);
}

/// The most commands per second, by the server's own count, with a million keys of another user.
const MOST_A_SECOND: usize = 20;

#[test]
fn a_hundred_locks_among_a_hundred_thousand_keys_cost_few_commands() {
    few_commands_among(100_000);
}

#[test]
#[ignore = "a million keys take a while to be made: cargo test -p leasehold-cli a_million_keys -- --ignored"]
fn a_hundred_locks_among_a_million_keys_cost_few_commands() {
    few_commands_among(1_000_000);
}

fn few_commands_among(strangers: u32) {
    let server = Server::setup(Flavor::Redis82).arg("save", "").start();
    for begin in (0..strangers).step_by(50_000) {
        let fill = "for n = ARGV[1], ARGV[1] + 49999 do redis.call('SET', 'theirs:' .. n, n) end";
        assert_eq!(server.text(&["EVAL", fill, "0", &begin.to_string()]), Reply::Bulk(None));
    }
    let crowd = Held::all(&server.url(), (0..100).map(|n| format!("lock:{n}")).collect(), 10);
    let known = ports(&server);
    let said = listen(&server);
    server.text(&["CONFIG", "RESETSTAT"]);
    let site = Site::on(&server.url());
    let mut pty = Pty::start(&site, OURS, &["top"]);
    pty.shows(&["100 held or waited for, 1000 waiting", "waiting for lock:0: 10"]);
    let mut slowest = Duration::ZERO;
    let mut respond = |keys: &str, shown: &str| {
        let typed = Instant::now();
        pty.draws(keys, &[shown]);
        slowest = slowest.max(typed.elapsed());
    };
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_secs(6) {
        respond("j", "waiting for lock:1: 10");
        respond("G", "waiting for lock:99: 10");
        respond("g", "waiting for lock:0: 10");
        respond("/lock:42", "waiting for lock:42: 10");
        respond("\x1b", "? help");
        respond("g", "waiting for lock:0: 10");
    }
    pty.types("q");
    pty.ends_with(0);
    // Before the crowd releases, which it does over other connections.
    let said = said.lock().unwrap().clone();
    drop(crowd);
    let times: Vec<f64> = said
        .iter()
        .filter_map(|line| {
            // 1763713011.123456 [0 127.0.0.1:40001] "SCAN" "0" …; commands of scripts are marked
            // `lua`.
            let (time, rest) = line.trim_start_matches('+').split_once(" [0 ")?;
            let (from, _) = rest.split_once(']')?;
            (from != "lua" && !known.contains(from)).then(|| time.parse().ok()).flatten()
        })
        .collect();
    let most =
        times.iter().map(|from| times.iter().filter(|at| (*from..*from + 1.0).contains(*at)).count()).max();
    let stats = server.text(&["INFO", "commandstats"]);
    let stats = stats.as_text().unwrap();
    assert!(times.len() > 10, "it was not listened to: {times:?}");
    assert!(most.is_some_and(|most| most <= MOST_A_SECOND), "{most:?} commands in a second");
    assert!(slowest < Duration::from_secs(2), "{slowest:?} until a key was answered");
    assert!(!stats.contains("cmdstat_keys"), "{stats}");
}

/// The ports of the server's clients.
fn ports(server: &Server) -> BTreeSet<String> {
    let list = server.text(&["CLIENT", "LIST"]);
    list.as_text()
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("addr=").map(str::to_owned))
        .collect()
}

/// All commands that the server receives from now on, by its `MONITOR`.
fn listen(server: &Server) -> Arc<Mutex<Vec<String>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let said = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            all.lock().expect("nobody panics").push(line);
        }
    });
    said
}
