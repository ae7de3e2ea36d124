//! Random histories for the differential test: the requests, the writes of other programs in
//! between, and the expected results.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use leasehold_core::{
    Answer, ApplyContext, Attempt, BreakNote, Channel, Claim, Content, Fence, GrantAnswer, Holder,
    HolderInfo, Key, Label, LastFence, Lock, Mark, Nonce, Proposal, Records, Request, Served, Stamp,
    Subscribers, Successor, Ticket, Ttl, Wait, apply,
};
use leasehold_redis::wire::{self, channel_of, mark_of};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::dump::{Dump, MemberRecord, QueueDump, SharesDump};

/// One step of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A request.
    Ask(Request),
    /// The same, with the ticket that the attempt got last for one of its keys.
    Return(Request),
    /// The lease on a key is broken by the fence that was seen there last.
    Break(Key),
    /// This many requests one after the other, each like this one but from another holder.
    Crowd(Request, u64),
    /// Another program writes a string to the key, whatever is there.
    Set(Key, Vec<u8>, Option<Duration>),
    /// Another program makes the key a list, whatever is there.
    MakeList(Key),
    /// Another program deletes the key.
    Delete(Key),
    /// The content of the key expires.
    Expire(Key),
    /// The fence is lost.
    ForgetFence(Key),
    /// The fence is this number, kept for this long.
    SetFence(Key, u64, Duration),
    /// The queue is lost.
    ForgetQueue(Key),
    /// The shares of a key have just ended, all of them or that of one holder; the marker, too,
    /// unless it lasts for the rest of the millisecond.
    EndShares(Key, Option<Holder>, bool),
    /// The record of the shares of a key is lost.
    ForgetShares(Key),
    /// The run that vouches for the leases is replaced, and kept for this long.
    Vouch(String, Duration),
    /// The record of the run that vouches is lost.
    Unvouch,
}

/// The server's run id according to all that ask it as a member of a quorum.
pub const RUN: &str = "0123456789abcdef0123456789abcdef01234567";

/// The longest TTL of that quorum.
const LONGEST: Duration = Duration::from_secs(5000);

/// Fences above this come from the previous fence and are compared exactly; those below come from a
/// clock and are compared with one.
pub const ABOVE_ANY_CLOCK: u64 = 1 << 52;

/// The claim window of all histories: so long that nothing expires unless a step expires it.
pub const WINDOW: Duration = Duration::from_secs(400);

/// A random generator with a seed, so that a failure can be replayed.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// A generator for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0.next_u64() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)].clone()
    }
}

/// The keys of all histories. Their bytes are chosen to cause trouble; and each has a fence key of
/// its own, as it has at a member of a quorum.
#[must_use]
pub fn keys() -> Vec<Key> {
    ["a:", "b{x}:c", "{:"].map(|name| Key::new(name).expect("a key")).to_vec()
}

/// The channels that somebody listens on in all histories.
#[must_use]
pub fn heard() -> Vec<Channel> {
    [1, 2].map(channel_of).to_vec()
}

/// The channels that nobody listens on.
fn unheard() -> Vec<Channel> {
    [3, 4].map(channel_of).to_vec()
}

/// A history of this many steps, after some that lead to states that random steps seldom reach: a
/// queue; a lock that was handed over and not claimed; a channel that is passed over; more dead
/// waiters than one request removes.
#[must_use]
pub fn history(dice: &mut Dice, steps: usize, wall: Stamp) -> Vec<Step> {
    let mut all = Vec::new();
    if dice.below(4) > 0 {
        all.push(Step::Vouch(RUN.into(), 20 * DAY));
    }
    all.extend(opening(dice));
    all.extend((0..steps).map(|_| step(dice, wall)));
    all.into_iter().flat_map(look_before).collect()
}

/// The step as a store without a quorum is asked for it, or as a member of one is.
#[must_use]
pub fn asked_as(mut step: Step, is_member: bool) -> Step {
    let (Step::Ask(request) | Step::Return(request) | Step::Crowd(request, _)) = &mut step else {
        return step;
    };
    if let Request::Rejoin { attempt, .. } | Request::Raise(attempt) = request
        && !is_member
    {
        *request = Request::Renew(attempt.clone());
    }
    let (Request::Grant { attempt, .. }
    | Request::Renew(attempt)
    | Request::Rejoin { attempt, .. }
    | Request::Raise(attempt)
    | Request::Release(attempt)
    | Request::Transfer { attempt, .. }
    | Request::Mark { attempt, .. }) = request
    else {
        return step;
    };
    if is_member {
        let max_ttl = Ttl::new(LONGEST).expect("a ttl");
        let proposal = Proposal { fence: Fence::new(7).expect("a fence"), max_ttl };
        *attempt = attempt.at_member(attempt.holder, attempt.proposal.unwrap_or(proposal));
    } else {
        attempt.proposal = None;
    }
    step
}

/// A history of what is asked most: a few attempts want one key exclusively. Other steps are rare,
/// so that most requests find the key held, or a queue in order.
#[must_use]
pub fn contended(dice: &mut Dice, steps: usize, wall: Stamp) -> Vec<Step> {
    let key = keys().remove(0);
    let mut all = if dice.below(3) == 0 { opening(dice) } else { Vec::new() };
    all.extend((0..steps).map(|_| {
        let Attempt { holder, label, ttl, .. } = alone(dice);
        let attempt = Attempt::new(Claim::exclusive(key.clone()), holder, label, ttl);
        let Request::Grant { wait, .. } = waits(dice, wall) else { unreachable!("it waits") };
        let fresh = wait.clone().map(|wait| Wait { ticket: None, ..wait });
        let grant = |wait| Request::Grant { attempt: attempt.clone(), wait, not_after: None };
        match dice.below(40) {
            0..=14 => Step::Ask(grant(fresh)),
            15 => Step::Ask(grant(wait)),
            16 | 17 => Step::Return(grant(wait)),
            18 | 19 => Step::Ask(grant(None)),
            20..=32 => Step::Ask(Request::Release(attempt)),
            33..=35 => Step::Ask(Request::Renew(attempt)),
            36 | 37 => Step::Expire(key.clone()),
            38 => Step::ForgetQueue(key.clone()),
            _ => step(dice, wall),
        }
    }));
    all.into_iter().flat_map(look_before).collect()
}

/// Looks at the key before a break, because the fence must be known.
fn look_before(step: Step) -> Vec<Step> {
    match step {
        Step::Break(key) => vec![Step::Ask(Request::Inspect(key.clone())), Step::Break(key)],
        step => vec![step],
    }
}

fn opening(dice: &mut Dice) -> Vec<Step> {
    let key = keys().remove(0);
    let of = |claim: &Claim, who: u128| {
        let ttl = Ttl::new(Duration::from_secs(900)).expect("a ttl");
        Attempt::new(claim.clone(), Holder::from_bits(who), None, ttl)
    };
    let by = |who| of(&Claim::exclusive(key.clone()), who);
    let waits = |who, channel: &Channel| {
        let wait = Some(Wait { channel: Some(channel.clone()), ..Wait::default() });
        Request::Grant { attempt: by(who), wait, not_after: None }
    };
    let [heard, unheard] = [heard(), unheard()];
    let crowd = Step::Crowd(waits(9, &unheard[0]), dice.pick(&[99, 100, 101, 205]));
    let took = Step::Ask(Request::Grant { attempt: by(1), wait: None, not_after: None });
    let last = u128::MAX - 7;
    let line = [(2, &heard[0]), (3, &heard[0]), (4, &heard[1]), (last, &heard[1])];
    let line = line.map(|(who, channel)| Step::Ask(waits(who, channel)));
    let line = [vec![took.clone()], line.to_vec()].concat();
    let let_go = Step::Ask(Request::Release(by(1)));
    let ends = Step::Expire(key.clone());
    let handed = [line.clone(), vec![let_go]].concat();
    let struck =
        [handed.clone(), vec![ends.clone(), Step::Ask(Request::Advance(vec![key.clone()]))]].concat();
    // A waiter was handed one key and has been silent since; it asks for two keys, of which the
    // other is held.
    let other = Claim::exclusive(keys().remove(1));
    let both = Claim::exclusive_all(keys().into_iter().take(2)).expect("two keys");
    let took_other = Step::Ask(Request::Grant { attempt: of(&other, 5), wait: None, not_after: None });
    let max_ttl = Ttl::new(LONGEST).expect("a ttl");
    let proposal = Proposal { fence: Fence::new(7).expect("a fence"), max_ttl };
    let refused = |who: u128| {
        let attempt = of(&both, who).at_member(Holder::from_bits(who), proposal);
        let rejoin = Step::Ask(Request::Rejoin { attempt, not_after: None });
        vec![Step::Vouch(RUN.into(), 20 * DAY), took_other.clone(), rejoin]
    };
    // The holder of one key is first in the queue of the other, and leaves.
    let stands = |who, channel: &Channel| {
        let wait = Some(Wait { channel: Some(channel.clone()), ..Wait::default() });
        Step::Ask(Request::Grant { attempt: of(&other, who), wait, not_after: None })
    };
    let goes = Step::Ask(Request::Release(of(&both, 1)));
    let goes = vec![took_other.clone(), stands(1, &heard[0]), stands(6, &heard[1]), goes];
    let breaks = Step::Break(key.clone());
    match dice.below(28) {
        16..=22 => together(dice),
        0 => line,
        10 => [line, vec![breaks]].concat(),
        11 => [handed, vec![breaks]].concat(),
        12 => [struck, vec![breaks]].concat(),
        13 => vec![took, crowd, breaks],
        7 => [handed, refused(2)].concat(),
        8 => [struck, vec![Step::Ask(Request::Release(by(last)))], refused(4)].concat(),
        9 => [line, goes].concat(),
        1 | 2 => handed,
        3 => struck,
        4 => [struck, vec![Step::Ask(Request::Release(by(last)))]].concat(),
        5 => [handed, vec![ends]].concat(),
        6 => vec![took, crowd, ends],
        _ => Vec::new(),
    }
}

/// Steps that lead to shared keys: readers with a writer queued behind them, and readers behind
/// that one; permits of which too few are left; shares that were handed over and not claimed; more
/// of them than one request hands over or removes.
fn together(dice: &mut Dice) -> Vec<Step> {
    let key = keys().remove(0);
    let only = || [key.clone()];
    let read = Claim::shared(only()).expect("a key");
    let write = Claim::exclusive(key.clone());
    let permits = |weight| Claim::permits(only(), weight, 3).expect("some of them");
    let ttl = Ttl::new(Duration::from_secs(900)).expect("a ttl");
    let by = |claim: &Claim, who: u128| Attempt::new(claim.clone(), Holder::from_bits(who), None, ttl);
    let waits = |claim: &Claim, who: u128, channel: &Channel| {
        let wait = Some(Wait { channel: Some(channel.clone()), ..Wait::default() });
        Request::Grant { attempt: by(claim, who), wait, not_after: None }
    };
    let [heard, unheard] = [heard(), unheard()];
    let asks = |claim: &Claim, who, channel| Step::Ask(waits(claim, who, channel));
    let goes = |who| Step::Ask(Request::Release(by(&write, who)));
    let last = u128::MAX - 7;
    let many = dice.pick(&[99, 100, 101, 205]);
    let crowd = |claim: &Claim, channel| Step::Crowd(waits(claim, 9, channel), many);
    let behind = vec![
        asks(&read, 1, &heard[0]),
        asks(&read, 2, &heard[0]),
        asks(&write, 3, &heard[0]),
        asks(&read, 4, &heard[1]),
        asks(&read, last, &heard[0]),
    ];
    // The writer leaves, and those behind it are handed the key; or the readers leave, and the
    // writer has its turn.
    let handed = [behind.clone(), vec![goes(3)]].concat();
    let lies = vec![Step::EndShares(key.clone(), Some(Holder::from_bits(4)), false)];
    let few = vec![
        asks(&permits(2), 1, &heard[0]),
        asks(&permits(1), 2, &heard[1]),
        asks(&permits(2), 3, &heard[0]),
        asks(&permits(1), 4, &heard[1]),
        asks(&write, last, &heard[0]),
        goes(dice.pick(&[1, 2])),
    ];
    let writes = asks(&write, 1, &heard[0]);
    // The asking waiter is behind one that is handed the key on the way, and before one that is
    // not.
    let asks_again = vec![
        writes.clone(),
        asks(&read, 2, &heard[0]),
        asks(&read, 3, &heard[1]),
        asks(&write, 4, &heard[0]),
        Step::Expire(key.clone()),
        asks(&read, 3, &heard[1]),
    ];
    match dice.below(10) {
        9 => asks_again,
        0 => behind,
        1 => [behind, vec![goes(1), goes(2)]].concat(),
        // Another writer is behind them, and is notified once.
        2 => [behind, vec![asks(&write, 5, &heard[1]), goes(3)]].concat(),
        3 => [handed, lies].concat(),
        4 | 5 => few,
        6 => vec![writes, crowd(&read, dice.pick(&[&heard[0], &heard[1], &unheard[0]])), goes(1)],
        7 => vec![crowd(&read, &heard[0]), Step::EndShares(key.clone(), None, dice.below(2) > 0)],
        _ => vec![
            writes,
            crowd(&read, &heard[1]),
            goes(1),
            Step::EndShares(key.clone(), None, dice.below(2) > 0),
        ],
    }
}

fn step(dice: &mut Dice, wall: Stamp) -> Step {
    let key = key(dice);
    match dice.below(77) {
        64 | 65 => Step::Ask(Request::Mark {
            attempt: attempt(dice, wall),
            mark: mark(dice),
            keep: Duration::from_secs(dice.pick(&[200, 1000])),
        }),
        66 | 67 => Step::Ask(Request::Marked(key)),
        73..=76 => {
            let attempt = attempt(dice, wall);
            let successor = successor(dice, attempt.holder);
            Step::Ask(Request::Transfer { attempt, successor })
        }
        60..=62 => Step::Break(key),
        63 => {
            let fence = Fence::new(dice.pick(&[0, 5, ABOVE_ANY_CLOCK, Fence::MAX.get()])).expect("a fence");
            Step::Ask(Request::Break { key, fence, note: note(dice) })
        }
        48..=52 => {
            Step::Ask(Request::Rejoin { attempt: at_member(dice, wall), not_after: not_after(dice, wall) })
        }
        53..=56 => Step::Ask(Request::Raise(at_member(dice, wall))),
        57 => vouch(dice, wall),
        58 if dice.below(3) == 0 => Step::Unvouch,
        58 | 59 => Step::Vouch(RUN.into(), 20 * DAY),
        0..=5 => Step::Ask(Request::Grant {
            attempt: attempt(dice, wall),
            wait: None,
            not_after: not_after(dice, wall),
        }),
        6..=17 => Step::Ask(waits(dice, wall)),
        18..=20 => Step::Return(waits(dice, wall)),
        21..=25 => Step::Ask(Request::Renew(attempt(dice, wall))),
        26..=32 => Step::Ask(Request::Release(attempt(dice, wall))),
        33 => Step::Ask(Request::Advance(attempt(dice, wall).claim.keys().cloned().collect())),
        34 | 35 => Step::Ask(Request::Inspect(key)),
        36 if dice.below(6) == 0 => {
            let count = dice.pick(&[98, 99, 100, 101, 102, 210]);
            let mut request = waits(dice, wall);
            if let Request::Grant { wait: Some(wait), not_after, .. } = &mut request {
                wait.channel = dice.pick(&[&unheard()[..], &heard()[..1]].concat()).into();
                (wait.queue_limit, *not_after) = (None, None);
            }
            Step::Crowd(request, count)
        }
        36 | 37 => {
            // Also values that are nearly ours: another version, a cut id, capitals, something
            // after the id.
            let value = dice.pick(&[
                "x",
                "",
                "lh1",
                "lh2-00000000000000000000000000000001",
                "lh1-0000000000000000000000000000001",
                "lh1-0000000000000000000000000000000A",
                "lh1-00000000000000000000000000000001x",
                "lh1!00000000000000000000000000000001",
                "lh1-00000000000000000000000000000001x7",
                "lh1+00000000000000000000000000000001.",
                "lh1+00000000000000000000000000000001.9007199254740992",
                "lh1+00000000000000000000000000000001.7x",
                "lh1 shared",
                "lh1 permits 3",
                "lh1 permits 03",
                "lh1 permits 1048577",
                "lh1 shared ",
            ]);
            let ttl = dice.pick(&[None, Some(Duration::from_secs(300))]);
            Step::Set(key, value.into(), ttl)
        }
        38 => Step::MakeList(key),
        39 | 40 => Step::Delete(key),
        41..=43 => Step::Expire(key),
        44 => Step::ForgetFence(key),
        45 => Step::ForgetQueue(key),
        68 => Step::ForgetShares(key),
        69..=72 => {
            let whose = holders().map(Some);
            Step::EndShares(key, dice.pick(&[&[None, None][..], &whose].concat()), dice.below(3) > 0)
        }
        _ => {
            let high = ABOVE_ANY_CLOCK + dice.below(1000);
            let number = dice.pick(&[5, high, high, high, Fence::MAX.get() - 1, Fence::MAX.get()]);
            Step::SetFence(key, number, Duration::from_secs(800))
        }
    }
}

/// Mostly one key, so that queues get long.
fn key(dice: &mut Dice) -> Key {
    let all = keys();
    dice.pick(&[0, 0, 0, 1, 1, 2].map(|nth: usize| all[nth].clone()))
}

fn not_after(dice: &mut Dice, wall: Stamp) -> Option<Stamp> {
    let late = Stamp::from_micros(1);
    let in_time = wall + Duration::from_secs(3600);
    dice.pick(&[None, None, None, Some(in_time), Some(in_time), Some(late)])
}

fn waits(dice: &mut Dice, wall: Stamp) -> Request {
    let attempt = attempt(dice, wall);
    let channels = [heard(), heard(), unheard()].concat();
    let channel = Some(dice.pick(&channels)).filter(|_| dice.below(6) > 0);
    // Invented tickets are older or younger than any clock's, and often equal.
    let ticket = dice.pick(&[None, None, None, None, None, Some(7), Some(8), Some(ABOVE_ANY_CLOCK)]);
    let ticket = ticket.map(|number| (dice.pick(&keys()), Ticket::new(number)));
    let queue_limit = dice.pick(&[None, None, None, None, Some(0), Some(1), Some(2)]);
    let nonce = dice.pick(&[None, Some(7), Some(8), Some(u128::MAX)]).map(Nonce::from_bits);
    let wait = Some(Wait { channel, nonce, ticket, queue_limit });
    Request::Grant { attempt, wait, not_after: not_after(dice, wall) }
}

const DAY: Duration = Duration::from_secs(86_400);

/// Also a run that began to vouch recently, or at a later clock reading than now; another run; and
/// a value that is not a run id.
fn vouch(dice: &mut Dice, wall: Stamp) -> Step {
    let before = |back: Duration| Stamp::from_micros(wall.as_micros() - back.as_micros() as u64);
    let since = |stamp: Stamp| format!("{RUN} {}", stamp.as_micros());
    let another = "f".repeat(40);
    let value = dice.pick(&[
        RUN.into(),
        since(before(60 * Duration::from_secs(1))),
        since(before(2 * LONGEST)),
        since(wall + 2 * LONGEST),
        another.clone(),
        format!("{another} {}", before(2 * LONGEST).as_micros()),
        format!("{RUN}-"),
        String::new(),
    ]);
    Step::Vouch(value, dice.pick(&[10, 20]) * DAY)
}

/// One that holds and waits for nothing, or itself.
fn successor(dice: &mut Dice, holder: Holder) -> Successor {
    let fresh = Holder::from_bits(1 << 64 | u128::from(dice.below(1 << 32)));
    let label = dice.pick(&[None, Some("web-4"), Some("")]);
    let label = label.map(|text| Label::new(text).expect("a label"));
    Successor { holder: dice.pick(&[fresh, fresh, fresh, holder]), label }
}

fn mark(dice: &mut Dice) -> Mark {
    let label = dice.pick(&[None, Some("web-3"), Some(""), Some(" two words")]);
    let label = label.map(|text| Label::new(text).expect("a label"));
    let mark = Mark::new(
        Stamp::from_micros(dice.below(1 << 50)),
        Fence::new(dice.below(1 << 50)).expect("a fence"),
        label,
    );
    if dice.below(2) == 0 { mark } else { mark.every(Duration::from_micros(dice.below(1 << 50))) }
}

fn note(dice: &mut Dice) -> BreakNote {
    let mut said = || dice.pick(&[None, Some("ada"), Some(""), Some("two words")]);
    let [by, reason] = [said(), said()].map(|text| text.map(|text| Label::new(text).expect("a label")));
    BreakNote { by, reason }
}

/// Every third attempt is made as a quorum makes it.
fn attempt(dice: &mut Dice, wall: Stamp) -> Attempt {
    if dice.below(3) == 0 { at_member(dice, wall) } else { alone(dice) }
}

fn at_member(dice: &mut Dice, wall: Stamp) -> Attempt {
    let attempt = alone(dice);
    let high = ABOVE_ANY_CLOCK + dice.below(1000);
    let number = dice.pick(&[wall.as_micros(), wall.as_micros(), 5, high, high, Fence::MAX.get()]);
    let proposal =
        Proposal { fence: Fence::new(number).expect("a fence"), max_ttl: Ttl::new(LONGEST).expect("a ttl") };
    attempt.at_member(attempt.holder, proposal)
}

fn alone(dice: &mut Dice) -> Attempt {
    let count = dice.pick(&[1, 1, 1, 1, 2, 3]);
    let keys: Vec<_> = (0..count).map(|_| key(dice)).collect();
    let claim = match dice.below(12) {
        0..=5 => Claim::exclusive_all(keys),
        6..=8 => Claim::shared(keys),
        9 | 10 => Claim::permits(keys, dice.pick(&[1, 1, 2, 3]), 3),
        _ => Claim::permits(keys, 1, 2),
    };
    let claim = claim.expect("some keys");
    let holder = dice.pick(&holders());
    let label = dice.pick(&[None, Some("web-3"), Some(""), Some(" two words")]);
    let label = label.map(|text| Label::new(text).expect("a label"));
    let ttl = Ttl::new(Duration::from_secs(dice.pick(&[100, 900, 1000, 5000]))).expect("a ttl");
    Attempt::new(claim, holder, label, ttl)
}

/// The holders of all histories, besides crowds.
fn holders() -> [Holder; 5] {
    [1, 2, 3, 4, u128::MAX - 7].map(Holder::from_bits)
}

/// The tickets that one side gave, and the fences that it showed.
#[derive(Debug, Default)]
pub struct Tickets {
    tickets: HashMap<Holder, (Key, Ticket)>,
    fences: HashMap<Key, Fence>,
}

impl Tickets {
    /// The requests of a step, as they are sent.
    #[must_use]
    pub fn requests(&self, step: &Step) -> Vec<Request> {
        match step {
            Step::Ask(request) => vec![request.clone()],
            Step::Return(request) => {
                let mut request = request.clone();
                if let Request::Grant { attempt, wait: Some(wait), .. } = &mut request {
                    wait.ticket = self.tickets.get(&attempt.holder).cloned();
                }
                vec![request]
            }
            Step::Break(key) => {
                let fence = self.fences.get(key).copied().unwrap_or(Fence::MAX);
                let by = Label::new("ada").ok();
                let note = BreakNote { by, reason: None };
                vec![Request::Break { key: key.clone(), fence, note }]
            }
            Step::Crowd(request, count) => (0..*count).map(|nth| by_somebody_else(request, nth)).collect(),
            _ => Vec::new(),
        }
    }

    /// Records an answer.
    pub fn note(&mut self, request: &Request, answer: &Answer) {
        if let (
            Request::Grant { attempt, .. },
            Answer::Grant(GrantAnswer::Busy { held_by, place: Some(place) }),
        ) = (request, answer)
        {
            self.tickets.insert(attempt.holder, (held_by.key.clone(), place.ticket));
        }
        if let Answer::Inspect(state) = answer {
            let fences = state.holders.iter().filter_map(|held_by| held_by.fence);
            self.fences.extend(fences.map(|fence| (state.key.clone(), fence)));
        }
    }
}

fn by_somebody_else(request: &Request, nth: u64) -> Request {
    let mut request = request.clone();
    if let Request::Grant { attempt, .. } = &mut request {
        attempt.holder = Holder::from_bits(1000 + u128::from(nth));
    }
    request
}

/// The proposal to a member of a quorum that might abstain.
const fn proposal(request: &Request) -> Option<Proposal> {
    match request {
        Request::Grant { attempt, .. }
        | Request::Rejoin { attempt, .. }
        | Request::Raise(attempt)
        | Request::Renew(attempt) => attempt.proposal,
        Request::Transfer { .. }
        | Request::Release(_)
        | Request::Advance(_)
        | Request::Mark { .. }
        | Request::Marked(_)
        | Request::Inspect(_)
        | Request::Break { .. } => None,
    }
}

/// How long the record of the run that vouches is kept at least.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// The expected results of a history: `core::apply`, on records that other programs write to as
/// well.
#[derive(Debug)]
pub struct Oracle {
    records: Records,
    now: Stamp,
    tickets: Tickets,
    subscribers: Listening,
    /// The end of shares that a step ends.
    ended: Stamp,
    /// The run that vouches for the leases, and until when that is kept.
    member_record: Option<(MemberRecord, Stamp)>,
    /// True if the store keeps one fence for each key, the last one, which is also that of a lease.
    has_one_fence: bool,
}

#[derive(Debug)]
struct Listening(BTreeSet<Channel>);

impl Subscribers for Listening {
    fn listens(&self, channel: &Channel) -> bool {
        self.0.contains(channel)
    }
}

/// The end of shares that a step ends, in a history that begins at `wall`: a whole millisecond
/// before it.
#[must_use]
pub fn just_before(wall: Stamp) -> Stamp {
    Stamp::from_micros((wall.as_micros() / 1000 - 1) * 1000)
}

impl Oracle {
    /// An empty store whose clock is at `wall`.
    #[must_use]
    pub fn new(wall: Stamp) -> Self {
        let subscribers = Listening(heard().into_iter().collect());
        let tickets = Tickets::default();
        Self {
            records: Records::default(),
            now: wall,
            tickets,
            subscribers,
            ended: just_before(wall),
            member_record: None,
            has_one_fence: false,
        }
    }

    /// The same for a store that keeps one fence for each key, the last one, which is also that of
    /// a lease: a lease loses its fence with that, and another fence becomes its own.
    #[must_use]
    pub const fn with_one_fence(mut self) -> Self {
        self.has_one_fence = true;
        self
    }

    /// Takes one step; returns its results, and the holders of its keys before or after it. The
    /// clock moves on by a tick with each request, as every store's does.
    pub fn take(&mut self, step: &Step) -> Vec<(Served, Vec<HolderInfo>)> {
        let requests = self.tickets.requests(step);
        let served = requests.into_iter().map(|request| {
            self.now = self.now + Duration::from_micros(1);
            let floor = Fence::new(self.now.as_micros()).unwrap_or(Fence::MAX);
            let context = ApplyContext::new(self.now, floor).with_window(WINDOW);
            let mut holders = self.holders_of(&request);
            let served = match proposal(&request) {
                Some(proposal) => {
                    let member_record = self.vouch(proposal);
                    self.records.voided = member_record.since.map(Stamp::from_micros);
                    let served = apply(
                        &mut self.records,
                        request.clone(),
                        &context.with_subscribers(&self.subscribers),
                    );
                    self.vouched(member_record, &served.answer);
                    served
                }
                None => {
                    apply(&mut self.records, request.clone(), &context.with_subscribers(&self.subscribers))
                }
            };
            self.tickets.note(&request, &served.answer);
            holders.extend(self.holders_of(&request));
            (served, holders)
        });
        let served = served.collect();
        self.meddle(step);
        served
    }

    /// All holders of a request's keys.
    fn holders_of(&mut self, request: &Request) -> Vec<HolderInfo> {
        let keys: Vec<_> = match request {
            Request::Grant { attempt, .. }
            | Request::Renew(attempt)
            | Request::Rejoin { attempt, .. }
            | Request::Raise(attempt)
            | Request::Transfer { attempt, .. }
            | Request::Mark { attempt, .. }
            | Request::Release(attempt) => attempt.claim.keys().collect(),
            Request::Break { key, .. } => vec![key],
            Request::Advance(_) | Request::Inspect(_) | Request::Marked(_) => Vec::new(),
        };
        let floor = Fence::new(self.now.as_micros()).unwrap_or(Fence::MAX);
        let context = ApplyContext::new(self.now, floor);
        let inspect =
            |key: &Key| match apply(&mut self.records, Request::Inspect(key.clone()), &context).answer {
                Answer::Inspect(state) => state.holders,
                _ => Vec::new(),
            };
        keys.into_iter().flat_map(inspect).collect()
    }

    /// The run that vouches for the leases once somebody has asked.
    fn vouch(&mut self, proposal: Proposal) -> MemberRecord {
        let (now, kept) = (self.now, KEPT.max(2 * proposal.max_ttl.duration()));
        let known = self.member_record.take().filter(|(member_record, _)| {
            member_record.run == RUN && member_record.since.is_none_or(|since| since <= now.as_micros())
        });
        let anew =
            || (MemberRecord { run: RUN.into(), since: Some(now.as_micros()), left: None }, now + kept);
        let (member_record, mut ends) = known.unwrap_or_else(anew);
        if member_record.since.is_none() && now.saturating_until(ends) < KEPT / 2 {
            ends = now + kept;
        }
        self.member_record = Some((member_record.clone(), ends));
        member_record
    }

    /// A member that serves continues to serve until it forgets again.
    fn vouched(&mut self, member_record: MemberRecord, answer: &Answer) {
        if member_record.since.is_some() && !matches!(answer, Answer::Quarantined { .. }) {
            let ends = self.now + KEPT.max(2 * LONGEST);
            self.member_record = Some((MemberRecord { since: None, ..member_record }, ends));
        }
    }

    /// Applies a step of another program.
    fn meddle(&mut self, step: &Step) {
        let (now, records) = (self.now, &mut self.records);
        match step {
            Step::Ask(_) | Step::Return(_) | Step::Break(_) | Step::Crowd(..) => {}
            Step::Set(key, value, ttl) => {
                let foreign = || Content::Foreign(value.as_slice().into());
                let content = wire::family(value).map_or_else(foreign, Content::Marker);
                records.locks.insert(key.clone(), Lock::new(content, ttl.map(|ttl| now + ttl)));
            }
            Step::MakeList(key) => {
                records.locks.insert(key.clone(), Lock::new(Content::NotALock, None));
            }
            Step::Delete(key) | Step::Expire(key) => drop(records.locks.remove(key)),
            Step::ForgetFence(key) => drop(records.fences.remove(key)),
            Step::SetFence(key, number, ttl) => {
                let fence = Fence::new(*number).expect("a fence");
                records.fences.insert(key.clone(), LastFence::new(fence, now + *ttl));
            }
            Step::ForgetQueue(key) => drop(records.queues.remove(key)),
            Step::EndShares(key, whose, marker) => {
                let shares = records.shares.entry(key.clone()).or_default();
                let all: Vec<_> = shares.all().map(|(holder, _)| holder).collect();
                for holder in all.into_iter().filter(|holder| whose.is_none_or(|whose| whose == *holder)) {
                    shares.change(holder, |share| share.ends = self.ended);
                }
                if shares.is_empty() {
                    records.shares.remove(key);
                }
                let is_marker = |lock: &Lock| matches!(lock.content, Content::Marker(_));
                if *marker && records.locks.get(key).is_some_and(is_marker) {
                    records.locks.remove(key);
                }
            }
            Step::ForgetShares(key) => drop(records.shares.remove(key)),
            Step::Vouch(value, kept) => {
                self.member_record = Some((MemberRecord::read(value, None), now + *kept));
            }
            Step::Unvouch => self.member_record = None,
        }
        let (Step::ForgetFence(key) | Step::SetFence(key, ..)) = step else { return };
        let last = self.records.fences.get(key).map(|last| last.fence);
        if self.has_one_fence
            && let Some(Content::Lease { fence, .. }) =
                self.records.locks.get_mut(key).map(|lock| &mut lock.content)
        {
            *fence = last;
        }
    }

    /// The records that the store must have now.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let (now, records) = (self.now, &self.records);
        let lasts = |(_, lock): &(&Key, &Lock)| lock.ends.is_none_or(|ends| now < ends);
        let locks = records.locks.iter().filter(lasts).map(|(key, lock)| {
            let left = lock.ends.map(|ends| now.saturating_until(ends));
            (key.clone(), (lock.content.clone(), left))
        });
        let fences = records
            .fences
            .iter()
            .map(|(key, last)| (key.clone(), (last.fence.get(), Some(now.saturating_until(last.ends)))));
        let queues = records.queues.iter().map(|(key, queue)| (key.clone(), QueueDump::of(queue, now)));
        let marks = records
            .marks
            .iter()
            .map(|(key, (mark, ends))| (key.clone(), (mark_of(mark), Some(now.saturating_until(*ends)))));
        let breaks = records
            .breaks
            .iter()
            .map(|(key, (broken, ends))| (key.clone(), (broken.clone(), Some(now.saturating_until(*ends)))));
        let shares = records.shares.iter().map(|(key, shares)| (key.clone(), SharesDump::of(shares, now)));
        let member_record = self.member_record.clone().map(|(member_record, ends)| MemberRecord {
            left: Some(now.saturating_until(ends)),
            ..member_record
        });
        Dump {
            locks: locks.collect(),
            fences: fences.collect(),
            queues: queues.collect(),
            shares: shares.collect(),
            marks: marks.collect(),
            breaks: breaks.collect(),
            member_record,
        }
    }
}
