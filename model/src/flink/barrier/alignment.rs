//! What an alignment takes (`CheckpointBarrierHandler`).

use super::{Barrier, Notice};
use crate::base::Millis;
use crate::flink::checkpoint::CheckpointId;

/// The alignment at work or the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Alignment {
    id: Option<CheckpointId>,
    start: Option<Millis>,
    start_delay: Millis,
    processed: u64,
    /// How long it took, and the buffers processed, once it is over.
    result: Option<(Millis, u64)>,
    /// The snapshot has been taken before it was over.
    triggered: bool,
}
impl Alignment {
    /// A buffer of data is processed.
    pub fn processed(&mut self) {
        self.processed += u64::from(self.start.is_some());
    }
    pub fn start<T>(&mut self, barrier: Barrier, now: Millis, out: &mut Vec<Notice<T>>) {
        self.reset(out);
        self.start_delay = Millis((now - barrier.timestamp).0.max(0));
        self.start = Some(now);
        self.id = Some(barrier.id);
    }
    pub fn end<T>(&mut self, now: Millis, out: &mut Vec<Notice<T>>) {
        self.finish(self.start.map_or(Millis::ZERO, |start| now - start), out);
    }
    fn finish<T>(&mut self, took: Millis, out: &mut Vec<Notice<T>>) {
        if self.result.is_none() {
            self.result = Some((took, self.processed));
            if self.triggered {
                self.tell(out);
            }
        }
        self.start = None;
        self.processed = 0;
    }
    /// Gives up: what was triggered learns of no duration.
    pub fn reset<T>(&mut self, out: &mut Vec<Notice<T>>) {
        self.finish(Millis::ZERO, out);
        self.result = None;
        self.triggered = false;
    }
    fn tell<T>(&self, out: &mut Vec<Notice<T>>) {
        if let (Some(id), Some((alignment, processed))) = (self.id, self.result) {
            out.push(Notice::Metrics { id, start_delay: self.start_delay, alignment, processed });
        }
    }
    /// The snapshot is taken.
    pub fn trigger<T>(&mut self, barrier: Barrier, out: &mut Vec<Notice<T>>) {
        out.push(Notice::Trigger(barrier));
        if self.id != Some(barrier.id) {
            let zero = Millis::ZERO;
            out.push(Notice::Metrics { id: barrier.id, start_delay: zero, alignment: zero, processed: 0 });
        } else if self.result.is_some() {
            self.tell(out);
        } else {
            self.triggered = true;
        }
    }
}
