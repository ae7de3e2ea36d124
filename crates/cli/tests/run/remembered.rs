//! A store's records besides leases: the last runs of jobs, and broken leases.

use serde_json::json;
use servers::Flavor;

use crate::harness::{Done, Site, has, json_lines};

#[test]
fn a_done_job_is_shown_and_listed_and_runs_again_when_forgotten_or_with_now() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        site.outcome(&["once", "--label", "web-3", "job:migrate", "--", "true"]).silent(0);
        site.outcome(&["every", "--label", "cron", "2h", "job:report", "--", "true"]).silent(0);

        site.outcome(&["show", "job:report"]).exits_with(1).out_has(&[
            "\ndone     20",
            "Z by cron, fence ",
            "\ndue      20",
            ", in 1h59m\n",
        ]);
        let seen = site.outcome(&["show", "--json", "job:report"]).json();
        let mark = &seen["mark"];
        has(mark, &json!({"by": "cron", "period_ms": 7_200_000}));
        assert_eq!(mark["due_at"].as_u64().unwrap() - mark["begun_at"].as_u64().unwrap(), 7_200_000);
        assert!(seen["last_break"].is_null());
        assert!(site.outcome(&["show", "--json", "x"]).json()["mark"].is_null());

        let listed = site.outcome(&["ls", "--marks", "job:"]);
        let lines: Vec<_> = listed.out.lines().collect();
        assert!(lines[0].starts_with("KEY ") && lines[0].ends_with("  LAST BEGUN"), "{listed:?}");
        assert!(
            lines[1].starts_with("job:migrate  never again ") && lines[1].ends_with("Z by web-3"),
            "{listed:?}"
        );
        assert!(lines[2].starts_with("job:report   20") && lines[2].ends_with("Z by cron"), "{listed:?}");
        let listed = site.outcome(&["ls", "--marks", "--json", "--all"]);
        let [first, _] = &json_lines(&listed.out)[..] else { panic!("not two jobs: {listed:?}") };
        has(first, &json!({"key": "job:migrate", "by": "web-3", "due_at": null}));
        assert_eq!(site.outcome(&["ls", "--marks", "--json", "job:m"]).json(), *first);

        let again = |words: &[&str]| site.outcome(words).out;
        assert_eq!(again(&["every", "2h", "job:report", "--", "echo", "ran"]), "");
        assert_eq!(again(&["every", "--now", "2h", "job:report", "--", "echo", "ran"]), "ran\n");
        assert_eq!(again(&["every", "2h", "job:report", "--", "echo", "ran"]), "", "a period began with it");

        let seen = site.outcome(&["show", "--json", "job:report"]).json();
        assert_eq!(site.outcome(&["forget", "--json", "job:report"]).json()["mark"], seen["mark"]);
        let forgotten = site.outcome(&["forget", "job:migrate"]).silent(0);
        assert!(forgotten.out.starts_with("job:migrate: forgotten; it was last begun 20"), "{forgotten:?}");
        assert_eq!(site.outcome(&["forget", "--json", "job:migrate"]).json()["forgotten"], false);
        site.outcome(&["forget", "-q", "job:migrate"]).silent(1);
        assert_eq!(again(&["once", "job:migrate", "--", "echo", "ran"]), "ran\n");
    }
    let site = Site::used();
    site.outcome(&["ls", "--marks", "-a"]).says(0, &["nothing is recorded as done at "]);
    // Regression: it said so of the whole store if only no name had the prefix.
    site.outcome(&["ls", "--marks", "job:"]).says(0, &["nothing that begins with job: is recorded as done"]);
    site.outcome(&["ls", "--marks", "-aq"]).prints(0, "");
}

#[test]
fn a_break_is_counted_and_shown_with_its_author_and_reason() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let holder = site.holder(&["--label", "web-3", "deploy"]);
        let fence = site.read("fence");
        let metrics = site.outcome(&["metrics"]).silent(0);
        let value = |done: &Done, name: &str| -> f64 {
            let line = done.out.lines().find(|line| line.starts_with(&format!("leasehold_store_{name}{{")));
            line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        assert_eq!(["held", "waiting", "broken_last_day"].map(|name| value(&metrics, name)), [1.0, 0.0, 0.0]);

        let why = "it hangs since noon";
        site.outcome(&["once", "done", "--", "true"]).silent(0);
        site.outcome(&["break", "deploy", "--fence", &fence, "--reason", why]).silent(0);
        holder.finish().says(70, &["somebody broke the lease"]);
        let shown = site.outcome(&["show", "deploy"]).out;
        let line =
            shown.lines().find(|line| line.starts_with("broken   20")).expect("a line about the break");
        assert!(line.contains(&format!("Z, fence {fence} of web-3, by ")), "{shown}");
        assert!(line.contains('@') && line.ends_with(&format!(": {why}")), "{shown}");
        let broken = site.outcome(&["show", "--json", "deploy"]).json()["last_break"].clone();
        has(&broken, &json!({"reason": why, "held_by": "web-3"}));
        assert_eq!(broken["fence"].to_string(), fence);
        let begun_at = site.outcome(&["show", "--json", "done"]).json()["mark"]["begun_at"].as_u64();
        assert!(broken["broken_at"].as_u64() >= begun_at, "{broken}");
        let metrics = site.outcome(&["metrics", "dep"]);
        assert_eq!(["held", "broken_last_day", "marks"].map(|name| value(&metrics, name)), [0.0, 1.0, 0.0]);
        let metrics = site.outcome(&["metrics", "do"]);
        assert_eq!(["broken_last_day", "marks"].map(|name| value(&metrics, name)), [0.0, 1.0]);
    }
    let away = Site::on("redis://127.0.0.1:1");
    away.outcome(&["metrics"]).exits_with(69).out_is("");
}
