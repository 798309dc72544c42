//! Exactly-once alignment, one checkpoint at a time (`SingleCheckpointBarrierHandler` and its states).

use super::alignment::Alignment;
use super::{Barrier, BarrierKind, ChannelId, Gates, Notice};
use crate::base::Millis;
use crate::flink::checkpoint::{CheckpointId, Reason};
use std::collections::{BTreeMap, BTreeSet};

/// Where the checkpoint stands (`BarrierHandlerState`). Only the alternating handler knows the unaligned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    WaitingForFirst,
    Collecting,
    WaitingForFirstUnaligned,
    CollectingUnaligned,
}

/// `SingleCheckpointBarrierHandler`.
#[derive(Clone, Debug)]
pub(super) struct SingleHandler {
    alternating: bool,
    after_finish: bool,
    open: usize,
    current: CheckpointId,
    /// The newest checkpoint that is over here, cancelled or complete.
    done: CheckpointId,
    pending: Option<Barrier>,
    aligned: BTreeSet<ChannelId>,
    target: usize,
    state: State,
    /// Places of announced barriers that have not been processed.
    announced: BTreeMap<ChannelId, u64>,
    /// Channels whose barrier was processed and whose senders wait.
    blocked: BTreeSet<ChannelId>,
    /// When the alignment of the pending checkpoint times out.
    timer: Option<Millis>,
    /// The checkpoint whose input is being captured.
    capturing: Option<CheckpointId>,
    pub alignment: Alignment,
}

/// What an event is handled with.
pub(super) struct At<'a, T> {
    pub now: Millis,
    pub inputs: &'a mut Gates<T>,
    pub out: &'a mut Vec<Notice<T>>,
}

impl SingleHandler {
    pub fn new(alternating: bool, after_finish: bool, channels: usize) -> Self {
        Self {
            alternating,
            after_finish,
            open: channels,
            current: CheckpointId::NONE,
            done: CheckpointId::NONE,
            pending: None,
            aligned: BTreeSet::new(),
            target: 0,
            state: State::WaitingForFirst,
            announced: BTreeMap::new(),
            blocked: BTreeSet::new(),
            timer: None,
            capturing: None,
            alignment: Alignment::default(),
        }
    }
    fn is_pending(&self) -> bool {
        self.current != self.done && self.current >= CheckpointId(0)
    }
    fn obsolete(&self, id: CheckpointId) -> bool {
        self.current > id || (self.current == id && !self.is_pending())
    }
    fn all_received(&self) -> bool {
        self.aligned.len() == self.target
    }
    /// When [`Self::timeout`] is due.
    pub const fn deadline(&self) -> Option<Millis> {
        self.timer
    }

    pub fn barrier<T: Clone>(&mut self, channel: ChannelId, barrier: Barrier, at: &mut At<'_, T>) {
        if self.obsolete(barrier.id) {
            if !barrier.unaligned() {
                at.inputs.resume(channel);
            }
            return;
        }
        self.check_new(barrier, at);
        self.mark_aligned(channel, barrier, at, |handler, at| handler.received(channel, barrier, at));
    }
    pub fn announcement<T: Clone>(&mut self, channel: ChannelId, barrier: Barrier, sequence: u64, at: &mut At<'_, T>) {
        self.check_new(barrier, at);
        if self.obsolete(barrier.id) {
            return;
        }
        match self.state {
            State::WaitingForFirst | State::Collecting => {
                self.announced.insert(channel, sequence);
            }
            State::WaitingForFirstUnaligned | State::CollectingUnaligned => at.inputs.prioritize(channel, sequence),
        }
    }
    pub fn cancelled<T: Clone>(&mut self, id: CheckpointId, at: &mut At<'_, T>) {
        if id > self.current || (id == self.current && !self.aligned.is_empty()) {
            self.abort(id, Reason::DeclinedOnCancellationBarrier, at);
        }
    }
    pub fn ended<T: Clone>(&mut self, channel: ChannelId, at: &mut At<'_, T>) {
        self.open -= 1;
        let Some(pending) = self.pending.filter(|_| self.is_pending()) else { return };
        if self.after_finish {
            self.mark_aligned(channel, pending, at, |handler, at| handler.finished(channel, pending, at));
        } else {
            self.abort(self.current, Reason::DeclinedInputEndOfStream, at);
        }
    }
    /// The alignment has taken too long.
    pub fn timeout<T: Clone>(&mut self, at: &mut At<'_, T>) {
        self.timer = None;
        let Some(barrier) = self.pending.filter(|_| self.is_pending()) else { return };
        if let Err(reason) = self.switch(barrier, at) {
            self.abort(barrier.id, reason, at);
        }
    }

    /// The first sign of a newer checkpoint ends the pending one.
    fn check_new<T: Clone>(&mut self, barrier: Barrier, at: &mut At<'_, T>) {
        if self.current >= barrier.id {
            return;
        }
        if self.is_pending() {
            self.abort(self.current, Reason::DeclinedSubsumed, at);
        }
        self.current = barrier.id;
        self.pending = Some(barrier);
        self.aligned.clear();
        self.target = self.open;
        if let (true, BarrierKind::Timeoutable(timeout)) = (self.alternating, barrier.kind) {
            self.timer = Some((barrier.timestamp + timeout).max(at.now));
        }
    }
    /// A channel has brought its part; `transform` is what the state makes of it.
    fn mark_aligned<T: Clone>(
        &mut self,
        channel: ChannelId,
        barrier: Barrier,
        at: &mut At<'_, T>,
        transform: impl FnOnce(&mut Self, &mut At<'_, T>) -> Result<(), Reason>,
    ) {
        self.aligned.insert(channel);
        if self.aligned.len() == 1 {
            self.alignment.start(barrier, at.now, at.out);
        }
        if self.all_received() {
            self.alignment.end(at.now, at.out);
        }
        if let Err(reason) = transform(self, at) {
            self.abort(self.current, reason, at);
        }
        if self.all_received() {
            self.aligned.clear();
            self.done = self.current;
            self.timer = None;
            if let Some(id) = self.capturing.take() {
                at.out.push(Notice::InputDone(id));
            }
        }
    }
    fn abort<T: Clone>(&mut self, id: CheckpointId, reason: Reason, at: &mut At<'_, T>) {
        self.current = self.current.max(id);
        self.done = self.done.max(id);
        self.pending = None;
        self.aligned.clear();
        self.target = 0;
        self.timer = None;
        if self.state == State::CollectingUnaligned {
            at.inputs.checkpoint_stopped(id);
        }
        self.finish(at);
        self.capturing = None;
        if id == self.current {
            self.alignment.reset(at.out);
        }
        at.out.push(Notice::Abort(id, reason));
    }

    fn received<T: Clone>(&mut self, channel: ChannelId, barrier: Barrier, at: &mut At<'_, T>) -> Result<(), Reason> {
        match self.state {
            State::WaitingForFirst | State::Collecting if barrier.unaligned() => {
                // An upstream task has switched, or never aligned.
                self.switch(barrier, at)?;
                self.received(channel, barrier, at)
            }
            State::WaitingForFirst | State::Collecting => {
                self.announced.remove(&channel);
                self.blocked.insert(channel);
                if self.all_received() {
                    self.alignment.trigger(barrier, at.out);
                    self.finish(at);
                    return Ok(());
                }
                self.state = State::Collecting;
                if self.timed_out(barrier, at.now) { self.switch(barrier, at) } else { Ok(()) }
            }
            State::WaitingForFirstUnaligned => {
                self.note_blocked(channel, barrier);
                self.start_unaligned(barrier, at)?;
                self.state = State::CollectingUnaligned;
                self.finish_if_complete(barrier.id, at);
                Ok(())
            }
            State::CollectingUnaligned => {
                self.note_blocked(channel, barrier);
                self.finish_if_complete(barrier.id, at);
                Ok(())
            }
        }
    }
    /// The sender of a channel whose aligned barrier came out of turn waits as well.
    fn note_blocked(&mut self, channel: ChannelId, barrier: Barrier) {
        if !barrier.unaligned() {
            self.blocked.insert(channel);
        }
    }
    fn finish_if_complete<T: Clone>(&mut self, id: CheckpointId, at: &mut At<'_, T>) {
        if self.all_received() {
            at.inputs.checkpoint_stopped(id);
            self.finish(at);
        }
    }
    /// A channel has ended while the checkpoint is pending.
    fn finished<T: Clone>(&mut self, channel: ChannelId, pending: Barrier, at: &mut At<'_, T>) -> Result<(), Reason> {
        self.blocked.remove(&channel);
        self.announced.remove(&channel);
        match self.state {
            State::WaitingForFirst | State::Collecting => {
                if self.all_received() {
                    self.alignment.trigger(pending, at.out);
                    self.finish(at);
                } else if self.state == State::Collecting && self.timed_out(pending, at.now) {
                    self.switch(pending, at)?;
                }
            }
            State::WaitingForFirstUnaligned => {}
            State::CollectingUnaligned => self.finish_if_complete(pending.id, at),
        }
        Ok(())
    }
    fn timed_out(&self, barrier: Barrier, now: Millis) -> bool {
        matches!(barrier.kind, BarrierKind::Timeoutable(timeout) if self.alternating && now - barrier.timestamp > timeout)
    }
    /// From aligned to unaligned: announced barriers jump the queue; a snapshot that has a barrier already is taken now.
    fn switch<T: Clone>(&mut self, barrier: Barrier, at: &mut At<'_, T>) -> Result<(), Reason> {
        let next = match self.state {
            State::WaitingForFirst => State::WaitingForFirstUnaligned,
            State::Collecting => State::CollectingUnaligned,
            State::WaitingForFirstUnaligned | State::CollectingUnaligned => return Ok(()),
        };
        for (channel, sequence) in std::mem::take(&mut self.announced) {
            at.inputs.prioritize(channel, sequence);
        }
        if next == State::CollectingUnaligned {
            self.start_unaligned(barrier, at)?;
        }
        self.state = next;
        Ok(())
    }
    fn start_unaligned<T: Clone>(&mut self, barrier: Barrier, at: &mut At<'_, T>) -> Result<(), Reason> {
        self.capturing = Some(barrier.id);
        at.inputs.checkpoint_started(barrier, at.out)?;
        self.alignment.trigger(barrier.as_unaligned(), at.out);
        Ok(())
    }
    /// The checkpoint is over: every channel goes on.
    fn finish<T: Clone>(&mut self, at: &mut At<'_, T>) {
        for channel in std::mem::take(&mut self.blocked) {
            at.inputs.resume(channel);
        }
        self.announced.clear();
        self.state = State::WaitingForFirst;
    }
}
