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
    load: Option<Load>,
}

/// Cumulative weights of partitions: the shorter the queue, the heavier.
#[derive(Clone, Debug)]
struct Load {
    cumulative: Vec<u32>,
    partitions: Vec<u16>,
}

impl StickyPartitioner {
    /// None chosen yet.
    pub const fn new(topic: TopicId, batch_size: u32) -> Self {
        Self { topic, batch_size, current: None, produced: 0, load: None }
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
        if let Some(load) = &self.load {
            let total = *load.cumulative.last().unwrap_or(&1);
            let drawn = dice.below(u64::from(total.max(1))) as u32;
            let at = load.cumulative.partition_point(|c| *c <= drawn);
            self.current = load.partitions.get(at).copied();
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
        self.load = queues.and_then(|queues| {
            if queues.is_empty() || all < 2 {
                return None;
            }
            let first = queues[0].1;
            let equal = queues.iter().all(|(_, n)| *n == first);
            if equal && queues.len() == all {
                return None;
            }
            let above = queues.iter().map(|(_, n)| *n).max().unwrap_or(0) + 1;
            let mut sum = 0;
            let mut load = Load { cumulative: Vec::new(), partitions: Vec::new() };
            for (partition, n) in queues {
                sum += above - n;
                load.cumulative.push(sum);
                load.partitions.push(*partition);
            }
            Some(load)
        });
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
        assert!(p.load.is_none());
    }
}
