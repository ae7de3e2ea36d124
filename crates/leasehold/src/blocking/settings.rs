//! The settings that several locks, or several jobs, have in common.

/// The settings of a lock.
macro_rules! lock_settings {
    () => {
        /// As [`leasehold::Mutex::ttl`](crate::Mutex::ttl).
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// As [`leasehold::Mutex::label`](crate::Mutex::label).
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// As [`leasehold::Mutex::renewal`](crate::Mutex::renewal). Another thread renews, so the
        /// program may block meanwhile.
        pub fn renewal(self, renewal: crate::Renewal) -> Self {
            Self(self.0.renewal(renewal))
        }
    };
}

/// The settings of a job.
macro_rules! job_settings {
    () => {
        /// As [`leasehold::Once::ttl`](crate::Once::ttl).
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// As [`leasehold::Once::label`](crate::Once::label).
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// As [`leasehold::Once::at_most`](crate::Once::at_most), but blocking work is not stopped: it
        /// must check whether the lock is still held.
        pub fn at_most(self, limit: std::time::Duration) -> Self {
            Self(self.0.at_most(limit))
        }
    };
}

pub(super) use {job_settings, lock_settings};
