//! Timers of a keyed operator (`InternalTimerServiceImpl`, `HeapPriorityQueueSet`).

use crate::base::Millis;
use std::collections::BTreeSet;

/// The watermark before any, and the least event time (`Long.MIN_VALUE`).
pub const NO_WATERMARK: i64 = i64::MIN;

/// A timer: when, and whose.
pub type Timer<K> = (i64, K);

/// What a snapshot keeps of one operator's timers: all of them, and nothing of the watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerState<K> {
    /// Event-time timers.
    pub event: Vec<Timer<K>>,
    /// Processing-time timers.
    pub processing: Vec<Timer<K>>,
}

/// The timers of one subtask. One timer per key and time. Timers of one time fire in the order of their keys; the real
/// order, that of a heap, is no promise.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    watermark: i64,
    event: BTreeSet<Timer<K>>,
    processing: BTreeSet<Timer<K>>,
}
impl<K: Ord + Clone> Default for Timers<K> {
    fn default() -> Self {
        Self { watermark: NO_WATERMARK, event: BTreeSet::new(), processing: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// The timers of a restored subtask: those of its key groups. The watermark begins again at its least value, so that an
    /// overdue timer waits until the new one reaches it.
    pub fn restore<'a>(states: impl IntoIterator<Item = &'a TimerState<K>>, mine: impl Fn(&K) -> bool) -> Self
    where
        K: 'a,
    {
        let mut timers = Self::default();
        for state in states {
            timers.event.extend(state.event.iter().filter(|(_, k)| mine(k)).cloned());
            timers.processing.extend(state.processing.iter().filter(|(_, k)| mine(k)).cloned());
        }
        timers
    }
    /// All timers, for a snapshot.
    pub fn snapshot(&self) -> TimerState<K> {
        TimerState {
            event: self.event.iter().cloned().collect(),
            processing: self.processing.iter().cloned().collect(),
        }
    }
    /// `currentWatermark`.
    pub const fn watermark(&self) -> i64 {
        self.watermark
    }
    /// Registers an event-time timer. One below the watermark waits for the next watermark.
    pub fn register_event(&mut self, key: K, at: i64) {
        self.event.insert((at, key));
    }
    /// Registers a processing-time timer.
    pub fn register_processing(&mut self, key: K, at: i64) {
        self.processing.insert((at, key));
    }
    /// Deletes an event-time timer.
    pub fn delete_event(&mut self, key: K, at: i64) {
        self.event.remove(&(at, key));
    }
    /// Deletes a processing-time timer.
    pub fn delete_processing(&mut self, key: K, at: i64) {
        self.processing.remove(&(at, key));
    }
    /// The watermark has come: it is in force before the first timer fires, and goes on after the last.
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = watermark;
    }
    /// Takes the next event-time timer that the watermark has reached. Those registered in between take part.
    pub fn pop_event(&mut self) -> Option<Timer<K>> {
        let due = self.event.first().is_some_and(|(at, _)| *at <= self.watermark);
        if due { self.event.pop_first() } else { None }
    }
    /// Takes the next processing-time timer not after `time`.
    pub fn pop_processing(&mut self, time: i64) -> Option<Timer<K>> {
        let due = self.processing.first().is_some_and(|(at, _)| *at <= time);
        if due { self.processing.pop_first() } else { None }
    }
    /// When the processing-time service calls: one millisecond after the timer's time, so that no element of that
    /// millisecond comes behind it (`SystemProcessingTimeService`). One long past is due at once.
    pub fn processing_deadline(&self) -> Option<Millis> {
        self.processing.first().map(|(at, _)| Millis(at.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_registered_while_firing_take_part() {
        let mut timers = Timers::default();
        timers.register_event("a", 10);
        timers.advance(12);
        assert_eq!(timers.pop_event(), Some((10, "a")));
        timers.register_event("a", 12);
        timers.register_event("a", 13);
        assert_eq!(timers.pop_event(), Some((12, "a")));
        assert_eq!(timers.pop_event(), None);
    }

    #[test]
    fn a_restore_forgets_the_watermark_and_keeps_the_timers() {
        let mut timers = Timers::default();
        timers.advance(20);
        timers.register_event("a", 10);
        timers.register_processing("b", 7);
        let mut restored = Timers::restore([&timers.snapshot()], |_| true);
        assert_eq!((restored.watermark(), restored.pop_event()), (NO_WATERMARK, None));
        restored.advance(10);
        assert_eq!(restored.pop_event(), Some((10, "a")));
        assert_eq!(restored.processing_deadline(), Some(Millis(8)));
    }
}
