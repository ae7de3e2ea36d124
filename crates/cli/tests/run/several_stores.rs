//! Several stores that are one by majority.

use std::process::Command;
use std::time::{Duration, Instant};

use servers::{Flavor, Server};

use crate::harness::{Site, until};

/// The least that there is, so that the first start, for which servers are not counted, is soon over.
const LONGEST: &[&str] = &["--max-ttl", "5", "--ttl", "4"];

/// The command, with its stores named by the environment.
fn by_environment(site: &Site, words: &[&str]) -> Command {
    let mut command = site.leasehold(words);
    command.env("LEASEHOLD_STORE", site.store());
    command
}

#[test]
fn a_majority_has_the_lock_and_one_that_is_down_does_not_matter() {
    let servers = [Flavor::Redis70, Flavor::Redis82, Flavor::Valkey91].map(Server::start);
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let site = Site::on(&urls.join(" "));
    let run = |options: &[&str], words: &[&str]| {
        site.finish(by_environment(&site, &[&["run"], LONGEST, options, words].concat()))
    };
    let refused = run(&["-w", "1", "k"], &["--", "true"]);
    refused.says(69, &["of 3 stores granted", "quarantined for", "2 needed"]);

    let started = Instant::now();
    until("they are counted", || run(&["-nq", "k"], &["--", "true"]).status.code() == Some(0));
    assert!(started.elapsed() < Duration::from_secs(20));

    let script = "echo $LEASEHOLD_FENCE; echo $LEASEHOLD_MAX_TTL; echo $LEASEHOLD_STORE; sleep 3; echo end";
    let holder =
        site.start(by_environment(&site, &[&["run"], LONGEST, &["k", "--", "sh", "-c", script]].concat()));
    until("it holds", || holder.out().lines().count() >= 3);
    let words: Vec<_> = holder.out().lines().map(str::to_owned).collect();
    assert_eq!((&*words[1], &words[2]), ("5000ms", &urls.join(" ")));
    run(&["-n", "k"], &["--", "true"]).says(75, &["k: held by ", "at quorum of "]);
    let shown = site.finish(by_environment(&site, &["show", "--max-ttl", "5", "k"]));
    assert!(shown.out.contains(&words[0]), "its fence is shown: {shown:?}");

    servers[0].kill_9();
    let done = run(&["-w", "20", "k"], &["--", "sh", "-c", "echo $LEASEHOLD_FENCE"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(done.out.trim().parse::<u64>().unwrap() > words[0].parse().unwrap(), "{done:?} after {words:?}");
    assert!(holder.finish().out.ends_with("end\n"), "who held it held it on");
}

#[test]
fn two_of_three_that_are_down_are_named_with_what_is_known_of_them() {
    let server = Server::start(Flavor::Valkey91);
    let site = Site::on(&format!("{} redis://127.0.0.1:1 redis://127.0.0.1:2", server.url()));
    let done = site.finish(by_environment(&site, &["run", "-w", "1", "k", "--", "true"]));
    // The first of the two decides it, and then the other may not have answered yet.
    done.says(
        69,
        &["k: 0 of 3 stores granted", "127.0.0.1:1", "127.0.0.1:2", ": cannot connect", "2 needed"],
    );
}

#[test]
fn what_only_several_stores_have_is_refused_for_one_and_two_of_a_kind_are_one() {
    let site = Site::new();
    let done = site.finish(site.run(&["--max-ttl", "60", "k", "--", "true"]));
    done.says(64, &["--max-ttl: it is for several stores"]);
    let twice = Site::on("redis://127.0.0.1:1 redis://127.0.0.1:1 redis://127.0.0.1:2");
    twice
        .finish(by_environment(&twice, &["run", "-n", "k", "--", "true"]))
        .says(64, &["127.0.0.1:1", "twice"]);
}

/// How long it waits for stores that do not answer, and how long it then tries to take back what it may have left there.
const OUTAGE: Duration = Duration::from_secs(10 + 3);

#[test]
fn with_three_of_five_stopped_or_killed_it_says_69_in_time_names_each_and_leaves_nothing() {
    let ends: [fn(&Server); 2] = [Server::stop, Server::kill_9];
    for end in ends {
        let servers: Vec<_> =
            (0..5).map(|n| Server::start([Flavor::Redis70, Flavor::Valkey91][n % 2])).collect();
        let urls: Vec<_> = servers.iter().map(|server| server.url() + "?quarantine=no").collect();
        let site = Site::on(&urls.join(" "));
        let run = || site.finish(by_environment(&site, &[&["run"], LONGEST, &["k", "--", "true"]].concat()));
        assert_eq!(run().status.code(), Some(0), "with all five up");

        servers[..3].iter().for_each(end);
        let started = Instant::now();
        let done = run();
        let waited = started.elapsed();
        assert_eq!(done.status.code(), Some(69), "{done:?}");
        // Before it each store is warned of, because none of them abstains after a restart.
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
