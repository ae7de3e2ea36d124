//! Locks over an existing connection, pool or client of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8_redis::{RedisConnectionManager, bb8};
use leasehold::{FaultCause, LockError, Locks, LocksBuilder, blocking, redis};
use servers::{Flavor, Reply, Server};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

const LIMIT: Duration = Duration::from_secs(10);

fn deadpool(server: &Server, most: usize) -> deadpool_redis::Pool {
    let mut config = deadpool_redis::Config::from_url(server.url());
    config.pool = Some(deadpool_redis::PoolConfig::new(most));
    config.create_pool(Some(deadpool_redis::Runtime::Tokio1)).unwrap()
}

fn over_deadpool(pool: &deadpool_redis::Pool, builder: LocksBuilder) -> Locks {
    let pool = pool.clone();
    let take = move || {
        let pool = pool.clone();
        async move { pool.get().await }
    };
    builder.redis_pool(take).unwrap()
}

/// Repeatedly kills every connection except its own: each time, the locks continue.
async fn it_survives_kills(server: &Server, locks: &Locks) {
    let guard = locks.mutex("kept").lock().await.unwrap();
    for _ in 0..3 {
        server.text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let taken = locks.mutex("k").lock().within(LIMIT).await.unwrap();
        taken.release().await.unwrap();
        assert!(guard.is_held());
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn locks_over_deadpool_survive_killed_connections() {
    let server = Server::start(Flavor::Redis82);
    let pool = deadpool(&server, 4);
    it_survives_kills(&server, &over_deadpool(&pool, Locks::builder())).await;
}

#[tokio::test]
async fn locks_over_bb8_survive_killed_connections() {
    let server = Server::start(Flavor::Valkey91);
    let manager = RedisConnectionManager::new(server.url()).unwrap();
    let pool = bb8::Pool::builder().max_size(4).build(manager).await.unwrap();
    let locks = Locks::builder()
        .redis_pool(move || {
            let pool = pool.clone();
            async move { pool.get_owned().await }
        })
        .unwrap();
    it_survives_kills(&server, &locks).await;
}

#[tokio::test]
async fn locks_over_a_pool_come_back_after_a_restart_and_a_hang() {
    let server = Server::start(Flavor::Redis82);
    let pool = deadpool(&server, 4);
    let locks = over_deadpool(&pool, Locks::builder());
    locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    server.restart();
    locks.mutex("k").lock().within(LIMIT).await.unwrap().release().await.unwrap();
    server.stop();
    let busy = locks.mutex("k").lock().within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(busy.fault().map(|fault| fault.cause), Some(FaultCause::TimedOut), "{busy}");
    server.cont();
    locks.mutex("k").lock().within(LIMIT).await.unwrap().release().await.unwrap();
}

/// Regression: the connection to a former master was kept, although the pool had the new one.
#[tokio::test]
async fn locks_over_a_pool_follow_it_to_the_new_master() {
    let (old, new) = (Server::start(Flavor::Redis82), Server::start(Flavor::Redis82));
    let pools = [deadpool(&old, 4), deadpool(&new, 4)];
    let master = Arc::new(AtomicUsize::new(0));
    let take = {
        let master = Arc::clone(&master);
        move || {
            let pool = pools[master.load(Ordering::SeqCst)].clone();
            async move { pool.get().await }
        }
    };
    let locks = Locks::builder().redis_pool(take).unwrap();
    locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    old.text(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    master.store(1, Ordering::SeqCst);
    locks.mutex("k").lock().within(LIMIT).await.unwrap().release().await.unwrap();
}

/// Regression: a pool lent the connection to a former master again and again, as it still answered.
#[tokio::test]
async fn locks_over_a_pool_with_one_address_follow_it_to_the_new_master() {
    let (old, new) = (Server::start(Flavor::Redis82), Server::start(Flavor::Redis82));
    let (listener, master) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(AtomicU16::new(old.port())));
    let address = listener.local_addr().unwrap();
    let leads_to = Arc::clone(&master);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server =
                TcpStream::connect(("127.0.0.1", leads_to.load(Ordering::SeqCst))).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let pool = deadpool_redis::Config::from_url(format!("redis://{address}")).create_pool(None).unwrap();
    let locks = over_deadpool(&pool, Locks::builder());
    locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    old.text(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    master.store(new.port(), Ordering::SeqCst);
    locks.mutex("k").lock().within(LIMIT).await.unwrap().release().await.unwrap();
}

/// Tasks that wait with all other connections do not prevent renewal: the locks keep one.
#[tokio::test]
async fn a_pool_that_is_used_up_does_not_stop_renewals() {
    const TTL: Duration = Duration::from_millis(600);
    let server = Server::start(Flavor::Valkey91);
    let pool = deadpool(&server, 2);
    let locks = over_deadpool(&pool, Locks::builder().ttl(TTL));
    let guard = locks.mutex("k").lock().await.unwrap();
    let _last = pool.get().await.unwrap();
    assert_eq!(pool.status().available, 0);
    tokio::time::sleep(3 * TTL).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_pool_without_room_is_named_as_the_cause() {
    let server = Server::start(Flavor::Valkey91);
    let pool = deadpool(&server, 1);
    let _only = pool.get().await.unwrap();
    let locks = over_deadpool(&pool, Locks::builder().outage_limit(Duration::from_secs(3)));
    let error = locks.mutex("k").lock().await.unwrap_err();
    assert!(error.to_string().contains("the program lent no connection within"), "{error}");
}

#[tokio::test]
async fn the_reason_why_a_pool_makes_no_connection_is_reported() {
    let pool = deadpool_redis::Config::from_url("redis://127.0.0.1:1").create_pool(None).unwrap();
    let locks = over_deadpool(&pool, Locks::builder().outage_limit(Duration::from_secs(1)));
    let error = locks.mutex("k").try_lock().await.unwrap_err();
    let LockError::Unreachable { fault: Some(fault), .. } = &error else { panic!("{error:?}") };
    assert_eq!(fault.cause, FaultCause::ConnectionRefused);
    assert!(error.to_string().contains("cannot connect: Connection refused"), "{error}");
}

/// redis-rs sets timers for each command, and panicked on a thread without a runtime.
#[test]
fn threads_that_block_have_locks_over_lent_connections() {
    let server = Server::start(Flavor::Redis82);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let locks = runtime.block_on(async {
        let client = redis::Client::open(server.url()).unwrap();
        let manager = client.get_connection_manager().await.unwrap();
        let of_manager = Locks::builder().redis_connection(manager).unwrap();
        [of_manager, over_deadpool(&deadpool(&server, 2), Locks::builder())]
    });
    for locks in locks {
        let locks = blocking::Locks::from(locks);
        let guard = locks.mutex("k").lock().wait().unwrap();
        assert!(guard.is_held());
        guard.release().unwrap();
    }
}

/// Regression: the asking thread called the function outside of a task, where timers panic.
#[test]
fn the_function_that_lends_a_connection_is_called_in_a_task() {
    let server = Server::start(Flavor::Valkey91);
    let pool = deadpool(&server, 2);
    let take = move || {
        let pool = pool.clone();
        let taking = tokio::time::timeout(LIMIT, async move { pool.get().await });
        async move { taking.await.unwrap() }
    };
    let locks = blocking::Locks::from(Locks::builder().redis_pool(take).unwrap());
    locks.mutex("k").lock().wait().unwrap().release().unwrap();
}

/// No runtime is named: the one in which it is called is used, or a new one.
#[test]
fn a_pool_is_lent_outside_of_a_runtime_too() {
    let server = Server::start(Flavor::Valkey91);
    let pool = deadpool(&server, 2);
    let locks = blocking::Locks::from(over_deadpool(&pool, Locks::builder()));
    locks.mutex("k").lock().wait().unwrap().release().unwrap();
}

/// The connection's runtime has ended, and its task may be dropped last: the pool gives another one.
#[test]
fn a_guard_over_a_pool_is_released_although_its_runtime_has_ended() {
    let server = Server::start(Flavor::Valkey91);
    for tasks_before in 0..16 {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            for _ in 0..tasks_before {
                tokio::spawn(async {}).await.unwrap();
            }
            let locks = over_deadpool(&deadpool(&server, 2), Locks::builder());
            drop(locks.mutex("k").lock().await.unwrap());
        });
        let begun = Instant::now();
        drop(runtime);
        let took = begun.elapsed();
        assert_eq!(server.text(&["EXISTS", "k"]), Reply::Integer(0), "after {tasks_before} other tasks");
        assert!(took < Duration::from_secs(1), "after {tasks_before} other tasks: {took:?}");
    }
}
