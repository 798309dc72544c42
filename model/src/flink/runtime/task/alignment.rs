//! A source's part in watermark alignment: it reports how far it is, and waits for others (A2, A5 to A7).

use super::super::rpc::Note;
use super::Task;
use super::time::SourceTime;
use crate::base::{Cx, TopicPartition};
use crate::kafka::messages::Message;

impl Task {
    /// The report to the coordinator, if it is due. A timer of the task's thread: it goes on while the outputs are full.
    pub(super) fn report_watermark(&mut self, now: crate::base::Millis) {
        let id = self.id();
        if let Some(watermark) = self.time.as_mut().and_then(|time| time.report(now)) {
            self.notes.push(Note::Reported(id, watermark));
        }
    }
    /// There is nothing left to read: it says so at once, for its report stands when the task is gone (FLINK-35157).
    pub(super) fn bound_nobody(&mut self) {
        let id = self.id();
        if let Some(time) = self.time.as_mut().filter(|time| time.aligns()) {
            time.finish();
            self.notes.extend(time.told().map(|watermark| Note::Reported(id, watermark)));
        }
    }
    /// The coordinator's limit.
    pub(super) fn align<W>(&mut self, limit: i64, cx: &mut Cx<'_, Message, W>) {
        self.time.iter_mut().for_each(|time| time.set_limit(limit));
        self.pause_splits(cx);
    }
    /// Splits that are ahead of the limit are not fetched any further; what is in the queue is still emitted (A7).
    pub(super) fn pause_splits<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let (Some(time), Some(source)) = (&self.time, &mut self.source) else { return };
        if time.aligns() && source.pause(|tp| time.split_waits(tp)) {
            cx.wake_port(self.fetcher(), Some(cx.now));
        }
    }
    /// Whether alignment keeps a split of its source from being read on.
    pub fn holds_split(&self, tp: TopicPartition) -> bool {
        self.source_waits() || self.source.as_ref().is_some_and(|source| source.is_paused(tp))
    }
    /// Whether the whole source is ahead of the limit.
    pub(super) fn source_waits(&self) -> bool {
        self.time.as_ref().is_some_and(SourceTime::source_waits)
    }
}
