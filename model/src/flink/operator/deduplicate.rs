//! Keep-first deduplication of SQL: `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) = 1` (flink.md 6).

use std::collections::BTreeMap;

/// A row of a changelog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// `+I`.
    Insert(T),
    /// `-U`: the row that was.
    UpdateBefore(T),
    /// `+U`: the row that takes its place.
    UpdateAfter(T),
}

/// The first row of each key. State without any watermark: it survives a restore as it is, and late rows take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepFirst<K, T> {
    by_event_time: bool,
    first: BTreeMap<K, (i64, T)>,
}
impl<K: Ord, T: Copy> KeepFirst<K, T> {
    /// Ordered by event time, where a row that is earlier takes the place of the first; or by processing time, where the first
    /// to come stays.
    pub const fn new(by_event_time: bool) -> Self {
        Self { by_event_time, first: BTreeMap::new() }
    }
    /// A row of a key.
    pub fn row(&mut self, key: K, time: i64, row: T) -> [Option<Change<T>>; 2] {
        match self.first.get_mut(&key) {
            None => {
                self.first.insert(key, (time, row));
                [Some(Change::Insert(row)), None]
            }
            Some(first) if self.by_event_time && time < first.0 => {
                let (_, before) = std::mem::replace(first, (time, row));
                [Some(Change::UpdateBefore(before)), Some(Change::UpdateAfter(row))]
            }
            Some(_) => [None, None],
        }
    }
}
