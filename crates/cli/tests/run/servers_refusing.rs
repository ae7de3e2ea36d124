//! A store that is out of reach, or refuses: 69, soon, and with the reason.

use std::time::{Duration, Instant};

use servers::{Flavor, Server};

use crate::harness::{SECRET, Site};

#[test]
fn a_wrong_password_is_69_at_once() {
    let server = Server::setup(Flavor::Redis70).password("right").start();
    let site = Site::on(&server.url().replace("//", &format!("//:{SECRET}@")));
    let started = Instant::now();
    let done = site.finish(site.run(&["k", "--", "true"]));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    done.says(69, &["password"]);
    done.keeps_the_secret();
}

#[test]
fn a_user_who_may_not_is_69_at_once() {
    let rules = format!("on >{SECRET} ~* +ping +hello +client +time");
    let server = Server::setup(Flavor::Valkey91).acl_user("app", &rules).start();
    let site = Site::on(&server.url().replace("//", &format!("//app:{SECRET}@")));
    let started = Instant::now();
    let done = site.finish(site.run(&["-q", "k", "--", "true"]));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    done.says(69, &["app"]);
    done.keeps_the_secret();
}

#[test]
fn where_nobody_listens_it_is_69_within_the_outage_limit() {
    let site = Site::on("redis://127.0.0.1:1");
    let started = Instant::now();
    let done = site.finish(site.run(&["k", "--", "true"]));
    assert!(started.elapsed() < Duration::from_secs(11), "{:?}", started.elapsed());
    done.says_after_trying(69, &["no answer within", "redis://127.0.0.1:1", "see that it runs"]);
}

#[test]
fn who_waits_two_seconds_for_a_lock_does_not_wait_ten_for_a_server() {
    let site = Site::on("redis://127.0.0.1:1");
    let started = Instant::now();
    site.finish(site.run(&["-w", "2", "k", "--", "true"])).says_after_trying(69, &["no answer within"]);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}
