//! The metrics, and what docs/observing.md says about them.

use std::collections::{BTreeMap, BTreeSet};

use conformance::faulty::CallFate;
use leasehold::{LockError, Locks, Loss};
use leasehold_core::{Fault, Notice};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use servers::{Flavor, Server};
use tokio::time::sleep;

use super::notices::Quorum;
use super::world::{SECOND, TTL, World};

const PAGE: &str = include_str!("../../../../docs/observing.md");

/// Figures by name and labels without the store's: `leasehold_losses_total gone`.
#[derive(Debug)]
struct Figures {
    snapshotter: Snapshotter,
    seen: BTreeMap<String, (MetricKind, Vec<f64>)>,
}

impl Figures {
    /// Reads the recorder. Reading empties it, so counts are added to the earlier ones.
    fn look(&mut self) -> &mut Self {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            let mut name = key.name().to_owned();
            assert!(key.labels().any(|label| label.key() == "store"), "{name} has no store");
            for label in key.labels().filter(|label| label.key() != "store") {
                let word = label.value();
                assert!(words(label.key()).contains(word), "{word} is not among the words of {label:?}");
                name = format!("{name} {word}");
            }
            let (_, seen) = self.seen.entry(name).or_insert((kind, Vec::new()));
            let before = seen.first().copied().unwrap_or_default();
            *seen = match value {
                DebugValue::Counter(count) => vec![before + f64::from(u32::try_from(count).unwrap())],
                DebugValue::Gauge(level) => vec![before + level.into_inner()],
                DebugValue::Histogram(values) => values.into_iter().map(f64::from).collect(),
            };
        }
        self
    }

    fn of(&self, name: &str) -> &[f64] {
        self.seen.get(name).map_or(&[], |(_, values)| values)
    }
}

/// Runs `work` with its own recorder, in virtual or in real time.
fn recorded(at_will: bool, work: impl AsyncFnOnce(&mut Figures)) -> Figures {
    let recorder = DebuggingRecorder::new();
    let mut figures = Figures { snapshotter: recorder.snapshotter(), seen: BTreeMap::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(at_will).build();
    metrics::with_local_recorder(&recorder, || runtime.unwrap().block_on(work(&mut figures)));
    figures.look();
    figures
}

/// The rows of the page's tables whose first cell is in code.
fn rows() -> Vec<Vec<String>> {
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let figures = PAGE.split("## Figures").nth(1).expect("the page has a part on figures");
    figures.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

/// The values of a label, as listed on the page.
fn words(label: &str) -> BTreeSet<String> {
    let code = format!("`{label}`");
    let rows = rows();
    let row = rows.iter().find(|row| row[0] == code).unwrap_or_else(|| panic!("{label} is not on the page"));
    row[1].split(", ").map(|word| word.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_figures_say_what_happened() {
    recorded(true, async |figures| {
        let world = World::begin(TTL);
        let guard = world.locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(world.locks.mutex("k").lock().into_future());
        let impatient = world.locks.mutex("k").lock().within(SECOND).await;
        assert!(matches!(impatient, Err(LockError::TimedOut { .. })));
        sleep(4 * SECOND).await;
        figures.look();
        assert_eq!(figures.of("leasehold_acquire_seconds acquired"), [0.0]);
        assert_eq!(figures.of("leasehold_acquire_seconds timed_out"), [1.0]);
        assert_eq!(figures.of("leasehold_held"), [1.0]);
        assert_eq!(figures.of("leasehold_waiters"), [1.0]);
        assert_eq!(figures.of("leasehold_renewals_total"), [1.0]);
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        figures.look();
        assert_eq!(figures.of("leasehold_hold_seconds released"), [5.0]);
        assert_eq!(figures.of("leasehold_acquire_seconds acquired"), [5.0]);
        assert_eq!(figures.of("leasehold_held"), [1.0]);
        assert_eq!(figures.of("leasehold_waiters"), [0.0]);
        world.store.set(CallFate::Lost);
        assert!(matches!(guard.lost().await, Loss::Expired { .. }));
        figures.look();
        assert_eq!(figures.of("leasehold_losses_total expired"), [1.0]);
        assert_eq!(figures.of("leasehold_hold_seconds lost").len(), 1);
        assert_eq!(figures.of("leasehold_held"), [0.0]);
        assert_eq!(figures.of("leasehold_faults_total"), [1.0]);
    });
}

/// A server refuses subscriptions, until an operator allows them.
async fn live_through_deafness(figures: &mut Figures) {
    let server = Server::setup(Flavor::Valkey91).acl_user("deaf", "on nopass ~* &* +@all -subscribe").start();
    let deaf = Locks::connect(&format!("redis://deaf@127.0.0.1:{}", server.port())).await.unwrap();
    let holder = Locks::connect(&server.url()).await.unwrap();
    let guard = holder.mutex("k").lock().await.unwrap();
    deaf.mutex("k").lock().within(SECOND).await.unwrap_err();
    assert_eq!(figures.look().of("leasehold_push_down"), [1.0]);
    server.text(&["ACL", "SETUSER", "deaf", "+subscribe"]);
    server.text(&["CLIENT", "KILL", "USER", "deaf"]);
    deaf.mutex("k").lock().within(2 * SECOND).await.unwrap_err();
    // It was set before, and is set now: reading empties the recorder.
    assert_eq!(figures.look().seen["leasehold_push_down"].0, MetricKind::Gauge);
    guard.release().await.unwrap();
}

/// Regression: the first member at which push worked again reset the figure.
#[test]
fn push_is_down_in_a_quorum_until_it_works_at_every_member() {
    recorded(true, async |figures| {
        let quorum = Quorum::begin();
        quorum.way.iter().for_each(|way| way.says(|facts| facts.own_notices = true));
        let _guard = quorum.locks.mutex("k").lock().await.unwrap();
        sleep(SECOND).await;
        let mut is_down = async |member: usize, notice: &Notice| {
            quorum.way[member].notice_bus.say(notice);
            sleep(SECOND).await;
            // Only what was set since.
            figures.seen.clear();
            figures.look().of("leasehold_push_down").to_vec()
        };
        let down = |member: &str| Notice::PushDown { fault: Fault::passing(member, "it refuses to notify") };
        let back = |member: &str| Notice::PushBack { store: member.into() };
        assert_eq!(is_down(0, &down("memory:a")).await, [1.0]);
        assert_eq!(is_down(1, &down("memory:b")).await, [1.0]);
        assert_eq!(is_down(0, &back("memory:a")).await, [1.0], "waiters of b still poll");
        assert_eq!(is_down(1, &back("memory:b")).await, [0.0]);
    });
}

/// Regression: each `Locks` added the member to the figure of their store.
#[test]
fn a_member_that_is_down_is_counted_once_for_all_locks_of_a_store() {
    recorded(true, async |figures| {
        let quorum = Quorum::begin();
        let _guards =
            [quorum.locks.mutex("k").lock().await.unwrap(), quorum.others.mutex("l").lock().await.unwrap()];
        for (fate, down) in [(CallFate::Lost, 1.0), (CallFate::Fair, 0.0)] {
            quorum.way[1].set(fate);
            sleep(3 * TTL).await;
            figures.seen.clear();
            assert_eq!(figures.look().of("leasehold_members_down"), [down]);
        }
    });
}

/// Regression: the figures told of an outage for ever after the last locks that knew of it were gone.
#[test]
fn what_is_down_is_shown_until_the_last_locks_that_know_it_are_dropped() {
    for (are_all_dropped, down) in [(false, 1.0), (true, 0.0)] {
        recorded(true, async |figures| {
            let Quorum { way, locks, others } = Quorum::begin();
            way[0].says(|facts| facts.own_notices = true);
            let guards = [locks.mutex("k").lock().await.unwrap(), others.mutex("l").lock().await.unwrap()];
            sleep(SECOND).await;
            way[1].set(CallFate::Lost);
            way[0].notice_bus.say(&Notice::PushDown { fault: Fault::passing("memory:a", "it refuses") });
            sleep(3 * TTL).await;
            drop((guards, locks));
            let _kept = (!are_all_dropped).then_some(others);
            sleep(SECOND).await;
            figures.look();
            for name in ["leasehold_members_down", "leasehold_push_down"] {
                assert_eq!(figures.of(name), [down], "{name}");
            }
        });
    }
}

#[test]
fn the_page_names_every_figure_with_its_type_and_no_other() {
    let fair = recorded(true, async |_| {
        // A wait, a renewal, a loss, an error.
        let world = World::begin(TTL);
        let guard = world.locks.mutex("k").lock().await.unwrap();
        world.locks.mutex("k").lock().within(SECOND).await.unwrap_err();
        sleep(4 * SECOND).await;
        world.store.set(CallFate::Lost);
        guard.lost().await;
        sleep(2 * TTL).await;
        let quorum = Quorum::begin();
        quorum.way[1].set(CallFate::Lost);
        let _held = quorum.locks.mutex("k").lock().await.unwrap();
        sleep(SECOND).await;
    });
    let told = recorded(false, live_through_deafness);
    let kinds = fair.seen.into_iter().chain(told.seen);
    let recorded: BTreeMap<_, _> = kinds
        .map(|(name, (kind, _))| {
            (name.split(' ').next().unwrap().to_owned(), format!("{kind:?}").to_lowercase())
        })
        .collect();
    let figure = |row: &Vec<String>| (row[0].trim_matches('`').to_owned(), row[1].clone());
    let page: BTreeMap<_, _> = rows().iter().filter(|row| row.len() == 5).map(figure).collect();
    assert_eq!(recorded, page);
}
