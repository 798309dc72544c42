//! The segments of a log (`LogSegments`, `LocalLog`).

use super::segment::Segment;
use super::{AbortedEntry, Entry};
use crate::base::Offset;
use std::sync::Arc;

/// All segments, oldest first; there is always an active one. A clone copies pointers and the active segment's tail.
#[derive(Clone, Debug)]
pub struct Segments {
    older: Arc<Vec<Arc<Segment>>>,
    active: Segment,
}
impl Default for Segments {
    fn default() -> Self {
        Self::starting_at(Offset(0))
    }
}

impl Segments {
    /// One empty segment.
    pub fn starting_at(base: Offset) -> Self {
        Self { older: Arc::default(), active: Segment::new(base) }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.older.len() + 1
    }
    /// The `i`th, oldest first.
    pub fn get(&self, i: usize) -> Option<&Segment> {
        match self.older.get(i) {
            Some(segment) => Some(segment),
            None => (i == self.older.len()).then_some(&self.active),
        }
    }
    /// The one that is written to.
    pub fn active(&self) -> &Segment {
        &self.active
    }
    /// The one that is written to.
    pub fn active_mut(&mut self) -> &mut Segment {
        &mut self.active
    }
    /// The `i`th, to change it: only recovery touches a segment that is not active.
    pub fn get_mut(&mut self, i: usize) -> Option<&mut Segment> {
        if i < self.older.len() {
            return Some(Arc::make_mut(&mut Arc::make_mut(&mut self.older)[i]));
        }
        (i == self.older.len()).then_some(&mut self.active)
    }
    /// Base offset of the oldest.
    pub fn first_base(&self) -> Offset {
        self.older.first().map_or(self.active.base(), |s| s.base())
    }
    /// The base offsets, oldest first.
    pub fn bases(&self) -> impl DoubleEndedIterator<Item = Offset> {
        self.older.iter().map(|s| s.base()).chain(std::iter::once(self.active.base()))
    }
    /// The newest segment that begins at or below `offset`.
    pub fn floor(&self, offset: Offset) -> Option<usize> {
        if self.active.base() <= offset {
            return Some(self.older.len());
        }
        self.older.partition_point(|s| s.base() <= offset).checked_sub(1)
    }
    /// The segments that a walk of `from..to` touches: from the one that holds `from` (`LogSegments.values`).
    pub fn between(&self, from: Offset, to: Offset) -> impl Iterator<Item = &Segment> {
        let first = self.floor(from).unwrap_or(0);
        (first..self.count()).filter_map(|i| self.get(i)).take_while(move |s| s.base() < to)
    }
    /// The batches from the one that holds `offset`, or the next behind it, over all segments.
    pub fn entries_from(&self, offset: Offset) -> impl Iterator<Item = &Entry> {
        let first = self.floor(offset).unwrap_or(0);
        (first..self.count()).filter_map(|i| self.get(i)).flat_map(move |s| s.entries_from(offset))
    }
    /// Closes the active segment and begins a new one at `base`. An empty active segment at `base` stays.
    pub fn roll(&mut self, base: Offset) {
        if self.active.base() == base && self.active.is_empty() {
            return;
        }
        let closed = std::mem::replace(&mut self.active, Segment::new(base));
        Arc::make_mut(&mut self.older).push(Arc::new(closed));
    }
    /// Segments above `to` go, the one that holds it is cut. Gives back the bases of those that went.
    pub fn truncate(&mut self, to: Offset) -> Vec<Offset> {
        let mut gone = Vec::new();
        while self.active.base() > to {
            let Some(before) = Arc::make_mut(&mut self.older).pop() else { break };
            gone.push(self.active.base());
            self.active = Arc::unwrap_or_clone(before);
        }
        self.active.truncate(to);
        gone
    }
    /// Everything behind the `i`th goes. Gives back the bases of those that went.
    pub fn keep_through(&mut self, i: usize) -> Vec<Offset> {
        let mut gone = Vec::new();
        while self.older.len() > i {
            gone.push(self.active.base());
            let before = Arc::make_mut(&mut self.older).pop().expect("longer than i");
            self.active = Arc::unwrap_or_clone(before);
        }
        gone
    }
    /// The `n` oldest go; the active one stays. Gives back their bases.
    pub fn remove_oldest(&mut self, n: usize) -> Vec<Offset> {
        let n = n.min(self.older.len());
        Arc::make_mut(&mut self.older).drain(..n).map(|s| s.base()).collect()
    }
    /// What a reader of `from..upper` has to know of aborted transactions, beginning with the index of the `first`th segment
    /// (`collectAbortedTransactions`).
    pub fn collect_aborted(&self, first: usize, from: Offset, upper: Offset, out: &mut impl FnMut(AbortedEntry)) {
        for segment in (first..self.count()).filter_map(|i| self.get(i)) {
            if segment.aborted.collect(from, upper, out) {
                return;
            }
        }
    }
}
