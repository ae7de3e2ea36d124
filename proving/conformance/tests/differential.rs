//! The scripts against the one semantics: the same random histories, the same answers, and the same things left on the server.
//!
//! What is left out of the comparison is named at `Tolerance`. A second test breaks the scripts, line by line, and sees the
//! first one find out.

use std::time::{Duration, SystemTime};

use conformance::sequence::{Dice, Dump, Oracle, Step, Tolerance, history, keys};
use leasehold_core::{Answer, Content, Key, Line, Request, Stamp, Tenant};
use leasehold_redis::script::{self, Script};
use leasehold_redis::slot::{Side, side_key};
use leasehold_redis::wire;
use redis::{Connection, Pipeline, Value, cmd};
use servers::{Flavor, Server};

const STEPS: usize = 25;
/// Enough for each pair of requests on each pair of states to have met many times.
const HISTORIES: u64 = 1_500;

#[test]
fn redis_6_2_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis62);
}

#[test]
fn redis_7_0_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis70);
}

#[test]
fn redis_8_2_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis82);
}

#[test]
fn valkey_9_1_agrees_with_the_one_semantics() {
    agrees(Flavor::Valkey91);
}

fn agrees(flavor: Flavor) {
    let server = Server::start(flavor);
    let mut subject = Subject::on(&server);
    for seed in 0..HISTORIES {
        if let Err(found) = subject.agrees(seed) {
            panic!("{flavor}, history {seed}: {found}");
        }
    }
}

/// Lines that the histories cannot miss, each with what misses them instead.
const NOT_IN_HISTORIES: [(&str, &str); 4] = [
    ("-- fails again", "errors other than WRONGTYPE at a key come from the server's own troubles"),
    ("== '+' then values[i]", "marks of waiters are not yet part of the one semantics"),
    (
        "return {5, (i + 1) / 2, time}",
        "a fence that is no number is an error and no answer; the store's own tests have it",
    ),
    (
        "local time = string.format",
        "an exact copy of what a reader of the answer computes by itself within tolerance",
    ),
];

/// Each script with each of its lines left out, and with each comparison, sum and choice turned round.
fn cannot_change_unnoticed(original: &'static Script) {
    let server = Server::start(Flavor::Valkey91);
    let mut unnoticed = Vec::new();
    let mutants = mutants(original.text());
    assert!(mutants.len() > 8, "only {} ways to break the script were found", mutants.len());
    for (what, text) in mutants {
        let mut subject = Subject::on(&server);
        subject.instead = Some((original, text));
        if (0..HISTORIES).all(|seed| subject.agrees(seed).is_ok()) {
            unnoticed.push(what);
        }
    }
    assert!(unnoticed.is_empty(), "not noticed:\n{}", unnoticed.join("\n"));
}

#[test]
fn no_line_of_the_grant_script_can_change_unnoticed() {
    cannot_change_unnoticed(&script::GRANT);
}

#[test]
fn no_line_of_the_renew_script_can_change_unnoticed() {
    cannot_change_unnoticed(&script::RENEW);
}

#[test]
fn no_line_of_the_release_script_can_change_unnoticed() {
    cannot_change_unnoticed(&script::RELEASE);
}

#[test]
fn no_line_of_the_inspect_script_can_change_unnoticed() {
    cannot_change_unnoticed(&script::INSPECT);
}

fn mutants(text: &str) -> Vec<(String, String)> {
    const TURNED: [(&str, &str); 12] = [
        (" < ", " > "),
        (" > ", " < "),
        (" == ", " ~= "),
        (" and ", " or "),
        (" + 1", " + 3"),
        ("'PX'", "'EX'"),
        ("math.max", "math.min"),
        ("keep", "ttl"),
        ("ttl", "keep"),
        (", false", ", true"),
        ("KEYS[i + 1]", "KEYS[i]"),
        ("KEYS[i]", "KEYS[1]"),
    ];
    let lines: Vec<_> = text.lines().collect();
    let code = |line: &str| {
        let line = line.trim();
        let named = NOT_IN_HISTORIES.iter().any(|(part, _)| line.contains(part));
        !line.is_empty() && !line.starts_with("--") && !line.starts_with("local function") && !named
    };
    let mut mutants = Vec::new();
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| code(line)) {
        let with = |line: &str| {
            let mut lines = lines.clone();
            lines[n] = line;
            lines.join("\n")
        };
        mutants.push((format!("line {} left out: {line}", n + 1), with("")));
        for (from, to) in TURNED.iter().filter(|(from, _)| line.contains(from)) {
            let turned = line.replacen(from, to, 1);
            mutants.push((format!("line {} as {turned}", n + 1), with(&turned)));
        }
    }
    mutants
}

/// A server on which scripts are run one call at a time.
struct Subject {
    connection: Connection,
    /// Another text for one of the scripts.
    instead: Option<(&'static Script, String)>,
}

impl Subject {
    fn on(server: &Server) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        Self { connection: client.get_connection().unwrap(), instead: None }
    }

    /// Runs one history beside the oracle.
    fn agrees(&mut self, seed: u64) -> Result<(), String> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let wall = Stamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap());
        let tolerance = Tolerance { wall };
        let mut oracle = Oracle::new(wall);
        let mut dice = Dice::new(seed);
        cmd("FLUSHALL").exec(&mut self.connection).unwrap();
        for (n, step) in history(&mut dice, STEPS, wall).into_iter().enumerate() {
            let place = |what: &str| format!("step {n}, {step:?}: {what}");
            let right = oracle.take(&step).map(|answer| tolerance.answer(answer));
            let given = self.take(&step).map_err(|error| place(&error))?;
            let given = given.map(|answer| tolerance.answer(answer));
            if given != right {
                return Err(place(&format!("answered {given:?}, not {right:?}")));
            }
            let (left, right) = (tolerance.dump(self.dump()?), tolerance.dump(oracle.dump()));
            if left != right {
                return Err(place(&format!("left {left:?}, not {right:?}")));
            }
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<Option<Answer>, String> {
        let mut strangers = Pipeline::new();
        match step {
            Step::Ask(request) => return self.ask(request).map(Some),
            Step::Set(key, value, None) => strangers.cmd("SET").arg(key.as_bytes()).arg(value),
            Step::Set(key, value, Some(ttl)) => {
                strangers.cmd("SET").arg(key.as_bytes()).arg(value).arg("PX").arg(ms(*ttl))
            }
            Step::MakeList(key) => {
                strangers.cmd("DEL").arg(key.as_bytes()).cmd("RPUSH").arg(key.as_bytes()).arg("x")
            }
            Step::Delete(key) => strangers.cmd("DEL").arg(key.as_bytes()),
            Step::Expire(key) => strangers.cmd("PEXPIREAT").arg(key.as_bytes()).arg(1),
            Step::ForgetFence(key) => strangers.cmd("DEL").arg(side_key(Side::Fence, key)),
            Step::SetFence(key, number, ttl) => {
                let side = side_key(Side::Fence, key);
                strangers.cmd("SET").arg(side).arg(*number).arg("PX").arg(ms(*ttl))
            }
            other => panic!("a step that this test does not know: {other:?}"),
        };
        strangers.exec(&mut self.connection).map_err(|error| error.to_string())?;
        Ok(None)
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        let call = script::call_for(request, Line::WINDOW);
        let mut command = match &self.instead {
            Some((original, text)) if std::ptr::eq(*original, call.script) => {
                let mut command = cmd("EVAL");
                command.arg(text).arg(call.keys.len()).arg(&call.keys).arg(&call.args);
                command
            }
            _ => call.by_text(),
        };
        let value: Value = command.take().query(&mut self.connection).map_err(|error| error.to_string())?;
        script::decode(request, value).map(|reply| reply.answer)
    }

    /// Everything on the server, and nothing that is not accounted for.
    fn dump(&mut self) -> Result<Dump, String> {
        let mut look = Pipeline::new();
        for key in keys() {
            let side = side_key(Side::Fence, &key);
            look.cmd("TYPE").arg(key.as_bytes()).cmd("PTTL").arg(key.as_bytes());
            look.cmd("GET").arg(&side).cmd("PTTL").arg(&side);
        }
        look.cmd("DBSIZE");
        let mut seen: Vec<Value> = look.query(&mut self.connection).map_err(|error| error.to_string())?;
        let size = seen.pop();
        let mut dump = Dump::default();
        for (key, seen) in keys().into_iter().zip(seen.chunks(4)) {
            if seen[0] != Value::SimpleString("none".into()) {
                dump.locks.insert(key.clone(), (self.content(&key, &seen[0])?, left(&seen[1])));
            }
            if let Value::BulkString(fence) = &seen[2] {
                let fence =
                    String::from_utf8_lossy(fence).parse().map_err(|_| format!("no fence: {:?}", seen[2]))?;
                dump.fences.insert(key, (fence, left(&seen[3])));
            }
        }
        let known = i64::try_from(dump.locks.len() + dump.fences.len()).unwrap();
        if size == Some(Value::Int(known)) {
            Ok(dump)
        } else {
            Err(format!("{size:?} entries, {known} known"))
        }
    }

    fn content(&mut self, key: &Key, kind: &Value) -> Result<Content, String> {
        if *kind != Value::SimpleString("string".into()) {
            return Ok(Content::NotALock);
        }
        let value: Vec<u8> =
            cmd("GET").arg(key.as_bytes()).query(&mut self.connection).map_err(|error| error.to_string())?;
        Ok(match wire::read(&value) {
            Tenant::Holder { holder, label } => Content::Lease { holder, label, awaited: false },
            _ => Content::Foreign(value.into()),
        })
    }
}

fn left(pttl: &Value) -> Option<Duration> {
    let Value::Int(ms) = pttl else { return None };
    u64::try_from(*ms).ok().map(Duration::from_millis)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}
