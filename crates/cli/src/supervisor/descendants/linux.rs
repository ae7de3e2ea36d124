//! All processes below us on Linux, in any group or session: found in /proc.
//!
//! We are a child subreaper: orphans of our descendants become our own children. So the kernel says
//! when none is left (there are no children), and a process that was created during one search is
//! found by the next.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper};

use super::reap_with;

/// Makes us the parent of all orphans below us. Our children do not inherit that.
pub(crate) fn adopt_orphans() -> rustix::io::Result<()> {
    set_child_subreaper(Some(getpid()))
}

/// Sends a signal to all processes below us, the nearest first. Returns those that refuse it: sudo
/// gave them to another user.
pub(in super::super) fn signal(_: Pid, signal: Signal) -> Vec<Pid> {
    // A process that has ended meanwhile needs no signal.
    below(getpid()).into_iter().filter(|id| kill_process(*id, signal) == Err(Errno::PERM)).collect()
}

pub(in super::super) fn count() -> i32 {
    i32::try_from(below(getpid()).len()).unwrap_or(i32::MAX)
}

/// Returns true if a process is left that is not our child: there is none.
pub(super) fn is_left(_: Pid) -> bool {
    false
}

pub(super) fn name_of(id: Pid) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Reaps the processes below us that have ended. Returns true if others are left.
pub(super) fn are_left_after_reaping() -> bool {
    !reap_with(WaitOptions::NOHANG, &mut |_, _| {})
}

/// Returns true if a process was started by us or by a descendant of ours.
pub(crate) fn is_below_us(id: Pid) -> bool {
    let mut next = Some(id);
    while let Some(id) = next.filter(|id| *id != Pid::INIT) {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        next = parent_in(&stat).and_then(Pid::from_raw);
        if next == Some(getpid()) {
            return true;
        }
    }
    false
}

fn below(ancestor: Pid) -> Vec<Pid> {
    let mut found = vec![ancestor];
    let listed = children_listed(ancestor).is_some();
    let all = if listed { BTreeMap::new() } else { children_by_parent() };
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = if listed { children_listed(parent) } else { all.get(&parent.as_raw_pid()).cloned() };
        let new: Vec<_> = children.unwrap_or_default().into_iter().filter(|id| !found.contains(id)).collect();
        found.extend(new);
        next += 1;
    }
    found.split_off(1)
}

/// The children of each thread of a process. `None` if it has ended, or if the kernel does not list
/// children.
fn children_listed(parent: Pid) -> Option<Vec<Pid>> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<_> = lists.collect();
    let ids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    (!lists.is_empty()).then(|| ids.filter_map(id_of).collect())
}

/// The children of all processes, which requires reading every process of the machine.
fn children_by_parent() -> BTreeMap<i32, Vec<Pid>> {
    let mut all = BTreeMap::<i32, Vec<Pid>>::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).ok();
        let child = entry.file_name().to_str().and_then(id_of);
        if let (Some(child), Some(parent)) = (child, stat.as_deref().and_then(parent_in)) {
            all.entry(parent).or_default().push(child);
        }
    }
    all
}

fn id_of(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// The parent in a line of proc(5) `stat`. The program's name before it is in parentheses and may
/// contain any characters.
fn parent_in(stat: &str) -> Option<i32> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_program_is_called() {
        assert_eq!(parent_in("7 (sh) S 5 7 7 0"), Some(5));
        assert_eq!(parent_in("7 (a) S 1 (b) R 6 7 7 0"), Some(6));
        assert_eq!(parent_in("7 (sh"), None);
    }

    #[test]
    fn both_ways_to_find_a_child_find_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = id_of(&child.id().to_string()).unwrap();
        assert!(below(getpid()).contains(&id));
        assert!(children_by_parent()[&getpid().as_raw_pid()].contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
