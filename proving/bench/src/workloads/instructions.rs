use std::env;
use std::process::Command;

use servers::Flavor;

use super::{MEMBERS, Workload};
use crate::AnyError;
use crate::backend::{Backend, OpenStore};
use crate::callgrind;
use crate::figure::{Figures, Of};
use crate::path::{Path, Walk};
use crate::settings::Settings;

pub(super) const WORKLOAD: Workload = Workload {
    name: "instructions",
    title: "Instructions per operation",
    method: "\
Instructions of the client's process alone, counted by callgrind: two processes run the same path,
one of them twice as often, and the difference is divided by the additional cycles. One thread, one
connection, real servers. *Bare* is the same as in the other sections: `SET NX PX` and a
compare-and-delete script by redis-rs; on a file two bare transactions; in a majority such a pair at
all five servers. *Allocations* are counted by an allocator, without valgrind. A build without
optimisation, as in the tests, has its own bounds.",
    run,
};

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    let lacking = callgrind::lacking();
    if let Some(why) = &lacking {
        if callgrind::is_demanded() {
            return Err(format!("{why}; {} demands it", callgrind::DEMANDED).into());
        }
        eprintln!("bench: LEFT OUT: {why}");
    }
    for backend in settings.backends() {
        figures.announce(&format!("instructions on {backend}"));
        let store = backend.open();
        let bench = &mut Bench { figures, store: &store, counts: lacking.is_none() };
        if backend.is_file() {
            let directory = store.directory()?.display().to_string();
            bench.one_place("on a file", 1, Some((Path::Transactions, directory)))?;
        } else if backend.flavor().is_some() {
            on_a_server(settings, bench, backend)?;
        } else {
            bench.one_place("in memory", 1, None)?;
        }
    }
    Ok(())
}

fn on_a_server(settings: &Settings, bench: &mut Bench<'_>, backend: Backend) -> Result<(), AnyError> {
    let is_native = backend.flavor() == Some(Flavor::Valkey91);
    let cases = if is_native {
        [(1, "1 task, native release"), (16, "16 tasks, native release")]
    } else {
        [(1, "1 task"), (16, "16 tasks")]
    };
    for (tasks, case) in cases {
        let url = bench.store.url.clone();
        bench.one_place(case, tasks, Some((Path::Bare, url)))?;
        // The rest costs the same on all servers whose release is a script: a test needs one of them.
        if !settings.pick(true, is_native) {
            return Ok(());
        }
    }
    let alone = [bench.store.url.clone()];
    bench.entered_by_a_lock(&alone)?;
    let ours = bench.instructions(Path::Renewal, 1, &alone)?;
    let bare = bench.instructions(Path::BareRenewal, 1, &alone)?;
    bench.beside("renewal", "1 task", ours, bare);
    bench.allocations(Path::Renewal, "renewal", "1 task", &alone)?;
    let sites: Vec<_> = (1..MEMBERS).map(|_| backend.open()).collect();
    let five: Vec<_> = [bench.store].into_iter().chain(&sites).map(|store| store.url.clone()).collect();
    let ours = bench.instructions(Path::Quorum, 1, &five)?;
    let bare = bench.instructions(Path::RawQuorum, 1, &five)?;
    bench.beside("cycle", "five servers", ours, bare);
    bench.allocations(Path::Quorum, "cycle", "five servers", &five)
}

struct Bench<'a> {
    figures: &'a mut Figures,
    store: &'a OpenStore,
    counts: bool,
}

/// Enough cycles that occasional work, such as growing a table, hardly counts.
const CYCLES: u32 = if cfg!(debug_assertions) { 64 } else { 512 };

impl Bench<'_> {
    /// Acquiring and releasing in one store, next to a bare path where there is one.
    fn one_place(&mut self, case: &str, tasks: u32, bare: Option<(Path, String)>) -> Result<(), AnyError> {
        let place = [self.store.url.clone()];
        let ours = self.instructions(Path::Cycle, tasks, &place)?;
        let bare = match bare {
            Some((path, place)) => self.instructions(path, tasks, &[place])?,
            None => f64::NAN,
        };
        self.beside("cycle", case, ours, bare);
        if tasks == 1 {
            self.allocations(Path::Cycle, "cycle", case, &place)?;
        }
        Ok(())
    }

    /// Instructions per cycle; NaN if they are not counted.
    fn instructions(&self, path: Path, tasks: u32, places: &[String]) -> Result<f64, AnyError> {
        if !self.counts {
            return Ok(f64::NAN);
        }
        callgrind::per_cycle(&Walk { path, cycles: CYCLES.div_ceil(tasks), tasks, places: places.to_vec() })
    }

    fn beside(&mut self, what: &str, case: &str, ours: f64, bare: f64) {
        self.add(&format!("{what} ÷ bare"), case, ours / bare);
        self.add(&format!("instructions per {what}"), case, ours);
        self.add(&format!("instructions of a bare {what}"), case, bare);
    }

    fn allocations(&mut self, path: Path, what: &str, case: &str, places: &[String]) -> Result<(), AnyError> {
        let walk = Walk { path, cycles: CYCLES, tasks: 1, places: places.to_vec() };
        let program = env::current_exe()?.with_file_name("bench-weighed");
        let output = Command::new(program).args(walk.words()).output()?;
        if !output.status.success() {
            return Err(format!("bench-weighed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let allocations = String::from_utf8_lossy(&output.stdout).trim().parse()?;
        self.add(&format!("allocations per {what}"), case, allocations);
        Ok(())
    }

    /// What a reader has to follow: only a build without optimisation still has all functions.
    fn entered_by_a_lock(&mut self, places: &[String]) -> Result<(), AnyError> {
        if self.counts && cfg!(debug_assertions) {
            let walk = Walk { path: Path::Lock, cycles: CYCLES, tasks: 1, places: places.to_vec() };
            let [functions, files] = callgrind::entered(&walk)?;
            self.add("functions entered by a lock", "1 task", functions as f64);
            self.add("files entered by a lock", "1 task", files as f64);
        }
        Ok(())
    }

    fn add(&mut self, measure: &str, case: &str, value: f64) {
        let of = Of { workload: WORKLOAD.name, backend: self.store.backend, case };
        self.figures.add(of, measure, "", value);
    }
}
