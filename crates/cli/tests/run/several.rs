//! Several keys under one lock: all of them or none.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use servers::Flavor;

use crate::harness::{OURS, Site, has, until};
use crate::shell::bash;

#[test]
fn several_keys_have_one_fence_in_any_order_of_their_names() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let script = "printenv LEASEHOLD_KEY; printenv LEASEHOLD_KEYS; printenv LEASEHOLD_FENCE; \
                      for key in b a c; do \"$L\" show --json $key || exit 1; done";
        let mut command = site.run_script(&["b", "c", "a", "b"], script);
        command.env("L", OURS);
        let done = site.finish(command).silent(0);
        let lines: Vec<_> = done.out.lines().collect();
        assert_eq!(lines[..4], ["a", "a", "b", "c"]);
        assert_eq!(lines.len(), 8, "{done:?}");
        for (line, key) in lines[5..].iter().zip(["b", "a", "c"]) {
            let seen: Value = serde_json::from_str(line).unwrap();
            assert_eq!(seen["key"], key);
            assert_eq!(seen["holders"][0]["fence"].to_string(), lines[4], "{key}");
        }
        for key in ["a", "b", "c"] {
            assert_eq!(site.outcome(&["show", "--json", key]).json()["held"], false, "{key}");
        }
    }
}

/// node-redlock: several resources together.
#[test]
fn a_request_for_several_keys_gets_all_or_none_and_learns_which_is_held() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let holder = site.holder(&["--label", "the holder", "b", "c"]);
        site.line("run -n a b d -- true").says(75, &["leasehold: b: held by the holder ("]);
        for key in ["a", "d"] {
            assert_eq!(site.outcome(&["show", "--json", key]).json()["held"], false, "{key}");
        }
        let waiter = site.start(site.run(&["-v", "a", "c", "--", "true"]));
        until("it waits", || waiter.err().contains("waiting for c, held by the holder ("));
        site.go();
        holder.finish().silent(0);
        waiter.finish().exits_with(0).err_has(&["leasehold: a, c: taken at "]);
    }
}

#[test]
fn runs_that_name_the_same_keys_in_other_orders_never_wait_for_each_other_in_a_circle() {
    for site in Site::on_each_store(Flavor::Redis70) {
        fs::write(site.path("number"), "0\n").unwrap();
        thread::scope(|scope| {
            for keys in [&["a", "b"][..], &["b", "a"], &["b", "c", "a"], &["a"]] {
                let site = &site;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let add = "read n < number; echo $((n + 1)) > number";
                        site.finish(site.run_script(keys, add)).silent(0);
                    }
                });
            }
        });
        assert_eq!(site.read("number"), "40");
    }
}

#[test]
fn events_name_the_keys_and_the_one_in_the_way() {
    let site = Site::new();
    let holder = site.holder(&["b"]);
    site.finish(site.telling("run", "-q -w 2 c b a -- true")).silent(75);
    let told = site.events();
    assert_eq!(told.len(), 2, "{told:?}");
    for (event, name) in told.iter().zip(["waiting", "busy"]) {
        has(event, &json!({"event": name, "key": "b", "keys": ["a", "b", "c"]}));
    }
    site.go();
    holder.finish().silent(0);
    site.finish(site.telling("run", "-q b a -- true")).silent(0);
    has(&site.events()[0], &json!({"event": "acquired", "key": "a", "keys": ["a", "b"]}));
}

#[test]
fn a_script_holds_several_keys_under_the_fence_that_it_reads() {
    let site = Site::new();
    let script = "exec 9< <(leasehold hold b a); read -r fence <&9 || exit 75
         echo \"$fence\"; leasehold show --json a; leasehold show --json b
         leasehold run -nq b -- true; echo $?; exec 9<&-; leasehold run -w 20 b a -- true; echo $?";
    let done = bash(&site, script).silent(0);
    let lines: Vec<_> = done.out.lines().collect();
    for line in &lines[1..3] {
        let seen: Value = serde_json::from_str(line).unwrap();
        assert_eq!(seen["holders"][0]["fence"].to_string(), lines[0]);
    }
    assert_eq!(lines[3..], ["75", "0"]);
}

#[test]
fn the_loss_of_one_key_is_the_loss_of_all_and_names_it() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let run = site.holder(&["--ttl", "3", "a", "b"]);
    server.text(&["DEL", "b"]);
    run.finish().says(70, &["a, b: lease lost", ": b: "]);
    assert_eq!(server.text(&["EXISTS", "a"]).as_integer(), Some(0), "what is left of it is given back");
}
