use model::explore::explore;
use model::line::{Flaw, Line, Scope};

const LIMIT: usize = 6_000_000;

#[test]
fn probe() {
    let which = std::env::var("SCOPE").unwrap_or_default();
    let mut scope = Scope::apart(2);
    let mut flaw = None;
    for word in which.split_whitespace() {
        let (name, n) = word.split_once('=').unwrap_or((word, "1"));
        let count = n.parse::<u8>().unwrap_or(1);
        scope = match name {
            "apart" => Scope::apart(count),
            "siblings" => Scope::siblings(count),
            "timeless" => scope.timeless(),
            "pair" => scope.with_the_pair(),
            "pings" => scope.with_pings(),
            "patient" => scope.patient(),
            "crashes" => scope.crashes(count),
            "cancels" => scope.cancels(count),
            "lost" => scope.lost_pushes(count),
            "breaks" => scope.breaks(count),
            "flushes" => scope.flushes(count),
            "restarts" => scope.restarts(count),
            "strangers" => scope.strangers(count),
            "deletions" => scope.deletions(count),
            "line_ends" => scope.line_ends(count),
            "clock_steps" => scope.clock_steps(count),
            "flaw" => {
                flaw = Some(match n {
                    "RenewalDropsTheMark" => Flaw::RenewalDropsTheMark,
                    "HandOverDropsTheMark" => Flaw::HandOverDropsTheMark,
                    "OnlyTheFirstJoinerMarks" => Flaw::OnlyTheFirstJoinerMarks,
                    "MarksAStranger" => Flaw::MarksAStranger,
                    "ReleaseStaysInLine" => Flaw::ReleaseStaysInLine,
                    "TrustsTheCountOfThePush" => Flaw::TrustsTheCountOfThePush,
                    "AdvancesOnlyWhenTheOwnerLeaves" => Flaw::AdvancesOnlyWhenTheOwnerLeaves,
                    "CountsTheTtlAtOnce" => Flaw::CountsTheTtlAtOnce,
                    "CountsFromThePush" => Flaw::CountsFromThePush,
                    "CountsByTheServersClock" => Flaw::CountsByTheServersClock,
                    "ReleasesALatePush" => Flaw::ReleasesALatePush,
                    "ForgetsTheTicket" => Flaw::ForgetsTheTicket,
                    "StepsBackWithoutTheFlag" => Flaw::StepsBackWithoutTheFlag,
                    "PairSlipsPastTheLine" => Flaw::PairSlipsPastTheLine,
                    "PairCountsFirst" => Flaw::PairCountsFirst,
                    "CounterStays" => Flaw::CounterStays,
                    "NativeReleaseAfterJoining" => Flaw::NativeReleaseAfterJoining,
                    "NativeGivingUp" => Flaw::NativeGivingUp,
                    "NoUnclaimedRecord" => Flaw::NoUnclaimedRecord,
                    "ClaimLeavesTheRecord" => Flaw::ClaimLeavesTheRecord,
                    "LateClaimLeavesTheRecord" => Flaw::LateClaimLeavesTheRecord,
                    "StrikeStays" => Flaw::StrikeStays,
                    "ReusesTheChannel" => Flaw::ReusesTheChannel,
                    "JoinWithoutNotAfter" => Flaw::JoinWithoutNotAfter,
                    "GivesUpOnce" => Flaw::GivesUpOnce,
                    "TellsNoNewHead" => Flaw::TellsNoNewHead,
                    "OnlyAHandOverTellsTheHead" => Flaw::OnlyAHandOverTellsTheHead,
                    "SiblingsStayAway" => Flaw::SiblingsStayAway,
                    _ => panic!("{n}"),
                });
                scope
            }
            _ => scope,
        };
    }
    let begun = std::time::Instant::now();
    let found = explore(Line::new(flaw, scope), LIMIT);
    match &found {
        model::explore::Finding::Sound { states } => println!("SOUND {states} in {:?}: {which}", begun.elapsed()),
        model::explore::Finding::Broken(trace) => println!("BROKEN in {:?}: {which}\n{trace}", begun.elapsed()),
        _ => {}
    }
}
