//! Every changed line of a script is noticed by a test.

use std::time::Duration;

use leasehold_redis::script;
use servers::{Flavor, Server};

use crate::subject::Subject;

/// Changes that the histories cannot notice, each with the test that does.
const NOT_IN_HISTORIES: [(&str, &str); 49] = [
    ("-- fails again", "errors other than WRONGTYPE at a key come from the server's own troubles"),
    (
        "return { 5, n, time, {} }",
        "a fence that is no number is an error and no answer; the store's own tests have it",
    ),
    ("if s.odd then return { 5, n, {} }", "the same"),
    ("left out:     fence(s)", "the same"),
    ("s.odd = s.odd or", "the same"),
    ("s.odd = s.odd and", "the same"),
    (
        "if ttl > longest then",
        "a ttl over the longest is an error and no answer; the store's own tests have it",
    ),
    (
        "left out: floor =",
        "what is near the clock is not compared; the store's own tests have the fence that is proposed",
    ),
    ("s.line = false", "it saves a question; `costs` counts them"),
    ("if redis.call('EXISTS', s.", "the same"),
    ("line.counts[channel]", "the same"),
    ("channels[#channels + ", "the same"),
    ("if #channels ", "the same"),
    ("read_on(s, line.read ~= 0 ", "the same"),
    ("if channel or channel ~= ''", "the same"),
    ("left out:   if s.owner then return end", "the same"),
    ("s.beside = redis.call(", "the same; and no history loses one of two side keys alone"),
    ("if s.beside == 0 ", "the same"),
    ("(s.value and s.other) then turn", "the same"),
    ("told = told + 3", "what matters is that it is another number"),
    ("tonumber(first[2]) < now_ms", "nothing ends at the very millisecond of a request"),
    ("if tonumber(ends) < now", "the same"),
    ("from + AT_ONCE + 1", "there are never so many; the store's own tests have them"),
    ("left out:   return each(", "the same"),
    ("s.void and s.beside", "no history has shares beside a lease; the store's own tests have them"),
    (
        "math.max(proposed, now + MARGIN)",
        "what is near the clock is not compared; the store's own tests have the fence that is proposed",
    ),
    (
        "last = math.min(last + ",
        "what is near the clock is not compared; the list of what every member must do has it",
    ),
    ("math.ceil((till + now)", "how long it still abstains is not compared; the store's own tests have it"),
    (
        "or found[i] > me",
        "two shares have one fence only where a stranger wrote to the fence key in between; either may be broken then",
    ),
    (
        "return { 3, 1, redis.call('PTTL', KEYS[1]) }",
        "a mark that is no string is an error and no answer; the store's own tests have it",
    ),
    ("of and of < 1048576", "more permits than that are refused before anything is sent"),
    ("now < tonumber(ARGV[6])", "nothing comes at the very microsecond after which it is too late"),
    ("if mode == 'x' ", "what is no other mode is alone all the same"),
    ("left out:   if not of then return ALONE end", "what is no mode is never sent"),
    ("{ 'EX', SHARES_KEPT }", "the end of the marker is set anew behind it"),
    (
        "left out:       others_last(s)",
        "few histories lengthen a share; the list of what every store must do has it",
    ),
    ("if not (shares and shares.last)", "it saves writing what has not changed"),
    ("if not (shares or shares.last)", "the same"),
    (
        "left out:     floor =",
        "what is near the clock is not compared; the store's own tests have the fence that is proposed",
    ),
    ("now + MARGIN), now + MARGIN)", "the same"),
    (
        "left out:   longest = tonumber(ARGV[2])",
        "the store's own tests renew at a member that nobody vouches for",
    ),
    ("left out:   vouched = ARGV[1] == ''", "the same"),
    ("vouched = ARGV[1] ~= '' or", "the same"),
    ("ARGV[1] or call('PTTL', KEYS[#KEYS]) >= KEPT", "the same"),
    ("tonumber(ARGV[at + 2]) < longest", "the same, with a ttl over the longest"),
    (
        "left out:     last(KEYS[n + i], ARGV[at + 3])",
        "the store's own tests shorten how long a fence is kept",
    ),
    ("then known = known + 1 end", "it saves a question; `costs` counts them"),
    ("return all_free and call('EXISTS'", "the same"),
    (
        "left out:     if tonumber(ARGV[at + 2]) > tonumber(ARGV[3]) then",
        "a ttl over the longest is an error and no answer; the store's own tests have it",
    ),
];

/// Most changes are noticed by the first few histories.
const HISTORIES: u64 = 450;

/// A script that never ends is stopped after this time.
const LIMIT: Duration = Duration::from_millis(300);

/// Tests a part of the scripts, in all scripts that contain it, with each of its lines left out,
/// and with each comparison, sum and choice inverted.
fn cannot_change_unnoticed(part: &'static str) {
    let mut server = started();
    let mutants = mutants(part);
    assert!(!mutants.is_empty(), "no way to break the script was found");
    assert!(!is_noticed(&server, part, part), "something is noticed although nothing was changed");
    let mut unnoticed = Vec::new();
    for (what, text) in mutants {
        if !is_noticed(&server, part, &text) {
            unnoticed.push(what);
        } else if !is_free(&server) {
            server = started();
        }
    }
    assert!(unnoticed.is_empty(), "{} not noticed:\n{}", unnoticed.len(), unnoticed.join("\n"));
}

/// A server that soon reports that a script keeps it busy.
fn started() -> Server {
    let server = Server::start(Flavor::Valkey91);
    let limit: i64 = 20;
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("busy-reply-threshold")
        .arg(limit)
        .exec(&mut connection(&server))
        .unwrap();
    server
}

fn connection(server: &Server) -> redis::Connection {
    let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    connection
}

/// Stops a script that would never end. Returns false if it has written something, because then it
/// cannot be stopped.
fn is_free(server: &Server) -> bool {
    (0..20).any(|_| {
        let mut connection = connection(server);
        // Fails if none is running.
        let _ = redis::cmd("SCRIPT").arg("KILL").exec(&mut connection);
        redis::cmd("PING").exec(&mut connection).is_ok()
    })
}

fn is_noticed(server: &Server, part: &str, text: &str) -> bool {
    let mut subject = Subject::on(server);
    subject.set_read_timeout(LIMIT);
    let batches = [&script::BATCH_GRANT, &script::BATCH_RELEASE, &script::BATCH_RENEW];
    subject.batches = batches.iter().any(|batch| batch.text().contains(part));
    let alone = [
        &script::GRANT,
        &script::RENEW,
        &script::RELEASE,
        &script::BREAK,
        &script::INSPECT,
        &script::MARK,
        &script::MARKED,
    ];
    let at_member = [&script::MEMBER_GRANT, &script::MEMBER_RENEW, &script::REJOIN, &script::RAISE];
    let all = alone.into_iter().chain(at_member).chain(batches);
    let instead = all
        .into_iter()
        .filter(|script| script.text().contains(part))
        .map(|script| (script.text(), script.text().replace(part, text)))
        .collect();
    if subject.run_instead(instead).is_err() {
        return true;
    }
    (0..HISTORIES).any(|seed| subject.agrees(seed).is_err())
}

macro_rules! no_line_can_change_unnoticed {
    ($($name:ident: $file:literal;)*) => {$(
        #[test]
        fn $name() {
            cannot_change_unnoticed(include_str!(concat!("../../../../crates/redis/src/scripts/", $file)));
        }
    )*};
}

no_line_can_change_unnoticed! {
    no_line_of_a_batch_of_grants_can_change_unnoticed: "batch_grant.lua";
    no_line_of_a_batch_of_releases_can_change_unnoticed: "batch_release.lua";
    no_line_of_a_batch_of_renewals_can_change_unnoticed: "batch_renew.lua";
    no_line_of_the_reading_can_change_unnoticed: "read.lua";
    no_line_of_the_state_can_change_unnoticed: "state.lua";
    no_line_of_the_line_can_change_unnoticed: "line.lua";
    no_line_of_the_shares_can_change_unnoticed: "shares.lua";
    no_line_of_whose_turn_it_is_can_change_unnoticed: "turn.lua";
    no_line_of_the_grant_script_can_change_unnoticed: "grant.lua";
    no_line_of_the_renew_script_can_change_unnoticed: "renew.lua";
    no_line_of_what_members_ask_first_can_change_unnoticed: "member.lua";
    no_line_of_the_rejoin_script_can_change_unnoticed: "rejoin.lua";
    no_line_of_the_raise_script_can_change_unnoticed: "raise.lua";
    no_line_of_the_release_script_can_change_unnoticed: "release.lua";
    no_line_of_the_break_script_can_change_unnoticed: "break.lua";
    no_line_of_the_looking_can_change_unnoticed: "look.lua";
    no_line_of_the_inspect_script_can_change_unnoticed: "inspect.lua";
    no_line_of_the_mark_script_can_change_unnoticed: "mark.lua";
    no_line_of_the_marked_script_can_change_unnoticed: "marked.lua";
}

fn mutants(text: &str) -> Vec<(String, String)> {
    const TURNED: [(&str, &str); 20] = [
        (" < ", " > "),
        (" > ", " < "),
        (" == ", " ~= "),
        (" and ", " or "),
        (" or ", " and "),
        (" + 1", " + 3"),
        ("'PX'", "'EX'"),
        ("math.max", "math.min"),
        ("math.min", "math.max"),
        ("keep", "ttl"),
        ("ttl", "keep"),
        (", false", ", true"),
        (", true", ", false"),
        ("fence_key", "key"),
        ("line_key", "waiters_key"),
        ("waiters_key", "line_key"),
        ("holders_key", "shares_key"),
        ("shares_key", "holders_key"),
        (" <= ", " < "),
        (" - ", " + "),
    ];
    let lines: Vec<_> = text.lines().collect();
    let code = |line: &str| {
        let line = line.trim();
        // Without its `end`, or as a lone `end`, a line does not make a valid script.
        let whole = !line.starts_with("local function") && !["end", "}", "else"].contains(&line);
        !line.is_empty() && !line.starts_with("--") && whole
    };
    let mut mutants = Vec::new();
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| code(line)) {
        let with = |line: &str| {
            let mut lines = lines.clone();
            lines[n] = line;
            lines.join("\n") + "\n"
        };
        mutants.push((format!("line {} left out: {line}", n + 1), with("")));
        for (from, to) in TURNED.iter().filter(|(from, _)| line.contains(from)) {
            let turned = line.replacen(from, to, 1);
            mutants.push((format!("line {} as {turned}", n + 1), with(&turned)));
        }
    }
    mutants.retain(|(what, _)| !NOT_IN_HISTORIES.iter().any(|(part, _)| what.contains(part)));
    mutants
}
