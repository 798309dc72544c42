//! Keep-first deduplication in a chain ([`DeduplicateConfig`]).

use super::config::DeduplicateConfig;
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use crate::base::{Chain, Feed, Millis, Row};
use crate::flink::operator::KeepFirst;
use std::sync::Arc;

/// Keys that came between two snapshots, each with the time of its first row. It never changes: snapshots share it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    keys: Box<[(i64, i64)]>,
    newest: i64,
    digest: u64,
}
impl Segment {
    fn new(keys: Vec<(i64, i64)>) -> Arc<Self> {
        let mut chain = Chain::new(0);
        for (key, at) in &keys {
            chain.i64(*key);
            chain.i64(*at);
        }
        let newest = keys.iter().map(|(_, at)| *at).max().unwrap_or(i64::MIN);
        Arc::new(Self { keys: keys.into(), newest, digest: chain.link() })
    }
}

/// What a snapshot keeps: keys in the order in which they came. TTL counts from a key's first row, over a restore too (D5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeduplicateState {
    segments: Vec<Arc<Segment>>,
    entry: u32,
    written: u64,
}
impl DeduplicateState {
    fn keys(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.segments.iter().flat_map(|segment| segment.keys.iter().copied())
    }
    pub(super) fn bytes(&self) -> u32 {
        let keys: usize = self.segments.iter().map(|segment| segment.keys.len()).sum();
        u32::try_from(keys as u64 * u64::from(self.entry)).unwrap_or(u32::MAX)
    }
    /// Bytes that this attempt has ever added to it: what lies between two of these is new to the later one.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }
}
impl Feed for DeduplicateState {
    fn feed(&self, chain: &mut Chain) {
        self.segments.iter().for_each(|segment| chain.u64(segment.digest));
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct Deduplicate {
    config: DeduplicateConfig,
    groups: KeyGroups,
    first: KeepFirst<i64, ()>,
    segments: Vec<Arc<Segment>>,
    /// Since the last snapshot.
    fresh: Vec<(i64, i64)>,
    written: u64,
}
impl Deduplicate {
    pub(super) fn new(config: &DeduplicateConfig, groups: KeyGroups, restored: &[&DeduplicateState]) -> Self {
        let all = restored.iter().flat_map(|s| s.keys());
        let own: Vec<_> = all.filter(|(key, _)| groups.own(&config.key, *key)).collect();
        let kept = own.iter().map(|(key, at)| (*key, *at, ()));
        let first = KeepFirst::by_processing_time(config.ttl.map(|t| t.0), kept);
        let segments = if own.is_empty() { Vec::new() } else { vec![Segment::new(own)] };
        Self { config: config.clone(), groups, first, segments, fresh: Vec::new(), written: 0 }
    }
    pub(super) fn rows(&mut self, rows: &[Row], now: Millis, out: &mut Vec<Row>) {
        for row in rows {
            let key = row.cols[self.config.key.column()];
            if self.first.row(key, now.0, ())[0].is_some() {
                self.fresh.push((key, now.0));
                out.push(*row);
            }
        }
    }
    /// Keys that have expired go with a snapshot, as soon as all that came with them have: Flink's heap state drops them piece
    /// by piece too.
    pub(super) fn snapshot(&mut self, now: Millis) -> KeyedState {
        if !self.fresh.is_empty() {
            self.written += self.fresh.len() as u64 * u64::from(self.config.entry);
            self.segments.push(Segment::new(std::mem::take(&mut self.fresh)));
        }
        if let Some(Millis(ttl)) = self.config.ttl {
            self.segments.retain(|segment| segment.newest.saturating_add(ttl) > now.0);
        }
        let (segments, entry, written) = (self.segments.clone(), self.config.entry, self.written);
        KeyedState::new(self.groups, OfKeys::Deduplicate(DeduplicateState { segments, entry, written }))
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
    const fn config(ttl: Option<Millis>) -> DeduplicateConfig {
        DeduplicateConfig { key: KeyColumn::Long(0), ttl, entry: 17 }
    }

    #[test]
    fn the_time_to_live_counts_from_the_first_row_over_a_restore() {
        let config = config(Some(Millis(100)));
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
        let config = config(None);
        let mut one = Deduplicate::new(&config, ALL, &[]);
        (0..100).for_each(|key| assert_eq!(give(&mut one, key, key), 1));
        let state = one.snapshot(Millis(100));
        assert_eq!(state.bytes(), 1700);
        let OfKeys::Deduplicate(state) = state.of else { panic!() };
        let kept = (0..3).map(|subtask| {
            let mut part = Deduplicate::new(&config, KeyGroups::new(subtask, 3, 128), &[&state]);
            let OfKeys::Deduplicate(state) = part.snapshot(Millis(0)).of else { panic!() };
            state.keys().count()
        });
        assert_eq!(kept.sum::<usize>(), 100);
    }

    #[test]
    fn snapshots_share_what_they_have_in_common_and_expired_keys_go() {
        let mut one = Deduplicate::new(&config(Some(Millis(100))), ALL, &[]);
        let mut state = |from: i64, now: i64| {
            (from..from + 10).for_each(|key| assert_eq!(give(&mut one, key, now), 1));
            let OfKeys::Deduplicate(state) = one.snapshot(Millis(now)).of else { panic!() };
            state
        };
        let (first, second, third) = (state(0, 0), state(10, 50), state(20, 120));
        assert_eq!([first.bytes(), second.bytes(), third.bytes()], [170, 340, 340]);
        assert_eq!([first.written(), second.written(), third.written()], [170, 340, 510]);
        assert!(Arc::ptr_eq(&first.segments[0], &second.segments[0]));
        assert!(Arc::ptr_eq(&second.segments[1], &third.segments[0]));
    }
}
