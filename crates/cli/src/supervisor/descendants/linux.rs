//! All processes below us on Linux, in any group or session: found in /proc.
//!
//! We are a child subreaper, so orphans below us become our own children. Without children, none is
//! left; a process that was created during one search is found by the next.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use super::reap_with;

/// True if /proc shows the processes that we can signal, by their numbers, and not those of another
/// namespace.
pub(crate) fn are_found() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&*getpid().to_string()))
}

/// Makes us the parent of all orphans below us. Our children do not inherit that.
pub(crate) fn adopt_orphans() -> rustix::io::Result<()> {
    set_child_subreaper(Some(getpid()))
}

/// Processes that were below us before the command, and when each was started: numbers are used again.
#[derive(Debug, Default)]
pub(super) struct Earlier(BTreeMap<i32, String>);

impl Earlier {
    pub(super) fn of_now() -> Self {
        let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, any), Err(Errno::CHILD)) {
            return Self::default();
        }
        let all = below(getpid(), &Self::default()).into_iter();
        Self(all.filter_map(|id| Some((id.as_raw_pid(), start_in(&stat_of(id))?))).collect())
    }

    fn contains(&self, id: Pid) -> bool {
        self.0.get(&id.as_raw_pid()).is_some_and(|start| start_in(&stat_of(id)).as_ref() == Some(start))
    }
}

/// Sends a signal to all processes below us, the nearest first, except these earlier ones and what
/// is below them. Returns those that refuse it: sudo gave them to another user.
pub(super) fn signal(_: Pid, signal: Signal, earlier: &Earlier) -> Vec<Pid> {
    // A process that has ended meanwhile needs no signal.
    below(getpid(), earlier).into_iter().filter(|id| kill_process(*id, signal) == Err(Errno::PERM)).collect()
}

pub(in super::super) fn count() -> i32 {
    i32::try_from(below(getpid(), &Earlier::default()).len()).unwrap_or(i32::MAX)
}

/// Returns true if a process is left that is not our child: there is none.
pub(super) fn is_left(_: Pid) -> bool {
    false
}

pub(super) fn name_of(id: Pid) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Reaps our children that have ended. Returns true if others than these earlier ones are left.
pub(super) fn are_left_after_reaping(earlier: &Earlier) -> bool {
    let none_left = reap_with(WaitOptions::NOHANG, &mut |_, _| {});
    !none_left && (earlier.0.is_empty() || !below(getpid(), earlier).is_empty())
}

/// Returns true if a process was started by us or by a descendant of ours.
pub(crate) fn is_below_us(id: Pid) -> bool {
    let mut next = Some(id);
    while let Some(id) = next.filter(|id| *id != Pid::INIT) {
        next = parent_in(&stat_of(id)).and_then(Pid::from_raw);
        if next == Some(getpid()) {
            return true;
        }
    }
    false
}

fn below(ancestor: Pid, earlier: &Earlier) -> Vec<Pid> {
    let mut found = vec![ancestor];
    let listed = children_listed(ancestor).is_some();
    let all = if listed { BTreeMap::new() } else { children_by_parent() };
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = if listed { children_listed(parent) } else { all.get(&parent.as_raw_pid()).cloned() };
        let is_new = |id: &Pid| !found.contains(id) && !earlier.contains(*id);
        let new: Vec<_> = children.unwrap_or_default().into_iter().filter(is_new).collect();
        found.extend(new);
        next += 1;
    }
    found.split_off(1)
}

/// The children of each thread of a process. `None` if it has ended, or if the kernel lists none.
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

/// The line of proc(5) `stat`; empty if the process is gone.
fn stat_of(id: Pid) -> String {
    fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default()
}

fn parent_in(stat: &str) -> Option<i32> {
    behind_name(stat)?.split(' ').nth(1)?.parse().ok()
}

fn start_in(stat: &str) -> Option<String> {
    behind_name(stat)?.split(' ').nth(19).map(str::to_owned)
}

/// The program's name is in parentheses and may contain any characters.
fn behind_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(") ").map(|(_, behind_name)| behind_name)
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
        assert!(below(getpid(), &Earlier::default()).contains(&id));
        assert!(children_by_parent()[&getpid().as_raw_pid()].contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_earlier_process_is_known_by_its_number_and_its_start() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = id_of(&child.id().to_string()).unwrap();
        let earlier = Earlier::of_now();
        assert!(earlier.contains(id) && !below(getpid(), &earlier).contains(&id));
        let with_its_number = Earlier([(id.as_raw_pid(), "1".into())].into());
        assert!(!with_its_number.contains(id) && below(getpid(), &with_its_number).contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
