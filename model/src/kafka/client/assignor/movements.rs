//! Which partitions have changed hands within one assignment, so that two of one topic are not swapped
//! (`PartitionMovements`).

use super::{Name, NamedPartition};
use crate::kafka::hash_order::{grown_capacity, spread_partition};
use crate::kafka::placement::string_hash;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// From whom to whom.
type Pair = (Name, Name);

/// The movements so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Movements {
    by_topic: BTreeMap<Name, BTreeMap<Pair, BTreeSet<NamedPartition>>>,
    pairs: BTreeMap<NamedPartition, Pair>,
}

impl Movements {
    /// Records that `partition` goes from `from` to `to`; back to where it came from cancels the movement.
    pub(super) fn moved(&mut self, partition: &NamedPartition, from: &Name, to: &Name) {
        let origin = match self.pairs.remove(partition) {
            Some(pair) => {
                self.forget(partition, &pair);
                pair.0
            }
            None => Arc::clone(from),
        };
        if origin == *to {
            return;
        }
        let pair = (origin, Arc::clone(to));
        let topic = self.by_topic.entry(Arc::clone(&partition.0)).or_default();
        topic.entry(pair.clone()).or_default().insert(partition.clone());
        self.pairs.insert(partition.clone(), pair);
    }

    fn forget(&mut self, partition: &NamedPartition, pair: &Pair) {
        let Some(topic) = self.by_topic.get_mut(&partition.0) else { return };
        if let Some(set) = topic.get_mut(pair) {
            set.remove(partition);
            if set.is_empty() {
                topic.remove(pair);
            }
        }
        if topic.is_empty() {
            self.by_topic.remove(&partition.0);
        }
    }

    /// The partition to move from `from` to `to` instead of `partition`: one of its topic that has gone the other way.
    pub(super) fn actual(&self, partition: &NamedPartition, from: &Name, to: &Name) -> NamedPartition {
        let from = self.pairs.get(partition).map_or(from, |(origin, _)| origin);
        let reverse = (Arc::clone(to), Arc::clone(from));
        let back = self.by_topic.get(&partition.0).and_then(|topic| topic.get(&reverse));
        back.and_then(first_in_hash_order).unwrap_or_else(|| partition.clone())
    }
}

/// What the iterator of a `HashSet` of partitions gives first.
fn first_in_hash_order(set: &BTreeSet<NamedPartition>) -> Option<NamedPartition> {
    let mask = grown_capacity(set.len()) - 1;
    let bucket = |(topic, partition): &NamedPartition| spread_partition(string_hash(topic), *partition) & mask;
    set.iter().min_by_key(|p| bucket(p)).cloned()
}
