//! Rows made of many: of which events of the ledger.

use model::base::{Fold, Ghost, KeyMap, Point};
use std::sync::Arc;

/// Who made a row of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Where the job was.
    pub at: Point,
    /// The first watermark of the attempt made it.
    pub first: bool,
    /// How many rows had been made of many before it.
    pub nth: u32,
}
/// What each row made of many was made of, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Members {
    of: KeyMap<u32, (Arc<[Ghost]>, Made)>,
}
impl Members {
    /// A row was made of others, which may themselves be made of many.
    pub fn fold(&mut self, fold: &Fold) {
        let made = Made { at: fold.at, first: fold.first, nth: self.of.len() as u32 };
        self.of.insert(fold.ghost.open(), (Arc::clone(&fold.members), made));
    }
    /// Who made a row; none of one that was sent.
    pub fn made(&self, ghost: Ghost) -> Option<Made> {
        self.of.get(&ghost.open()).filter(|_| !ghost.in_ledger()).map(|(_, made)| *made)
    }
    /// The events behind a row by their numbers in the ledger, one for each time it holds them; rows that are in no ledger
    /// are left out.
    pub fn each(&self, ghost: Ghost, take: &mut impl FnMut(u32)) {
        if ghost.in_ledger() {
            take(ghost.open());
        } else if let Some((members, _)) = self.of.get(&ghost.open()) {
            members.iter().for_each(|member| self.each(*member, take));
        }
    }
    /// The same as a list.
    pub fn events(&self, ghost: Ghost) -> Vec<u32> {
        let mut events = Vec::new();
        self.each(ghost, &mut |event| events.push(event));
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{Aside, Asides};

    #[test]
    fn what_is_made_of_many_is_opened_down_to_the_events() {
        let (mut asides, mut members) = (Asides::default(), Members::default());
        let [a, b, c] = [4, 2, 4].map(Ghost::new);
        let mut fold = |members: &[Ghost]| asides.fold(members.into(), Point::default(), true);
        let first = fold(&[a, Ghost::NONE, b]);
        let second = fold(&[c]);
        let all = fold(&[first, second]);
        for aside in asides.take() {
            let Aside::Fold(fold) = aside else { panic!() };
            members.fold(&fold);
        }
        assert!(members.made(all).is_some_and(|made| made.first) && members.made(a).is_none());
        assert_eq!(members.events(all), [4, 2, 4]);
        assert_eq!(members.events(b), [2]);
        assert!(members.events(Ghost::NONE).is_empty());
    }
}
