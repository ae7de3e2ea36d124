//! The settings that several locks, or several jobs, have in common.

/// The settings of a lock.
macro_rules! lock_settings {
    () => {
        /// Sets the TTL: how long a lease lasts without renewal, and so how long a crashed holder
        /// keeps others out. 10 ms to a year.
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// Sets what the holder says about itself to observers: printable text of up to 256 bytes.
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// Sets whether and for how long the lease is renewed while the guard exists. The program
        /// may block meanwhile: another thread renews.
        pub fn renewal(self, renewal: crate::Renewal) -> Self {
            Self(self.0.renewal(renewal))
        }
    };
}

/// The settings of a job.
macro_rules! job_settings {
    () => {
        /// Sets the TTL: how long the lease lasts without renewal, and so how long after a crash the
        /// next process may start.
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// Sets what the process that does the job says about itself, during the work and in the
        /// mark: printable text of up to 256 bytes.
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// Limits the work: after this time the next process may try. Blocking work is not stopped,
        /// so it must check whether the lock is still held.
        pub fn at_most(self, limit: std::time::Duration) -> Self {
            Self(self.0.at_most(limit))
        }
    };
}

pub(super) use {job_settings, lock_settings};
