//! Programs that end while they hold a lock, which must be free then: the runtime used to end
//! before the background release was sent. Each test runs itself again in another process as that
//! program.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::{AnyStore, Locks, LocksBuilder, blocking};
use servers::{Flavor, Reply, Server};
use tokio::runtime::{Builder, Runtime};

use super::place::new_file;

/// The environment variables: which program a test is to be, and its stores' URLs.
const PROGRAM: &str = "LEASEHOLD_TEST_PROGRAM";
const STORES: &str = "LEASEHOLD_TEST_STORES";

/// Longer than the tests take, so that a lease that is left would be found.
const TTL: Duration = Duration::from_secs(60);
const LONGEST_TTL: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

fn stores() -> Vec<String> {
    std::env::var(STORES).unwrap().split_whitespace().map(ToString::to_string).collect()
}

async fn locks(builder: LocksBuilder, stores: &[String]) -> Result<Locks, Box<dyn Error>> {
    let builder = builder.ttl(TTL);
    if let [store] = stores {
        return Ok(builder.connect(store).await?);
    }
    let members: Result<Vec<_>, _> = stores.iter().map(|store| AnyStore::from_url(store)).collect();
    Ok(builder.quorum(members?, LONGEST_TTL)?)
}

fn many_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// As in the README, where the write fails.
async fn charge_fails(builder: LocksBuilder) -> Outcome {
    let locks = locks(builder, &stores()).await?;
    let guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).await?;
    tokio::select! {
        done = async { Err::<(), _>(std::io::Error::other("no such invoice")) } => done?,
        loss = guard.lost() => return Err(loss.into()),
    }
    guard.release().await?;
    Ok(())
}

async fn drops_its_guard(builder: LocksBuilder) -> Outcome {
    let locks = locks(builder, &stores()).await?;
    let _guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).await?;
    Ok(())
}

/// Guards and a waiting request in tasks, which the end of the runtime drops.
async fn leaves_them_in_tasks() -> Outcome {
    let locks = locks(Locks::builder(), &stores()).await?;
    for n in 0..10 {
        let guard = locks.mutex(format!("invoice:{n}")).lock().await?;
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
    }
    tokio::spawn(locks.mutex("invoice:1").lock().into_future());
    while locks.inspect("invoice:1").await?.waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let _guard = locks.mutex("invoice:42").lock().await?;
    Ok(())
}

async fn holds_many_until_it_is_told(builder: LocksBuilder) -> Outcome {
    let locks = locks(builder, &stores()).await?;
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(locks.mutex(format!("invoice:{n}")).lock().await?);
    }
    println!("held");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn blocks() -> Outcome {
    let locks = blocking::Locks::connect_with(Locks::builder().ttl(TTL), &stores()[0])?;
    let _guard = locks.mutex("invoice:42").lock().wait()?;
    Ok(())
}

fn outlives_its_runtime(by: Duration) -> Outcome {
    let runtime = many_threads();
    let locks = runtime.block_on(locks(Locks::builder(), &stores()))?;
    let first = runtime.block_on(locks.mutex("invoice:41").lock().into_future())?;
    let _last = runtime.block_on(locks.mutex("invoice:42").lock().into_future())?;
    drop((runtime, first));
    std::thread::sleep(by);
    Ok(())
}

fn run(program: &str) -> Outcome {
    let own_thread = || Locks::builder().own_thread();
    match program {
        "charge fails" => many_threads().block_on(charge_fails(Locks::builder())),
        "drops its guard" => many_threads().block_on(drops_its_guard(Locks::builder())),
        "drops its guard, on one thread" => one_thread().block_on(drops_its_guard(Locks::builder())),
        "drops its guard, with locks on a thread of their own" => {
            many_threads().block_on(drops_its_guard(own_thread()))
        }
        "leaves them in tasks" => many_threads().block_on(leaves_them_in_tasks()),
        "leaves them in tasks, on one thread" => one_thread().block_on(leaves_them_in_tasks()),
        "holds many until it is told" => {
            many_threads().block_on(holds_many_until_it_is_told(Locks::builder()))
        }
        "holds many until it is told, with locks on a thread of their own" => {
            // Other keys, because some of the first program's leases may be left.
            many_threads().block_on(holds_many_until_it_is_told(own_thread().prefix("own:")))
        }
        "blocks" => blocks(),
        "outlives its runtime" => outlives_its_runtime(Duration::ZERO),
        // Longer than the end of a runtime waits for its releases.
        "outlives its runtime for long" => outlives_its_runtime(Duration::from_millis(2200)),
        _ => unreachable!("{program}"),
    }
}

/// Runs the program if this process was started for that, and otherwise the test.
fn is_program_or(test: impl FnOnce()) {
    let Ok(program) = std::env::var(PROGRAM) else { return test() };
    // The test checks only that it ends, not its output.
    if let Err(error) = run(&program) {
        assert_eq!(error.to_string(), "no such invoice");
    }
}

/// This process again, as the program.
fn again(test: &str, program: &str, stores: &[String]) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([&format!("last_releases::{test}"), "--exact", "--nocapture", "--test-threads=1"]);
    again.env(PROGRAM, program).env(STORES, stores.join(" "));
    again
}

/// Runs each program this often, and looks at the store afterwards.
fn leave_nothing(test: &str, programs: &[(&str, usize)], stores: &[String]) {
    let looking = one_thread();
    let locks: Vec<_> = stores
        .iter()
        .map(|store| looking.block_on(Locks::builder().ttl(TTL).connect(store)).unwrap())
        .collect();
    for &(program, times) in programs {
        let mut left = Vec::new();
        for time in 0..times {
            let output = again(test, program, stores).stdout(Stdio::null()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {errors}");
            for locks in &locks {
                let found = looking.block_on(locks.list("")).unwrap();
                let found =
                    found.iter().filter(|state| !state.holders.is_empty() || !state.waiters.is_empty());
                left.extend(found.map(|state| format!("run {time}: {} at {}", state.key, locks.store())));
            }
            assert!(left.is_empty(), "{program}: {left:?}");
        }
    }
}

#[test]
fn a_program_that_ends_leaves_no_lock_at_a_server() {
    is_program_or(|| {
        let server = Server::start(Flavor::Valkey91);
        let programs = [
            ("charge fails", 40),
            ("drops its guard", 40),
            ("drops its guard, on one thread", 10),
            ("drops its guard, with locks on a thread of their own", 10),
            ("leaves them in tasks", 10),
            ("leaves them in tasks, on one thread", 10),
            ("blocks", 10),
            ("outlives its runtime", 10),
            ("outlives its runtime for long", 1),
        ];
        leave_nothing("a_program_that_ends_leaves_no_lock_at_a_server", &programs, &[server.url()]);
    });
}

#[test]
fn a_program_that_ends_leaves_no_lock_in_a_quorum() {
    is_program_or(|| {
        let servers = [0, 1, 2].map(|_| Server::start(Flavor::Valkey91));
        // The members vote once nobody can hold a lease that they forgot.
        let urls = servers.each_ref().map(|server| format!("{}?quarantine=no", server.url()));
        let programs =
            [("charge fails", 10), ("drops its guard", 10), ("drops its guard, on one thread", 10)];
        leave_nothing("a_program_that_ends_leaves_no_lock_in_a_quorum", &programs, &urls);
    });
}

#[test]
fn a_program_that_ends_leaves_no_lock_in_a_file() {
    is_program_or(|| {
        let (_directory, url) = new_file();
        let programs =
            [("charge fails", 10), ("drops its guard", 10), ("blocks", 10), ("leaves them in tasks", 5)];
        leave_nothing("a_program_that_ends_leaves_no_lock_in_a_file", &programs, &[url]);
    });
}

/// A hanging server delays the end by two seconds in all, however many locks the program held.
#[test]
fn a_program_ends_although_the_server_is_silent() {
    is_program_or(|| {
        let server = Server::start(Flavor::Valkey91);
        for program in [
            "holds many until it is told",
            "holds many until it is told, with locks on a thread of their own",
        ] {
            let test = "a_program_ends_although_the_server_is_silent";
            let mut again = again(test, program, &[server.url()]);
            let mut program = again.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("held")));
            server.stop();
            let told = Instant::now();
            drop(program.stdin.take());
            assert!(program.wait().unwrap().success());
            let took = told.elapsed();
            server.cont();
            assert!(took > Duration::from_secs(1), "nothing was tried: {took:?}");
            assert!(took < Duration::from_secs(4), "{took:?}");
        }
    });
}

/// The connecting task never runs again, and may be dropped after the release that waits for it.
#[test]
fn a_guard_is_released_although_its_runtime_ended_while_it_was_connecting() {
    let server = Server::start(Flavor::Valkey91);
    for yields in 0..12 {
        let tokio = Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let locks = Locks::connect(&server.url()).await.unwrap();
            let guard = locks.mutex("k").lock().await.unwrap();
            server.text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(guard);
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
        });
        let begun = Instant::now();
        drop(tokio);
        assert_eq!(server.text(&["EXISTS", "k"]), Reply::Integer(0), "after {yields} turns");
        assert!(begun.elapsed() < Duration::from_secs(1), "after {yields} turns: {:?}", begun.elapsed());
    }
}
