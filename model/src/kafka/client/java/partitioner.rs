//! Where records without a key go (`BuiltInPartitioner`, KIP-794): to one partition until about `batch.size` bytes went
//! there, then to another, the less loaded more often.

use super::dice::Dice;
use crate::base::{BrokerId, TopicId, TopicPartition};
use crate::kafka::client::ClusterView;

/// The sticky partition of a topic.
#[derive(Clone, Debug)]
pub struct StickyPartitioner {
    topic: TopicId,
    batch_size: u32,
    current: Option<u16>,
    produced: u32,
    /// The queues' lengths where they say something; empty else.
    load: Vec<(u16, u32)>,
}

impl StickyPartitioner {
    /// None chosen yet.
    pub const fn new(topic: TopicId, batch_size: u32) -> Self {
        Self { topic, batch_size, current: None, produced: 0, load: Vec::new() }
    }
    /// The partition for the next record; `None` while the topic has none.
    pub fn peek(&mut self, view: &ClusterView, dice: &mut Dice) -> Option<u16> {
        if self.current.is_none() {
            self.switch(view, dice);
        }
        self.current
    }
    /// Notes bytes produced to the current partition and switches once it had enough: at `batch.size` if `enable` (its
    /// queue has no batch that could take more), at twice that in any case.
    pub fn produced(&mut self, bytes: u32, enable: bool, view: &ClusterView, dice: &mut Dice) {
        self.produced += bytes;
        let enough = self.produced >= self.batch_size && enable;
        if enough || self.produced >= self.batch_size.saturating_mul(2) {
            self.switch(view, dice);
        }
    }
    fn switch(&mut self, view: &ClusterView, dice: &mut Dice) {
        self.produced = 0;
        if let Some(longest) = self.load.iter().map(|(_, n)| *n).max() {
            // Each partition weighs one more than its queue is shorter than the longest.
            let weights = self.load.iter().map(|(partition, n)| (*partition, longest + 1 - n));
            let mut drawn = dice.below(weights.clone().map(|(_, w)| u64::from(w)).sum());
            self.current = weights.into_iter().find_map(|(partition, weight)| {
                let here = drawn < u64::from(weight);
                drawn = drawn.saturating_sub(u64::from(weight));
                here.then_some(partition)
            });
            return;
        }
        let range = TopicPartition { topic: self.topic, partition: 0 }..=TopicPartition {
            topic: self.topic,
            partition: u16::MAX,
        };
        let all = view.leaders.range(range);
        let has_leader = |l: &crate::kafka::client::Leader| l.node != BrokerId::NONE;
        let available: Vec<u16> = all.clone().filter(|(_, l)| has_leader(l)).map(|(tp, _)| tp.partition).collect();
        let choice = if available.is_empty() { all.map(|(tp, _)| tp.partition).collect() } else { available };
        self.current = (!choice.is_empty()).then(|| choice[dice.below(choice.len() as u64) as usize]);
    }
    /// Takes queue lengths of the available partitions; `None` where adaptive partitioning has nothing to go by. `all`:
    /// number of partitions written so far.
    pub fn update_load(&mut self, queues: Option<&[(u16, u32)]>, all: usize) {
        self.load.clear();
        let Some(queues) = queues else { return };
        let equal = queues.iter().all(|(_, n)| *n == queues[0].1);
        if all >= 2 && !(equal && queues.len() == all) {
            self.load.extend_from_slice(queues);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_queue_is_chosen_more_often() {
        let mut p = StickyPartitioner::new(TopicId(0), 100);
        p.update_load(Some(&[(0, 3), (1, 0)]), 2);
        let picks: Vec<_> = (0..5)
            .map(|n| {
                p.current = None;
                p.peek(&ClusterView::default(), &mut Dice::Listed([n].into()))
            })
            .collect();
        assert_eq!(picks, [Some(0), Some(1), Some(1), Some(1), Some(1)]);
        p.update_load(Some(&[(0, 2), (1, 2)]), 2);
        assert!(p.load.is_empty());
    }
}
