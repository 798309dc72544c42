//! At-least-once barriers: counted, never waited for (`CheckpointBarrierTracker`).

use super::alignment::Alignment;
use super::{Barrier, BarrierKind, ChannelId, Notice};
use crate::base::Millis;
use crate::flink::checkpoint::{CheckpointId, Reason};
use std::collections::{BTreeSet, VecDeque};

/// How many checkpoints are counted at once (`MAX_CHECKPOINTS_TO_TRACK`).
const MOST_TRACKED: usize = 50;

/// What has come of one checkpoint (`CheckpointBarrierCount`).
#[derive(Clone, Debug)]
struct Count {
    barrier: Barrier,
    channels: BTreeSet<ChannelId>,
    target: usize,
    aborted: bool,
}
impl Count {
    /// Counts a channel; true if it was the last.
    fn add(&mut self, channel: ChannelId) -> bool {
        self.channels.insert(channel);
        self.channels.len() == self.target
    }
}

/// `CheckpointBarrierTracker`.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    after_finish: bool,
    open: usize,
    /// Oldest first.
    pending: VecDeque<Count>,
    latest: CheckpointId,
    pub alignment: Alignment,
}
impl Tracker {
    pub fn new(after_finish: bool, channels: usize) -> Self {
        let (pending, latest) = (VecDeque::new(), CheckpointId::NONE);
        Self { after_finish, open: channels, pending, latest, alignment: Alignment::default() }
    }
    pub fn barrier<T>(&mut self, channel: ChannelId, barrier: Barrier, now: Millis, out: &mut Vec<Notice<T>>) {
        if barrier.id > self.latest && self.open == 1 {
            self.alignment.start(barrier, now, out);
            self.alignment.end(now, out);
            return self.alignment.trigger(barrier, out);
        }
        if let Some(place) = self.pending.iter().position(|c| c.barrier.id == barrier.id) {
            if self.pending[place].add(channel) {
                self.complete(place, now, out);
            }
        } else if barrier.id > self.latest {
            self.alignment.start(barrier, now, out);
            self.track(barrier, channel, false);
            if self.pending.len() > MOST_TRACKED {
                self.pending.pop_front();
            }
        }
    }
    fn track(&mut self, barrier: Barrier, channel: ChannelId, aborted: bool) {
        self.latest = barrier.id;
        self.pending.push_back(Count { barrier, channels: BTreeSet::from([channel]), target: self.open, aborted });
    }
    /// The one at `place` has all its barriers: older ones are dropped without a word.
    fn complete<T>(&mut self, place: usize, now: Millis, out: &mut Vec<Notice<T>>) {
        let Some(count) = self.pending.drain(..=place).next_back() else { return };
        if count.aborted {
            return;
        }
        if count.barrier.id == self.latest {
            self.alignment.end(now, out);
        }
        self.alignment.trigger(count.barrier, out);
    }
    pub fn cancelled<T>(&mut self, channel: ChannelId, id: CheckpointId, out: &mut Vec<Notice<T>>) {
        let abort = |id| Notice::Abort(id, Reason::DeclinedOnCancellationBarrier);
        // One that the others had a part in before they ended is given up like any other.
        if id > self.latest && self.open == 1 {
            self.alignment.reset(out);
            return out.push(abort(id));
        }
        while let Some(older) = self.pending.pop_front_if(|c| c.barrier.id < id) {
            if !older.aborted {
                out.push(abort(older.barrier.id));
            }
        }
        match self.pending.front_mut().filter(|c| c.barrier.id == id) {
            Some(count) => {
                if !std::mem::replace(&mut count.aborted, true) {
                    out.push(abort(id));
                }
                // It is still counted, so that it is forgotten once all its barriers have come.
                if count.add(channel) {
                    self.pending.pop_front();
                }
            }
            None if id > self.latest => {
                out.push(abort(id));
                let nothing = Barrier { id, timestamp: Millis::ZERO, kind: BarrierKind::AtLeastOnce };
                self.track(nothing, channel, true);
            }
            None => {}
        }
    }
    pub fn ended<T>(&mut self, channel: ChannelId, now: Millis, out: &mut Vec<Notice<T>>) {
        self.open -= 1;
        if self.after_finish {
            let complete: Vec<bool> = self.pending.iter_mut().map(|c| c.add(channel)).collect();
            if let Some(newest) = complete.iter().rposition(|c| *c) {
                self.complete(newest, now, out);
            }
            return;
        }
        for count in self.pending.drain(..).filter(|c| !c.aborted) {
            out.push(Notice::Abort(count.barrier.id, Reason::DeclinedInputEndOfStream));
        }
        self.alignment.reset(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barrier(id: i64) -> Barrier {
        Barrier { id: CheckpointId(id), timestamp: Millis::ZERO, kind: BarrierKind::AtLeastOnce }
    }

    #[test]
    fn the_last_open_channel_gives_up_what_the_others_have_begun() {
        let mut tracker = Tracker::new(true, 2);
        let mut out: Vec<Notice<()>> = Vec::new();
        tracker.barrier(0, barrier(1), Millis::ZERO, &mut out);
        tracker.barrier(0, barrier(2), Millis::ZERO, &mut out);
        tracker.ended(0, Millis::ZERO, &mut out);
        tracker.cancelled(1, CheckpointId(2), &mut out);
        let aborted = [1, 2].map(|id| Notice::Abort(CheckpointId(id), Reason::DeclinedOnCancellationBarrier));
        assert_eq!(out, aborted);
        // Already given up: not once more.
        tracker.cancelled(1, CheckpointId(2), &mut out);
        assert_eq!(out, aborted);
    }
}
