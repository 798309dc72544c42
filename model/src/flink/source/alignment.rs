//! Watermark alignment as the coordinator sees it (`SourceCoordinator`, FLIP-182). Rules A2 to A4.

use crate::base::{Fix, Fixes, Millis};
use std::collections::BTreeMap;

/// The reports of one source's subtasks.
#[derive(Clone, Debug)]
pub struct AlignmentGroup {
    max_drift: i64,
    reported: BTreeMap<u32, i64>,
    fixes: Fixes,
}
impl AlignmentGroup {
    /// `scan.watermark.alignment.max-drift`.
    pub const fn new(max_drift: Millis, fixes: Fixes) -> Self {
        Self { max_drift: max_drift.0, reported: BTreeMap::new(), fixes }
    }
    /// A subtask reports its watermark; `i64::MAX` while it is idle or finished.
    pub fn report(&mut self, subtask: u32, watermark: i64) {
        self.reported.insert(subtask, watermark);
    }
    /// The limit, and whom to send it to: who has ever reported. A report stays until the next, over a restart of its subtask
    /// too (A8).
    pub fn announce(&self) -> Option<(i64, impl Iterator<Item = u32>)> {
        let least = self.reported.values().min()?;
        let within = self.fixes.has(Fix::LimitWithinTime);
        let add = if within { i64::saturating_add } else { i64::wrapping_add };
        Some((add(*least, self.max_drift), self.reported.keys().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_reporter_decides_and_the_sum_stays_within_time() {
        let mut group = AlignmentGroup::new(Millis(1000), Fixes::ALL);
        assert!(group.announce().is_none());
        group.report(1, i64::MAX);
        assert_eq!(group.announce().map(|(limit, _)| limit), Some(i64::MAX));
        group.report(0, 500);
        assert_eq!(group.announce().map(|(limit, to)| (limit, to.count())), Some((1500, 2)));
        // A report stays until the next, over a restart of its subtask too (A8).
        group.report(1, 700);
        assert_eq!(group.announce().map(|(limit, _)| limit), Some(1500));
        group.report(0, 900);
        assert_eq!(group.announce().map(|(limit, _)| limit), Some(1700));
    }

    #[test]
    fn beyond_time_a_limit_would_hold_everybody() {
        let mut group = AlignmentGroup::new(Millis(1000), Fixes::ALL.without(Fix::LimitWithinTime));
        group.report(0, i64::MAX);
        assert!(group.announce().is_some_and(|(limit, _)| limit < 0));
    }
}
