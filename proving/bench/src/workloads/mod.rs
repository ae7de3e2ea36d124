//! The workloads: one file each, and one entry each in [`ALL`].

mod capacity;
mod closed_loop;
mod file;
mod hand_off;
mod held;
mod instructions;
mod postgres;
mod queue;
mod quorum;
mod uncontended;
mod waiters;

use crate::AnyError;
use crate::backend::OpenStore;
use crate::figure::{Figures, Of};
use crate::sample::Sample;
use crate::settings::Settings;

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    /// The title, a heading of the page of figures.
    pub title: &'static str,
    pub method: &'static str,
    pub run: fn(&Settings, &mut Figures) -> Result<(), AnyError>,
}

/// All workloads, in the order in which they run.
pub const ALL: [Workload; 10] = [
    uncontended::WORKLOAD,
    hand_off::WORKLOAD,
    queue::WORKLOAD,
    waiters::WORKLOAD,
    held::WORKLOAD,
    file::WORKLOAD,
    quorum::WORKLOAD,
    postgres::WORKLOAD,
    capacity::WORKLOAD,
    instructions::WORKLOAD,
];

/// The number of servers in a measured quorum.
const MEMBERS: usize = 5;

/// A workload at one store.
struct Bench<'a> {
    workload: &'static str,
    settings: &'a Settings,
    figures: &'a mut Figures,
    store: &'a OpenStore,
}

impl Bench<'_> {
    fn add(&mut self, case: &str, measure: &str, unit: &str, sample: impl Into<Sample>) {
        let of = Of { workload: self.workload, backend: self.store.backend, case };
        self.figures.add(of, measure, unit, sample);
    }
}

/// Runs a future on one thread: a second one would double a client's processor time.
fn on_one_thread<T>(future: impl Future<Output = Result<T, AnyError>>) -> Result<T, AnyError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
