//! Something of each partition, found by index.

use super::TopicPartition;

/// A map by partition: topics and partitions are numbered from 0, so a look-up is two indices. Walked by topic and number.
#[derive(Clone, Debug)]
pub struct PartitionMap<T>(Vec<Vec<Option<T>>>);

impl<T> Default for PartitionMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> PartitionMap<T> {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
    #[inline]
    fn slot(&mut self, tp: TopicPartition) -> &mut Option<T> {
        let (topic, number) = (usize::from(tp.topic.0), usize::from(tp.partition));
        if self.0.get(topic).is_none_or(|of_topic| of_topic.len() <= number) {
            self.make_room(topic, number);
        }
        &mut self.0[topic][number]
    }
    #[cold]
    fn make_room(&mut self, topic: usize, number: usize) {
        if self.0.len() <= topic {
            self.0.resize_with(topic + 1, Vec::new);
        }
        if self.0[topic].len() <= number {
            self.0[topic].resize_with(number + 1, || None);
        }
    }
    /// What `tp` has.
    #[inline]
    pub fn get(&self, tp: TopicPartition) -> Option<&T> {
        self.0.get(usize::from(tp.topic.0))?.get(usize::from(tp.partition))?.as_ref()
    }
    /// What `tp` has, to change.
    #[inline]
    pub fn get_mut(&mut self, tp: TopicPartition) -> Option<&mut T> {
        self.0.get_mut(usize::from(tp.topic.0))?.get_mut(usize::from(tp.partition))?.as_mut()
    }
    /// What `tp` has; the default where it has nothing.
    #[inline]
    pub fn or_default(&mut self, tp: TopicPartition) -> &mut T
    where
        T: Default,
    {
        self.slot(tp).get_or_insert_default()
    }
    /// Gives `tp` something; gives back what it had.
    pub fn insert(&mut self, tp: TopicPartition, value: T) -> Option<T> {
        self.slot(tp).replace(value)
    }
    /// Takes what `tp` has.
    pub fn remove(&mut self, tp: TopicPartition) -> Option<T> {
        self.0.get_mut(usize::from(tp.topic.0))?.get_mut(usize::from(tp.partition))?.take()
    }
    /// Everything, by topic and number.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().flatten()
    }
    /// Everything, by topic and number, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_come_by_topic_and_number() {
        let mut map = PartitionMap::new();
        for (topic, partition) in [(1, 2), (0, 5), (1, 0)] {
            map.insert(TopicPartition::new(topic, partition), (topic, partition));
        }
        assert_eq!(map.values().copied().collect::<Vec<_>>(), [(0, 5), (1, 0), (1, 2)]);
        assert_eq!(map.remove(TopicPartition::new(1, 0)), Some((1, 0)));
        assert_eq!((map.get(TopicPartition::new(1, 0)), map.get(TopicPartition::new(7, 0))), (None, None));
        *map.or_default(TopicPartition::new(2, 1)) = (9, 9);
        assert_eq!(map.values().count(), 3);
    }
}
