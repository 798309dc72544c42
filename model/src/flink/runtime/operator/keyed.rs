//! Keyed state: which keys are a subtask's own, and what a checkpoint keeps of an operator's keys (1.3, 2.8).

use super::super::graph::KeyColumn;
use super::deduplicate::DeduplicateState;
use super::group_window::GroupWindowState;
use super::join::JoinState;
use super::sql_window::{SessionState, SlicedState};
use super::window::Sum;
use crate::base::{Chain, Feed};
use crate::flink::key_groups::{KeyGroupRange, key_group, range_of};
use crate::flink::operator::WindowState;

/// The key groups of one subtask of a keyed operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyGroups {
    range: KeyGroupRange,
    max_parallelism: u32,
}
impl KeyGroups {
    /// Those of subtask `subtask` of `parallelism`.
    pub const fn new(subtask: u16, parallelism: u16, max_parallelism: u32) -> Self {
        let range = range_of(subtask as u32, max_parallelism, parallelism as u32);
        Self { range, max_parallelism }
    }
    /// Whether a key is one of the subtask's own.
    pub fn own(self, key: &KeyColumn, value: i64) -> bool {
        self.range.contains(key_group(key.hash_code(value), self.max_parallelism))
    }
}

/// What one subtask has snapshotted of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedState {
    /// Its key groups: a restored subtask looks for its keys where the groups meet.
    pub groups: KeyGroupRange,
    /// What it keeps.
    pub of: OfKeys,
}
/// State by operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfKeys {
    /// Rows that wait for the other kind.
    Join(JoinState),
    /// Open windows.
    Window(WindowState<i64, Sum>),
    /// Keys that have been seen.
    Deduplicate(DeduplicateState),
    /// Open group windows of SQL, and what they have handed on last.
    GroupWindow(GroupWindowState),
    /// Slices of SQL's windows, and the watermark.
    Sliced(SlicedState),
    /// Sessions of SQL, and the watermark.
    Sessions(SessionState),
}
impl KeyedState {
    pub(super) const fn new(groups: KeyGroups, of: OfKeys) -> Self {
        Self { groups: groups.range, of }
    }
    /// Whether a subtask with these key groups finds something of its own in it: keys, or the watermark that every subtask
    /// gets from all (T6).
    pub fn concerns(&self, groups: KeyGroups) -> bool {
        matches!(self.of, OfKeys::Sliced(_) | OfKeys::Sessions(_)) || self.groups.intersect(groups.range).is_some()
    }
    /// Bytes that its attempt has ever added, where state is only added to.
    pub const fn written(&self) -> Option<u64> {
        if let OfKeys::Deduplicate(state) = &self.of { Some(state.written()) } else { None }
    }
    /// Bytes, about: keys, values and timers as Flink's serializers write them.
    pub fn bytes(&self) -> u32 {
        match &self.of {
            OfKeys::Join(state) => state.bytes(),
            // A key with its window and accumulator; a timer with its key and namespace.
            OfKeys::Window(state) => (44 * state.windows() + 36 * state.timers()) as u32,
            OfKeys::GroupWindow((state, emitted)) => {
                (44 * state.windows() + 36 * state.timers() + 44 * emitted.len()) as u32
            }
            OfKeys::Sliced(state) => (36 * state.slices() + 28 * state.timers() + 8) as u32,
            OfKeys::Sessions((state, _)) => (44 * state.windows() + 36 * state.timers() + 8) as u32,
            OfKeys::Deduplicate(state) => state.bytes(),
        }
    }
}
impl Feed for KeyedState {
    fn feed(&self, chain: &mut Chain) {
        chain.halves(self.groups.first, self.groups.last);
        match &self.of {
            OfKeys::Join(state) => state.feed(chain),
            OfKeys::Window(state) => feed_windows(state, chain),
            OfKeys::GroupWindow((state, emitted)) => {
                feed_windows(state, chain);
                for (key, window, value) in emitted.iter() {
                    [*key, window.start, window.end, *value].iter().for_each(|n| chain.i64(*n));
                }
            }
            OfKeys::Deduplicate(state) => state.feed(chain),
            OfKeys::Sliced(state) => {
                for ((key, slice), sum) in state.content() {
                    [*key, *slice, sum.sum, sum.count].iter().for_each(|n| chain.i64(*n));
                }
                chain.i64(state.watermark());
            }
            OfKeys::Sessions((state, watermark)) => {
                feed_windows(state, chain);
                chain.i64(*watermark);
            }
        }
    }
}
fn feed_windows(state: &WindowState<i64, Sum>, chain: &mut Chain) {
    for ((key, window), sum) in state.content() {
        [*key, window.start, window.end, sum.sum, sum.count].iter().for_each(|n| chain.i64(*n));
    }
}
