//! Who is held down, frozen or cut off, and by which faults.

use model::base::{ProcessId, TopicId};
use std::collections::{BTreeMap, BTreeSet};

/// Processes with the faults that hold them.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(BTreeMap<ProcessId, BTreeSet<usize>>);
impl Held {
    pub(super) fn add(&mut self, process: ProcessId, fault: usize) {
        self.0.entry(process).or_default().insert(fault);
    }
    /// A fault lets go of a process that it holds: whether that was the last hold.
    pub(super) fn let_go(&mut self, process: ProcessId, fault: usize) -> bool {
        let Some(faults) = self.0.get_mut(&process) else { return false };
        let held = faults.remove(&fault);
        if faults.is_empty() {
            self.0.remove(&process);
            return held;
        }
        false
    }
    /// Every fault lets go of a process.
    pub(super) fn clear(&mut self, process: ProcessId) {
        self.0.remove(&process);
    }
    pub(super) fn has(&self, process: ProcessId) -> bool {
        self.0.contains_key(&process)
    }
}

/// All holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    /// Not to be started.
    pub(super) down: Held,
    /// Frozen. They die with the process: SIGSTOP meets one life.
    pub(super) frozen: Held,
    /// On the smaller side of a cut.
    pub(super) cut: Held,
    /// Topics that a broker forgets, by the faults that make it.
    pub(super) forgotten: BTreeMap<(ProcessId, TopicId), BTreeSet<usize>>,
}
impl Holds {
    /// Who is out in any of these ways.
    pub(super) fn out(&self) -> BTreeSet<ProcessId> {
        [&self.down, &self.frozen, &self.cut].iter().flat_map(|held| held.0.keys().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hold_decides() {
        let mut held = Held::default();
        let p = ProcessId(3);
        held.add(p, 0);
        held.add(p, 1);
        assert!(!held.let_go(p, 0));
        assert!(!held.let_go(p, 7));
        assert!(held.let_go(p, 1));
        assert!(!held.let_go(p, 1));
        held.add(p, 2);
        held.clear(p);
        assert!(!held.let_go(p, 2), "whoever was let go of by hand is not let go of again");
    }
}
