//! Invalid arguments give one line that names the fact and the remedy, and never a password.

use crate::harness::{SECRET, Site};

/// Senseless command lines of `leasehold run`, and the error for each.
const WRONG: [(&[&str], &str); 42] = [
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
    (
        &["--permits", "1/", "k"],
        "--permits: \"1/\" is not a number of permits: write how many of how many, as in 1/4",
    ),
    (&["--permits", "x/4", "k"], "is not a number of permits"),
    (&["--permits", "1/2/3", "k"], "is not a number of permits"),
    (&["--permits", "4", "--shared", "k"], "exclude each other"),
    (
        &["--permits", "4", "--store", "redis://127.0.0.1:1", "--store", "redis://127.0.0.1:2", "k"],
        "a quorum cannot count permits",
    ),
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

const LONG: &str = match str::from_utf8(&[b'k'; 2048]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

#[test]
fn a_senseless_command_line_is_64_and_one_line_that_says_why() {
    let site = Site::new();
    for (words, says) in WRONG {
        let done = site.finish(site.run(&[words, &["--", "echo", "ran"]].concat()));
        done.says(64, &[says]);
        assert_eq!(done.out, "");
    }
    site.finish(site.run(&["k", "--"])).says(64, &["no command"]);
    site.finish(site.leasehold(&[])).says(64, &["leasehold run KEY -- COMMAND"]);
    site.finish(site.leasehold(&["walk"])).says(64, &["no task walk"]);
    assert!(!site.path("leases.db").exists(), "refused before anything is opened");
}

#[test]
fn a_slip_gets_the_intended_command_as_a_hint() {
    let site = Site::new();
    let done = site.finish(site.leasehold(&["run", "-n", "--ttl", "5", "k", "ls", "-l", "a b"]));
    done.says_and_hints(64, &["no -- before it"], "leasehold run -n --ttl 5 k -- ls -l 'a b'");
    let done = site.finish(site.leasehold(&["run", "k"]));
    done.says_and_hints(64, &["no -- before it"], "leasehold run k -- COMMAND");
    let done = site.finish(site.leasehold(&["run", "--withn", "5", "k", "--", "ls"]));
    done.says_and_hints(64, &["no option --withn"], "did you mean --within?");
    let done = site.finish(site.leasehold(&["rum", "k", "--", "ls"]));
    done.says_and_hints(64, &["no task"], "did you mean run?");
}

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
        "",
    ] {
        let argument = site.finish(site.leasehold(&["run", "--store", url, "k", "--", "true"]));
        let mut from_environment = site.leasehold(&["run", "k", "--", "true"]);
        from_environment.env("LEASEHOLD_STORE", url);
        let environment = site.finish(from_environment);
        for (done, origin) in [(argument, "--store: "), (environment, "LEASEHOLD_STORE: ")] {
            done.says(64, &[origin]);
            done.keeps_the_secret();
            // If a kind of store is refused, the error suggests kinds that a command can use.
            assert!(!done.err.contains("known are"), "{done:?}");
        }
    }
}

#[test]
fn a_bare_path_is_refused_and_a_url_suggested() {
    let site = Site::new();
    for path in ["/var/lib/leases.db", "./leases.db", "leases.db"] {
        let done = site.finish(site.leasehold(&["run", "--store", path, "k", "--", "true"]));
        done.says(64, &["write file:PATH"]);
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
        let done = site.finish(site.leasehold(words));
        assert_eq!(done.status.code(), Some(64), "{words:?}: {done:?}");
        done.keeps_the_secret();
    }
}
