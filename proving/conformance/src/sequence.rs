//! Random histories for the differential test: requests, and other programs' writes in between.

use std::time::Duration;

use leasehold_core::{
    Attempt, BreakNote, Channel, Claim, Fence, Holder, Key, Label, LeaseBreak, Mark, Nonce, Proposal,
    Request, Stamp, Successor, Ticket, Ttl, Wait,
};
use leasehold_redis::wire::channel_of;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

#[derive(Clone, Debug)]
pub enum Step {
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
    Delete(Key),
    Expire(Key),
    ForgetFence(Key),
    /// The fence is this number, kept for this long.
    SetFence(Key, u64, Duration),
    ForgetQueue(Key),
    /// All shares of a key, or one holder's, have just ended; the marker, too, unless it lasts longer.
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
pub const LONGEST: Duration = Duration::from_secs(5000);

/// Fences above this come from the last fence and are compared exactly; those below, with a clock.
pub const ABOVE_ANY_CLOCK: u64 = 1 << 52;

/// The claim window of all histories: so long that nothing expires unless a step expires it.
pub const WINDOW: Duration = Duration::from_secs(400);

/// A random generator with a seed, so that a failure can be replayed.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.0.next_u64() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)].clone()
    }
}

/// The keys of all histories: troublesome bytes, and each with a fence key of its own at a member.
pub fn keys() -> Vec<Key> {
    ["a:", "b{x}:c", "{:"].map(|name| Key::new(name).expect("a key")).to_vec()
}

/// The channels that somebody listens on in all histories.
pub fn heard() -> Vec<Channel> {
    [1, 2].map(channel_of).to_vec()
}

/// The channels of processes that cannot be notified.
fn silent() -> Vec<Channel> {
    [5, 6].map(Channel::silent).to_vec()
}

/// The channels that nobody listens on.
fn unheard() -> Vec<Channel> {
    [3, 4].map(channel_of).to_vec()
}

/// A history of this many steps, after some that lead to states that random steps seldom reach: a
/// queue; a lock that was handed over and not claimed; a channel that is passed over; more dead
/// waiters than one request removes.
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
        *attempt = attempt.at_member(attempt.holder, attempt.proposal.unwrap_or_else(|| proposal(7)));
    } else {
        attempt.proposal = None;
    }
    step
}

/// A history of the most frequent requests: a few attempts want one key, mostly held or with a queue.
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

/// The attempt of this holder, in an opening.
fn of(claim: &Claim, who: u128) -> Attempt {
    Attempt::new(claim.clone(), Holder::from_bits(who), None, ttl(900))
}

fn waits_on(claim: &Claim, who: u128, channel: &Channel) -> Request {
    let wait = Some(Wait { channel: Some(channel.clone()), ..Wait::default() });
    Request::Grant { attempt: of(claim, who), wait, not_after: None }
}

fn stands(claim: &Claim, who: u128, channel: &Channel) -> Step {
    Step::Ask(waits_on(claim, who, channel))
}

fn goes(claim: &Claim, who: u128) -> Step {
    Step::Ask(Request::Release(of(claim, who)))
}

/// The last of the holders.
const LAST: u128 = u128::MAX - 7;

/// More than one request looks at, or nearly so many.
const MANY: [u64; 4] = [99, 100, 101, 205];

fn opening(dice: &mut Dice) -> Vec<Step> {
    let key = keys().remove(0);
    let (one, other) = (Claim::exclusive(key.clone()), Claim::exclusive(keys().remove(1)));
    let both = Claim::exclusive_all(keys().into_iter().take(2)).expect("two keys");
    let [heard, unheard] = [dice.pick(&[heard(), heard(), silent()]), unheard()];
    let crowd = Step::Crowd(waits_on(&one, 9, &unheard[0]), dice.pick(&MANY));
    let takes =
        |claim, who| Step::Ask(Request::Grant { attempt: of(claim, who), wait: None, not_after: None });
    let (took, took_other) = (takes(&one, 1), takes(&other, 5));
    let line = [(2, &heard[0]), (3, &heard[0]), (4, &heard[1]), (LAST, &heard[1])];
    let line = line.map(|(who, channel)| stands(&one, who, channel));
    let line = [vec![took.clone()], line.to_vec()].concat();
    let (ends, breaks) = (Step::Expire(key.clone()), Step::Break(key.clone()));
    let handed = [line.clone(), vec![goes(&one, 1)]].concat();
    let struck = [handed.clone(), vec![ends.clone(), Step::Ask(Request::Advance(vec![key]))]].concat();
    let last_goes = vec![goes(&one, LAST)];
    // A waiter was handed one key and is silent since; it asks for two, of which the other is held.
    let refused = |who: u128| {
        let attempt = of(&both, who).at_member(Holder::from_bits(who), proposal(7));
        let rejoin = Step::Ask(Request::Rejoin { attempt, not_after: None });
        vec![Step::Vouch(RUN.into(), 20 * DAY), took_other.clone(), rejoin]
    };
    match dice.below(28) {
        16..=22 => together(dice),
        0 => line,
        10 => [line, vec![breaks]].concat(),
        11 => [handed, vec![breaks]].concat(),
        12 => [struck, vec![breaks]].concat(),
        13 => vec![took, crowd, breaks],
        7 => [handed, refused(2)].concat(),
        8 => [struck, last_goes, refused(4)].concat(),
        // The holder of one key is first in the queue of the other, and leaves.
        9 => {
            let queue = [stands(&other, 1, &heard[0]), stands(&other, 6, &heard[1])];
            [line, vec![took_other], queue.to_vec(), vec![goes(&both, 1)]].concat()
        }
        1 | 2 => handed,
        3 => struck,
        4 => [struck, last_goes].concat(),
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
    let read = Claim::shared([key.clone()]).expect("a key");
    let write = Claim::exclusive(key.clone());
    let permits = |weight| Claim::permits([key.clone()], weight, 3).expect("some of them");
    let [heard, unheard] = [dice.pick(&[heard(), heard(), silent()]), unheard()];
    let many = dice.pick(&MANY);
    let crowd = |channel| Step::Crowd(waits_on(&read, 9, channel), many);
    let behind = vec![
        stands(&read, 1, &heard[0]),
        stands(&read, 2, &heard[0]),
        stands(&write, 3, &heard[0]),
        stands(&read, 4, &heard[1]),
        stands(&read, LAST, &heard[0]),
    ];
    let few = vec![
        stands(&permits(2), 1, &heard[0]),
        stands(&permits(1), 2, &heard[1]),
        stands(&permits(2), 3, &heard[0]),
        stands(&permits(1), 4, &heard[1]),
        stands(&write, LAST, &heard[0]),
        goes(&write, dice.pick(&[1, 2])),
    ];
    let writes = stands(&write, 1, &heard[0]);
    let end_all = |marker| Step::EndShares(key.clone(), None, marker);
    match dice.below(10) {
        // The asking waiter is behind one that is handed the key meanwhile, and before one that is not.
        9 => vec![
            writes,
            stands(&read, 2, &heard[0]),
            stands(&read, 3, &heard[1]),
            stands(&write, 4, &heard[0]),
            Step::Expire(key),
            stands(&read, 3, &heard[1]),
        ],
        0 => behind,
        // The readers leave, and the writer has its turn; or the writer leaves, and others follow.
        1 => [behind, vec![goes(&write, 1), goes(&write, 2)]].concat(),
        // Another writer is behind them, and is notified once.
        2 => [behind, vec![stands(&write, 5, &heard[1]), goes(&write, 3)]].concat(),
        3 => {
            let lies = Step::EndShares(key, Some(Holder::from_bits(4)), false);
            [behind, vec![goes(&write, 3), lies]].concat()
        }
        4 | 5 => few,
        6 => {
            let channel = dice.pick(&[&heard[0], &heard[1], &unheard[0]]);
            vec![writes, crowd(channel), goes(&write, 1)]
        }
        7 => vec![crowd(&heard[0]), end_all(dice.below(2) > 0)],
        _ => vec![writes, crowd(&heard[1]), goes(&write, 1), end_all(dice.below(2) > 0)],
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
            Step::Ask(Request::Transfer { attempt, successor, not_after: not_after(dice, wall) })
        }
        60..=62 => Step::Break(key),
        63 => {
            let fence = fence(dice.pick(&[0, 5, ABOVE_ANY_CLOCK, Fence::MAX.get()]));
            Step::Ask(Request::Break { key, lease: LeaseBreak::new(fence, note(dice)) })
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
                let channel = dice.pick(&[&unheard()[..], &heard()[..1], &silent()[..1]].concat());
                wait.nonce = wait.nonce.filter(|_| !channel.is_silent());
                wait.channel = Some(channel);
                (wait.queue_limit, *not_after) = (None, None);
            }
            Step::Crowd(request, count)
        }
        36 | 37 => {
            // Also values that are nearly ours: another version, a cut id, capitals, a suffix.
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
    let channels = [heard(), heard(), unheard(), silent()].concat();
    let channel = Some(dice.pick(&channels)).filter(|_| dice.below(6) > 0);
    // Invented tickets are older or younger than any clock's, and often equal.
    let ticket = dice.pick(&[None, None, None, None, None, Some(7), Some(8), Some(ABOVE_ANY_CLOCK)]);
    let ticket = ticket.map(|number| (dice.pick(&keys()), Ticket::new(number)));
    let queue_limit = dice.pick(&[None, None, None, None, Some(0), Some(1), Some(2)]);
    let nonce = dice.pick(&[None, Some(7), Some(8), Some(u128::MAX)]).map(Nonce::from_bits);
    let nonce = nonce.filter(|_| channel.as_ref().is_some_and(|channel| !channel.is_silent()));
    let wait = Some(Wait { channel, nonce, ticket, queue_limit });
    Request::Grant { attempt, wait, not_after: not_after(dice, wall) }
}

pub const DAY: Duration = Duration::from_secs(86_400);

/// Also a run that began to vouch recently, or later than now; another run; and no run id.
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
    let label = label(dice, &[None, Some("web-4"), Some("")]);
    Successor { holder: dice.pick(&[fresh, fresh, fresh, holder]), label }
}

fn mark(dice: &mut Dice) -> Mark {
    let label = label(dice, &[None, Some("web-3"), Some(""), Some(" two words")]);
    let mark = Mark::new(Stamp::from_micros(dice.below(1 << 50)), fence(dice.below(1 << 50)), label);
    if dice.below(2) == 0 { mark } else { mark.every(Duration::from_micros(dice.below(1 << 50))) }
}

fn note(dice: &mut Dice) -> BreakNote {
    let mut said = || label(dice, &[None, Some("ada"), Some(""), Some("two words")]);
    let [by, reason] = [said(), said()];
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
    attempt.at_member(attempt.holder, proposal(number))
}

fn proposal(number: u64) -> Proposal {
    Proposal { fence: fence(number), max_ttl: ttl(LONGEST.as_secs()) }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).expect("a fence")
}

fn ttl(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).expect("a ttl")
}

fn label(dice: &mut Dice, from: &[Option<&str>]) -> Option<Label> {
    dice.pick(from).map(|text| Label::new(text).expect("a label"))
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
    let label = label(dice, &[None, Some("web-3"), Some(""), Some(" two words")]);
    Attempt::new(claim, holder, label, ttl(dice.pick(&[100, 900, 1000, 5000])))
}

/// The holders of all histories, besides crowds.
fn holders() -> [Holder; 5] {
    [1, 2, 3, 4, LAST].map(Holder::from_bits)
}
