//! Where the last fence stands, so that a native pair finds it only when nobody waits.

use super::{Few, Flaw, Who};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    #[default]
    Nothing,
    /// A counter that `INCR` began: below any floor, and without ttl.
    Counter,
    /// A fence; whether none was given since.
    Fence { latest: bool },
}

/// The main place, where a pair counts, and the one aside, where the fence stands while there is a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fence {
    main: Place,
    aside: Place,
    /// Whose pair is under way, and whether a fence was given since it counted.
    counted: Few<(Who, bool)>,
}

impl Fence {
    pub(super) fn forget(&mut self) {
        (self.main, self.aside) = (Place::Nothing, Place::Nothing);
    }

    /// `INCR`: says whether what it gives is above the floor.
    pub(super) fn count(&mut self, who: Who) -> bool {
        self.counted.retain(|(other, _)| *other != who);
        match self.main {
            Place::Fence { latest } => {
                self.counted.push((who, !latest));
                self.counted.sort_unstable();
                true
            }
            Place::Nothing | Place::Counter => {
                self.main = Place::Counter;
                false
            }
        }
    }

    /// Whether another fence was given that is not below the one that it counted.
    pub(super) fn was_overtaken(&mut self, who: Who) -> bool {
        let overtaken = self.counted.contains(&(who, true));
        self.counted.retain(|(other, _)| *other != who);
        overtaken
    }

    /// A fence above all others.
    pub(super) fn rise(&mut self, is_line: bool) {
        self.counted.iter_mut().for_each(|(_, overtaken)| *overtaken = true);
        (self.main, self.aside) = (self.main.aged(), self.aside.aged());
        *(if is_line { &mut self.aside } else { &mut self.main }) = Place::Fence { latest: true };
    }

    /// Moves the greater of the two to where it belongs, and gives it a ttl; a counter with a ttl is as good as none.
    pub(super) fn settle(&mut self, is_line: bool, flaw: Option<Flaw>) {
        let greater = match self.main.max(self.aside) {
            Place::Counter => Place::Nothing,
            other => other,
        };
        if flaw == Some(Flaw::CounterStays)
            && is_line
            && self.main == Place::Counter
            && self.aside != Place::Nothing
        {
            return;
        }
        let slips =
            matches!(flaw, Some(Flaw::PairSlipsPastTheLine | Flaw::OnlyTheFirstJoinerMarksAndPairsSlip));
        let to_main = !is_line || slips;
        (self.main, self.aside) = if to_main { (greater, Place::Nothing) } else { (Place::Nothing, greater) };
    }

    /// Whether the one place or the other holds what has no end.
    pub(super) fn has_endless(&self) -> bool {
        self.main == Place::Counter || self.aside == Place::Counter
    }
}

impl Place {
    fn aged(self) -> Self {
        if matches!(self, Self::Fence { .. }) { Self::Fence { latest: false } } else { self }
    }
}
