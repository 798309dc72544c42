//! The window operator of the DataStream API (`WindowOperator`, `EventTimeTrigger`, `MergingWindowSet`). Rules W1 to W8.

use super::assigner::{Assigner, Window};
use super::panes::Panes;
use crate::base::{Fix, Fixes};
use crate::flink::timers::{TimerState, Timers};
use std::collections::BTreeMap;

/// What a window holds of its events.
pub trait Accumulator: Clone + Default {
    /// An event's value.
    type Value;
    /// Takes an event in.
    fn add(&mut self, value: &Self::Value);
    /// Takes in what another window holds, when sessions merge.
    fn merge(&mut self, other: Self);
}

/// A firing: the whole content of a window, stamped with its last millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pane<K, A> {
    /// The key.
    pub key: K,
    /// The window.
    pub window: Window,
    /// What it holds.
    pub content: A,
}

/// Whether an event went to no window because it is late: to the side output then. An event that no window takes though it
/// is not late vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late(pub bool);

/// What a snapshot keeps: open windows and their timers, nothing of the watermark (W1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowState<K, A> {
    windows: Vec<((K, Window), A)>,
    timers: TimerState<(K, Window)>,
}
impl<K, A> WindowState<K, A> {
    /// Every open window of every key, with what it holds.
    pub fn content(&self) -> impl Iterator<Item = &((K, Window), A)> {
        self.windows.iter()
    }
    /// Number of open windows.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }
    /// Number of timers.
    pub fn timers(&self) -> usize {
        self.timers.event.len()
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct WindowOperator<K, A> {
    assigner: Assigner,
    lateness: i64,
    /// By window; by pane, where windows share panes.
    windows: BTreeMap<K, BTreeMap<Window, A>>,
    panes: Option<Panes>,
    timers: Timers<(K, Window)>,
    fixes: Fixes,
}

impl<K: Ord + Clone, A: Accumulator> WindowOperator<K, A> {
    /// An operator that starts fresh; `lateness` is `allowedLateness` in milliseconds.
    pub fn new(assigner: Assigner, lateness: i64, fixes: Fixes) -> Self {
        Self { assigner, lateness, windows: BTreeMap::new(), panes: None, timers: Timers::default(), fixes }
    }
    /// An operator restored from the snapshots of its predecessors, as far as the keys are its own. Until a watermark comes
    /// nothing is late: an event of a window that had fired opens it anew.
    pub fn restore<'a>(
        assigner: Assigner,
        lateness: i64,
        states: impl IntoIterator<Item = &'a WindowState<K, A>, IntoIter: Clone>,
        mine: impl Fn(&K) -> bool,
        fixes: Fixes,
    ) -> Self
    where
        K: 'a,
        A: 'a,
    {
        let mut operator = Self::new(assigner, lateness, fixes);
        let states = states.into_iter();
        operator.timers = Timers::restore(states.clone().map(|s| &s.timers), |(key, _)| mine(key));
        for ((key, window), content) in states.flat_map(|s| &s.windows).filter(|((key, _), _)| mine(key)) {
            operator.windows.entry(key.clone()).or_default().insert(*window, content.clone());
        }
        operator
    }
    /// The same operator as older SQL's group windows have it: windows that overlap keep what they hold in panes that they
    /// share (`PanedWindowProcessFunction`). It differs from windows of their own after a restore: a window that was over and
    /// opens again holds what its panes still hold for later windows.
    pub fn in_panes(mut self) -> Self {
        self.panes = Panes::of(self.assigner);
        self
    }
    /// The snapshot.
    pub fn snapshot(&self) -> WindowState<K, A> {
        let all = self.windows.iter().flat_map(|(k, windows)| windows.iter().map(move |(w, a)| (k, *w, a)));
        let windows = all.map(|(key, window, content)| ((key.clone(), window), content.clone())).collect();
        WindowState { windows, timers: self.timers.snapshot() }
    }
    /// The watermark by which it judges lateness (W1).
    pub const fn clock(&self) -> i64 {
        self.timers.watermark()
    }
    /// What each open window holds.
    pub fn contents(&self) -> impl Iterator<Item = &A> {
        self.windows.values().flat_map(BTreeMap::values)
    }
    /// When a window's state goes (W2): never, if that is beyond time.
    const fn cleanup(&self, window: Window) -> i64 {
        window.max_timestamp().saturating_add(self.lateness)
    }
    const fn is_late(&self, window: Window) -> bool {
        self.cleanup(window) <= self.timers.watermark()
    }
    /// An event.
    pub fn element(&mut self, key: &K, timestamp: i64, value: &A::Value, out: &mut Vec<Pane<K, A>>) -> Late {
        let mut taken = self.put_in_pane(key, timestamp, value);
        let assigner = self.assigner;
        for window in assigner.windows(timestamp) {
            let window = if assigner.merging() { self.merge(key, window) } else { window };
            if self.is_late(window) {
                if assigner.merging() && !self.fixes.has(Fix::LateOpensNoSession) {
                    out.push(Pane { key: key.clone(), window, content: A::default() });
                }
                continue;
            }
            taken = true;
            if self.panes.is_none() {
                self.windows.entry(key.clone()).or_default().entry(window).or_default().add(value);
            }
            if window.max_timestamp() <= self.timers.watermark() {
                let content = self.content(key, window).unwrap_or_default();
                out.push(Pane { key: key.clone(), window, content });
            } else {
                self.timers.register_event((key.clone(), window), window.max_timestamp());
            }
            self.register_cleanup(key, window);
        }
        Late(!taken && timestamp.saturating_add(self.lateness) <= self.timers.watermark())
    }
    /// Into the pane that it belongs to, unless the last window of that is late; false without panes.
    fn put_in_pane(&mut self, key: &K, timestamp: i64, value: &A::Value) -> bool {
        let Some(panes) = self.panes else { return false };
        let pane = panes.pane(timestamp);
        let taken = !self.is_late(panes.last_window(pane));
        if taken {
            self.windows.entry(key.clone()).or_default().entry(pane).or_default().add(value);
        }
        taken
    }
    /// What a window holds: none if nothing.
    fn content(&self, key: &K, window: Window) -> Option<A> {
        let held = self.windows.get(key)?;
        let Some(panes) = self.panes else { return held.get(&window).cloned() };
        let mut parts = panes.split(window).filter_map(|pane| held.get(&pane)).cloned();
        let first = parts.next()?;
        Some(parts.fold(first, |mut all, part| {
            all.merge(part);
            all
        }))
    }
    /// The time of a window is up: gives what went with it, if that is all its own.
    fn clean(&mut self, key: &K, window: Window) -> Option<A> {
        let held = self.windows.get_mut(key)?;
        let gone = match self.panes {
            None => held.remove(&window),
            Some(panes) => {
                // A pane goes with the last window that it is in.
                let over = panes.split(window).filter(|pane| panes.last_window(*pane) == window);
                over.for_each(|pane| drop(held.remove(&pane)));
                None
            }
        };
        if held.is_empty() {
            self.windows.remove(key);
        }
        gone
    }
    fn register_cleanup(&mut self, key: &K, window: Window) {
        let at = self.cleanup(window);
        if at != i64::MAX {
            self.timers.register_event((key.clone(), window), at);
        }
    }
    /// The session that a new one becomes with all that it touches (W8): contents join, the timers of the old ones go. A new
    /// one that lies within an old one changes nothing.
    fn merge(&mut self, key: &K, window: Window) -> Window {
        let Some(sessions) = self.windows.get_mut(key) else { return window };
        let touched: Vec<Window> = sessions.keys().copied().filter(|w| w.touches(window)).collect();
        let merged = touched.iter().fold(window, |all, w| all.cover(*w));
        if touched.is_empty() || touched == [merged] {
            return merged;
        }
        let mut content = A::default();
        for old in touched {
            if let Some(part) = sessions.remove(&old) {
                content.merge(part);
            }
            for at in [old.max_timestamp(), old.max_timestamp().saturating_add(self.lateness)] {
                self.timers.delete_event((key.clone(), old), at);
            }
        }
        sessions.insert(merged, content);
        if merged.max_timestamp() > self.timers.watermark() {
            self.timers.register_event((key.clone(), merged), merged.max_timestamp());
        }
        merged
    }
    /// A watermark: windows whose last millisecond it reaches fire, those whose time is up go; then it goes on.
    pub fn watermark(&mut self, watermark: i64, out: &mut Vec<Pane<K, A>>) {
        self.timers.advance(watermark);
        while let Some((at, (key, window))) = self.timers.pop_event() {
            let fires = at == window.max_timestamp();
            let ends = at == window.max_timestamp().saturating_add(self.lateness);
            // What a window has for itself is handed on without a copy when it goes.
            let before = if fires && (!ends || self.panes.is_some()) { self.content(&key, window) } else { None };
            let gone = if ends { self.clean(&key, window).filter(|_| fires) } else { None };
            out.extend(before.or(gone).map(|content| Pane { key, window, content }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Count(u32);
    impl Accumulator for Count {
        type Value = ();
        fn add(&mut self, (): &()) {
            self.0 += 1;
        }
        fn merge(&mut self, other: Self) {
            self.0 += other.0;
        }
    }
    const TUMBLING: Assigner = Assigner::Tumbling { size: 10, offset: 0 };

    #[test]
    fn after_a_restore_a_fired_window_opens_anew_and_fires_with_what_came_late() {
        let mut operator = WindowOperator::<u8, Count>::new(TUMBLING, 0, Fixes::ALL);
        let mut out = Vec::new();
        operator.element(&1, 5, &(), &mut out);
        operator.watermark(9, &mut out);
        assert_eq!(operator.element(&1, 6, &(), &mut out), Late(true));
        let mut restored = WindowOperator::restore(TUMBLING, 0, &[operator.snapshot()], |_| true, Fixes::ALL);
        assert_eq!(restored.element(&1, 6, &(), &mut out), Late(false));
        restored.watermark(9, &mut out);
        assert_eq!(out.iter().map(|p| p.content.0).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn windows_in_panes_fire_as_windows_of_their_own_and_open_again_with_what_later_ones_still_hold() {
        const HOPPING: Assigner = Assigner::Sliding { size: 10, slide: 5, offset: 0 };
        let counts = |out: &[Pane<u8, Count>]| out.iter().map(|p| (p.window.end, p.content.0)).collect::<Vec<_>>();
        let mut again = Vec::new();
        for paned in [false, true] {
            let build = |operator: WindowOperator<u8, Count>| if paned { operator.in_panes() } else { operator };
            let mut operator = build(WindowOperator::new(HOPPING, 0, Fixes::ALL));
            let mut out = Vec::new();
            for at in [3, 7, 8, 11] {
                assert_eq!(operator.element(&1, at, &(), &mut out), Late(false));
            }
            operator.watermark(9, &mut out);
            assert_eq!(operator.element(&1, 2, &(), &mut out), Late(true), "in no window that is open");
            assert_eq!(operator.element(&1, 6, &(), &mut out), Late(false));
            operator.watermark(11, &mut out);
            let state = operator.snapshot();
            operator.watermark(30, &mut out);
            assert_eq!(counts(&out), [(5, 1), (10, 3), (15, 4), (20, 1)], "in panes: {paned}");
            assert_eq!(operator.contents().count(), 0);
            let mut operator = build(WindowOperator::restore(HOPPING, 0, &[state], |_| true, Fixes::ALL));
            let mut out = Vec::new();
            operator.element(&1, 9, &(), &mut out);
            operator.watermark(30, &mut out);
            again.push(counts(&out));
        }
        // 7, 8 and 6 still stand in the pane of 5 to 10, which the window up to 15 has too.
        assert_eq!(again, [[(10, 1), (15, 5), (20, 1)], [(10, 4), (15, 5), (20, 1)]]);
    }

    #[test]
    fn lateness_is_judged_after_the_merge() {
        let mut operator = WindowOperator::<u8, Count>::new(Assigner::Session { gap: 10 }, 0, Fixes::ALL);
        let mut out = Vec::new();
        operator.element(&1, 12, &(), &mut out);
        operator.watermark(15, &mut out);
        assert_eq!(operator.element(&1, 1, &(), &mut out), Late(true));
        assert_eq!(operator.element(&1, 2, &(), &mut out), Late(false));
        operator.watermark(21, &mut out);
        assert_eq!((out[0].window, out[0].content.0), (Window { start: 2, end: 22 }, 2));
    }
}
