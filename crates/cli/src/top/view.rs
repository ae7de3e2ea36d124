//! The state of the display: which locks are shown, in which order, and which of them is selected.
//! Draws nothing and asks nothing.

use std::time::{Duration, Instant};

use leasehold::{Fence, HolderInfo, Key, KeyState, Owner};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::remembered::{Marks, Remembered};
use super::rows::{Row, Sort, arranged, later};
use super::watching::Known;
use crate::say::plain;

#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) store: String,
    pub(crate) known: Option<Known>,
    pub(crate) filter: String,
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) mode: Mode,
    pub(crate) page: Page,
    /// The first line of a page on the screen.
    pub(crate) scrolled: usize,
    /// The store's records about the lock of the page.
    pub(crate) remembered: Option<Remembered>,
    /// The marks of the store, once they are known.
    pub(crate) marks: Option<Marks>,
    pub(crate) said: Option<String>,
    /// The locks that match the filter, in order; a shared lock has a row for each holder.
    pub(crate) rows: Vec<Row>,
    pub(crate) chosen: usize,
    /// True once somebody has moved the selection. Until then, it is always the first row.
    moved: bool,
    /// The first visible row, and the number of rows that fit.
    pub(crate) first: usize,
    pub(crate) room: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Page {
    #[default]
    Locks,
    Lock(Key),
    Marks,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Watching,
    Explaining,
    Filtering,
    Confirming(Confirming),
}

/// A lease that will be broken after a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confirming {
    pub(crate) key: Key,
    pub(crate) who: String,
    pub(crate) fence: Fence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    End,
    Interrupt,
    Stop,
    Break(Key, Fence),
    Marks,
}

impl View {
    pub(crate) fn of(store: String) -> Self {
        Self { store, room: 1, ..Self::default() }
    }

    pub(crate) fn learn(&mut self, known: Known) {
        self.known = Some(known);
        self.arrange();
    }

    /// Sets the store's records about a lock, if its page is still shown.
    pub(crate) fn remember(&mut self, key: &Key, looked: Result<Remembered, String>) {
        match looked {
            Ok(remembered) if self.page == Page::Lock(key.clone()) => self.remembered = Some(remembered),
            Ok(_) => {}
            Err(error) => self.said = Some(error),
        }
    }

    pub(crate) fn learn_marks(&mut self, marks: Result<Marks, String>) {
        match marks {
            Ok(marks) => self.marks = Some(marks),
            Err(error) => self.said = Some(error),
        }
    }

    pub(crate) fn chosen_row(&self) -> Option<&Row> {
        self.rows.get(self.chosen)
    }

    pub(crate) fn chosen_key(&self) -> Option<Key> {
        self.chosen_row().map(|row| row.seen.state.key.clone())
    }

    pub(crate) fn since(&self) -> Duration {
        self.known.as_ref().map_or(Duration::ZERO, |known| Instant::now().saturating_duration_since(known.at))
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Interrupt,
                KeyCode::Char('z') => Action::Stop,
                _ => Action::Nothing,
            };
        }
        // Esc followed at once by a letter looks like this: neither is meant.
        if key.modifiers.contains(KeyModifiers::ALT) {
            return Action::Nothing;
        }
        match std::mem::replace(&mut self.mode, Mode::Watching) {
            Mode::Watching => return self.command(key.code),
            // Any key closes the help; a command is also executed.
            Mode::Explaining if matches!(key.code, KeyCode::Char('?') | KeyCode::Esc | KeyCode::Enter) => {}
            Mode::Explaining => return self.command(key.code),
            Mode::Filtering => self.write(key.code),
            // Only a plain yes confirms: anything else was typed ahead for another purpose.
            Mode::Confirming(Confirming { key: lock, fence, .. }) => match key.code {
                KeyCode::Char('y') => return Action::Break(lock, fence),
                _ => self.said = Some("nothing was broken".into()),
            },
        }
        Action::Nothing
    }

    fn command(&mut self, code: KeyCode) -> Action {
        self.said = None;
        match code {
            KeyCode::Char('q') => return Action::End,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Explaining,
            KeyCode::Char('m') if self.page != Page::Marks => {
                self.turn_to(Page::Marks);
                return Action::Marks;
            }
            _ if self.page != Page::Locks => self.on_a_page(code),
            _ => self.among_locks(code),
        }
        Action::Nothing
    }

    /// Handles a key on a page that is read from top to bottom.
    fn on_a_page(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Char('i' | 'm') => {
                self.turn_to(Page::Locks);
            }
            KeyCode::Char(' ') => self.scrolled += self.room,
            KeyCode::Char('b') if self.page != Page::Marks => self.ask_to_break(),
            _ => {
                // The length of the page is known when it is drawn.
                let scrolled = moved(code, self.scrolled, self.room, usize::MAX / 2);
                self.scrolled = scrolled.unwrap_or(self.scrolled);
            }
        }
    }

    fn turn_to(&mut self, page: Page) {
        self.page = page;
        self.scrolled = 0;
        self.remembered = None;
        self.marks = None;
    }

    fn among_locks(&mut self, code: KeyCode) {
        if let Some(chosen) = moved(code, self.chosen, self.room, self.rows.len().saturating_sub(1)) {
            self.chosen = chosen;
            self.moved = !matches!(code, KeyCode::Home | KeyCode::Char('g'));
            return;
        }
        match code {
            KeyCode::Enter | KeyCode::Char('i') => {
                self.moved = true;
                if let Some(key) = self.chosen_key() {
                    self.turn_to(Page::Lock(key));
                }
            }
            KeyCode::Char('/') => self.mode = Mode::Filtering,
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.arrange();
            }
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('b') => {
                self.moved = true;
                self.ask_to_break();
            }
            _ => {}
        }
    }

    /// Handles a key while the filter is written.
    fn write(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
                return;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.mode = Mode::Filtering;
        self.arrange();
    }

    fn ask_to_break(&mut self) {
        let key = match &self.page {
            Page::Lock(key) => Some(key.clone()),
            _ => self.chosen_key(),
        };
        let Some(key) = key else { return };
        // The lock of the page may be gone, and then another row is selected.
        let row = self.chosen_row().filter(|row| row.seen.state.key == key);
        let refused = match row.and_then(Row::holding) {
            Some(HolderInfo { owner: owner @ Owner::Holder { .. }, fence: Some(fence), .. }) => {
                let (who, fence) = (plain(&owner.to_string()), *fence);
                self.mode = Mode::Confirming(Confirming { key, who, fence });
                return;
            }
            Some(HolderInfo { owner: Owner::Holder { .. }, .. }) => {
                "its fence is not known, so there is no lease to name"
            }
            Some(_) => "another program's lock cannot be broken here: release it in that program",
            None => "nobody holds it",
        };
        self.said = Some(format!("{}: {refused}", plain(&key.to_string())));
    }

    /// Sorts the rows. The selected row stays selected, or if it is gone, the row in its place.
    fn arrange(&mut self) {
        let Some(known) = &self.known else { return };
        let chosen = self.rows.get(self.chosen).map(Row::identity).map(|(key, holder)| (key.clone(), holder));
        self.rows = arranged(&known.snapshots, &self.filter, self.sort, self.reversed);
        let at = chosen.and_then(|(key, holder)| {
            let same = |row: &Row| row.identity() == (&key, holder);
            let of_key = |row: &Row| row.seen.state.key == key;
            self.rows.iter().position(same).or_else(|| self.rows.iter().position(of_key))
        });
        let at = if self.moved { at } else { Some(0) };
        self.chosen = at.unwrap_or(self.chosen).min(self.rows.len().saturating_sub(1));
    }

    /// The lock of the page, as far as it is known.
    pub(crate) fn about(&self, key: &Key) -> KeyState {
        let known = self.known.as_ref().and_then(|known| {
            let at = known.snapshots.binary_search_by(|seen| seen.state.key.cmp(key)).ok()?;
            Some(later(&known.snapshots[at], self.since()))
        });
        known.unwrap_or_else(|| KeyState::new(key.clone(), Vec::new(), Vec::new()))
    }

    /// Scrolls so that the selected row is visible.
    pub(crate) fn scroll(&mut self, room: usize) {
        self.room = room.max(1);
        let last = self.rows.len().saturating_sub(self.room);
        let least = (self.chosen + 1).saturating_sub(self.room);
        self.first = self.first.clamp(least, self.chosen.max(least)).min(last);
    }
}

/// The place after a key that moves from one place to another; `None` for other keys.
fn moved(code: KeyCode, at: usize, room: usize, last: usize) -> Option<usize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::PageUp => at.saturating_sub(room),
        KeyCode::PageDown => (at + room).min(last),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use leasehold::{Holder, Locks, Marked, Stamp};

    use super::*;

    /// A view of locks that were really acquired: two held, one of them waited for.
    pub(in crate::top) fn view() -> View {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = Locks::in_memory();
            let web = locks.mutex("deploy").label("web-3").lock().await.unwrap();
            let night = locks.mutex("nightly").label("cron").lock().await.unwrap();
            let waits = tokio::spawn(locks.mutex("nightly").label("late").lock().within(LONG).into_future());
            let mut watch = locks.watch("");
            while watch.found().map(|seen| seen.state.waiters.len()).sum::<usize>() < 1 {
                watch.step().await.unwrap();
            }
            let mut view = View::of("memory:".into());
            view.learn(Known {
                snapshots: watch.found().collect(),
                at: Instant::now(),
                scanned: 1000,
                complete: true,
                fault: None,
            });
            waits.abort();
            drop((web, night));
            view
        })
    }

    const LONG: Duration = Duration::from_secs(60);

    pub(in crate::top) fn types(view: &mut View, keys: &str) -> Action {
        let press = |letter| match letter {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        keys.chars().map(|key| view.press(press(key).into())).last().unwrap()
    }

    fn keys(view: &View) -> Vec<String> {
        view.rows.iter().map(|row| row.seen.state.key.to_string()).collect()
    }

    #[test]
    fn a_filter_matches_keys_holders_and_waiters_and_escape_removes_it() {
        let mut view = view();
        assert_eq!(keys(&view), ["deploy", "nightly"]);
        let waiter = view.rows[1].seen.state.waiters[0].holder;
        let digits = format!("/{waiter}\n");
        for (text, left) in
            [("/DEP\n", "deploy"), ("/web-\n", "deploy"), ("/late\n", "nightly"), (&digits, "nightly")]
        {
            types(&mut view, text);
            assert_eq!(keys(&view), [left], "{text}");
            assert_eq!(view.chosen_key().unwrap().to_string(), left);
            types(&mut view, "\x1b");
            assert_eq!(keys(&view).len(), 2);
        }
        // While the filter is written, letters belong to it.
        assert_eq!(types(&mut view, "/q"), Action::Nothing);
        assert_eq!(keys(&view), [""; 0]);
        assert_eq!(types(&mut view, "\x1bq"), Action::End);
    }

    #[test]
    fn the_chosen_lock_stays_chosen_in_another_order() {
        let mut view = view();
        types(&mut view, "s");
        assert_eq!(view.chosen_key().unwrap().to_string(), "nightly", "nobody chose");
        types(&mut view, "js");
        types(&mut view, "sssss");
        assert_eq!((view.sort, keys(&view)), (Sort::Waiting, vec!["nightly".into(), "deploy".into()]));
        assert_eq!(view.chosen_key().unwrap().to_string(), "deploy");
        types(&mut view, "r");
        assert_eq!(keys(&view), ["deploy", "nightly"]);
        types(&mut view, "rsssss");
        assert_eq!((view.sort, view.chosen), (Sort::Key, 0));
        types(&mut view, "jj");
        assert_eq!(view.chosen_key().unwrap().to_string(), "nightly");
        let mut known = view.known.clone().unwrap();
        known.snapshots.pop();
        view.learn(known);
        assert_eq!(view.chosen_key().unwrap().to_string(), "deploy");
    }

    #[test]
    fn the_chosen_share_of_a_lock_stays_chosen_when_the_lock_is_looked_at_again() {
        let mut view = view();
        let mut known = view.known.clone().unwrap();
        let key = Key::new("deploy").unwrap();
        let share = |bits: u128| {
            let owner = Owner::Holder { holder: Holder::from_bits(bits << 96), label: None };
            HolderInfo::exclusive(key.clone(), owner, Fence::new(1), None)
        };
        let mut hold = |holders: &[u128]| {
            let holders = holders.iter().map(|bits| share(*bits)).collect();
            known.snapshots[0].state = Arc::new(KeyState::new(key.clone(), holders, Vec::new()));
            known.clone()
        };
        view.learn(hold(&[1, 2, 3]));
        types(&mut view, "j");
        view.learn(hold(&[4, 1, 2]));
        let chosen = view.chosen_row().unwrap();
        assert_eq!(chosen.identity(), (&Key::new("deploy").unwrap(), Some(Holder::from_bits(2 << 96))));
    }

    #[test]
    fn only_a_plain_yes_breaks_the_named_lease() {
        let mut view = view();
        let fence = view.chosen_row().and_then(|row| row.holding()?.fence).unwrap();
        let key = Key::new("deploy").unwrap();
        for no in ["n", "b", "\n", "\x1b", "Y", "q"] {
            assert_eq!(types(&mut view, "b"), Action::Nothing);
            assert!(
                matches!(&view.mode, Mode::Confirming(asked) if asked.key == key && asked.fence == fence)
            );
            assert_eq!(types(&mut view, no), Action::Nothing, "{no:?}");
            assert_eq!((&view.mode, view.said.as_deref()), (&Mode::Watching, Some("nothing was broken")));
        }
        // Updates in the meantime do not change the question.
        types(&mut view, "b");
        let mut known = view.known.clone().unwrap();
        known.snapshots.remove(0);
        view.learn(known);
        assert_eq!(types(&mut view, "y"), Action::Break(key, fence));
    }

    #[test]
    fn breaking_is_refused_without_asking_for_a_free_or_foreign_lock() {
        let mut view = view();
        let mut known = view.known.clone().unwrap();
        let key = Key::new("k").unwrap();
        let foreign = Owner::Foreign { value: b"theirs".as_slice().into() };
        for (holders, words) in [
            (vec![], "nobody holds it"),
            (vec![HolderInfo::exclusive(key.clone(), foreign, None, None)], "cannot be broken here"),
        ] {
            let state = KeyState::new(key.clone(), holders, Vec::new());
            known.snapshots.truncate(1);
            known.snapshots[0].state = Arc::new(state);
            view.learn(known.clone());
            types(&mut view, "b");
            assert_eq!(view.mode, Mode::Watching);
            assert!(view.said.as_ref().is_some_and(|said| said.contains(words)), "{:?}", view.said);
        }
    }

    #[test]
    fn the_page_of_a_lock_that_is_gone_asks_about_no_other_lock_and_shows_no_records_of_another() {
        let mut view = view();
        types(&mut view, "i");
        assert_eq!(view.page, Page::Lock(Key::new("deploy").unwrap()));
        let mut known = view.known.clone().unwrap();
        known.snapshots.remove(0);
        view.learn(known);
        types(&mut view, "b");
        assert_eq!((&view.mode, view.said.as_deref()), (&Mode::Watching, Some("deploy: nobody holds it")));
        let records =
            || Ok(Remembered { marked: Marked { mark: None, now: Stamp::from_micros(0) }, broken: None });
        view.remember(&Key::new("nightly").unwrap(), records());
        assert!(view.remembered.is_none());
        view.remember(&Key::new("deploy").unwrap(), records());
        assert!(view.remembered.is_some());
    }

    #[test]
    fn the_chosen_row_is_always_among_those_that_are_shown() {
        let mut view = view();
        let row = view.rows[0].clone();
        view.rows = vec![row; 100];
        for (chosen, room, first) in
            [(0, 10, 0), (9, 10, 0), (10, 10, 1), (99, 10, 90), (95, 10, 90), (5, 10, 5)]
        {
            view.chosen = chosen;
            view.scroll(room);
            assert_eq!(view.first, first, "{chosen} of {room}");
        }
        view.rows.clear();
        view.chosen = 0;
        view.scroll(0);
        assert_eq!(view.first, 0);
    }
}
