//! Handling errors in a program: one type for all, a cause to match, and the chain of sources.

use std::error::Error as _;
use std::time::Duration;

use leasehold::{
    AnyStore, BeginError, ConnectError, Error, Fault, FaultCause, HoldError, JobError, LockError, Locks,
    Loss, MarkError, ReleaseError,
};
use servers::{Flavor, Server};

const SHORT: Duration = Duration::from_millis(200);

/// The `Fault` at the end of an error's chain, found as `anyhow` finds it.
fn fault<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a Fault {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref() {
            return fault;
        }
        next = error.source();
    }
    panic!("no fault behind {error:?}")
}

async fn connect(url: &str) -> ConnectError {
    Locks::builder().outage_limit(SHORT).connect(url).await.unwrap_err()
}

/// None of the thirteen error types had a source, and causes were strings.
#[tokio::test]
async fn a_program_can_match_what_caused_a_fault() {
    let server = Server::start(Flavor::Valkey91);
    server.text(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
    server.text(&["ACL", "SETUSER", "tied", "on", ">secret", "~*", "&*", "+@connection", "+time", "+hello"]);
    let at = |login: &str| server.url().replace("redis://", &format!("redis://{login}@"));

    let refused = connect("redis://127.0.0.1:1").await;
    assert_eq!(fault(&refused).cause, FaultCause::ConnectionRefused, "{refused}");
    let unknown = connect("redis://no-such-host.invalid").await;
    assert_eq!(fault(&unknown).cause, FaultCause::NameResolution, "{unknown}");
    let wrong = connect(&at("app:wrong")).await;
    assert_eq!(fault(&wrong).cause, FaultCause::Authentication, "{wrong}");
    let plain = connect(&server.url().replace("redis://", "rediss://")).await;
    assert_ne!(fault(&plain).cause, FaultCause::ConnectionRefused, "{plain}");

    let tied = Locks::builder().outage_limit(SHORT).unopened(&at("tied:secret")).unwrap();
    let denied = Error::from(tied.mutex("k").lock().await.unwrap_err());
    assert_eq!(fault(&denied).cause, FaultCause::Permission, "{denied}");
    assert_eq!(denied.fault(), Some(fault(&denied)));
    assert!(!denied.is_retryable() && !denied.is_busy() && !denied.is_timeout());

    let locks = Locks::builder().outage_limit(SHORT).connect(&server.url()).await.unwrap();
    server.stop();
    let unheard = connect(&server.url()).await;
    assert_eq!(fault(&unheard).cause, FaultCause::TimedOut, "{unheard}");
    let silent = Error::from(locks.mutex("k").lock().await.unwrap_err());
    server.cont();
    assert!(silent.is_timeout() && silent.is_retryable() && !silent.is_busy(), "{silent}");

    let members = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    let members = members.map(|url| AnyStore::from_url(url).unwrap());
    let quorum = Locks::builder().outage_limit(SHORT).quorum(members, Duration::from_secs(60)).unwrap();
    let down = quorum.mutex("k").lock().await.unwrap_err();
    assert_eq!(fault(&down).cause, FaultCause::ConnectionRefused, "{down}");
    assert_eq!(down.fault().map(|fault| &*fault.store), Some("redis://127.0.0.1:1"));
}

#[tokio::test(start_paused = true)]
async fn one_error_takes_all_others_and_says_what_to_do() {
    async fn busy(locks: &Locks) -> Result<(), Error> {
        locks.mutex("other").lock().hold(async |_| 7).await?;
        locks.once("done").run(async |_| Ok::<_, std::io::Error>(())).await?;
        locks.inspect("k").await?;
        let guard = locks.mutex("free").lock().await?;
        guard.renew(Duration::from_secs(5)).await?;
        guard.release().await?;
        locks.mutex("k").lock().within(Duration::from_millis(20)).hold(async |_| 7).await?;
        Ok(())
    }
    let locks = Locks::in_memory();
    let _guard = locks.mutex("k").label("first").lock().await.unwrap();
    let error = busy(&locks).await.unwrap_err();
    assert!(matches!(&error, Error::Hold(HoldError::NotTaken(LockError::TimedOut { .. }))), "{error:?}");
    assert!(error.is_busy() && error.is_timeout() && error.is_retryable() && error.fault().is_none());
    assert!(error.to_string().starts_with("k: not free within 20 ms, held by first"), "{error}");

    let work = locks.once("fails").run(async |_| Err::<(), _>(std::io::Error::other("no disk"))).await;
    let error = Error::from(work.unwrap_err());
    assert!(matches!(&error, Error::Work(_)) && error.to_string() == "no disk", "{error:?}");

    let misuse = Error::from(locks.mutex("").lock().await.unwrap_err());
    assert!(misuse.source().is_some() && !misuse.is_retryable());
    let lost = Loss::Expired { fault: None };
    let with_source: [&dyn std::error::Error; 6] = [
        &HoldError::<()>::Lost(lost.clone()),
        &MarkError::Lost(lost.clone()),
        &JobError::<std::io::Error>::Lost(lost.clone()),
        &BeginError::NotTaken(locks.mutex("").lock().await.unwrap_err()),
        &ReleaseError::Unreachable(Fault::passing("s", "away")),
        &ConnectError::Refused(Fault::lasting("s", "no")),
    ];
    for error in with_source {
        assert!(error.source().is_some(), "{error:?}");
    }
}
