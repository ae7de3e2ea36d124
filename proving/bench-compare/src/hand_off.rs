//! Workload: the hand-off from one holder to the next.

use bench::backend::OpenStore;
use bench::figure::{Figures, Of};
use bench::sample::Sample;
use bench::turn::jain;
use competitor::{AnyError, Order};

use crate::competitors::{Competitor, Waits};
use crate::play::Cast;
use crate::settings::Settings;

pub const NAME: &str = "hand_off";

pub const METHOD: &str = "\
Four processes of one library compete for one key, hold it for 1 ms and rest for 1 ms. The *gap* is
the time from the call that releases the lock until the next holder's library reports that it has
the lock, for a holder that was already waiting. All processes read one clock. In libraries that
poll, the process that released the lock usually acquires it again before any other asks. That is
not a hand-over, and shows in the *wait*: the time from the request to the lock, over all turns.
*Commands* are those that the four processes send, counted on the wire in a separate run. *Jain* is
Jain's index over the turns of each process: 1 when all had equally many, 0.25 when one had them
all. A library that gives up waiting is asked again immediately.";

const PROCESSES: usize = 4;

#[derive(Default)]
struct Laps {
    median: Sample,
    tail: Sample,
    wait: Sample,
    speed: Sample,
    jain: Sample,
    commands: Sample,
}

pub fn run(settings: &Settings, figures: &mut Figures, store: &OpenStore) -> Result<(), AnyError> {
    figures.announce(&format!("{NAME} on {}", settings.backend));
    let waits = |who: &Competitor| who.waits != Waits::Never;
    let field: Vec<_> = settings.competitors.iter().copied().filter(waits).collect();
    let mut laps: Vec<Laps> = field.iter().map(|_| Laps::default()).collect();
    for (who, laps) in field.iter().zip(&mut laps) {
        laps.commands = commands(settings, store, *who)?;
    }
    let mut casts = field
        .iter()
        .map(|who| Cast::start(*who, &store.url, PROCESSES))
        .collect::<Result<Vec<_>, AnyError>>()?;
    for repetition in 0..=settings.repetitions() {
        for n in 0..field.len() {
            let n = (n + repetition) % field.len();
            let turns = casts[n].turns(field[n], &order(settings, "wanted"))?;
            // The first repetition is a warm-up.
            if repetition > 0 {
                let gaps = turns.gaps();
                laps[n].median.push(gaps.median());
                laps[n].tail.push(gaps.quantile(0.99));
                laps[n].wait.push(turns.waits().quantile(0.99) / 1e3);
                laps[n].speed.push(turns.per_second());
                // Nobody has that many turns, so all are counted.
                laps[n].jain.push(jain(&turns.shares(PROCESSES, u32::MAX)));
            }
        }
    }
    tell(&field, laps, figures, store);
    Ok(())
}

fn tell(field: &[Competitor], laps: Vec<Laps>, figures: &mut Figures, store: &OpenStore) {
    let ours = laps[0].median.clone();
    let peers = laps.iter().skip(1).map(|laps| &laps.median);
    let best = peers.min_by(|one, other| one.median().total_cmp(&other.median())).cloned();
    for (who, laps) in field.iter().zip(laps) {
        let of = Of { workload: NAME, backend: store.backend, case: who.name() };
        figures.add(of, "gap p50", "µs", laps.median);
        figures.add(of, "gap p99", "µs", laps.tail);
        figures.add(of, "wait p99", "ms", laps.wait);
        figures.add(of, "turns", "/s", laps.speed);
        figures.add(of, "commands per turn", "", laps.commands);
        figures.add(of, "Jain index", "", laps.jain);
    }
    if let Some(best) = best {
        let of = Of { workload: NAME, backend: store.backend, case: field[0].name() };
        figures.add(of, "gap p50 ÷ that of the best peer", "", ours.over(&best));
    }
}

/// Commands per turn, without those of the set-up, counted by a proxy; empty without one.
fn commands(settings: &Settings, store: &OpenStore, who: Competitor) -> Result<Sample, AnyError> {
    if store.commands().is_none() {
        return Ok(Sample::default());
    }
    let mut cast = Cast::start(who, &store.counted_url(), PROCESSES)?;
    cast.turns(who, &order(settings, "warm-up"))?;
    let sent = || store.commands().unwrap_or_default();
    let before = sent();
    let turns = cast.turns(who, &order(settings, "counted"))?;
    Ok(((sent() - before) as f64 / turns.len() as f64).into())
}

fn order(settings: &Settings, key: &str) -> Order {
    Order::Turns { key: key.to_owned(), hold: 1, think: 1, millis: settings.contest() }
}
