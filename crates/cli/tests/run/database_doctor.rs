//! `leasehold doctor` on PostgreSQL: each finding, and its remedy as it is printed.

use servers::Postgres;

use crate::database::sql;
use crate::harness::{Done, Site, until};

struct Scene {
    server: Postgres,
    site: Site,
}

impl Scene {
    /// A user `web` with all grants, on a server whose settings are good.
    fn good() -> Self {
        let scene = Self::bare();
        scene.site.finish(scene.site.leasehold(&["init", "--store", &scene.server.url()]));
        scene.sql("GRANT USAGE ON SCHEMA leasehold TO web");
        scene.sql("GRANT SELECT ON leasehold.meta TO web");
        scene.sql(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.lease, leasehold.share, leasehold.waiter, \
             leasehold.unresponsive, leasehold.mark, leasehold.broken TO web",
        );
        scene
    }

    fn bare() -> Self {
        let server = Postgres::with(&["fsync=on"]);
        let site = Site::on(&server.url().replace("postgres@", "web@"));
        let scene = Self { server, site };
        scene.sql("CREATE ROLE web LOGIN");
        scene
    }

    /// Not in one transaction, in which some settings cannot be changed.
    fn sql(&self, statements: &str) {
        for statement in statements.split("; ") {
            sql(&self.server.url(), statement).unwrap();
        }
    }

    fn doctor(&self, words: &[&str]) -> Done {
        self.site.finish(self.site.task("doctor", words))
    }

    /// The one finding that is not a note: its severity, its subject, and its remedy with the kind.
    fn finds(&self, code: i32) -> [String; 4] {
        let done = self.doctor(&["--json"]).silent(code);
        let object = done.json();
        let found = object["findings"].as_array().unwrap().iter();
        let found: Vec<_> = found.filter(|finding| finding["severity"] != "note").collect();
        let [found] = found[..] else { panic!("not one finding: {found:?}") };
        let texts = [&found["severity"], &found["about"], &found["remedy"]["kind"], &found["remedy"]["text"]];
        texts.map(|text| text.as_str().unwrap_or_default().to_owned())
    }

    /// Expects this finding, and that its remedy works.
    fn is_mended(&self, code: i32, severity: &str, about: &str) {
        let [how, what, kind, mend] = self.finds(code);
        assert_eq!([&*how, &*what, &*kind], [severity, about, "psql"], "{mend}");
        self.sql(&mend);
        // A new setting reaches new sessions after a moment.
        until(about, || self.doctor(&[]).status.code() == Some(0));
    }
}

#[test]
fn a_good_database_is_no_finding_and_its_notes_say_why() {
    let scene = Scene::good();
    scene.doctor(&[]).silent(0).out_has(&[": 0 unsafe, 0 warnings, 0 unknown, "]);
    let all = scene.doctor(&["-v", "--key", "k"]);
    for note in
        ["version: PostgreSQL 1", "push: a notification arrived", "permissions: web may do all", "clock: "]
    {
        assert!(all.out.contains(note), "{note}: {all:?}");
    }
}

#[test]
fn tables_that_are_not_there_or_of_another_version_are_named_with_what_to_do() {
    let scene = Scene::bare();
    let [how, what, kind, mend] = scene.finds(2);
    assert_eq!([&*how, &*what, &*kind], ["unsafe", "tables", "shell"]);
    assert_eq!(mend, format!("leasehold init --store {}", scene.site.store()));
    let scene = Scene::good();
    scene.sql("UPDATE leasehold.meta SET value = '7' WHERE name IN ('version', 'readable_by')");
    let [how, what, _, mend] = scene.finds(2);
    assert_eq!([&*how, &*what], ["unsafe", "tables"]);
    assert!(mend.contains("update this program"), "{mend}");
    scene.sql("UPDATE leasehold.meta SET value = '0' WHERE name IN ('version', 'readable_by')");
    assert!(scene.finds(2)[3].contains("leasehold init"));
}

/// Regression: the remedy was `leasehold init`, which then refused the database.
#[test]
fn a_database_with_another_encoding_is_named_with_what_to_do() {
    let mut scene = Scene::bare();
    scene.sql("CREATE DATABASE old TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C'");
    let url = |user| format!("postgres://{user}@127.0.0.1:{}/old", scene.server.port());
    let (owners, ours) = (url("postgres"), url("web"));
    scene.site.finish(scene.site.leasehold(&["init", "--store", &owners])).says(69, &["encoding SQL_ASCII"]);
    scene.site = Site::on(&ours);
    let [how, what, kind, mend] = scene.finds(2);
    assert_eq!([&*how, &*what, &*kind], ["unsafe", "tables", "advice"]);
    assert!(mend.contains("encoding UTF8"), "{mend}");
    assert!(scene.doctor(&[]).out.contains("has encoding SQL_ASCII"));
}

/// Regression: the tables' id was read only by a request for a lock, so nothing was found here, and
/// then every lock was refused.
#[test]
fn a_database_that_a_quorum_names_twice_is_found_out() {
    let scene = Scene::good();
    let other = scene.site.store().replace("127.0.0.1", "localhost");
    scene
        .doctor(&["--store", &other])
        .exits_with(2)
        .out_has(&["are one server and would be counted twice", "name each server once"]);
}

#[test]
fn each_grant_that_is_missing_is_in_the_remedy_and_the_remedy_suffices() {
    let scene = Scene::good();
    scene.sql("REVOKE INSERT ON leasehold.waiter FROM web; REVOKE SELECT, DELETE ON leasehold.mark FROM web");
    let [.., mend] = scene.finds(2);
    assert_eq!(
        mend,
        "GRANT INSERT ON \"leasehold\".waiter TO \"web\"; GRANT SELECT, DELETE ON \"leasehold\".mark TO \"web\""
    );
    scene.is_mended(2, "unsafe", "permissions");
    scene.site.finish(scene.site.run(&["k", "--", "true"])).silent(0);
}

/// Regression: leases of others were hidden from the user, so it was granted a lock that they shared, and
/// the doctor found nothing.
#[test]
fn row_level_security_grants_nothing_twice_and_is_found_and_mended() {
    let scene = Scene::good();
    let owners = scene.server.url();
    let reader = scene.site.start(scene.site.leasehold(&["hold", "--store", &owners, "--shared", "k"]));
    until("the reader holds it", || sql(&owners, "SELECT 1 / count(*) FROM leasehold.share").is_ok());
    scene.sql("ALTER TABLE leasehold.share ENABLE ROW LEVEL SECURITY");
    let refused = scene.site.finish(scene.site.run(&["-n", "k", "--", "true"]));
    refused.says(69, &["row-level security", "disable row level security on"]);
    scene.is_mended(2, "unsafe", "permissions");
    scene.site.finish(scene.site.run(&["-n", "k", "--", "true"])).exits_with(75);
    drop(reader);
}

/// Requests then take the slower way, and nothing else says so.
#[test]
fn functions_that_the_user_may_not_execute_are_a_warning_and_the_remedy_suffices() {
    let scene = Scene::good();
    scene.sql("REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA leasehold FROM PUBLIC");
    scene.site.finish(scene.site.run(&["k", "--", "true"])).silent(0);
    let [.., mend] = scene.finds(1);
    assert!(mend.contains("GRANT EXECUTE ON PROCEDURE \"leasehold\".quick_release TO \"web\""), "{mend}");
    scene.is_mended(1, "warning", "functions");
    scene.site.finish(scene.site.run(&["k", "--", "true"])).silent(0);
}

#[test]
fn unlogged_tables_and_settings_that_lose_grants_are_warnings_and_are_mended() {
    let scene = Scene::good();
    scene.sql("ALTER TABLE leasehold.share SET UNLOGGED");
    scene.is_mended(1, "warning", "unlogged");
    for (setting, about) in [("full_page_writes", "disk"), ("autovacuum", "autovacuum")] {
        scene.sql(&format!("ALTER SYSTEM SET {setting} = off; SELECT pg_reload_conf()"));
        until("the setting", || scene.doctor(&[]).status.code() == Some(1));
        scene.is_mended(1, "warning", about);
    }
    for setting in ["statement_timeout", "idle_session_timeout"] {
        scene.sql(&format!("ALTER ROLE web SET {setting} = '2s'"));
        scene.is_mended(1, "warning", "timeouts");
    }
}
