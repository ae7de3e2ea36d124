//! Causes the faults of the plan, and ends them.

use std::sync::Arc;

use crate::plan::{FaultKind, Plan, PlannedFault};
use crate::world::World;

pub(crate) fn enter(world: &Arc<World>, plan: &Plan) {
    for planned_fault in plan.planned_faults.clone() {
        let begins = planned_fault.clone();
        world.after(planned_fault.at, move |world| begin(world, &begins));
        world.after(planned_fault.at + planned_fault.lasts, move |world| end(world, &planned_fault));
    }
}

fn begin(world: &Arc<World>, planned_fault: &PlannedFault) {
    let now = world.executor.now();
    let PlannedFault { kind, lasts, process, node, .. } = *planned_fault;
    world.trace.say(now, || format!("TROUBLE   {kind:?} p{process} n{node} for {lasts:?}"));
    let until = now + u64::try_from(lasts.as_nanos()).unwrap_or(0);
    let machine = &world.machines[process];
    let dice = &mut world.watch().troubled_until(until);
    let mut network = world.network();
    let link = &mut network.links[process][node];
    let few = || u32::try_from(now % 3).unwrap_or(0) + 1;
    match kind {
        // These happen when they hit a message.
        FaultKind::RequestLost => return link.loses_requests += few(),
        FaultKind::ReplyLost => return link.loses_replies += few(),
        FaultKind::PushLost => return link.loses_pushes += few(),
        FaultKind::RequestRepeated => return link.repeats += few(),
        FaultKind::Slow => {
            // Some calls are in time, and some are not.
            let least = dice.within(5_000..200_000);
            link.slow = Some(least..least + dice.within(1_000..500_000));
        }
        FaultKind::CutOff => link.cut_off = link.cut_off.max(Some(until)),
        FaultKind::Deaf => link.deaf = true,
        FaultKind::Cut => {
            drop(network);
            world.cuts(process, node);
        }
        FaultKind::NodePaused => network.nodes[node].paused = network.nodes[node].up,
        FaultKind::NodeRestarted | FaultKind::NodeEmptied => {
            network.nodes[node].dies();
            if kind == FaultKind::NodeEmptied {
                network.nodes[node].forgets(now);
                world.watch().state_is_lost(now);
            }
            drop(network);
            world.hangs_up(node);
        }
        FaultKind::KeyLost => {
            let records = &mut network.nodes[node].records;
            let fence_too = dice.percent(30);
            let Some(key) = records.locks.keys().next().cloned() else { return };
            records.locks.remove(&key);
            if fence_too {
                records.fences.remove(&key);
            }
            world.watch().key_is_lost(now, fence_too);
        }
        FaultKind::NodeClockSet => {
            let by = i64::try_from(dice.within(1..6_000)).unwrap_or(1) * 1_000_000;
            let by = if dice.percent(50) { by } else { -by };
            network.nodes[node].clock.jumps(by);
            network.nodes[node].clock_is_off = true;
            world.watch().node_clock_is_set(now, by);
        }
        FaultKind::NodeClockWild => {
            let fast = if dice.percent(70) { 300_000 } else { -300_000 };
            network.nodes[node].clock.runs(now, fast);
            network.nodes[node].clock_is_off = true;
            world.watch().excuse_exclusion(until);
        }
        FaultKind::LeaseClockWild => {
            drop(network);
            machine.runs(if dice.percent(70) { -300_000 } else { 300_000 });
            let mut watch = world.watch();
            watch.excuse_exclusion(until);
            watch.clock_is_off(process);
        }
        FaultKind::ProcessPaused => machine.pauses(),
        FaultKind::ProcessCrashed => {
            drop(network);
            if !machine.is_alive() || world.machines.iter().filter(|machine| machine.is_alive()).count() < 2 {
                return;
            }
            crash(world, process, dice.percent(70));
        }
        FaultKind::WallClockSet => {
            let by = i64::try_from(dice.within(1..600_000)).unwrap_or(1) * 1_000_000;
            machine.wall_jumps(if dice.percent(50) { by } else { -by });
        }
        FaultKind::RequestStrayed | FaultKind::Cancelled => {}
    }
    world.happened(kind);
}

/// Ends a process. Its connections are closed, unless its whole machine is gone.
fn crash(world: &Arc<World>, process: usize, politely: bool) {
    let machine = &world.machines[process];
    machine.crashes();
    world.watch().process_is_gone(process);
    let nodes = world.network().nodes.len();
    for node in 0..nodes {
        world.abandons(process, node, politely);
    }
}

fn end(world: &Arc<World>, planned_fault: &PlannedFault) {
    let now = world.executor.now();
    let PlannedFault { kind, process, node, .. } = *planned_fault;
    world.trace.say(now, || format!("ends      {kind:?} p{process} n{node}"));
    let machine = &world.machines[process];
    match kind {
        FaultKind::NodePaused => world.catches_up(node),
        FaultKind::NodeRestarted | FaultKind::NodeEmptied => {
            let mut network = world.network();
            network.nodes[node].up = true;
            // The node notices the loss when it is up again.
            if network.nodes[node].records.voided.is_some() {
                let stamp = network.nodes[node].stamp(now);
                network.nodes[node].records.voided = Some(stamp);
            }
        }
        FaultKind::NodeClockWild => world.network().nodes[node].clock.runs(now, 0),
        FaultKind::LeaseClockWild => machine.runs(0),
        FaultKind::ProcessPaused => machine.resumes(),
        FaultKind::RequestLost | FaultKind::ReplyLost | FaultKind::PushLost | FaultKind::RequestRepeated => {
            // These last until they hit a message, but at most until the fault's end.
            let mut network = world.network();
            let link = &mut network.links[process][node];
            (link.loses_requests, link.loses_replies, link.loses_pushes, link.repeats) = (0, 0, 0, 0);
        }
        FaultKind::Slow | FaultKind::CutOff | FaultKind::Deaf => {
            world.network().links[process][node].heals();
        }
        _ => {}
    }
}
