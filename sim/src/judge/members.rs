//! Rows made of many: of which events of the ledger.

use model::base::Ghost;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What each row made of many was made of.
#[derive(Clone, Debug, Default)]
pub struct Members {
    of: BTreeMap<u32, Arc<[Ghost]>>,
}
impl Members {
    /// A row was made of others, which may themselves be made of many.
    pub fn fold(&mut self, ghost: Ghost, members: &Arc<[Ghost]>) {
        self.of.insert(ghost.open(), Arc::clone(members));
    }
    /// The events behind a row by their numbers in the ledger, one for each time it holds them; rows that are in no ledger
    /// are left out.
    pub fn events(&self, ghost: Ghost) -> Vec<u32> {
        let mut events = Vec::new();
        let mut open = vec![ghost];
        while let Some(ghost) = open.pop() {
            if ghost.in_ledger() {
                events.push(ghost.open());
            } else if let Some(members) = self.of.get(&ghost.open()) {
                open.extend(members.iter().rev());
            }
        }
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
        let first = asides.fold([a, Ghost::NONE, b].into());
        let second = asides.fold([c].into());
        let all = asides.fold([first, second].into());
        for aside in asides.take() {
            let Aside::Fold(ghost, of) = aside else { panic!() };
            members.fold(ghost, &of);
        }
        assert_eq!(members.events(all), [4, 2, 4]);
        assert_eq!(members.events(b), [2]);
        assert!(members.events(Ghost::NONE).is_empty());
    }
}
