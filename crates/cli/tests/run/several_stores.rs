//! Several stores as a quorum.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use servers::{Flavor, Server};

use crate::harness::{Site, until};
use crate::shell::path;

/// The smallest longest TTL, so that the first quarantine is soon over.
const LONGEST: &[&str] = &["--max-ttl", "5", "--ttl", "4"];

/// In what a store shows of a lock that is held.
const HELD: &str = r#""held":true"#;

/// What each store shows of locks that are held or waited for.
fn at_each(site: &Site, servers: &[Server; 3]) -> [String; 3] {
    let look = |server: &Server| site.leasehold(&["ls", "--all", "--json", "--store", &server.url()]);
    servers.each_ref().map(|server| site.finish(look(server)).out)
}

#[test]
fn a_majority_has_the_lock_and_one_that_is_down_does_not_matter() {
    let servers = [Flavor::Redis70, Flavor::Redis82, Flavor::Valkey91].map(Server::start);
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let site = Site::on(&urls.join(" "));
    let run = |options: &[&str], words: &[&str]| {
        site.finish(site.by_environment(&[&["run"], LONGEST, options, words].concat()))
    };
    run(&["-w", "1", "k"], &["--", "true"]).says(69, &["of 3 stores granted", "quarantined for", "2 needed"]);

    let started = Instant::now();
    until("they are counted", || run(&["-nq", "k"], &["--", "true"]).status.code() == Some(0));
    assert!(started.elapsed() < Duration::from_secs(20));

    let script = "echo $LEASEHOLD_FENCE; echo ${LEASEHOLD_MAX_TTL-none}; echo $LEASEHOLD_STORE; \
                  until [ -e go ]; do sleep 0.02; done; sleep 3; echo end";
    let holder =
        site.start(site.by_environment(&[&["run"], LONGEST, &["k", "--", "sh", "-c", script]].concat()));
    until("it holds", || holder.out().lines().count() >= 3);
    let words: Vec<_> = holder.out().lines().map(str::to_owned).collect();
    assert_eq!((&*words[1], &words[2]), ("none", &format!("quorum:max-ttl=5000ms,{}", urls.join(","))));
    run(&["-n", "k"], &["--", "true"]).says(75, &["k: held by ", "at quorum of "]);
    let shown = site.finish(site.by_environment(&["show", "--max-ttl", "5", "k"]));
    assert!(shown.out.contains(&words[0]), "its fence is shown: {shown:?}");

    // The third may vote later, and then takes part with the next renewal.
    until("it holds at every store", || at_each(&site, &servers).iter().all(|found| found.contains(HELD)));
    site.go();
    servers[0].kill_9();
    let done = run(&["-w", "20", "k"], &["--", "sh", "-c", "echo $LEASEHOLD_FENCE"]).exits_with(0);
    assert!(done.out.trim().parse::<u64>().unwrap() > words[0].parse().unwrap(), "{done:?} after {words:?}");
    let held = holder.finish();
    assert!(held.out.ends_with("end\n"), "who held it held it on: {held:?}");
}

#[test]
fn a_ttl_that_a_quorum_refuses_is_reported_with_the_option_or_variable_that_gave_it() {
    let site = Site::on("redis://127.0.0.1:1 redis://127.0.0.1:2 redis://127.0.0.1:3");
    let refused = |variables: &[(&str, &str)], line: &str| {
        let mut run = site.by_environment(&line.split(' ').collect::<Vec<_>>());
        run.envs(variables.iter().copied());
        site.finish(run).exits_with(64).err
    };
    for (variables, options, origin) in [
        (&[][..], "--max-ttl 3s", "--max-ttl: a longest ttl of 3 s is too short"),
        (&[("LEASEHOLD_MAX_TTL", "3s")], "-n", "LEASEHOLD_MAX_TTL: a longest ttl of 3 s is too short"),
        (&[("LEASEHOLD_MAX_TTL", "90s")], "--max-ttl 3s", "--max-ttl: a longest ttl of 3 s is too short"),
        (&[], "--max-ttl 500d", "--max-ttl: a ttl of "),
        (&[], "--ttl 61s", "--ttl: a ttl of 61"),
        (&[("LEASEHOLD_TTL", "61s")], "-n", "LEASEHOLD_TTL: a ttl of 61"),
        (&[("LEASEHOLD_TTL", "61s")], "--ttl 62s", "--ttl: a ttl of 62"),
        // The default TTL is longer.
        (&[], "--max-ttl 20s", "--max-ttl: a ttl of 30"),
        (&[], "--store quorum:max-ttl=20s,redis://a,redis://b", "--store: a ttl of 30"),
    ] {
        let said = refused(variables, &format!("run {options} k -- true"));
        assert!(said.starts_with(&format!("leasehold: {origin}")), "{said}");
    }
    let alone = Site::new();
    let mut run = alone.run(&["k", "--", "true"]);
    run.env("LEASEHOLD_MAX_TTL", "3s");
    alone.finish(run).silent(0);
    let said = refused(&[], "show --max-ttl 3s k");
    assert!(said.starts_with("leasehold: --max-ttl: a longest ttl of 3 s is too short"), "{said}");
}

/// Regression: a run on a quorum set LEASEHOLD_MAX_TTL, which also counted for an inner run elsewhere.
#[test]
fn the_longest_ttl_of_a_run_counts_inside_it_for_its_own_quorum_only() {
    let (_servers, site) = three();
    let longest = |variables: &str, inner: &str| {
        // A TTL that is too long is refused before anything is sent.
        let script = format!("env {variables} leasehold run {inner} --ttl 1h j -- true");
        let mut run = site.by_environment(&[&["run"], LONGEST, &["k", "--", "sh", "-c", &script]].concat());
        run.env("PATH", path());
        let done = site.finish(run).exits_with(64);
        let longest = done.err.split_once("longest of this quorum, ").unwrap_or_else(|| panic!("{done:?}")).1;
        longest.split_once(": ").unwrap().0.to_owned()
    };
    let other = "--store redis://127.0.0.1:1 --store redis://127.0.0.1:2";
    assert_eq!(longest("", ""), "5s");
    assert_eq!(longest("", other), "60s");
    assert_eq!(longest("LEASEHOLD_MAX_TTL=90s", ""), "5s");
    assert_eq!(longest("LEASEHOLD_MAX_TTL=90s", other), "90s");
}

/// Regression: a first try, which only checks that the stores answer, mistook abstention for a
/// refusal, so `run` failed at once although the library waits.
#[test]
fn a_run_without_a_limit_waits_until_a_new_quorum_votes_and_says_so() {
    let servers = [Flavor::Redis70, Flavor::Valkey91, Flavor::Valkey91].map(Server::start);
    let site = site_on(&servers);
    let run = [&["run"], LONGEST, &["k", "--", "echo", "voted"]].concat();
    let done = site
        .finish(site.by_environment(&run))
        .exits_with(0)
        .out_is("voted\n")
        .err_has(&["does not vote yet (quarantined for"]);
    assert!(done.err.contains("first use") && !done.err.contains("cannot reach"), "{done:?}");
}

/// Regression: each of two reads of the mark waited for the store that hung, so a job said that the
/// quorum could not be reached, although a majority answered.
#[test]
fn a_job_does_not_call_a_quorum_unreachable_because_one_store_hangs() {
    let servers = [Flavor::Redis70, Flavor::Valkey91, Flavor::Valkey91].map(Server::start);
    let site = site_on(&servers);
    let once = |job: &str| {
        let line = [&["once"], LONGEST, &[job, "--", "true"]].concat();
        site.finish(site.by_environment(&line)).exits_with(0)
    };
    once("first");
    servers[2].stop();
    // On a busy machine a run may take longer for other reasons.
    let mut runs = 0;
    until("a job is silent", || {
        runs += 1;
        once(&format!("job {runs}")).err.is_empty()
    });
    servers[2].cont();
}

#[test]
fn two_of_three_stores_that_are_down_are_named_with_their_faults() {
    let server = Server::start(Flavor::Valkey91);
    let site = Site::on(&format!("{} redis://127.0.0.1:1 redis://127.0.0.1:2", server.url()));
    let done = site.finish(site.by_environment(&["run", "-w", "1", "k", "--", "true"]));
    // The first of the two decides the round, and the other may not have answered by then.
    done.says(
        69,
        &["k: 0 of 3 stores granted", "127.0.0.1:1", "127.0.0.1:2", ": cannot connect", "2 needed"],
    );
}

/// Regression: the outage limit counted only for a single store.
#[test]
fn who_looks_waits_for_a_majority_up_to_the_outage_limit() {
    let servers = [Flavor::Redis70, Flavor::Valkey91, Flavor::Valkey91].map(Server::start);
    let site = site_on(&servers);
    let look = |limit| site.by_environment(&["show", "--max-ttl", "5", "--outage-limit", limit, "k"]);
    servers[1..].iter().for_each(Server::kill_9);
    let begun = Instant::now();
    site.finish(look("1s")).says(69, &["1 of 3 stores opened", "2 did not answer"]);
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    let looking = site.start(look("30s"));
    until("it says that it tries", || looking.err().contains("cannot reach"));
    servers[1..].iter().for_each(Server::restart);
    looking.finish().exits_with(1);
}

/// The time for stores that do not answer, for undoing possible leftovers there, and for the last
/// of that at the end of the runtime.
const OUTAGE: Duration = Duration::from_secs(10 + 3 + 2);

#[test]
fn with_three_of_five_stopped_or_killed_it_says_69_in_time_names_each_and_leaves_nothing() {
    let ends: [fn(&Server); 2] = [Server::stop, Server::kill_9];
    for end in ends {
        let servers: Vec<_> =
            (0..5).map(|n| Server::start([Flavor::Redis70, Flavor::Valkey91][n % 2])).collect();
        let urls: Vec<_> = servers.iter().map(|server| server.url() + "?quarantine=no").collect();
        let site = Site::on(&urls.join(" "));
        let run = || site.finish(site.by_environment(&[&["run"], LONGEST, &["k", "--", "true"]].concat()));
        // With all five up.
        run().exits_with(0);

        servers[..3].iter().for_each(end);
        let started = Instant::now();
        let done = run().exits_with(69);
        let waited = started.elapsed();
        // Regression: it said that it would try for as long as it takes, and ended after 10 s.
        assert!(done.err.contains(": trying for 10s in all\n"), "{done:?}");
        // It is preceded by a warning for each store, because none of them abstains after a
        // restart.
        let said = done.err.lines().last().unwrap_or_default();
        assert!(said.starts_with("leasehold: k: ") && said.contains(" 3 did not answer ("), "{said}");
        let named = |server: &Server| said.contains(&format!(":{}: ", server.port()));
        assert!(servers[..3].iter().all(named) && said.ends_with("; 3 needed"), "{said}");
        assert!(waited < OUTAGE + Duration::from_secs(1), "after {waited:?}");
        for server in &servers[3..] {
            until("nothing is left", || server.text(&["EXISTS", "k"]).as_integer() == Some(0));
        }
    }
}

/// Three servers, as if each had finished the quarantine of its first start.
fn three() -> ([Server; 3], Site) {
    let servers = [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis70].map(Server::start);
    for server in &servers {
        server.text(&["SET", "leasehold:member", &server.run_id(), "PX", "86400000"]);
    }
    let site = site_on(&servers);
    (servers, site)
}

fn site_on(servers: &[Server]) -> Site {
    Site::on(&servers.iter().map(Server::url).collect::<Vec<_>>().join(" "))
}

/// Regression: it waited 3 s more for the withdrawal of a request that no store could have received.
#[test]
fn stores_at_which_nobody_listens_are_not_waited_for_after_the_last_try() {
    let site = Site::on("redis://127.0.0.1:1 redis://127.0.0.1:2 redis://127.0.0.1:3");
    let started = Instant::now();
    site.finish(site.by_environment(&["run", "-n", "k", "--", "true"])).says(69, &["0 of 3 stores granted"]);
    assert!(started.elapsed() < Duration::from_millis(4500), "{:?}", started.elapsed());
}

/// Regression: a refused process released the grants of a minority in the background, and exited
/// before that was sent: two stores kept its lease for 30 s.
#[test]
fn a_process_that_was_refused_or_ran_out_of_time_leaves_nothing_at_any_store() {
    let (servers, site) = three();
    for server in &servers[..2] {
        server.text(&["SET", "k", "somebody else's", "PX", "86400000"]);
    }
    for (patience, rounds) in [(&["-n"][..], 5), (&["-w", "1"], 3)] {
        for _ in 0..rounds {
            site.finish(site.by_environment(&[&["run"], patience, &["k", "--", "true"]].concat()))
                .exits_with(75);
            assert_eq!(at_each(&site, &servers), [""; 3], "{patience:?}");
        }
    }
}

#[test]
fn a_process_that_is_interrupted_while_it_waits_leaves_nothing_at_any_store() {
    let (servers, site) = three();
    let run = |words: &[&str]| site.start(site.by_environment(&[&["run", "-v", "k", "--"], words].concat()));
    let waits_and_stops = || {
        let waits = run(&["true"]);
        until("it waits", || waits.err().contains("waiting for k"));
        waits.signal(Signal::INT);
        waits.finish().died_of(Signal::INT);
    };
    let holder = run(&["sh", "-c", "echo holds; exec sleep 60"]);
    until("it holds", || holder.out() == "holds\n");
    // Two stores are a majority; the third may be slow.
    until("it holds at every store", || at_each(&site, &servers).iter().all(|found| found.contains(HELD)));
    for _ in 0..3 {
        waits_and_stops();
        let left = at_each(&site, &servers);
        assert!(left.iter().all(|left| left.contains(HELD) && !left.contains("waited_ms")), "{left:?}");
    }
    holder.signal(Signal::TERM);
    holder.finish();
    assert_eq!(at_each(&site, &servers), [""; 3]);
    // The same if it had acquired some of the keys that it waited for.
    for server in &servers[1..] {
        server.text(&["SET", "k", "somebody else's", "PX", "86400000"]);
    }
    for _ in 0..3 {
        waits_and_stops();
        assert_eq!(at_each(&site, &servers), [""; 3]);
    }
}

/// Regression: losers left grants at single stores, so in a quarter of the rounds nobody ran.
#[test]
fn one_of_three_simultaneous_processes_runs_in_each_round_and_nothing_is_left() {
    let (servers, site) = three();
    for round in 0..20 {
        let start = |_| site.start(site.by_environment(&["run", "-n", "k", "--", "true"]));
        let processes = [(); 3].map(start);
        let codes = processes.map(|process| process.finish().status.code());
        assert!(codes.contains(&Some(0)), "round {round}: {codes:?}");
        assert!(codes.iter().all(|code| matches!(code, Some(0 | 75))), "round {round}: {codes:?}");
        assert_eq!(at_each(&site, &servers), [""; 3], "round {round}");
    }
}

/// Regression: at the first store, it blocked the quorum for tries and waiters alike.
#[test]
fn another_programs_lock_at_any_one_store_excludes_nobody() {
    let (servers, site) = three();
    let run = |words: &[&str]| site.start(site.by_environment(&[&["run"], words].concat()));
    for server in &servers {
        server.text(&["SET", "k", "somebody else's", "PX", "86400000"]);
        for patience in ["0", "5"] {
            run(&["-w", patience, "k", "--", "true"]).finish().exits_with(0);
        }
        // The same if another process holds it at the two other stores.
        let holder = run(&["k", "--", "sh", "-c", "echo holds; until [ -e go ]; do sleep 0.02; done"]);
        until("it holds", || holder.out() == "holds\n");
        let waits = run(&["-v", "k", "--", "true"]);
        until("it waits", || waits.err().contains("waiting for k, held by"));
        site.go();
        let begun = Instant::now();
        holder.finish().exits_with(0);
        waits.finish().exits_with(0);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        std::fs::remove_file(site.path("go")).unwrap();
        server.text(&["DEL", "k"]);
        assert_eq!(at_each(&site, &servers), [""; 3]);
    }
}
