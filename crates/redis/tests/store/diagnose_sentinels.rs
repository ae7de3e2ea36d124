//! The findings of a diagnosis at real sentinels, and that each remedy works.

use leasehold_core::{AdminStore as _, Finding, Remedy, Severity, StoreRole};
use leasehold_redis::RedisStore;
use servers::{Flavor, Reply, Server, Watched};

use crate::world::store;

/// The findings at or about the sentinels.
async fn found(store: &RedisStore) -> Vec<Finding> {
    let findings = store.diagnose(StoreRole::Alone).await.findings;
    assert!(findings.iter().any(|finding| finding.about != "sentinels"), "the master was not looked at");
    findings.into_iter().filter(|finding| finding.about == "sentinels").collect()
}

fn saying<'a>(findings: &'a [Finding], words: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.what.contains(words)).collect()
}

fn set(sentinel: &Server, what: &str, value: &str) {
    assert_eq!(sentinel.text(&["SENTINEL", "SET", "locks", what, value]), Reply::Simple("OK".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_would_come_too_late_or_not_at_all_are_named() {
    let watched = Watched::start(Flavor::Redis82);
    let store = store(&watched.url());
    // The only finding is that they are on one machine.
    let findings = found(&store).await;
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert!(finding.severity == Severity::Warning, "{finding:?}");
    let what = "3 of 3 sentinels are at 127.0.0.1, and a failover takes 2";
    assert!(finding.what.contains(what), "{finding:?}");

    // With their default configuration.
    for sentinel in &watched.sentinels {
        set(sentinel, "down-after-milliseconds", "30000");
    }
    let findings = found(&store).await;
    let slow = saying(&findings, "after 30s (down-after-milliseconds)");
    assert_eq!(slow.len(), 3, "{findings:#?}");
    for finding in slow {
        let at = |sentinel: &&Server| finding.at.ends_with(&format!(":{}", sentinel.port()));
        let sentinel = watched.sentinels.iter().find(at).expect("it says which of them");
        let Remedy::AtServer(command) = &finding.remedy else { panic!("{finding:?}") };
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(sentinel.text(&words), Reply::Simple("OK".into()), "{command}");
    }
    assert!(saying(&found(&store).await, "down-after").is_empty());

    for sentinel in &watched.sentinels {
        set(sentinel, "quorum", "3");
    }
    assert_eq!(saying(&found(&store).await, "a failover takes 3 of 3 sentinels, so there is none").len(), 1);
    for sentinel in &watched.sentinels {
        set(sentinel, "quorum", "2");
    }

    watched.sentinels[0].kill_9();
    watched.sentinels[1].stop();
    let findings = found(&store).await;
    for (words, nth) in [("Connection refused", 0), ("no answer within 1s", 1)] {
        let silent = saying(&findings, words);
        let port = watched.sentinels[nth].port().to_string();
        assert!(silent.len() == 1 && silent[0].at.ends_with(&port), "{findings:#?}");
        assert_eq!(silent[0].severity, Severity::Warning);
    }
    watched.sentinels[1].cont();
}

/// The user of the manual can find the master, and may do nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn checks_that_a_user_of_sentinels_may_not_make_are_unknown() {
    let rules = "on >watch resetkeys resetchannels &+switch-master -@all +sentinel|get-master-addr-by-name +sentinel|masters \
                 +subscribe +unsubscribe";
    let sentinel = Server::setup(Flavor::Valkey91).acl_user("looker", rules);
    let watched = Watched::with(Server::setup(Flavor::Valkey91), sentinel);
    let store = store(&format!("{}?sentinel-user=looker&sentinel-password=watch", watched.url()));
    let findings = found(&store).await;
    assert!(findings.len() == 3 && findings.iter().all(|f| f.severity == Severity::Unknown), "{findings:#?}");
    for sentinel in &watched.sentinels {
        let allowed = sentinel.text(&["ACL", "SETUSER", "looker", "+sentinel|master"]);
        assert_eq!(allowed, Reply::Simple("OK".into()));
    }
    let findings = found(&store).await;
    assert!(findings.iter().all(|finding| finding.severity != Severity::Unknown), "{findings:#?}");
}

/// Regression: nothing said that a failover is noticed late.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_refuse_to_be_listened_to_are_named_with_the_rule() {
    let rules = "on >watch resetkeys resetchannels -@all +sentinel +subscribe";
    let sentinel = Server::setup(Flavor::Redis70).acl_user("looker", rules);
    let watched = Watched::with(Server::setup(Flavor::Redis70), sentinel);
    let store = store(&format!("{}?sentinel-user=looker&sentinel-password=watch", watched.url()));
    let findings = found(&store).await;
    assert_eq!(saying(&findings, "allow it &+switch-master").len(), 3, "{findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_looked_at_also_where_there_is_no_master() {
    let watched = Watched::start(Flavor::Redis70);
    watched.sentinels.iter().for_each(|sentinel| set(sentinel, "down-after-milliseconds", "60000"));
    watched.servers.iter().for_each(Server::kill_9);
    let findings = store(&watched.url()).diagnose(StoreRole::Alone).await.findings;
    assert!(findings.iter().any(|finding| finding.about == "reach"), "{findings:#?}");
    assert_eq!(saying(&findings, "after 60s").len(), 3, "{findings:#?}");
}
