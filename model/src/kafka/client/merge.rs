//! A merge of partitions by event time. No client and no connector has one: it is a counterfactual, to tell what of a run comes
//! from partitions that are read one ahead of the other.

use super::Slice;
use crate::base::{Millis, TopicPartition};
use std::collections::{BTreeMap, VecDeque};

/// Records of several partitions that wait for their turn.
#[derive(Clone, Debug)]
pub struct Merge {
    /// How long a partition that gives nothing is waited for.
    patience: Millis,
    waiting: BTreeMap<TopicPartition, VecDeque<Slice>>,
    /// When a partition last gave something, or was first asked for.
    heard: BTreeMap<TopicPartition, Millis>,
    /// When it goes on without those that have nothing.
    deadline: Option<Millis>,
}
impl Merge {
    /// Nothing waits.
    pub const fn new(patience: Millis) -> Self {
        Self { patience, waiting: BTreeMap::new(), heard: BTreeMap::new(), deadline: None }
    }
    /// Records that were read, those of one partition in order.
    pub fn push(&mut self, slice: Slice, now: Millis) {
        if slice.records() > 0 {
            self.heard.insert(slice.tp, now);
            self.waiting.entry(slice.tp).or_default().push_back(slice);
        }
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.values().all(VecDeque::is_empty)
    }
    /// A partition is somebody else's now.
    pub fn forget(&mut self, tp: TopicPartition) {
        self.waiting.remove(&tp);
        self.heard.remove(&tp);
    }
    /// Everything that waits, partition by partition.
    pub fn drain(&mut self) -> Vec<Slice> {
        self.heard.clear();
        self.deadline = None;
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
    /// When it goes on although a partition has nothing.
    pub const fn deadline(&self) -> Option<Millis> {
        self.deadline
    }
    /// The next records in the order of event time, at most so many, all of one partition: none while one of the partitions
    /// `of` its reader has nothing and gave something not long enough ago.
    pub fn next(&mut self, of: impl Iterator<Item = TopicPartition>, most: u32, now: Millis) -> Option<Slice> {
        let mut due: Option<Millis> = None;
        for tp in of {
            let until = *self.heard.entry(tp).or_insert(now) + self.patience;
            if self.waiting.get(&tp).is_none_or(VecDeque::is_empty) && until > now {
                due = due.max(Some(until));
            }
        }
        let waits = due.is_some() && !self.is_empty();
        self.deadline = due.filter(|_| waits);
        if waits {
            return None;
        }
        let time = |slices: &VecDeque<Slice>| slices.front().map(|s| s.batch.rows[s.from as usize].time.0);
        let (least, tp) = self.waiting.iter().filter_map(|(tp, slices)| Some((time(slices)?, *tp))).min()?;
        let others = self.waiting.iter().filter(|(other, _)| **other != tp);
        let bound = others.filter_map(|(_, slices)| time(slices)).min().unwrap_or(i64::MAX).max(least);
        let slices = self.waiting.get_mut(&tp)?;
        let first = slices.front_mut()?;
        // As far as no other partition has something older. After the last record in hand it is looked at anew who has nothing.
        let rows = &first.batch.rows[first.from as usize..first.to as usize];
        let run = rows.iter().take(most.max(1) as usize).take_while(|row| row.time.0 <= bound).count() as u32;
        let mut taken = first.clone();
        taken.to = first.from + run;
        first.from = taken.to;
        if first.records() == 0 {
            slices.pop_front();
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Batch, EventTime, Offset, ProducerTag, Row};
    use std::sync::Arc;

    const P: [TopicPartition; 2] = [TopicPartition::new(0, 0), TopicPartition::new(0, 1)];

    fn slice(tp: TopicPartition, base: i64, times: &[i64]) -> Slice {
        let rows: Vec<Row> = times.iter().map(|t| Row { time: EventTime(*t), ..Row::default() }).collect();
        let to = rows.len() as u32;
        Slice {
            tp,
            base: Offset(base),
            from: 0,
            to,
            batch: Arc::new(Batch::data(rows.into(), Arc::new([]), ProducerTag::NONE, false)),
        }
    }
    fn all(merge: &mut Merge, now: i64) -> Vec<i64> {
        let mut times = Vec::new();
        while let Some(s) = merge.next(P.into_iter(), u32::MAX, Millis(now)) {
            times.extend(s.batch.rows[s.from as usize..s.to as usize].iter().map(|r| r.time.0));
        }
        times
    }

    #[test]
    fn the_oldest_head_comes_first_and_a_partition_keeps_its_order() {
        let mut merge = Merge::new(Millis(1000));
        merge.push(slice(P[0], 0, &[10, 5, 40]), Millis(0));
        merge.push(slice(P[1], 0, &[20, 30]), Millis(0));
        merge.push(slice(P[1], 2, &[50]), Millis(0));
        // Of partition 0 nothing is left behind 40: whether something older comes is not known.
        assert_eq!(all(&mut merge, 0), [10, 5, 20, 30, 40]);
        assert_eq!(merge.deadline(), Some(Millis(1000)));
        merge.push(slice(P[0], 3, &[60]), Millis(1));
        assert_eq!(all(&mut merge, 1), [50]);
    }

    #[test]
    fn a_partition_that_has_nothing_is_waited_for_so_long() {
        let mut merge = Merge::new(Millis(1000));
        merge.push(slice(P[0], 0, &[10, 20]), Millis(50));
        assert!(all(&mut merge, 100).is_empty());
        assert_eq!((all(&mut merge, 1099), merge.deadline()), (vec![], Some(Millis(1100))));
        assert_eq!((all(&mut merge, 1100), merge.deadline()), (vec![10, 20], None));
        assert!(merge.is_empty());
        // At the end of all partitions their last records do not wait one after the other.
        merge.push(slice(P[0], 2, &[30]), Millis(1200));
        merge.push(slice(P[1], 0, &[40]), Millis(1300));
        assert_eq!(all(&mut merge, 1300), [30]);
        assert_eq!((all(&mut merge, 2199), all(&mut merge, 2200)), (vec![], vec![40]));
    }

    #[test]
    fn what_waits_can_be_given_up() {
        let mut merge = Merge::new(Millis(1000));
        merge.push(slice(P[0], 0, &[10]), Millis(0));
        merge.push(slice(P[1], 7, &[20]), Millis(0));
        merge.forget(P[0]);
        assert_eq!(merge.drain().iter().map(Slice::first).collect::<Vec<_>>(), [Offset(7)]);
        assert!(merge.is_empty() && merge.deadline().is_none());
    }
}
