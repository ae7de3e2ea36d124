//! `leasehold ls`: the locks that are held.

use servers::{Cluster, Flavor, Reply, Server};

use crate::database::ready;
use crate::harness::{Done, Running, Site, json_lines, until};
use crate::pty::Pty;
use crate::shell::bash;

fn holder(site: &Site, label: &str, keys: &[&str]) -> Running {
    site.holder(&[&["--ttl", "20", "--label", label], keys].concat())
}

fn keys(done: &Done) -> Vec<String> {
    let keys = json_lines(&done.out).into_iter().map(|object| object["key"].as_str().unwrap().to_owned());
    keys.collect()
}

#[test]
fn held_locks_are_listed_in_order_for_people_and_for_programs() {
    let server = Server::start(Flavor::Redis82);
    let (_postgres, database) = ready();
    for site in [Site::new(), Site::on(&server.url()), database] {
        server.text(&["SET", "job:theirs", "x"]);
        server.text(&["RPUSH", "job:list", "lh1"]);
        let _one = holder(&site, "web-3", &["job:2", "job:10", "other"]);
        let fence = site.read("fence");
        let _two = holder(&site, "größe 鍵", &["job:*", "jo"]);
        let done = site.outcome(&["ls", "--all"]).silent(0);
        let lines: Vec<Vec<_>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["KEY", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"]);
        let named: Vec<_> = lines[1..].iter().map(|line| line[0]).collect();
        assert_eq!(named, ["jo", "job:*", "job:10", "job:2", "other"]);
        assert_eq!((lines[3][1], lines[3][3], lines[3][6]), ("web-3", &*fence, "0"), "{done:?}");

        let done = site.outcome(&["ls", "--json", "job:"]).silent(0);
        assert_eq!(keys(&done), ["job:*", "job:10", "job:2"]);
        let holding = &json_lines(&done.out)[1]["holders"][0];
        assert_eq!((&holding["label"], holding["fence"].to_string()), (&"web-3".into(), fence));
        assert_eq!(keys(&site.outcome(&["ls", "--json", "job:*"])), ["job:*"]);
        assert_eq!(keys(&site.outcome(&["ls", "--json", "-a"])).len(), 5);
    }
}

#[test]
fn held_for_lists_long_held_locks_and_exits_with_1_however_much_of_the_lease_remains() {
    let server = Server::start(Flavor::Valkey91);
    let (_postgres, database) = ready();
    for site in [Site::new(), Site::on(&server.url()), database] {
        server.text(&["SET", "theirs", "x"]);
        let read = || site.outcome(&["ls", "--json", "read"]).out;
        let _read = holder(&site, "first", &["--shared", "read"]);
        until("it reads", || !read().is_empty());
        let _old = holder(&site, "old", &["job:old"]);
        let _renewed = site.start(site.run(&["--ttl", "1400ms", "job:renewed", "--", "sleep", "60"]));
        let held = || keys(&site.outcome(&["ls", "--json", "--held-for", "1500ms", "job:"]));
        until("it is held", || keys(&site.outcome(&["ls", "--json", "job:"])).len() == 2);
        until("both are old, also the one that was renewed since", || held() == ["job:old", "job:renewed"]);
        let _new = holder(&site, "new", &["job:new"]);
        // The two have been held for at least so long, and the new one for 1.5 s less.
        let seen = json_lines(&site.outcome(&["ls", "--json", "job:"]).out);
        let ages = seen.iter().filter(|object| object["key"] != "job:new");
        let held_ms = ages.map(|object| object["holders"][0]["held_ms"].as_u64().unwrap()).min().unwrap();
        let done = site.outcome(&["ls", "--held-for", &format!("{held_ms}ms"), "--all"]).silent(1);
        assert!(!done.out.contains("job:new") && done.out.lines().count() == 4, "{done:?}");
        let _reads = holder(&site, "second", &["--shared", "read"]);
        until("both read", || read().contains("second"));
        let done = site.outcome(&["ls", "--json", "--held-for", &format!("{held_ms}ms"), "read"]).silent(1);
        assert!(done.out.contains("first") && !done.out.contains("second"), "{done:?}");
        site.outcome(&["ls", "--held-for", "1h", "job:"])
            .says(0, &["no lock that begins with job: has been held for 1h00m at ", site.store()]);
        site.outcome(&["ls", "-q", "--held-for", "1h", "--all"]).silent(0);
    }
}

#[test]
fn an_empty_list_says_so_and_exits_with_0() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let _holder = holder(&site, "x", &["held"]);
        for words in [&["ls", "held:"][..], &["ls", "--json", "held:"]] {
            site.outcome(words)
                .says(0, &["no lock that begins with held: is held or waited for at ", site.store()])
                .out_is("");
        }
        site.outcome(&["ls", "-q", "held:"]).silent(0);
    }
    Site::used().outcome(&["ls", "--all"]).says(0, &["no lock is held or waited for at file:/"]);
}

#[test]
fn on_a_terminal_each_lock_has_one_line_and_elsewhere_nothing_is_cut() {
    let site = Site::new();
    let long = "k".repeat(90);
    let _holder = holder(&site, &"l".repeat(90), &[&long, "a\u{1b}[2J"]);
    let mut pty = Pty::script(&site, "stty cols 64; \"$L\" ls --all; echo end");
    pty.wait_for("end");
    let shown = pty.all();
    let lines: Vec<_> = shown.lines().filter(|line| !line.starts_with("end")).collect();
    assert_eq!(lines.len(), 3, "{shown}");
    for line in &lines {
        assert_eq!(line.chars().count(), 64, "{shown}");
    }
    assert!(lines[1].starts_with("a\\u{1b}[2J ") && lines[2].contains("k…k"), "{shown}");
    site.outcome(&["ls", "--all"]).out_has(&[&long, &"l".repeat(90)]);
}

#[test]
fn keys_that_are_no_text_are_escaped_and_can_be_looked_for() {
    let site = Site::new();
    let script =
        "k=$(printf 'a\\377\\nb'); leasehold run \"$k\" -- leasehold ls --json \"$(printf 'a\\377')\"";
    assert_eq!(keys(&bash(&site, script).silent(0)), ["a\\xff\\nb"]);
}

/// A cluster with a lock at each of three nodes, and the keys of these locks in the order of the nodes.
/// Slots are served also while others are not.
pub(crate) fn a_lock_at_each_node() -> (Cluster, Site, Vec<String>, Vec<Running>) {
    let cluster =
        Cluster::start_with(Flavor::Valkey91, 3, 0, |setup| setup.arg("cluster-require-full-coverage", "no"));
    let site = Site::on(&cluster.url());
    let owned_by = |port: u16| {
        let names = (0..).map(|n| format!("k{n}"));
        let mut owned = names.filter(|name| {
            let Reply::Integer(slot) = cluster.nodes()[0].text(&["CLUSTER", "KEYSLOT", name]) else {
                panic!("no slot of {name}")
            };
            cluster.owner(slot.try_into().unwrap()).port() == port
        });
        owned.next().unwrap()
    };
    let mut ports: Vec<_> = cluster.nodes().iter().map(Server::port).collect();
    ports.sort_unstable();
    let keys: Vec<_> = ports.into_iter().map(owned_by).collect();
    let holders = keys.iter().map(|key| site.holder(&["--ttl", "60", key])).collect();
    (cluster, site, keys, holders)
}

/// Regression: nothing was listed.
#[test]
fn the_locks_of_a_cluster_that_can_be_reached_are_listed_and_a_line_names_the_node_that_cannot() {
    let (cluster, site, locked, _holders) = a_lock_at_each_node();
    let lost = cluster.nodes().iter().min_by_key(|node| node.port()).unwrap();
    lost.stop();
    let done = site.outcome(&["ls", "--all", "--json"]).exits_with(69);
    let mut others = locked[1..].to_vec();
    others.sort_unstable();
    assert_eq!(keys(&done), others, "{done:?}");
    assert!(done.err.starts_with("leasehold: not all locks are listed: "), "{done:?}");
    assert!(done.err.contains(&format!("127.0.0.1:{}: ", lost.port())), "{done:?}");
    site.outcome(&["ls", "--held-for", "0", "k"]).exits_with(69);
    site.outcome(&["metrics"]).says(69, &[&format!("127.0.0.1:{}: ", lost.port())]);
    lost.cont();
}
