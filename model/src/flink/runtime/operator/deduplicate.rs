//! Keep-first deduplication in a chain ([`DeduplicateConfig`]).

use super::config::DeduplicateConfig;
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use crate::base::{Chain, Feed, Millis, Row, SharedMap};
use crate::flink::operator::KeepFirst;

/// What a snapshot keeps: keys, each with the time of its first row. TTL counts from there, over a restore too (D5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeduplicateState(SharedMap<i64, (i64, ())>);
impl DeduplicateState {
    pub(super) fn bytes(&self) -> u32 {
        // Key, boolean, time.
        17 * self.0.len() as u32
    }
}
impl Feed for DeduplicateState {
    fn feed(&self, chain: &mut Chain) {
        for (key, (at, ())) in self.0.iter() {
            chain.i64(*key);
            chain.i64(*at);
        }
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct Deduplicate {
    config: DeduplicateConfig,
    groups: KeyGroups,
    first: KeepFirst<i64, ()>,
}
impl Deduplicate {
    pub(super) fn new(config: &DeduplicateConfig, groups: KeyGroups, restored: &[&DeduplicateState]) -> Self {
        let all = restored.iter().flat_map(|s| s.0.iter());
        let own = all.filter(|(key, _)| groups.own(&config.key, **key)).map(|(key, (at, ()))| (*key, *at, ()));
        let first = KeepFirst::by_processing_time(config.ttl.map(|t| t.0), own);
        Self { config: config.clone(), groups, first }
    }
    pub(super) fn rows(&mut self, rows: &[Row], now: Millis, out: &mut Vec<Row>) {
        for row in rows {
            let key = row.cols[self.config.key.column()];
            if self.first.row(key, now.0, ())[0].is_some() {
                out.push(*row);
            }
        }
    }
    pub(super) fn snapshot(&self, now: Millis) -> KeyedState {
        KeyedState::new(self.groups, OfKeys::Deduplicate(DeduplicateState(self.first.live(now.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::*;

    fn give(deduplicate: &mut Deduplicate, key: i64, now: i64) -> usize {
        let mut out = Vec::new();
        deduplicate.rows(&[Row { cols: [key, 0, 0, 0], ..Row::default() }], Millis(now), &mut out);
        out.len()
    }
    const ALL: KeyGroups = KeyGroups::new(0, 1, 128);

    #[test]
    fn the_time_to_live_counts_from_the_first_row_over_a_restore() {
        let config = DeduplicateConfig { key: KeyColumn::Long(0), ttl: Some(Millis(100)) };
        let mut one = Deduplicate::new(&config, ALL, &[]);
        assert_eq!([give(&mut one, 1, 1000), give(&mut one, 1, 1099)], [1, 0]);
        let OfKeys::Deduplicate(state) = one.snapshot(Millis(1099)).of else { panic!() };
        let mut restored = Deduplicate::new(&config, ALL, &[&state]);
        assert_eq!(
            [give(&mut restored, 1, 1099), give(&mut restored, 1, 1100), give(&mut restored, 1, 1199)],
            [0, 1, 0]
        );
    }

    #[test]
    fn a_restore_at_another_parallelism_finds_every_key_once() {
        let config = DeduplicateConfig { key: KeyColumn::Long(0), ttl: None };
        let mut one = Deduplicate::new(&config, ALL, &[]);
        (0..100).for_each(|key| assert_eq!(give(&mut one, key, key), 1));
        let state = one.snapshot(Millis(100));
        assert_eq!(state.bytes(), 1700);
        let OfKeys::Deduplicate(state) = state.of else { panic!() };
        let kept = (0..3).map(|subtask| {
            let part = Deduplicate::new(&config, KeyGroups::new(subtask, 3, 128), &[&state]);
            let OfKeys::Deduplicate(state) = part.snapshot(Millis(0)).of else { panic!() };
            state.0.len()
        });
        assert_eq!(kept.sum::<usize>(), 100);
    }
}
