//! Keep-first deduplication of SQL: `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) = 1` (flink.md 6).

use super::RowKind;
use crate::base::KeyMap;
use std::hash::Hash;

/// The first row of each key. State without any watermark: it survives a restore as it is, and late rows take part.
#[derive(Clone, Debug)]
pub struct KeepFirst<K, T> {
    by_event_time: bool,
    /// `table.exec.state.ttl`: an entry of this age is none (D5: on create and write, never returned when expired).
    ttl: Option<i64>,
    first: KeyMap<K, (i64, T)>,
}
impl<K: Hash + Ord + Clone, T: Copy> KeepFirst<K, T> {
    /// Ordered by event time, where a row that is earlier takes the place of the first; or by processing time, where the first
    /// to come stays.
    pub fn new(by_event_time: bool) -> Self {
        Self { by_event_time, ttl: None, first: KeyMap::new() }
    }
    /// Ordered by processing time, with a time to live from a key's first row on, and what a snapshot had kept.
    pub fn by_processing_time(ttl: Option<i64>, kept: impl Iterator<Item = (K, i64, T)>) -> Self {
        let mut first = KeyMap::new();
        kept.for_each(|(key, at, row)| _ = first.insert(key, (at, row)));
        Self { by_event_time: false, ttl, first }
    }
    /// A row of a key.
    pub fn row(&mut self, key: K, time: i64, row: T) -> [Option<(RowKind, T)>; 2] {
        let ttl = self.ttl;
        let live = |at: i64| ttl.is_none_or(|ttl| at.saturating_add(ttl) > time);
        match self.first.get_mut(&key).filter(|(at, _)| live(*at)) {
            None => {
                self.first.insert(key, (time, row));
                [Some((RowKind::Insert, row)), None]
            }
            Some(first) if self.by_event_time && time < first.0 => {
                let (_, before) = std::mem::replace(first, (time, row));
                [Some((RowKind::UpdateBefore, before)), Some((RowKind::UpdateAfter, row))]
            }
            Some(_) => [None, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_event_time_an_earlier_row_takes_the_place_and_an_equal_one_does_not() {
        let mut first = KeepFirst::new(true);
        assert_eq!(first.row("k", 1000, 'a'), [Some((RowKind::Insert, 'a')), None]);
        assert_eq!(first.row("k", 1000, 'b'), [None, None]);
        let replaced = [Some((RowKind::UpdateBefore, 'a')), Some((RowKind::UpdateAfter, 'c'))];
        assert_eq!(first.row("k", 999, 'c'), replaced);
        let mut arrival = KeepFirst::new(false);
        arrival.row("k", 1000, 'a');
        assert_eq!(arrival.row("k", 1, 'b'), [None, None]);
    }
}
