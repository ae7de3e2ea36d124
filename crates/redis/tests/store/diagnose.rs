//! The findings of a diagnosis on real servers, and that each remedy works.

use std::time::Duration;

use leasehold_core::{
    AdminStore as _, Diagnosis, Finding, HoldAnswer, InspectStore as _, MemberStore as _, Remedy, Severity,
    Store, StoreRole, Ttl,
};
use leasehold_redis::RedisStore;
use leasehold_redis::slot::{Side, side_key};
use servers::{Cluster, Flavor, Reply, Server};

use crate::login::{MINIMAL, without};
use crate::queue::WAIT;
use crate::replicas::pair;
use crate::world::{
    as_user, at_member, attempt, cluster_store, grant, granted, info, key, lasting, pttl, started,
    started_with, store,
};

async fn diagnosed(store: &RedisStore) -> Vec<Finding> {
    let Diagnosis { findings, .. } = store.diagnose(StoreRole::Alone).await;
    findings
}

/// The finding with this subject, if it is worse than a note.
fn about<'a>(findings: &'a [Finding], about: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.about == about && finding.severity != Severity::Note)
}

#[track_caller]
fn found<'a>(findings: &'a [Finding], what: &str, severity: Severity, words: &[&str]) -> &'a Finding {
    let finding = about(findings, what).unwrap_or_else(|| panic!("nothing about {what}: {findings:#?}"));
    assert_eq!(finding.severity, severity, "{finding:?}");
    for word in words {
        assert!(finding.what.contains(word), "{word}: {finding:?}");
    }
    assert!(!finding.why.is_empty(), "{finding:?}");
    finding
}

/// Runs the command of a finding on the server, as a user with all permissions.
#[track_caller]
fn paste(server: &Server, finding: &Finding) {
    let Remedy::AtServer(command) = &finding.remedy else { panic!("no command: {finding:?}") };
    let words: Vec<_> = command.split(' ').collect();
    let reply = server.text(&words);
    assert!(matches!(reply, Reply::Simple(_) | Reply::Integer(1..)), "{command}: {reply:?}");
}

/// Expects the finding, runs its command, and expects that it is gone.
async fn mends(server: &Server, store: &RedisStore, what: &str, severity: Severity, words: &[&str]) {
    let findings = diagnosed(store).await;
    paste(server, found(&findings, what, severity, words));
    let again = diagnosed(store).await;
    assert_eq!(about(&again, what), None, "{}: it is not mended", server.flavor());
}

#[tokio::test]
async fn a_server_as_it_comes_forgets_and_its_remedy_lets_it_remember() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        // As on an unconfigured server.
        server.text(&["CONFIG", "SET", "save", "3600 1 300 100 60 10000"]);
        let store = store(&server.url());
        mends(&server, &store, "persistence", Severity::Warning, &["appendonly is no", "snapshot"]).await;
        let findings = diagnosed(&store).await;
        assert!(findings.iter().all(|finding| finding.severity == Severity::Note), "{flavor}: {findings:#?}");
        for what in
            ["round-trip", "clock", "permissions", "version", "eviction", "replicas", "push", "sample"]
        {
            assert!(findings.iter().any(|finding| finding.about == what), "{flavor}: {what}: {findings:#?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_unsafe_until_it_does_not() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server =
            Server::setup(flavor).arg("maxmemory", "100mb").arg("maxmemory-policy", "allkeys-lru").start();
        mends(&server, &store(&server.url()), "eviction", Severity::Unsafe, &["allkeys-lru"]).await;
    }
}

#[tokio::test]
async fn a_server_that_copies_the_text_of_scripts_is_unsafe_until_it_does_not() {
    for flavor in [Flavor::Redis50, Flavor::Redis62] {
        let server = Server::setup(flavor).arg("lua-replicate-commands", "no").start();
        let store = store(&server.url());
        let remedy = "lua-replicate-commands yes";
        lasting(grant(&store, &attempt(&["k"])).await, &["the text of scripts", remedy]);
        if flavor == Flavor::Redis50 {
            // Its CONFIG GET does not show the setting.
            continue;
        }
        mends(&server, &store, "version", Severity::Unsafe, &["lua-replicate-commands is no"]).await;
        granted(grant(&store, &attempt(&["k"])).await);
    }
}

#[tokio::test]
async fn a_user_without_eval_gets_the_acl_rule_as_a_remedy() {
    for flavor in Flavor::ALL {
        for missing in ["eval", "evalsha", "zadd", "time", "hset"] {
            let server = Server::setup(flavor).acl_user("app", &without(missing)).start();
            let store = store(&as_user(&server, "app"));
            let findings = diagnosed(&store).await;
            let bad: Vec<_> =
                findings.iter().filter(|finding| finding.severity == Severity::Unsafe).collect();
            let [bad] = bad[..] else { panic!("{flavor}, without {missing}: {findings:#?}") };
            assert!(bad.to_string().contains(missing), "{bad}");
            paste(&server, bad);
            let again = diagnosed(&store).await;
            assert!(again.iter().all(|finding| finding.severity < Severity::Unsafe), "{flavor}: {again:#?}");
            let ours = attempt(&["app:k"]);
            granted(grant(&store, &ours).await);
        }
    }
}

#[tokio::test]
async fn checks_that_a_minimal_user_may_not_make_are_reported_and_can_be_allowed() {
    let server = Server::setup(Flavor::Redis70).acl_user("app", MINIMAL).start();
    let store = store(&as_user(&server, "app"));
    let findings = diagnosed(&store).await;
    assert!(findings.iter().all(|finding| finding.severity <= Severity::Unknown), "{findings:#?}");
    let unknown: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Unknown).collect();
    assert_eq!(unknown.len(), 3, "INFO, CONFIG GET and SCAN: {unknown:#?}");
    unknown.iter().for_each(|finding| paste(&server, finding));
    let again = diagnosed(&store).await;
    assert!(again.iter().all(|finding| finding.severity != Severity::Unknown), "{again:#?}");
}

/// Regression: the finding said that such a user may not list or watch locks either.
#[tokio::test]
async fn a_user_without_the_commands_of_batches_gets_a_note_and_may_list_locks() {
    for (denied, told) in [(" -mget", true), ("", false)] {
        let rules = format!("{MINIMAL} +scan{denied}");
        let server = Server::setup(Flavor::Valkey91).acl_user("app", &rules).start();
        let store = store(&as_user(&server, "app"));
        let findings = diagnosed(&store).await;
        let is_told = findings.iter().any(|finding| finding.what.contains("requested one by one"));
        assert_eq!((is_told, about(&findings, "listing")), (told, None), "{findings:#?}");
        assert!(findings.iter().all(|finding| finding.severity <= Severity::Unknown), "{findings:#?}");
        assert_eq!(store.list(b"app:").await, Ok(Vec::new()));
    }
}

/// Regression: such a server was unsafe, although locks work there as for a user that may not run these
/// commands.
#[tokio::test]
async fn a_server_that_does_not_know_what_locks_can_do_without_is_not_unsafe() {
    for flavor in [Flavor::Redis50, Flavor::Valkey91] {
        let setup = Server::setup(flavor).arg("rename-command", "SCAN OTHER");
        let server = setup.arg("rename-command", "MGET ANOTHER").start();
        let store = store(&server.url());
        let ours = attempt(&["k"]);
        granted(grant(&store, &ours).await);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
        let findings = diagnosed(&store).await;
        found(&findings, "listing", Severity::Unknown, &["does not know SCAN", "listed"]);
        let is_told = |finding: &Finding| finding.what.contains("MGET: locks are requested one by one");
        assert!(findings.iter().any(is_told), "{findings:#?}");
        assert_eq!(about(&findings, "commands"), None, "{findings:#?}");
    }
}

#[tokio::test]
async fn a_user_that_may_not_subscribe_gets_a_finding_with_the_cost() {
    for flavor in [Flavor::Redis62, Flavor::Redis82] {
        for (protocol, rule) in
            [("resp3", "&leasehold:*"), ("resp2", "&leasehold:*"), ("resp3", "+subscribe")]
        {
            let rules: Vec<_> = MINIMAL.split(' ').filter(|word| *word != rule).collect();
            let server = Server::setup(flavor).acl_user("app", &rules.join(" ")).start();
            let store = store(&format!("{}?protocol={protocol}", as_user(&server, "app")));
            mends(&server, &store, "push", Severity::Warning, &["may not"]).await;
        }
    }
}

/// Regression: the reason said that waiters ask several times a second instead. They do so only where
/// they may not subscribe; here they rely on being told, and learn of a release after some seconds.
#[tokio::test]
async fn a_user_that_may_not_publish_leaves_waiters_untold_for_some_seconds() {
    for protocol in ["resp3", "resp2"] {
        let rules: Vec<_> = MINIMAL.split(' ').filter(|word| *word != "+publish").collect();
        let server = Server::setup(Flavor::Redis82).acl_user("app", &rules.join(" ")).start();
        let store = store(&format!("{}?protocol={protocol}", as_user(&server, "app")));
        let findings = diagnosed(&store).await;
        let why = &found(&findings, "push", Severity::Warning, &["may not run publish"]).why;
        assert!(why.contains("after some seconds") && !why.contains("times a second"), "{why}");
        mends(&server, &store, "push", Severity::Warning, &["+publish"]).await;
    }
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server = Server::setup(flavor).arg("rename-command", "PUBLISH nothing").start();
        let findings = diagnosed(&store(&server.url())).await;
        let why = &found(&findings, "push", Severity::Warning, &["PUBLISH"]).why;
        assert!(why.contains("after some seconds"), "{flavor}: {why}");
    }
}

#[tokio::test]
async fn a_pair_that_keeps_nothing_on_disk_is_unsafe_and_each_command_mends_its_finding() {
    for flavor in [Flavor::Redis70, Flavor::Valkey91] {
        let (master, replica) = pair(flavor).await;
        let at_master = store(&master.url());
        mends(&master, &at_master, "persistence", Severity::Unsafe, &["appendonly is no"]).await;
        mends(&master, &at_master, "min-replicas", Severity::Warning, &["min-replicas-to-write is 0"]).await;
        found(&diagnosed(&at_master).await, "replication", Severity::Warning, &["1 replicas"]);
        let findings = diagnosed(&at_master).await;
        let of_replica =
            |finding: &&Finding| finding.at.contains(&format!("replica at 127.0.0.1:{}", replica.port()));
        let clock = findings.iter().find(of_replica).expect("a finding about the replica");
        assert!(clock.about == "clock" && clock.what.contains("this machine's"), "{clock:?}");
        let confirmed = store(&format!("{}?replicas=1", master.url()));
        assert_eq!(about(&diagnosed(&confirmed).await, "replication"), None, "{flavor}");
        let at_replica = diagnosed(&store(&replica.url())).await;
        let of_it = format!("is a replica of 127.0.0.1:{}, ", master.port());
        found(&at_replica, "replicas", Severity::Unsafe, &[&of_it, "no writes"]);
        let too_many = store(&format!("{}?replicas=2", master.url()));
        found(&diagnosed(&too_many).await, "replicas", Severity::Unsafe, &["replicas=2"]);
    }
}

#[tokio::test]
async fn keys_without_expiry_and_foreign_keys_are_found_and_fixed() {
    let (server, store) = started(Flavor::Redis82);
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    let findings = diagnosed(&store).await;
    assert_eq!((about(&findings, "leftovers"), about(&findings, "foreign")), (None, None));
    let fence = server.keys("leasehold:c*").remove(0);
    server.text(&["PERSIST", &fence]);
    mends(&server, &store, "leftovers", Severity::Warning, &[&fence, "no end"]).await;
    Store::grant(&store, &attempt(&["k"]), WAIT).await.unwrap();
    server.text(&["PERSIST", "k"]);
    mends(&server, &store, "leftovers", Severity::Warning, &["k is held without an end"]).await;
    assert!(pttl(&server, "k") <= 60_000);
    server.text(&["SET", "k", "theirs"]);
    Store::grant(&store, &attempt(&["k"]), WAIT).await.unwrap();
    mends(&server, &store, "foreign", Severity::Warning, &["k is held without an end"]).await;
    server.text(&["DEL", &fence]);
    server.text(&["HSET", &fence, "a", "b"]);
    server.text(&["PEXPIRE", &fence, "60000"]);
    mends(&server, &store, "foreign", Severity::Unsafe, &[&fence, "not ours"]).await;
}

/// Regression: the remedy kept such a mark for a day, after which the job would have been done again.
#[tokio::test]
async fn the_remedy_for_a_mark_without_expiry_keeps_it_for_ever() {
    let (server, store) = started(Flavor::Redis70);
    let mark = side_key(Side::Mark, &key("migrate:0042"));
    let mark = std::str::from_utf8(&mark).unwrap();
    server.text(&["SET", mark, "1700000000000000 1700000000000007 -"]);
    mends(&server, &store, "leftovers", Severity::Warning, &[mark, "no end"]).await;
    assert!(pttl(&server, mark) > 50 * 365 * 86_400_000);
}

/// Regression: these records were left out of the sample.
#[tokio::test]
async fn a_break_record_without_expiry_and_other_data_in_its_place_are_found_and_fixed() {
    let (server, store) = started(Flavor::Redis70);
    let record = side_key(Side::Break, &key("k"));
    let record = std::str::from_utf8(&record).unwrap();
    server.text(&["SET", record, "1700000000000007 ada\nhangs"]);
    mends(&server, &store, "leftovers", Severity::Warning, &[record, "no end"]).await;
    server.text(&["DEL", record]);
    server.text(&["RPUSH", record, "x"]);
    server.text(&["PEXPIRE", record, "60000"]);
    mends(&server, &store, "foreign", Severity::Unsafe, &[record, "not ours"]).await;
}

#[tokio::test]
async fn a_fence_of_a_quorum_that_is_no_number_is_found_and_fixed() {
    for flavor in Flavor::ALL {
        let (server, store) = started_with(flavor, "quarantine=no");
        store.open().await.unwrap();
        let served = store.serve_batch(&[&at_member(&attempt(&["k"]))], &[]).await.unwrap();
        assert!(served.granted[0].is_some(), "{flavor}");
        assert_eq!(about(&diagnosed(&store).await, "foreign"), None, "{flavor}");
        server.text(&["HSET", "leasehold:f{-}", "k", "1.5"]);
        mends(&server, &store, "foreign", Severity::Unsafe, &["leasehold:f{-}", "not ours"]).await;
    }
}

/// The number of calls is bounded at any number of keys, and the diagnosis says what it left out.
#[tokio::test]
async fn a_server_with_many_keys_is_sampled_and_asked_only_so_much() {
    let server = Server::start(Flavor::Redis70);
    let fill = "for n = 1, 60000 do redis.call('SET', 'x' .. n, n) end";
    server.text(&["EVAL", fill, "0"]);
    let store = store(&server.url());
    let findings = diagnosed(&store).await;
    let sample = findings.iter().find(|finding| finding.about == "sample").unwrap();
    assert!(sample.what.contains("about 32000 keys, not all"), "{sample}");
    assert_eq!(server.calls("keys"), 0);
    let scans = server.calls("scan");
    assert!((32..=33).contains(&scans), "{scans}: and one to see whether it may");
}

/// The diagnosis leaves the data on the server as it was.
#[tokio::test]
async fn a_diagnosis_changes_nothing() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        server.text(&["SET", "theirs", "x"]);
        let findings = diagnosed(&store(&server.url())).await;
        assert!(findings.len() > 5, "{findings:#?}");
        assert_eq!(server.text(&["DBSIZE"]).as_integer(), Some(1), "{flavor}");
        assert_eq!(info(&server, "persistence", "rdb_changes_since_last_save"), 1, "{flavor}");
    }
}

#[tokio::test]
async fn a_member_of_a_quorum_is_asked_what_a_member_needs() {
    let server = Server::setup(Flavor::Redis82)
        .acl_user("no-key", &format!("{MINIMAL} +info"))
        .acl_user("no-info", &format!("{MINIMAL} ~leasehold:member"))
        .start();
    let role = StoreRole::Member { max_ttl: Ttl::new(Duration::from_secs(60)).unwrap() };
    for user in ["no-key", "no-info"] {
        let store = store(&as_user(&server, user));
        let findings = store.diagnose(role).await.findings;
        let bad = found(&findings, "permissions", Severity::Unsafe, &[user]);
        paste(&server, bad);
        let again = store.diagnose(role).await.findings;
        assert_eq!(about(&again, "permissions"), None, "{user}");
    }
    let forgets = store(&format!("{}?quarantine=no", server.url()));
    let findings = forgets.diagnose(role).await.findings;
    paste(&server, found(&findings, "persistence", Severity::Unsafe, &["quarantine=no"]));
    let findings = forgets.diagnose(role).await.findings;
    paste(&server, found(&findings, "persistence", Severity::Unsafe, &["appendfsync always"]));
    assert_eq!(about(&forgets.diagnose(role).await.findings, "persistence"), None);
}

#[tokio::test]
async fn a_server_that_hangs_or_is_gone_is_named() {
    let (server, store) = started(Flavor::Redis82);
    assert!(about(&diagnosed(&store).await, "reach").is_none());
    server.stop();
    found(&diagnosed(&store).await, "reach", Severity::Unsafe, &["no answer"]);
    server.kill_9();
    let findings = diagnosed(&store).await;
    let finding = found(&findings, "reach", Severity::Unsafe, &[]);
    assert!(finding.at.contains(&server.port().to_string()), "{finding}");
}

#[tokio::test]
async fn each_master_of_a_cluster_is_looked_at_and_one_that_hangs_is_named() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let store = cluster_store(&cluster.url());
    let findings = store.diagnose(StoreRole::Alone).await.findings;
    for node in cluster.nodes() {
        let port = node.port().to_string();
        let of_it: Vec<_> = findings.iter().filter(|finding| finding.at.contains(&port)).collect();
        assert!(of_it.iter().any(|finding| finding.about == "eviction"), "{port}: {findings:#?}");
        assert!(of_it.iter().all(|finding| finding.about != "reach"), "{of_it:#?}");
    }
    let hangs = &cluster.nodes()[1];
    hangs.stop();
    let findings = store.diagnose(StoreRole::Alone).await.findings;
    hangs.cont();
    let out: Vec<_> = findings.iter().filter(|finding| finding.about == "reach").collect();
    assert!(out.len() == 1 && out[0].at.contains(&hangs.port().to_string()), "{findings:#?}");
    assert_eq!(findings.iter().filter(|finding| finding.about == "eviction").count(), 2);
}

/// Regression: the diagnosis of a cluster that refused every request found nothing, and neither did
/// that of a node that the URL names like a single server.
#[tokio::test]
async fn a_cluster_that_is_down_or_that_is_named_like_a_single_server_is_unsafe() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        for node in cluster.nodes() {
            let findings = diagnosed(&store(&node.url())).await;
            found(&findings, "reach", Severity::Unsafe, &["part of a cluster", "redis+cluster://"]);
        }
        let store = cluster_store(&cluster.url());
        let findings = async || store.diagnose(StoreRole::Alone).await.findings;
        let serves = findings().await;
        assert!(about(&serves, "reach").or(about(&serves, "cluster")).is_none(), "{flavor}: {serves:#?}");
        let change = |words: &[&str]| cluster.nodes().iter().for_each(|node| drop(node.text(words)));
        let is_down = |node: &Server| {
            node.text(&["CLUSTER", "INFO"]).as_text().is_some_and(|info| info.contains("cluster_state:fail"))
        };
        // Twice, because a node that hears of its former owner just then takes it for the owner again.
        for _ in 0..2 {
            change(&["CLUSTER", "DELSLOTS", "100"]);
            cluster.wait_until("all know that it is down", || cluster.nodes().iter().all(is_down));
        }
        let down = findings().await;
        found(&down, "cluster", Severity::Unsafe, &["1 of 16384 slots have no master"]);
        found(&down, "reach", Severity::Unsafe, &["the cluster is down"]);
        change(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        cluster.wait_until("the others serve", || !cluster.nodes().iter().any(is_down));
        let others_serve = findings().await;
        found(&others_serve, "cluster", Severity::Unsafe, &["1 of 16384 slots"]);
        assert_eq!(about(&others_serve, "reach"), None, "{flavor}");
    }
}
