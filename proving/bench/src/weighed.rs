//! A process of the benchmark that counts allocations; the benchmark starts it.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    bench::worker::serve_if_told_to(Some(live_bytes));
    bench::path::walk_if_told_to(Some(allocated));
    eprintln!("bench-weighed: is started by the bench; run `cargo xtask bench`");
    std::process::exit(64);
}

fn live_bytes() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn allocated() -> usize {
    let stats = COUNTING.stats();
    stats.allocations + stats.reallocations
}
