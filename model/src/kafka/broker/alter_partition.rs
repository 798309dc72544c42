//! Sends the leaders' ISR changes to the controller (`AlterPartitionManager`).

use crate::base::{Millis, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::partition::{AlterPartition, AlterPartitionAnswer};
use std::collections::BTreeMap;

/// One AlterPartition request of a broker is out at a time; it carries every change that waits. A partition has one change
/// here until its answer is in: a second one is refused, which the partition takes as OPERATION_NOT_ATTEMPTED.
#[derive(Clone, Debug, Default)]
pub struct AlterPartitionManager {
    unsent: BTreeMap<TopicPartition, AlterPartition>,
    in_flight: Vec<TopicPartition>,
    resend_at: Option<Millis>,
}

impl AlterPartitionManager {
    /// Wait after an error of the whole request before it is sent again.
    pub const RETRY: Millis = Millis(50);

    /// Takes a change; false if one of the same partition has no answer yet.
    #[must_use]
    pub fn submit(&mut self, request: AlterPartition) -> bool {
        if self.unsent.contains_key(&request.tp) {
            return false;
        }
        self.unsent.insert(request.tp, request);
        true
    }

    /// The request to send now: everything that waits, unless one is out or the retry pause lasts.
    pub fn poll(&mut self, now: Millis) -> Option<Vec<AlterPartition>> {
        if !self.in_flight.is_empty() || self.unsent.is_empty() || self.resend_at.is_some_and(|at| now < at) {
            return None;
        }
        self.resend_at = None;
        self.in_flight = self.unsent.keys().copied().collect();
        Some(self.unsent.values().cloned().collect())
    }

    /// When [`poll`](Self::poll) may have something to send although nothing happens before.
    pub fn deadline(&self) -> Option<Millis> {
        self.resend_at.filter(|_| !self.unsent.is_empty())
    }

    /// Whether a request is out.
    pub fn is_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The connection broke, or the node asked is not the controller: the channel sends the same request again, to whoever
    /// is controller then (`NodeToControllerChannelManager`). Empty if none is out.
    pub fn again(&self) -> Vec<AlterPartition> {
        self.in_flight.iter().filter_map(|tp| self.unsent.get(tp)).cloned().collect()
    }

    /// The answer has come: gives what it decides, as it was asked and answered, for [`Partition::on_alter_answer`]. What
    /// was sent and is not in `answers` is sent again; so is everything, 50 ms later, after an error of the whole request.
    ///
    /// [`Partition::on_alter_answer`]: crate::kafka::partition::Partition::on_alter_answer
    pub fn on_answer(
        &mut self,
        now: Millis,
        error: ErrorCode,
        answers: &[AlterPartitionAnswer],
    ) -> Vec<(AlterPartition, AlterPartitionAnswer)> {
        let sent = std::mem::take(&mut self.in_flight);
        if !error.is_ok() {
            self.resend_at = Some(now + Self::RETRY);
            return Vec::new();
        }
        let sent_here = answers.iter().filter(|a| sent.contains(&a.tp));
        sent_here.filter_map(|a| self.unsent.remove(&a.tp).map(|asked| (asked, *a))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{BrokerEpoch, BrokerId, BrokerSet, LeaderEpoch, PartitionEpoch};

    fn request(partition: u16) -> AlterPartition {
        AlterPartition {
            tp: TopicPartition::new(0, partition),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(1),
            isr: vec![(BrokerId(1), BrokerEpoch(1))],
        }
    }
    fn answer(partition: u16) -> AlterPartitionAnswer {
        AlterPartitionAnswer {
            tp: TopicPartition::new(0, partition),
            error: ErrorCode::None,
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(2),
            isr: BrokerSet::of(&[BrokerId(1)]),
        }
    }

    #[test]
    fn one_request_at_a_time_and_one_change_a_partition() {
        let mut m = AlterPartitionManager::default();
        assert!(m.submit(request(0)));
        assert!(!m.submit(request(0)));
        assert_eq!(m.poll(Millis(0)).unwrap().len(), 1);
        assert!(m.submit(request(1)));
        assert!(m.poll(Millis(0)).is_none());
        assert_eq!(m.on_answer(Millis(5), ErrorCode::None, &[answer(0), answer(1)]).len(), 1);
        assert!(m.submit(request(0)));
        assert_eq!(m.poll(Millis(5)).unwrap().len(), 2);
    }

    #[test]
    fn an_error_of_the_whole_request_is_retried_after_a_pause() {
        let mut m = AlterPartitionManager::default();
        assert!(m.submit(request(0)));
        m.poll(Millis(0)).unwrap();
        assert!(m.on_answer(Millis(10), ErrorCode::StaleBrokerEpoch, &[]).is_empty());
        assert_eq!(m.deadline(), Some(Millis(60)));
        assert!(m.poll(Millis(59)).is_none());
        assert_eq!(m.poll(Millis(60)).unwrap().len(), 1);
    }
}
