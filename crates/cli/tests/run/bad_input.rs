//! Invalid arguments give one line that names the fact and the remedy, and never a password.

use crate::harness::{SECRET, Site};
use crate::home::Home;

/// Senseless command lines of `leasehold run`, and the error for each.
const WRONG: [(&[&str], &str); 41] = [
    (&["--ttl", "0", "k"], "--ttl: a ttl of 0 s is too short"),
    (&["--ttl", "3650d", "k"], "too long: a year is the most"),
    (&["--ttl", "99999999999999999999", "k"], "write seconds"),
    (&["--ttl", "-5", "k"], "write seconds"),
    (&["--ttl", "soon", "k"], "write seconds"),
    (&["--ttl", "a\nb", "k"], "write seconds"),
    (&["-w", "1 hour", "k"], "--within: \"1 hour\" is not a length of time"),
    (&["--ttl", "10", "--grace", "6", "k"], "more than half of the ttl"),
    (&["--grace", "x", "k"], "--grace: "),
    (&["--max-hold", "x", "k"], "--max-hold: \"x\" is not a length of time"),
    (&["--max-hold", "0", "k"], "--max-hold: 0ns is too short"),
    (&["--max-hold", "5", "--ttl", "6", "k"], "--max-hold: 5s is shorter than the ttl of 6s"),
    (&["-E", "256", "k"], "--busy-exit-code: \"256\" is not an exit code: write a number from 0 to 255"),
    (&["-E", "-1", "k"], "is not an exit code"),
    (&["-E", "+1", "k"], "is not an exit code"),
    (&["-E", "", "k"], "is not an exit code"),
    (&["--status-fd", "1", "k"], "--status-fd: 1 is the command's own"),
    (&["--status-fd", "-3", "k"], "--status-fd: \"-3\" is not a file descriptor"),
    (&["--status-fd", "1023", "k"], "--status-fd: 1023 is not open for writing"),
    (&["--permits", "0/4", "k"], "--permits: no permit was requested"),
    (&["--permits", "5/4", "k"], "--permits: requested 5 permits, but the semaphore has only 4"),
    (&["--permits", "0", "k"], "--permits: a semaphore cannot have 0 permits"),
    (&["--permits", "1/9999999", "k"], "1048576 at most"),
    (&["--permits", "1/", "k"], "--permits: \"1/\" is not a number of permits: write how many of how many"),
    (&["--permits", "x/4", "k"], "is not a number of permits"),
    (&["--permits", "1/2/3", "k"], "is not a number of permits"),
    (&["--permits", "4", "--shared", "k"], "exclude each other"),
    (&["--label", "a\nb", "k"], "--label: a label or reason contains a control character"),
    (&["--label", LONG, "k"], "--label: "),
    (&[""], "the key is empty"),
    (&[LONG], "2048 bytes long and may have 1024"),
    (&["leasehold:f{k}"], "reserved"),
    (&["-n", "-w", "5", "k"], "exclude each other"),
    (&["--ttl", "5", "--ttl", "6", "k"], "given twice"),
    (&["a", ""], "the key is empty"),
    (&[], "no key"),
    (&["--nonsense", "k"], "no option --nonsense: `leasehold run --help`"),
    (&["-y", "k"], "no option -y"),
    (&["--quiet=3", "k"], "--quiet takes no value"),
    (&["--within", "-n", "k"], "--within"),
    (&["k", "--ttl"], "--ttl <TIME> needs a value"),
];

/// Senseless lines of all tasks, with the error and the hint if any. `''` is an empty word.
const WRONG_TASKS: [(&str, &str, &str); 78] = [
    ("walk", "no task walk", ""),
    ("run k --", "no command", ""),
    ("run k", "no -- before it", "leasehold run k -- COMMAND"),
    ("run -n --ttl 5 k ls -l", "no -- before it", "leasehold run -n --ttl 5 k -- ls -l"),
    ("run --withn 5 k -- ls", "no option --withn", "did you mean --within?"),
    ("rum k -- ls", "no task", "did you mean run?"),
    ("a -- ls", "no task a", "leasehold run KEY -- COMMAND"),
    ("run --max-ttl 60 k -- true", "--max-ttl: it is for several stores", ""),
    ("run --store redis://h:1 --store redis://h:1 k -- true", "h:1 is in the quorum twice", ""),
    (
        "run --store quorum:max-ttl=90s,redis://h:1 --store quorum:max-ttl=60s,redis://h:2 k -- true",
        "--store: the longest ttl is given twice, and differs: max-ttl=90s and max-ttl=60s",
        "",
    ),
    (
        "run --store quorum:redis://h:1,redis://h:2,max-ttl=90s k -- true",
        "--store: max-ttl of a quorum's URL is given once, before its members",
        "",
    ),
    ("run --store /var/lib/leases.db k -- true", "not a URL; to use a file, write file:PATH", ""),
    ("run --store leases.db k -- true", "not a URL; to use a file, write file:PATH", ""),
    ("run --store localhost k -- true", "write file:PATH", ""),
    (
        "run --permits 4 --store redis://h:1 --store redis://h:2 k -- true",
        "a quorum cannot count permits",
        "",
    ),
    ("once", "no command", ""),
    ("once -- true", "no key, before the --: `leasehold once KEY -- COMMAND`", ""),
    ("once a b -- true", "once takes one key", ""),
    ("once --skip-exit-code x k -- true", "--skip-exit-code: \"x\" is not an exit code", ""),
    ("every -- true", "no period", ""),
    ("every 1h -- true", "no key", ""),
    ("every 1h a b -- true", "every takes one key", ""),
    ("every often k -- true", "PERIOD: \"often\" is not a length of time", ""),
    ("every 500ms k -- true", "a period of 0.5 s is out of range", ""),
    ("every -w 5 1h k -- true", "no option -w", ""),
    ("every 1h k ls", "no -- before it", "leasehold every 1h k -- ls"),
    ("hold", "no key", ""),
    ("hold a ''", "the key is empty", ""),
    ("hold k -- ls", "hold runs no command", ""),
    ("hold --grace 5 k", "no option --grace: `leasehold hold --help`", ""),
    ("show", "no key", "leasehold ls --all"),
    ("show a b", "2 keys, and show takes one", ""),
    ("show ''", "the key is empty", ""),
    ("show leasehold:f{k}", "reserved", ""),
    ("show --ttl 5 k", "no option --ttl: `leasehold show --help`", ""),
    ("show --json=1 k", "--json takes no value", ""),
    ("ls", "no prefix", "leasehold ls --all"),
    ("ls ''", "the prefix is empty", "leasehold ls --all"),
    ("ls --al", "no option --al", "did you mean --all?"),
    ("ls a b", "2 prefixes, and ls takes one", ""),
    ("ls --all a", "PREFIX and --all exclude each other", ""),
    ("ls leasehold:", "PREFIX: leasehold:: keys that start with leasehold: are reserved", ""),
    ("ls --held-for x --all", "--held-for: \"x\" is not a length of time", ""),
    ("break", "no key", "leasehold show KEY"),
    ("break k", "no --fence", "leasehold show KEY"),
    ("break k l --fence 1", "2 keys", ""),
    ("break k --fence ''", "--fence : a fence is a whole number below 2^53", ""),
    ("break k --fence -1", "--fence -1: a fence is a whole number below 2^53", ""),
    ("break k --fence 1.5", "--fence 1.5: a fence is a whole number below 2^53", ""),
    ("break k --fence x", "--fence x: a fence is a whole number below 2^53", ""),
    ("break k --fence 9007199254740993", "a fence is a whole number below 2^53", ""),
    ("break k --fence 1 --reason a\nb", "--reason: a label or reason contains a control character", ""),
    ("forget a b", "forget takes one", ""),
    ("watch a b", "watch takes one", ""),
    ("top a b", "2 prefixes, and top takes one", ""),
    ("doctor --store memory:", "memory of one process", ""),
    ("doctor --key redis://:s3cret-pw@h", "--key: a store's URL with a password", ""),
    ("doctor --jsn", "no option --jsn", "did you mean --json?"),
    ("doctor redis://:s3cret-pw@h", "… is one argument too many", "leasehold doctor --store URL"),
    ("bench memory:", "memory of one process", ""),
    ("bench --seconds 0", "--seconds: 0ns is not a valid time to measure", ""),
    ("bench --seconds 1h", "from 1s to 600s", ""),
    ("bench --seconds soon", "--seconds: ", ""),
    ("bench --second 3", "no option --second", "did you mean --seconds?"),
    ("bench --tasks 1", "--tasks: \"1\" is not a number of tasks", ""),
    ("bench --tasks -4", "--tasks: \"-4\" is not a number of tasks", ""),
    ("bench --prefix leasehold:", "--prefix: ", ""),
    ("bench --store file:/x redis://127.0.0.1:1", "name all of them in one way", ""),
    // Regression: the error named --store, which nobody had written.
    ("bench tmp/x.db", "leasehold: URL: the store is not a URL", ""),
    ("bench --store tmp/x.db", "leasehold: --store: the store is not a URL", ""),
    ("init --group g", "no directory", ""),
    // Regression: it was said that the working directory is unknown.
    ("init --group g ''", "no directory", ""),
    ("init d", "no --group", ""),
    ("init --store redis://127.0.0.1:1", "only a PostgreSQL store has tables", ""),
    // Regression: it was refused as a kind of store that is not known, in a list that names it.
    ("init --store quorum:postgres://h/app,redis://h", "a quorum has no tables of its own", ""),
    ("init --store postgres://h/app somewhere", "a store URL and a directory", ""),
    ("init --print-sql", "--store", ""),
    ("init --store postgres://u@h/app?sslmode=xx", "sslmode", ""),
];

const LONG: &str = match str::from_utf8(&[b'k'; 2048]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

#[test]
fn a_senseless_command_line_is_64_and_one_line_that_says_why() {
    let site = Site::new();
    for (words, says) in WRONG {
        site.finish(site.run(&[words, &["--", "echo", "ran"]].concat())).says(64, &[says]).out_is("");
    }
    site.finish(site.leasehold(&[])).says(64, &["leasehold run KEY -- COMMAND"]);
    assert!(!site.path("leases.db").exists(), "refused before anything is opened");
    let quoted = site.finish(site.leasehold(&["run", "k", "ls", "a b"]));
    quoted.says_and_hints(64, &["no -- before it"], "leasehold run k -- ls 'a b'");
}

#[test]
fn a_task_refuses_words_that_make_no_sense_before_anything_is_sent() {
    let site = Site::on(&format!("redis://user:{SECRET}@127.0.0.1:1"));
    for (line, says, hint) in WRONG_TASKS {
        let words: Vec<_> = line.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let done = site.finish(site.by_environment(&words)).keeps_the_secret();
        match hint {
            "" => done.says(64, &[says]),
            hint => done.says_and_hints(64, &[says], hint),
        };
    }
}

/// Regression: the option was ignored with the default store.
#[test]
fn a_longest_ttl_is_refused_with_the_default_store_as_with_any_other() {
    let site = Site::new();
    let home = Home::of(&site);
    for task in ["run --max-ttl 60 k -- true", "show --max-ttl 60 k", "ls --max-ttl 60 --all"] {
        let words: Vec<_> = task.split(' ').collect();
        site.finish(home.live_in(site.leasehold(&words)))
            .says(64, &["the default store: --max-ttl: it is for several stores"]);
    }
    let mut by_environment = site.leasehold(&["ls", "-q", "--all"]);
    by_environment.env("LEASEHOLD_MAX_TTL", "60");
    site.finish(home.live_in(by_environment)).silent(0);
}

/// Regression: with `-v`, and by the error of `--permits`, the URL was printed before it was parsed. If a
/// password contains `/`, `?` or `#`, it is not where a password belongs, so it was printed.
#[test]
fn a_malformed_url_is_64_on_one_line_without_its_password() {
    let site = Site::new();
    for url in [
        "redis://u:s3cret-pw@",
        "redis://u:s3cret-pw@h:notaport",
        "redis://u:s3cret-pw@h:70000",
        "redis://u:s3cret-pw@h:0",
        "redis://u:s3cret-pw@h/x",
        "redis://u:12/s3cret-pw@h",
        "redis://u:12?s3cret-pw@h",
        "redis://u:12#s3cret-pw@h",
        "redis://u:s3cret-pw/1@h",
        "redis://u:s3cret-pw?1@h",
        "redis://u:s3cret-pw#1@h",
        "redis:s3cret-pw",
        "redis://h?password=s3cret-pw",
        "redis:u:s3cret-pw@h",
        "http://u:s3cret-pw@h",
        "REDIS://u:s3cret-pw@h",
        "redis:",
        "u:s3cret-pw@h",
        "redis+unix://u:s3cret-pw@h/path",
        "rediss://u:s3cret-pw@h?ca=",
        "redis://u:s3cret-pw@h?password-file=/dev/null",
        "redis+sentinel://u:s3cret-pw@h",
        "redis+sentinel://h/locks?sentinel-pasword=s3cret-pw",
        "redis://u:s3cret-pw@h\nsecond",
        "memory:s3cret-pw",
        "/var/s3cret-pw",
        "s3cret-pw",
        "file:",
        "file:/x/a.db\r",
        "",
    ] {
        for (words, origin) in [
            (&["run", "-v", "k", "--", "true"][..], "LEASEHOLD_STORE: "),
            (&["run", "-v", "--store", url, "k", "--", "true"], "--store: "),
            (&["hold", "-v", "--store", url, "k"], "--store: "),
            (&["once", "-v", "--store", url, "k", "--", "true"], "--store: "),
            (
                &["run", "--permits", "1/2", "--store", "redis://h", "--store", url, "k", "--", "true"],
                "--store: ",
            ),
        ] {
            let mut command = site.leasehold(words);
            command.env("LEASEHOLD_STORE", url);
            let done = site.finish(command).says(64, &[origin]).keeps_the_secret();
            // If a kind of store is refused, the error suggests kinds that a command can use.
            assert!(!done.err.contains("known are"), "{done:?}");
        }
    }
}

#[test]
fn errors_never_repeat_a_password_with_the_words_around_it() {
    let site = Site::new();
    let url = format!("redis://u:{SECRET}@h");
    let misplaced = format!("--stor={url}");
    for words in [
        &["run", "--store", &url, "k", "ls"][..],
        &["run", "--store", &url, "k", "--nonsense", "--", "ls"],
        &["run", "--store", &url, "--store", &url, "k", "--", "ls"],
        &["run", "--stor", &url, "k", "--", "ls"],
        &["run", &misplaced, "k", "--", "ls"],
        &["run", "k", &url, "--", "ls"],
        &["run", "k", "curl", &url],
        &["run", "--ttl", "--store", &url, "k", "--", "ls"],
        &[&url],
    ] {
        site.finish(site.leasehold(words)).exits_with(64).keeps_the_secret();
    }
}
