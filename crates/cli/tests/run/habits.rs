//! Options by the names of other programs, and options in the environment.

use servers::{Flavor, Server};

use crate::harness::{OURS, Site};
use crate::pty::Pty;
use crate::shell::{in_shell, path};
use crate::terminal::has;

#[test]
fn options_of_other_lock_commands_are_answered_with_ours() {
    let site = Site::new();
    for (words, says, hint) in [
        (&["run", "--timeout", "5", "k", "--", "true"][..], "no option --timeout", "--within TIME"),
        (&["run", "k", "-c", "ls"], "no option -c", "sh -c 'COMMAND'"),
        (&["run", "--nonblock", "k", "--", "true"], "no option --nonblock", "--try"),
        (&["run", "-o", "k", "--", "true"], "no option -o", "leave it out"),
        (&["run", "--no-fork", "k", "--", "true"], "no option --no-fork", "leave it out"),
        (&["status"], "no task status", "leasehold show KEY"),
        (&["unlock", "k"], "no task unlock", "leasehold break KEY --fence N"),
        (&["version"], "no task version", "leasehold --version"),
        (&["rnu", "k", "--", "true"], "no task rnu", "did you mean run?"),
        (&["logs"], "no task logs", "leasehold watch"),
        (&["show", "-k"], "no option -k", "leasehold show -- -KEY"),
    ] {
        let done = site.finish(site.leasehold(words)).exits_with(64);
        let (fact, hinted) = done.err.split_once('\n').unwrap();
        assert!(fact.contains(says), "{done:?}");
        assert!(hinted.starts_with("hint: ") && hinted.contains(hint), "{done:?}");
    }
    // After the dashes, the option is the command's.
    site.finish(site.run(&["k", "--", "sh", "-c", "exit 3"])).silent(3);
}

#[test]
fn the_store_may_be_named_before_the_task() {
    let site = Site::new();
    let _others = site.holder(&["k"]);
    let done = site.finish(site.leasehold(&["--store", site.store(), "ls", "--all"])).silent(0);
    assert!(done.out.lines().nth(1).unwrap().starts_with("k "), "{done:?}");
    let glued = format!("--store={}", site.store());
    site.finish(site.leasehold(&[&glued, "run", "-nq", "k", "--", "true"])).silent(75);
}

#[test]
fn a_key_may_begin_with_a_dash_behind_dashes() {
    let site = Site::new();
    let script = "echo $LEASEHOLD_KEYS; leasehold show -- -k; leasehold run -nq -- -k -- true; echo $?";
    let mut command = site.run(&["--", "-k", "--", "sh", "-c", script]);
    command.env("PATH", path()).env_remove("LEASEHOLD_KEYS");
    let done = site.finish(command);
    let lines: Vec<_> = done.out.lines().collect();
    assert_eq!((lines[0], lines[1]), ("-k", "key      -k"), "{done:?}");
    assert!(done.out.ends_with("64\n"), "{done:?}");
    done.err_has(&["-k: a run around this one holds it"]);
    site.outcome(&["ls", "-q", "--", "-"]).silent(0);
}

#[test]
fn environment_variables_replace_missing_options() {
    let site = Site::new();
    let show = |variables: &[(&str, &str)], options: &[&str]| {
        let mut run = site.run(&[options, &["k", "--", "sh", "-c"]].concat());
        run.arg(format!("{OURS} show --json k")).envs(variables.iter().copied());
        let holding = &site.finish(run).silent(0).json()["holders"][0];
        (holding["remaining_ms"].as_u64().unwrap(), holding["label"].as_str().unwrap().to_owned())
    };
    let (left, label) = show(&[("LEASEHOLD_TTL", "300s"), ("LEASEHOLD_LABEL", "web-3")], &[]);
    assert!(left > 200_000 && label == "web-3", "{left} {label}");
    assert!(show(&[("LEASEHOLD_TTL", "300s")], &["--ttl", "5"]).0 <= 5_000, "an option comes first");
    assert!(show(&[("LEASEHOLD_TTL", "300s")], &["--max-hold", "9"]).0 <= 9_000, "nor is it a wish");
    let ended = |variable: (&str, &str), words: &[&str]| {
        let mut run = site.run(words);
        run.env(variable.0, variable.1);
        site.finish(run)
    };
    ended(("LEASEHOLD_TTL", "x"), &["k", "--", "true"])
        .says(64, &["LEASEHOLD_TTL: \"x\" is not a length of time"]);
    for (variable, value, fact) in [
        ("LEASEHOLD_GRACE", "1h", "is more than half of the ttl"),
        ("LEASEHOLD_MAX_HOLD", "1ms", "is too short to do anything"),
        ("LEASEHOLD_LABEL", "two\nlines", "a control character"),
        ("LEASEHOLD_NAMING", "redlok", "not the name of a known naming"),
    ] {
        ended((variable, value), &["k", "--", "true"]).says(64, &[&format!("{variable}: "), fact]);
    }
    ended(("LEASEHOLD_MAX_HOLD", "8"), &["--ttl", "9", "k", "--", "true"])
        .says(64, &["LEASEHOLD_MAX_HOLD: 8s is shorter than the ttl", "or lengthen LEASEHOLD_MAX_HOLD"]);
    for option in
        ["TTL", "MAX_HOLD", "GRACE", "WITHIN", "OUTAGE_LIMIT", "NAMING", "BUSY_EXIT_CODE", "MAX_TTL"]
    {
        ended((&format!("LEASEHOLD_{option}"), ""), &["k", "--", "true"]).silent(0);
    }
    let label = show(&[("LEASEHOLD_LABEL", "")], &[]).1;
    assert!(label.contains('@'), "an empty variable counts as not set: {label}");
    // The lease has the same length, and must not end first on a busy machine.
    ended(("LEASEHOLD_MAX_HOLD", "2s"), &["k", "--", "sleep", "60"]).says(70, &["--max-hold 2s"]);
    let _others = site.holder(&["held"]);
    ended(("LEASEHOLD_BUSY_EXIT_CODE", "3"), &["-n", "held", "--", "true"])
        .says(3, &["held by", ", taken ", " ago"]);
    ended(("LEASEHOLD_BUSY_EXIT_CODE", "3"), &["-qnE4", "held", "--", "true"]).silent(4);
    ended(("LEASEHOLD_BUSY_EXIT_CODE", "x"), &["-n", "held", "--", "true"])
        .says(64, &["LEASEHOLD_BUSY_EXIT_CODE: \"x\" is not an exit code"]);
    ended(("LEASEHOLD_WITHIN", "100ms"), &["held", "--", "true"]).says(75, &["not free within 100ms"]);
    ended(("LEASEHOLD_WITHIN", "1h"), &["-n", "held", "--", "true"]).says(75, &["held by"]);
    for (words, code) in [(&["held"][..], 5), (&["--skip-exit-code", "6", "held"], 6)] {
        let mut every = site.task("every", &[&["-q", "1h"], words, &["--", "true"]].concat());
        every.env("LEASEHOLD_SKIP_EXIT_CODE", "5");
        site.finish(every).silent(code);
    }
    let mut look = site.leasehold(&["show", "--store", "redis://127.0.0.1:1", "k"]);
    look.env("LEASEHOLD_OUTAGE_LIMIT", "3s");
    site.finish(look).says_after_trying(69, &["127.0.0.1:1"]).err_has(&["trying for 3s in all"]);
}

/// Regression: no store was asked, and each was called unreachable.
#[test]
fn an_outage_limit_of_zero_is_refused() {
    let site = Site::new();
    site.outcome(&["run", "--outage-limit", "0", "k", "--", "true"]).says(64, &["--outage-limit", "--try"]);
    let mut look = site.task("show", &["k"]);
    look.env("LEASEHOLD_OUTAGE_LIMIT", "0s");
    site.finish(look).says(64, &["LEASEHOLD_OUTAGE_LIMIT: in no time"]);
}

#[test]
fn completions_are_printed_and_bash_completes_keys_and_the_command_behind_dashes() {
    let site = Site::new();
    let _others = site.holder(&["nightly:report"]);
    for (shell, has) in
        [("bash", "_leasehold_here"), ("zsh", "#compdef leasehold"), ("fish", "complete -c leasehold")]
    {
        site.finish(site.leasehold(&["completions", shell])).silent(0).out_has(&[has]);
    }
    site.outcome(&["every", "2h", "marked:one", "--", "true"]).silent(0);
    let _spaced = site.holder(&["app:my job"]);
    // Regression: a file behind -- was completed without its quotes, and a directory without its slash.
    std::fs::create_dir(site.path("one folder")).unwrap();
    // Typed by hand, with a tab at the end.
    let mut bash =
        Pty::start(&site, "env", &[&format!("PATH={}", path()), "bash", "--norc", "--noprofile", "-i"]);
    bash.types("PS1='rea''dy>'; unset LEASEHOLD_STORE; eval \"$(leasehold completions bash)\"\n");
    bash.wait_for("ready>");
    let store = format!("--store {}", site.store());
    for (typed, completed) in [
        (format!("show {store} night"), "nightly:report "),
        (format!("show {store} -v nightly:re"), "nightly:report "),
        (format!("run --store={} -n -w 5 nightly:r", site.store()), "nightly:report "),
        (format!("forget {store} mark"), "marked:one "),
        (format!("show {store} app:m"), "app:my\\ job "),
        (format!("watch {store} night"), "nightly:report "),
        ("ho".into(), "hold "),
        ("ls --a".into(), "--all "),
        ("help exit".into(), "exit-codes "),
        ("run k -- setsi".into(), "setsid "),
        (format!("run k -- ls {}", site.path("one\\ fol").display()), "folder/"),
        ("run --outage-l".into(), "--outage-limit "),
    ] {
        let word = typed.rsplit(' ').next().unwrap();
        bash.types(&format!("leasehold {typed}\t"));
        bash.wait_for(&format!("leasehold {typed}{}", &completed[word.len()..]));
        bash.types("\x15\n");
        bash.wait_for("ready>");
    }
}

/// Regression: a bash before 4.4, such as that of macOS, said at each start that it does not know
/// `nosort`. (The version of a shell cannot be changed, so the script reads another one here.)
#[test]
fn an_older_bash_keeps_the_completions_that_it_can_run() {
    let site = Site::new();
    let script = site.finish(site.leasehold(&["completions", "bash"])).silent(0).out;
    let script =
        format!("OLD=(3 2)\ncomplete() {{ echo \"$@\"; }}\n{}", script.replace("BASH_VERSINFO", "OLD"));
    let bash = site.finish(site.process("bash", &["-c", &script]));
    bash.prints(0, "-F _leasehold -o bashdefault -o default leasehold\n");
}

#[test]
fn zsh_and_fish_complete_options_in_their_own_way() {
    let site = Site::new();
    if has("fish") {
        let script = "leasehold completions fish | source; complete -C 'leasehold run --outage-l'";
        let mut fish = in_shell(&site, "fish", &["--no-config", "-c", script]);
        fish.env("HOME", site.path(""));
        site.finish(fish).exits_with(0).out_has(&["--outage-limit\t"]);
    }
    if has("zsh") {
        let mut zsh = Pty::start(&site, "env", &[&format!("PATH={}", path()), "zsh", "-f", "-i"]);
        zsh.types(
            "PS1='rea''dy>'; autoload -Uz compinit; compinit -u -D; source <(leasehold completions zsh)\n",
        );
        zsh.wait_for("ready>");
        zsh.types("leasehold run --outage-l\t");
        zsh.wait_for("leasehold run --outage-limit");
    }
}

#[test]
fn a_server_that_asks_for_a_password_is_answered_with_a_file() {
    let server = Server::setup(Flavor::Redis82).password("s3cret-pw").start();
    let site = Site::on(&server.url());
    site.outcome(&["show", "k"]).says_and_hints(
        69,
        &["asks for a password"],
        "put it into a file that only you can read, and name that: redis://HOST?password-file=FILE",
    );
}
