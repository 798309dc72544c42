//! A source's enumerator in the JobManager: which subtask reads which split (`KafkaSourceEnumerator`, S1 to S5).

use super::super::graph::SourceConfig;
use super::super::rpc::OperatorEvent;
use super::alignment::Aligning;
use crate::base::{Fixes, TopicPartition};
use crate::flink::checkpoint::events::CoordinatorEvents;
use crate::flink::kafka::split_owner;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The enumerator of a source.
#[derive(Clone, Debug)]
pub struct Enumerator {
    /// The source's vertex.
    pub vertex: u16,
    parallelism: u32,
    config: Arc<SourceConfig>,
    /// Splits that some reader has been given.
    pub assigned: BTreeSet<TopicPartition>,
    /// Its events on their way to the readers.
    pub events: CoordinatorEvents<OperatorEvent>,
    /// Watermark alignment, where the source takes part in it.
    pub aligning: Option<Aligning>,
}
impl Enumerator {
    /// An enumerator that has given nothing yet, for readers of which none is there yet.
    pub fn new(vertex: u16, parallelism: u16, config: &Arc<SourceConfig>, fixes: Fixes) -> Self {
        let parallelism = u32::from(parallelism);
        let events = CoordinatorEvents::unready(parallelism);
        let aligning = Aligning::of(config, fixes);
        Self { vertex, parallelism, config: Arc::clone(config), assigned: BTreeSet::new(), events, aligning }
    }
    fn owned(&self, subtask: u32) -> Vec<TopicPartition> {
        let owner = |tp: &TopicPartition, topic: &str| split_owner(topic, u32::from(tp.partition), self.parallelism);
        let all = self.config.partitions.iter();
        all.filter(|(tp, topic)| owner(tp, topic) == subtask).map(|(tp, _)| *tp).collect()
    }
    /// A reader has registered: what it owns and nobody has. `None` if that is nothing; a reader of a bounded source hears that
    /// as well, for nothing comes later.
    pub fn registered(&mut self, subtask: u32) -> Option<OperatorEvent> {
        let splits: Vec<_> = self.owned(subtask).into_iter().filter(|tp| self.assigned.insert(*tp)).collect();
        (!splits.is_empty() || self.config.until.is_some())
            .then(|| OperatorEvent::AddSplits(splits.into_iter().map(|tp| (tp, None)).collect()))
    }
    /// What a checkpoint keeps of it: nothing of a source that cannot be read again.
    pub fn kept(&self) -> BTreeSet<TopicPartition> {
        if self.config.replays { self.assigned.clone() } else { BTreeSet::new() }
    }
    /// A reader is reset to a checkpoint: it gets back by itself what the checkpoint keeps; the rest is to be given anew (S5).
    pub fn reset(&mut self, subtask: u32, kept: &BTreeSet<TopicPartition>) {
        self.events.reset(subtask);
        for tp in self.owned(subtask) {
            if !kept.contains(&tp) {
                self.assigned.remove(&tp);
            }
        }
    }
}
