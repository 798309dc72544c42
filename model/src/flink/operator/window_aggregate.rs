//! The aggregate over SQL's window table functions (`WindowAggOperator` with the slicing processors,
//! `LocalSlicingWindowAggOperator`). Rules T1 to T8. Three clocks are apart in it: the watermark in its state, the progress of
//! the processor, and the watermark of its timers, which alone is not restored (FLINK-36663, open in 1.20.5).

use super::slices::{Slices, fired};
use super::{Accumulator, Pane};
use crate::base::{Fix, Fixes};
use crate::flink::timers::{NO_WATERMARK, TimerState, Timers};
use std::collections::BTreeMap;

/// Rows or partial results of slices that wait for a flush (`RecordsWindowBuffer`).
#[derive(Clone, Debug)]
struct Buffer<K, A> {
    slices: BTreeMap<(K, i64), A>,
    /// The earliest end among them.
    earliest: i64,
}
impl<K: Ord + Clone, A: Accumulator> Buffer<K, A> {
    const fn new() -> Self {
        Self { slices: BTreeMap::new(), earliest: i64::MAX }
    }
    fn slice(&mut self, key: K, slice: i64) -> &mut A {
        self.earliest = self.earliest.min(slice);
        self.slices.entry((key, slice)).or_default()
    }
    fn flush(&mut self) -> BTreeMap<(K, i64), A> {
        std::mem::replace(self, Self::new()).slices
    }
}

/// A partial result of a slice, from the local to the global aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial<K, A> {
    /// The key.
    pub key: K,
    /// The slice.
    pub slice: i64,
    /// What it holds.
    pub content: A,
}

/// The local aggregate of a two-phase plan. It drops nothing and keeps nothing over a checkpoint.
#[derive(Clone, Debug)]
pub struct LocalWindowAggregate<K, A> {
    slices: Slices,
    buffer: Buffer<K, A>,
    watermark: i64,
    next_trigger: i64,
}
impl<K: Ord + Clone, A: Accumulator> LocalWindowAggregate<K, A> {
    /// One that starts, fresh or restored: its clock begins at 0, not at the least watermark.
    pub const fn new(slices: Slices) -> Self {
        Self { slices, buffer: Buffer::new(), watermark: 0, next_trigger: 0 }
    }
    /// A row.
    pub fn row(&mut self, key: K, timestamp: i64, value: &A::Value) {
        self.buffer.slice(key, self.slices.slice_of(timestamp)).add(value);
    }
    /// A watermark: complete slices leave before it.
    pub fn watermark(&mut self, watermark: i64, out: &mut Vec<Partial<K, A>>) {
        if watermark <= self.watermark {
            return;
        }
        self.watermark = watermark;
        if watermark >= self.next_trigger {
            if fired(self.buffer.earliest, watermark) {
                self.before_barrier(out);
            }
            self.next_trigger = self.slices.next_trigger(watermark);
        }
    }
    /// What is buffered of each slice.
    pub fn contents(&self) -> impl Iterator<Item = &A> {
        self.buffer.slices.values()
    }
    /// A barrier: everything leaves before it.
    pub fn before_barrier(&mut self, out: &mut Vec<Partial<K, A>>) {
        let slices = self.buffer.flush().into_iter();
        out.extend(slices.map(|((key, slice), content)| Partial { key, slice, content }));
    }
}

/// What a snapshot keeps of one subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowAggregateState<K, A> {
    slices: Vec<((K, i64), A)>,
    timers: TimerState<(K, i64)>,
    /// Union list state: every subtask gets those of all and takes the least (T6).
    watermark: i64,
}
impl<K, A> WindowAggregateState<K, A> {
    /// Every slice of every key, with what it holds.
    pub fn content(&self) -> impl Iterator<Item = &((K, i64), A)> {
        self.slices.iter()
    }
    /// Number of slices.
    pub fn slices(&self) -> usize {
        self.slices.len()
    }
    /// Number of timers.
    pub fn timers(&self) -> usize {
        self.timers.event.len()
    }
    /// The watermark.
    pub const fn watermark(&self) -> i64 {
        self.watermark
    }
}

/// The single aggregate of a one-phase plan, or the global one of two.
#[derive(Clone, Debug)]
pub struct WindowAggregate<K, A> {
    slices: Slices,
    buffer: Buffer<K, A>,
    state: BTreeMap<(K, i64), A>,
    timers: Timers<(K, i64)>,
    watermark: i64,
    progress: i64,
    next_trigger: i64,
    fixes: Fixes,
}

impl<K: Ord + Clone, A: Accumulator> WindowAggregate<K, A> {
    /// One that starts fresh.
    pub fn new(slices: Slices, fixes: Fixes) -> Self {
        Self {
            slices,
            buffer: Buffer::new(),
            state: BTreeMap::new(),
            timers: Timers::default(),
            watermark: NO_WATERMARK,
            progress: NO_WATERMARK,
            next_trigger: NO_WATERMARK,
            fixes,
        }
    }
    /// One restored from the snapshots of its predecessors, as far as the keys are its own (FLINK-24501).
    pub fn restore<'a>(
        slices: Slices,
        states: impl IntoIterator<Item = &'a WindowAggregateState<K, A>, IntoIter: Clone>,
        mine: impl Fn(&K) -> bool,
        fixes: Fixes,
    ) -> Self
    where
        K: 'a,
        A: 'a,
    {
        let states = states.into_iter();
        let mut operator = Self::new(slices, fixes);
        operator.timers = Timers::restore(states.clone().map(|s| &s.timers), |(key, _)| mine(key));
        let kept = states.clone().flat_map(|s| &s.slices).filter(|((key, _), _)| mine(key));
        operator.state = kept.cloned().collect();
        if fixes.has(Fix::WindowWatermarkRestored) {
            operator.watermark = states.map(|s| s.watermark).min().unwrap_or(NO_WATERMARK);
            operator.progress = operator.watermark;
        }
        operator
    }
    /// The snapshot, after [`Self::before_barrier`].
    pub fn snapshot(&self) -> WindowAggregateState<K, A> {
        let slices = self.state.iter().map(|(place, content)| (place.clone(), content.clone())).collect();
        WindowAggregateState { slices, timers: self.timers.snapshot(), watermark: self.watermark }
    }
    /// The progress, by which it judges lateness (T3).
    pub const fn clock(&self) -> i64 {
        self.progress
    }
    /// The watermark of its timers, which no restore brings back.
    pub const fn timers(&self) -> i64 {
        self.timers.watermark()
    }
    /// What each slice holds, in the state and on its way there.
    pub fn contents(&self) -> impl Iterator<Item = &A> {
        self.state.values().chain(self.buffer.slices.values())
    }
    /// A row. False if it is late for every window: dropped.
    pub fn row(&mut self, key: K, timestamp: i64, value: &A::Value) -> bool {
        match self.accept(&key, self.slices.slice_of(timestamp)) {
            Some(slice) => {
                self.buffer.slice(key, slice).add(value);
                true
            }
            None => false,
        }
    }
    /// A partial result of a local aggregate; dropped whole if it is late for every window.
    pub fn partial(&mut self, partial: Partial<K, A>) -> bool {
        let Partial { key, slice, content } = partial;
        match self.accept(&key, slice) {
            Some(slice) => {
                self.buffer.slice(key, slice).merge(content);
                true
            }
            None => false,
        }
    }
    /// The slice that something for `slice` goes to, by the progress (T3, T4). What is late for some windows only makes the
    /// first of the others fire.
    fn accept(&mut self, key: &K, slice: i64) -> Option<i64> {
        if !fired(slice, self.progress) {
            return Some(slice);
        }
        if fired(self.slices.last_window(slice), self.progress) || !self.fixes.has(Fix::FiredSlicesTake) {
            return None;
        }
        let mut open = slice;
        while fired(open, self.progress) {
            open += self.slices.interval();
        }
        self.register(key.clone(), open);
        Some(self.slices.gathers_in(slice).unwrap_or(slice))
    }
    fn register(&mut self, key: K, window: i64) {
        self.timers.register_event((key, window), window - 1);
    }
    /// A barrier: what is buffered enters the state.
    pub fn before_barrier(&mut self) {
        for ((key, slice), content) in self.buffer.flush() {
            // Judged by the clock of the timers: after a restore that knows of no fired window, so they fire again.
            if !fired(slice, self.timers.watermark()) {
                self.register(key.clone(), slice);
            }
            self.state.entry((key, slice)).or_default().merge(content);
        }
    }
    /// A watermark. What goes on is never less than the restored one: the first after a restore, however low, brings that
    /// into force (T7).
    pub fn watermark(&mut self, watermark: i64, out: &mut Vec<Pane<K, A>>) -> i64 {
        if watermark > self.watermark {
            if watermark > self.progress {
                self.progress = watermark;
                if watermark >= self.next_trigger {
                    if fired(self.buffer.earliest, watermark) {
                        self.before_barrier();
                    }
                    self.next_trigger = self.slices.next_trigger(watermark);
                }
            }
            self.watermark = watermark;
        }
        self.timers.advance(self.watermark);
        while let Some((_, (key, window))) = self.timers.pop_event() {
            self.fire(key, window, out);
        }
        self.watermark
    }
    fn fire(&mut self, key: K, window: i64, out: &mut Vec<Pane<K, A>>) {
        let mut content: Option<A> = None;
        let gathers = self.slices.gathers_in(window);
        let others = self.slices.slices(window).filter(|slice| Some(*slice) != gathers);
        for slice in gathers.into_iter().chain(others) {
            if let Some(part) = self.state.get(&(key.clone(), slice)) {
                content.get_or_insert_default().merge(part.clone());
            }
        }
        if let (Some(slice), Some(content)) = (gathers, &content) {
            self.state.insert((key.clone(), slice), content.clone());
        }
        if let Some(next) = self.slices.next_window(window, content.is_none()) {
            self.register(key.clone(), next);
        }
        for slice in self.slices.expired(window) {
            self.state.remove(&(key.clone(), slice));
        }
        let window = self.slices.window(window);
        out.extend(content.map(|content| Pane { key, window, content }));
    }
}
