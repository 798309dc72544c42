//! Requests to coordinators that wait for their turn: one in flight, the most urgent first (P-28).

use super::ProducerIdAndEpoch;
use super::results::ResultId;
use crate::base::{BrokerId, Millis, Offset, TopicPartition};
use crate::kafka::coordinator::group::Name;
use crate::kafka::txn_messages::{CoordinatorKey, GroupId};

/// The consumer group whose offsets are committed in a transaction (`ConsumerGroupMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `group.id`.
    pub group: GroupId,
    /// The member's generation or epoch; -1 where none is told, so that nothing is fenced by it.
    pub generation: i32,
    /// Its member id; empty where none is told.
    pub member: Name,
    /// Its `group.instance.id`.
    pub instance: Option<Name>,
}
impl GroupMetadata {
    /// Of a group alone: nothing is fenced by it.
    pub fn of_group(group: GroupId) -> Self {
        Self { group, generation: -1, member: Name::from(""), instance: None }
    }
}

/// What a request asks (`TxnRequestHandler`), with the producer id and epoch of the instant at which it was queued.
#[derive(Clone, Debug)]
pub enum Body {
    /// Where a coordinator is.
    Find(CoordinatorKey),
    /// A producer id; `bump`: at the end of a transaction, with the id held (KIP-360).
    Init {
        /// Goes behind EndTxn and resets all sequences.
        bump: bool,
        /// The id held.
        producer: ProducerIdAndEpoch,
    },
    /// TV1: partitions enter the transaction.
    AddPartitions(ProducerIdAndEpoch, Vec<TopicPartition>),
    /// TV1: a group's offsets enter the transaction.
    AddOffsets(ProducerIdAndEpoch, GroupMetadata, Vec<(TopicPartition, Offset)>),
    /// Offsets are written.
    CommitOffsets {
        /// Whose transaction.
        producer: ProducerIdAndEpoch,
        /// Whose offsets.
        group: GroupMetadata,
        /// Next offset of each partition.
        offsets: Vec<(TopicPartition, Offset)>,
        /// The group coordinator adds its partition to the transaction.
        v2: bool,
    },
    /// The end.
    End {
        /// Whose transaction.
        producer: ProducerIdAndEpoch,
        /// COMMIT, else ABORT.
        commit: bool,
        /// The transaction began under transaction.version 2.
        v2: bool,
    },
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To any broker.
    Any,
    /// To the transaction coordinator.
    Transaction,
    /// To the group's coordinator.
    Group(GroupId),
}

/// A request that waits or is in flight.
#[derive(Clone, Debug)]
pub struct Handler {
    /// What it asks.
    pub body: Body,
    /// What its end settles, if somebody can wait for it.
    pub result: Option<ResultId>,
    /// It was tried before: it waits for the back-off first.
    pub retry: bool,
    /// A shorter wait than `retry.backoff.ms` before the next try.
    pub backoff: Option<Millis>,
}

impl Handler {
    /// A new request.
    pub const fn new(body: Body, result: Option<ResultId>) -> Self {
        Self { body, result, retry: false, backoff: None }
    }
    /// Smaller goes first.
    const fn priority(&self) -> u8 {
        match self.body {
            Body::Find(_) => 0,
            Body::Init { bump: false, .. } => 1,
            Body::AddPartitions(..) | Body::AddOffsets(..) | Body::CommitOffsets { .. } => 2,
            Body::End { .. } => 3,
            Body::Init { bump: true, .. } => 4,
        }
    }
    /// Where it goes. Producer ids of idempotent producers come from anywhere (P-1).
    pub const fn destination(&self, transactional: bool) -> Destination {
        match &self.body {
            Body::Find(_) => Destination::Any,
            Body::CommitOffsets { group, .. } => Destination::Group(group.group),
            _ if transactional => Destination::Transaction,
            _ => Destination::Any,
        }
    }
    /// It ends a transaction.
    pub const fn is_end(&self) -> bool {
        matches!(self.body, Body::End { .. })
    }
}

/// A priority queue whose order among equals is that of a binary heap, as `java.util.PriorityQueue` has it: not of arrival.
#[derive(Clone, Debug, Default)]
pub struct Queue(Vec<Handler>);

impl Queue {
    /// Adds a request.
    pub fn add(&mut self, handler: Handler) {
        self.0.push(handler);
        let mut at = self.0.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[at].priority() >= self.0[parent].priority() {
                break;
            }
            self.0.swap(at, parent);
            at = parent;
        }
    }
    /// The most urgent one.
    pub fn peek(&self) -> Option<&Handler> {
        self.0.first()
    }
    /// Takes the most urgent one.
    pub fn poll(&mut self) -> Option<Handler> {
        if self.0.is_empty() {
            return None;
        }
        let first = self.0.swap_remove(0);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut least) = self.0.get(left).map(Handler::priority) else { break };
            let mut child = left;
            if let Some(other) = self.0.get(right).map(Handler::priority).filter(|p| *p < least) {
                (child, least) = (right, other);
            }
            if self.0[at].priority() <= least {
                break;
            }
            self.0.swap(at, child);
            at = child;
        }
        Some(first)
    }
    /// Everything that waits.
    pub fn iter(&self) -> impl Iterator<Item = &Handler> {
        self.0.iter()
    }
}

/// The coordinators as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coordinators {
    /// The transaction's.
    pub transaction: Option<BrokerId>,
    /// The group's.
    pub group: Option<BrokerId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::txn_messages::TransactionalId;

    #[test]
    fn the_coordinator_is_looked_up_first_and_a_bump_comes_last() {
        let producer = ProducerIdAndEpoch::NONE;
        let mut queue = Queue::default();
        queue.add(Handler::new(Body::Init { bump: true, producer }, None));
        queue.add(Handler::new(Body::End { producer, commit: true, v2: false }, None));
        queue.add(Handler::new(Body::AddPartitions(producer, Vec::new()), None));
        queue.add(Handler::new(Body::Find(CoordinatorKey::Transaction(TransactionalId(0))), None));
        let order: Vec<u8> = std::iter::from_fn(|| queue.poll()).map(|h| h.priority()).collect();
        assert_eq!(order, [0, 2, 3, 4]);
    }
}
