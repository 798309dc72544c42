//! How long transactions held readers of committed data back: from the append of a transaction's first record in a partition
//! to the append of its marker there. What stands open at the end counts to the end.

use super::{Cast, TopicInfo};
use crate::world::Observer;
use model::base::{Event, Nanos, Offset, ProcessId, ProducerId, SimTime, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// The longest such time of each topic.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// Whether anybody sends in transactions; else there is nothing to look at.
    watches: bool,
    /// Topics of events, by number.
    topics: Vec<bool>,
    /// Producer ids of transactions: coordinators have named them.
    transactional: BTreeSet<ProducerId>,
    open: BTreeMap<(TopicPartition, ProducerId), (SimTime, Offset)>,
    longest: BTreeMap<u16, Nanos>,
}
impl Pins {
    /// For this cast.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        let senders = !cast.keepers.is_empty() || cast.transaction_versions.iter().any(Option::is_some);
        let watches = senders || cast.sinks_in_transactions;
        Self { watches, topics: topics.iter().map(|t| t.events).collect(), ..Self::default() }
    }
    /// The longest time of each topic, by number, for a run that ends now.
    pub fn longest(&self, now: SimTime) -> BTreeMap<u16, Nanos> {
        let mut all = self.longest.clone();
        for ((tp, _), (since, _)) in &self.open {
            let longest = all.entry(tp.topic.0).or_default();
            *longest = (*longest).max(now.since(*since));
        }
        all
    }
}
impl Observer for Pins {
    #[inline]
    fn event(&mut self, at: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        match *event {
            Event::Appended { tp, base, producer, control, leader: true, .. } if self.watches => {
                if !self.topics.get(usize::from(tp.topic.0)).is_some_and(|events| *events) {
                    return;
                }
                if control {
                    if let Some((since, _)) = self.open.remove(&(tp, producer)) {
                        let longest = self.longest.entry(tp.topic.0).or_default();
                        *longest = (*longest).max(at.since(since));
                    }
                } else if self.transactional.contains(&producer) {
                    self.open.entry((tp, producer)).or_insert((at, base));
                }
            }
            // What is cut from the log holds nobody back any more; where the next leader has it, it is as old as it was.
            Event::Truncated { tp, to, .. } if self.watches => {
                self.open.retain(|(place, _), (_, first)| *place != tp || *first < to);
            }
            Event::TransactionState { producer, .. } => {
                self.transactional.insert(producer);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{LeaderEpoch, ProducerEpoch, Sequence};

    fn append(tp: TopicPartition, producer: i64, base: i64, control: bool) -> Event {
        Event::Appended {
            tp,
            base: Offset(base),
            last: Offset(base),
            epoch: LeaderEpoch(0),
            producer: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            sequence: Sequence(0),
            content: 0,
            leader: true,
            control,
        }
    }

    #[test]
    fn a_transaction_pins_from_its_first_record_to_its_marker() {
        let tp = TopicPartition::new(0, 1);
        let state = Event::TransactionState {
            tp: TopicPartition::new(1, 0),
            id: 0,
            producer: ProducerId(7),
            epoch: ProducerEpoch(0),
            state: 0,
            stored: true,
        };
        let mut pins = Pins { watches: true, topics: vec![true, false], ..Pins::default() };
        let mut tell = |s: u64, event: Event| pins.event(SimTime(s), 0, 0, ProcessId(0), &event);
        tell(1, state);
        tell(2, append(tp, 7, 0, false));
        tell(3, append(tp, 8, 1, false));
        tell(5, append(tp, 7, 2, false));
        tell(9, append(tp, 7, 3, true));
        tell(20, append(tp, 7, 4, false));
        tell(21, append(tp, 7, 5, false));
        assert_eq!(pins.longest(SimTime(21)), BTreeMap::from([(0, Nanos(7))]));
        assert_eq!(pins.longest(SimTime(40)), BTreeMap::from([(0, Nanos(20))]));
        let cut = Event::Truncated { tp, from: Offset(6), to: Offset(4), high_watermark: Offset(4), follower: true };
        pins.event(SimTime(41), 0, 0, ProcessId(1), &cut);
        assert_eq!(pins.longest(SimTime(60)), BTreeMap::from([(0, Nanos(7))]));
    }
}
