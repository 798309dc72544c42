//! Where records without a key go (`BuiltInPartitioner`, KIP-794): to one partition until about `batch.size` bytes went
//! there, then to another, the less loaded more often.

use super::dice::Dice;

/// The sticky partition of a topic.
#[derive(Clone, Debug)]
pub struct StickyPartitioner {
    batch_size: u32,
    current: Option<u16>,
    produced: u32,
    /// The queues' lengths where they say something; empty else.
    load: Vec<(u16, u32)>,
}

impl StickyPartitioner {
    /// None chosen yet.
    pub const fn new(batch_size: u32) -> Self {
        Self { batch_size, current: None, produced: 0, load: Vec::new() }
    }
    /// The partition for the next record; `None` while the topic has none. `choice`: what there is to choose from.
    pub fn peek(&mut self, choice: &[u16], dice: &mut Dice) -> Option<u16> {
        if self.current.is_none() {
            self.switch(choice, dice);
        }
        self.current
    }
    /// Notes bytes produced to the current partition and switches once it had enough: at `batch.size` if `enable` (its
    /// queue has no batch that could take more), at twice that in any case.
    pub fn produced(&mut self, bytes: u32, enable: bool, choice: &[u16], dice: &mut Dice) {
        self.produced += bytes;
        let enough = self.produced >= self.batch_size && enable;
        if enough || self.produced >= self.batch_size.saturating_mul(2) {
            self.switch(choice, dice);
        }
    }
    fn switch(&mut self, choice: &[u16], dice: &mut Dice) {
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
        let mut p = StickyPartitioner::new(100);
        p.update_load(Some(&[(0, 3), (1, 0)]), 2);
        let picks: Vec<_> = (0..5)
            .map(|n| {
                p.current = None;
                p.peek(&[], &mut Dice::Listed([n].into()))
            })
            .collect();
        assert_eq!(picks, [Some(0), Some(1), Some(1), Some(1), Some(1)]);
        p.update_load(Some(&[(0, 2), (1, 2)]), 2);
        assert!(p.load.is_empty());
    }
}
