//! Three of five members fail: all who want the lock get an error in time that says why.

use std::{collections::HashMap, time::Duration};

use faults::{
    Crowd, Plan,
    history::{EventKind, now},
    judge::{slack, sound},
    until,
};

use crate::scene::{Member, Scene};

const TTL: Duration = Duration::from_secs(2);

/// How long requests wait for stores that do not answer.
const OUTAGE_LIMIT: Duration = Duration::from_secs(3);

/// A queued waiter asks nobody; this is how long it may take to notice that its member is gone.
const FINDS_OUT: Duration = Duration::from_secs(5);

/// The members that fail; the other two stay up.
const GONE: [usize; 3] = [0, 2, 3];

#[test]
fn with_three_of_five_killed_everybody_gets_an_error_in_time_and_nothing_is_left() {
    let scene = Scene::that_forgets_nothing();
    let mut crowd = are_told(&scene, |member| member.server.kill_9());
    crowd.dismiss();
    sound(&crowd.parsed_history());
    scene.is_forgotten([1, 4].into_iter(), &crowd, TTL);
}

#[test]
fn with_three_of_five_stopped_everybody_gets_an_error_in_time_and_continues_when_they_do() {
    let scene = Scene::that_forgets_nothing();
    let mut crowd = are_told(&scene, |member| member.server.stop());
    let begun = now();
    GONE.iter().for_each(|member| scene.members[*member].server.cont());
    let took = crowd.wait_until_all_were_served_since(begun);
    println!("all are served {took:?} after they went on");
    crowd.dismiss();
    sound(&crowd.parsed_history());
    scene.is_forgotten(0..5, &crowd, TTL);
}

fn are_told(scene: &Scene, begin: fn(&Member)) -> Crowd {
    let crowd = scene.crowd(OUTAGE_LIMIT);
    crowd.wait_until_all_were_served_since(0);
    let in_flight = scene.in_flight(&GONE);
    GONE.iter().for_each(|member| begin(&scene.members[*member]));
    let gone = now();
    let tasks = crowd.alive().len() * 2;
    // Twice: for requests that were waiting when it happened, and for later ones.
    let patience = 2 * OUTAGE_LIMIT + FINDS_OUT + Duration::from_secs(5);
    until("everybody was told twice", patience, || {
        told(&crowd, gone).values().filter(|told| told.len() >= 2).count() == tasks
    });
    let (mut longest, mut example) = ([Duration::ZERO; 2], String::new());
    for Told { asked, waited, why } in told(&crowd, gone).into_values().flatten() {
        let stood = asked < gone;
        let most = OUTAGE_LIMIT + slack(&crowd) + if stood { FINDS_OUT } else { Duration::ZERO };
        assert!(waited < most, "told after {waited:?}: {why}");
        // Each error names these members, with the reason of each.
        let of_each = GONE.iter().all(|member| why.contains(&scene.members[*member].way.port().to_string()));
        assert!(why.starts_with(Plan::KEY) && why.contains("3 needed") && of_each, "{why}");
        longest[usize::from(stood)] = longest[usize::from(stood)].max(waited);
        example = why;
    }
    println!(
        "while {in_flight} calls were in flight; errors after {:?} at most, and for those that were queued then after {:?}: {example}",
        longest[0], longest[1]
    );
    // A process that was granted the lock before may have kept it until its lease ended.
    let last = crowd.parsed_history().beliefs().last().map_or(0, |span| span.begins());
    assert!(last < gone + 1_000_000_000, "granted {} ns after they were gone", last - gone);
    crowd
}

/// An error that says that there is no majority.
struct Told {
    asked: u64,
    /// The time since the request, or since the members failed.
    waited: Duration,
    why: String,
}

/// The errors of each task since the members failed.
fn told(crowd: &Crowd, gone: u64) -> HashMap<(u32, u32), Vec<Told>> {
    let mut asks: HashMap<(u32, u32), u64> = HashMap::new();
    let mut told: HashMap<_, Vec<_>> = HashMap::new();
    for entry in crowd.history() {
        let who = (entry.process, entry.task);
        match entry.what {
            EventKind::Asks => {
                asks.insert(who, entry.at);
            }
            EventKind::Failed(why) if entry.at > gone => {
                let asked = asks[&who];
                let waited = Duration::from_nanos(entry.at - asked.max(gone));
                told.entry(who).or_default().push(Told { asked, waited, why });
            }
            _ => {}
        }
    }
    told
}
