//! The settings that several locks, or several jobs, have in common.

/// The settings of a lock, in its `defaults`.
macro_rules! lock_settings {
    () => {
        /// Sets the TTL: how long a lease lasts without renewal, and so how long a crashed holder
        /// keeps others out. 10 ms to a year.
        #[doc(alias = "lease")]
        #[doc(alias = "expiry")]
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.defaults.ttl = leasehold_core::Ttl::new(ttl);
            self
        }

        /// Sets what the holder says about itself to observers: printable text of up to 256 bytes.
        pub fn label(mut self, label: &str) -> Self {
            self.defaults.label = leasehold_core::Label::new(label).map(Some);
            self
        }

        /// Sets whether and for how long the lease is renewed while the guard exists.
        pub const fn renewal(mut self, renewal: leasehold_core::Renewal) -> Self {
            self.defaults.renewal = renewal;
            self
        }
    };
}

/// The settings of a job, which are those of its `lock`.
macro_rules! job_settings {
    () => {
        /// Sets the TTL: how long the lease lasts without renewal, and so how long after a crash the
        /// next process may start.
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self { lock: self.lock.ttl(ttl), ..self }
        }

        /// Sets what the process that does the job says about itself, during the work and in the
        /// mark: printable text of up to 256 bytes.
        pub fn label(self, label: &str) -> Self {
            Self { lock: self.lock.label(label), ..self }
        }

        /// Stops work that takes longer than this, so that the next process may try. Without a
        /// limit, the work may take as long as it needs. A limit below the TTL, which is 30 s by
        /// default, is a [`Misuse`](crate::Misuse::HoldShorterThanTtl): set a shorter
        /// [`ttl`](Self::ttl) too.
        pub fn at_most(self, limit: std::time::Duration) -> Self {
            Self { lock: self.lock.renewal(leasehold_core::Renewal::AtMost(limit)), ..self }
        }
    };
}

pub(crate) use {job_settings, lock_settings};
