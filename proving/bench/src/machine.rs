//! The machine on which figures are measured, as the pages with figures name it.

use std::{fmt, fs, thread};

#[derive(Clone, Debug)]
pub struct Machine {
    pub processor: String,
    /// The number of its threads that may be used.
    pub threads: usize,
    /// The kernel's major and minor version: `6.12`.
    pub kernel: String,
}

impl Machine {
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: named.map_or("a processor without a name", |(_, name)| name.trim()).to_owned(),
            threads: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().split('.').take(2).collect::<Vec<_>>().join("."),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, threads, kernel } = self;
        write!(f, "Measured on {processor}, {threads} threads, Linux {kernel}, servers on loopback.")
    }
}
