//! `SELECT k, COUNT(*) … GROUP BY k`: an updating result (`GroupAggFunction`).

use super::RowKind;
use std::collections::BTreeMap;

/// The count of each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCount<K>(BTreeMap<K, i64>);
impl<K> Default for GroupCount<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}
impl<K: Ord> GroupCount<K> {
    /// A row that comes or, with the kinds that take one away, goes. What it changes.
    pub fn row(&mut self, kind: RowKind, key: K) -> Vec<(RowKind, i64)> {
        let step = if matches!(kind, RowKind::Insert | RowKind::UpdateAfter) { 1 } else { -1 };
        let before = self.0.get(&key).copied();
        let after = before.unwrap_or(0) + step;
        if after > 0 {
            self.0.insert(key, after);
        } else {
            self.0.remove(&key);
        }
        match (before, after) {
            (None, 1..) => vec![(RowKind::Insert, after)],
            (None, _) => Vec::new(),
            (Some(before), 1..) => vec![(RowKind::UpdateBefore, before), (RowKind::UpdateAfter, after)],
            (Some(before), _) => vec![(RowKind::Delete, before)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_updated_and_goes_with_its_last_row() {
        let mut count = GroupCount::default();
        assert_eq!(count.row(RowKind::Insert, "a"), [(RowKind::Insert, 1)]);
        assert_eq!(count.row(RowKind::Insert, "a"), [(RowKind::UpdateBefore, 1), (RowKind::UpdateAfter, 2)]);
        count.row(RowKind::Delete, "a");
        assert_eq!(count.row(RowKind::Delete, "a"), [(RowKind::Delete, 1)]);
        assert!(count.row(RowKind::Delete, "a").is_empty());
    }
}
