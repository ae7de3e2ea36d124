//! The lists of checks of readers and permits, on every store that has them.

use conformance::venue::Venue;

mod readers {
    use super::Venue;

    conformance::every_check_of_readers! {
        memory: super::Venue::memory();
        quorum_of_memory: super::Venue::quorum_of_memory();
        file: super::Venue::file();
    }
}

mod permits {
    use super::Venue;

    conformance::every_check_of_permits! {
        memory: super::Venue::memory();
        file: super::Venue::file();
    }

    #[tokio::test]
    async fn a_quorum_refuses_permits_by_name_before_it_asks_anybody() {
        let locks = leasehold::Locks::builder().over(Venue::quorum_of_memory().store()).unwrap();
        let error = locks.semaphore("k", 2).try_acquire().await.unwrap_err();
        assert!(
            matches!(error, leasehold::LockError::Misuse(leasehold::Misuse::PermitsOfAQuorum { .. })),
            "{error:?}"
        );
        assert!(error.to_string().starts_with("quorum of memory:a, memory:b, memory:c: "), "{error}");
    }
}
