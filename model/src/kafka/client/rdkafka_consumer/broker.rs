//! A broker thread's fetching (`rd_kafka_broker_consumer_serve`): which partitions, in which order, and when.

use crate::base::{BrokerId, Millis, TopicPartition};

/// One broker as the consumer uses it.
#[derive(Clone, Debug)]
pub struct FetchBroker {
    /// Its id.
    pub node: BrokerId,
    /// Partitions it leads, in the order in which they came to it.
    pub toppars: Vec<TopicPartition>,
    /// Those that are fetched, as a ring.
    active: Vec<TopicPartition>,
    /// Index in the ring at which the next request begins.
    next: usize,
    /// The request in flight.
    pub in_flight: Option<u32>,
    /// Nothing is sent before this instant (after a lost connection).
    pub backoff_until: Millis,
}

impl FetchBroker {
    /// A broker without partitions.
    pub fn new(node: BrokerId) -> Self {
        Self { node, toppars: Vec::new(), active: Vec::new(), next: 0, in_flight: None, backoff_until: Millis::ZERO }
    }
    /// Whether a partition is fetched.
    pub fn is_active(&self, tp: TopicPartition) -> bool {
        self.active.contains(&tp)
    }
    /// Puts a partition at the end of the ring.
    pub fn activate(&mut self, tp: TopicPartition) {
        if !self.is_active(tp) {
            self.active.push(tp);
        }
    }
    /// Takes a partition out of the ring; if the next request was to begin there, it begins one further.
    pub fn deactivate(&mut self, tp: TopicPartition) {
        if let Some(at) = self.active.iter().position(|a| *a == tp) {
            self.active.remove(at);
            if at < self.next {
                self.next -= 1;
            }
            if self.next >= self.active.len() {
                self.next = 0;
            }
        }
    }
    /// The partition leaves this broker.
    pub fn remove(&mut self, tp: TopicPartition) {
        self.deactivate(tp);
        self.toppars.retain(|t| *t != tp);
    }
    /// Partitions of the next request; the one after it begins one partition further.
    pub fn rotate(&mut self) -> Vec<TopicPartition> {
        let mut order = self.active.clone();
        order.rotate_left(self.next);
        if !order.is_empty() {
            self.next = (self.next + 1) % order.len();
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(order: &[TopicPartition]) -> Vec<u16> {
        order.iter().map(|tp| tp.partition).collect()
    }

    #[test]
    fn each_request_begins_one_further_until_the_ring_was_empty() {
        let mut b = FetchBroker::new(BrokerId(0));
        let all: Vec<_> = (0..4).map(|p| TopicPartition::new(0, p)).collect();
        all.iter().for_each(|tp| b.activate(*tp));
        assert_eq!(numbers(&b.rotate()), [0, 1, 2, 3]);
        assert_eq!(numbers(&b.rotate()), [1, 2, 3, 0]);
        b.deactivate(all[2]);
        assert_eq!(numbers(&b.rotate()), [3, 0, 1]);
        all.iter().for_each(|tp| b.deactivate(*tp));
        all.iter().for_each(|tp| b.activate(*tp));
        assert_eq!(numbers(&b.rotate()), [0, 1, 2, 3]);
    }
}
