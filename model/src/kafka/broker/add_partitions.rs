//! A partition leader asks the transaction coordinator about a transaction before its first batch: whether the partition was
//! added (TV1), or to add it (TV2) (`AddPartitionsToTxnManager`; KIP-890; T-10 to T-13).

use crate::base::{BrokerId, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::AddPartitionsEntry;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::BTreeMap;

/// What the client's request can be told, by its version (`TransactionSupportedOperation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupportedOperation {
    /// Produce below v11: TRANSACTION_ABORTABLE is not known.
    DefaultError,
    /// Produce v11.
    GenericError,
    /// Produce from v12 on: the leader adds the partition itself.
    AddPartition,
}
impl SupportedOperation {
    /// Of a produce request of that version.
    pub const fn of_produce(version: u8) -> Self {
        match version {
            0..=10 => Self::DefaultError,
            11 => Self::GenericError,
            _ => Self::AddPartition,
        }
    }
    /// Whether the client speaks transaction version 2.
    pub const fn supports_epoch_bump(self) -> bool {
        matches!(self, Self::AddPartition)
    }
}

/// A transaction that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Comes back with the result.
    pub token: u64,
    /// The transactional id.
    pub id: TransactionalId,
    /// Producer id.
    pub producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// Partitions without an open transaction here.
    pub partitions: Vec<TopicPartition>,
    /// What the client knows.
    pub operation: SupportedOperation,
}
impl Asking {
    fn all(self, error: ErrorCode) -> Asked {
        Asked { token: self.token, errors: self.partitions.into_iter().map(|tp| (tp, error)).collect() }
    }
    fn entry(&self) -> AddPartitionsEntry {
        AddPartitionsEntry {
            id: self.id,
            producer: self.producer,
            epoch: self.epoch,
            verify_only: !self.operation.supports_epoch_bump(),
            partitions: self.partitions.clone(),
        }
    }
}
/// The coordinator's answer, as far as the leader heard it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// That of the question.
    pub token: u64,
    /// Partitions that must not be appended to, and why.
    pub errors: Vec<(TopicPartition, ErrorCode)>,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    queued: Vec<Asking>,
    in_flight: Option<Vec<Asking>>,
}

/// Questions by coordinator: one request at a time to each (T-12).
#[derive(Clone, Debug, Default)]
pub struct AddPartitionsToTxnManager {
    nodes: BTreeMap<BrokerId, NodeState>,
}

impl AddPartitionsToTxnManager {
    /// Queues a question to a coordinator. A newer one about the same transactional id takes the place of an older one that
    /// has not left yet; gives what is decided by that.
    pub fn add(&mut self, node: BrokerId, asking: Asking) -> Option<Asked> {
        let state = self.nodes.entry(node).or_default();
        let Some(at) = state.queued.iter().position(|q| q.id == asking.id) else {
            state.queued.push(asking);
            return None;
        };
        if asking.epoch < state.queued[at].epoch {
            return Some(asking.all(ErrorCode::InvalidProducerEpoch));
        }
        // The same epoch is the client's retry: the one before gets an error on which it would come again.
        let fenced = asking.epoch > state.queued[at].epoch;
        let old = state.queued.remove(at);
        state.queued.push(asking);
        Some(old.all(if fenced { ErrorCode::InvalidProducerEpoch } else { ErrorCode::NetworkException }))
    }
    /// Whether [`poll`](Self::poll) has a request.
    pub fn is_due(&self) -> bool {
        self.nodes.values().any(|n| n.in_flight.is_none() && !n.queued.is_empty())
    }
    /// The requests that can leave.
    pub fn poll(&mut self) -> Vec<(BrokerId, Vec<AddPartitionsEntry>)> {
        let mut requests = Vec::new();
        for (node, state) in &mut self.nodes {
            if state.in_flight.is_none() && !state.queued.is_empty() {
                let asking = std::mem::take(&mut state.queued);
                requests.push((*node, asking.iter().map(Asking::entry).collect()));
                state.in_flight = Some(asking);
            }
        }
        requests
    }
    /// A coordinator has answered: per transaction, in the order of the request, the error of each partition.
    pub fn answered(&mut self, node: BrokerId, results: &[Vec<(TopicPartition, ErrorCode)>]) -> Vec<Asked> {
        let asking = self.nodes.get_mut(&node).and_then(|n| n.in_flight.take()).unwrap_or_default();
        let one = |(asking, result): (Asking, &Vec<(TopicPartition, ErrorCode)>)| {
            let errors = result.iter().filter(|(_, e)| !e.is_ok());
            Asked {
                token: asking.token,
                errors: errors.map(|(tp, e)| (*tp, told_to_produce(*e, asking.operation))).collect(),
            }
        };
        asking.into_iter().zip(results).map(one).collect()
    }
    /// The connection is lost, or the answer did not come in time.
    pub fn disconnected(&mut self, node: BrokerId) -> Vec<Asked> {
        let asking = self.nodes.get_mut(&node).and_then(|n| n.in_flight.take()).unwrap_or_default();
        asking.into_iter().map(|a| a.all(ErrorCode::NetworkException)).collect()
    }
}

/// What of the coordinator's errors a client of that version understands.
const fn told_to_produce(error: ErrorCode, operation: SupportedOperation) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if matches!(operation, SupportedOperation::DefaultError) => {
            ErrorCode::InvalidTxnState
        }
        other => other,
    }
}

/// What a produce is told that could not be verified (T-13): retriable without a look at the metadata where the coordinator
/// was not heard.
pub const fn produce_error(error: ErrorCode, operation: SupportedOperation) -> ErrorCode {
    match error {
        ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        ErrorCode::ConcurrentTransactions if !operation.supports_epoch_bump() => ErrorCode::NotEnoughReplicas,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TP: TopicPartition = TopicPartition::new(1, 0);
    const NODE: BrokerId = BrokerId(2);

    fn asking(token: u64, epoch: i16) -> Asking {
        Asking {
            token,
            id: TransactionalId(0),
            producer: ProducerId(5),
            epoch: ProducerEpoch(epoch),
            partitions: vec![TP],
            operation: SupportedOperation::DefaultError,
        }
    }
    fn error(asked: &Asked) -> (u64, ErrorCode) {
        (asked.token, asked.errors[0].1)
    }

    #[test]
    fn a_newer_question_takes_the_place_of_one_that_has_not_left() {
        let mut m = AddPartitionsToTxnManager::default();
        assert_eq!(m.add(NODE, asking(1, 5)), None);
        assert_eq!(m.add(NODE, asking(2, 5)).as_ref().map(error), Some((1, ErrorCode::NetworkException)));
        assert_eq!(m.add(NODE, asking(3, 6)).as_ref().map(error), Some((2, ErrorCode::InvalidProducerEpoch)));
        assert_eq!(m.add(NODE, asking(4, 5)).as_ref().map(error), Some((4, ErrorCode::InvalidProducerEpoch)));
        assert_eq!(m.poll().len(), 1);
        assert_eq!(m.add(NODE, asking(5, 5)), None, "what has left is not touched");
        assert!(!m.is_due() && m.poll().is_empty(), "one request at a time");
        let answer = [vec![(TP, ErrorCode::TransactionAbortable)]];
        let asked: Vec<_> = m.answered(NODE, &answer).iter().map(error).collect();
        assert_eq!(asked, [(3, ErrorCode::InvalidTxnState)], "an old client does not know the newer error");
        assert!(m.is_due());
    }
    #[test]
    fn who_was_not_heard_is_asked_again_by_the_client() {
        let mut m = AddPartitionsToTxnManager::default();
        m.add(NODE, asking(1, 5));
        m.poll();
        let asked: Vec<_> = m.disconnected(NODE).iter().map(error).collect();
        assert_eq!(asked, [(1, ErrorCode::NetworkException)]);
        let (old, new) = (SupportedOperation::of_produce(11), SupportedOperation::of_produce(12));
        assert_eq!(produce_error(ErrorCode::NetworkException, new), ErrorCode::NotEnoughReplicas);
        assert_eq!(produce_error(ErrorCode::ConcurrentTransactions, old), ErrorCode::NotEnoughReplicas);
        assert_eq!(produce_error(ErrorCode::ConcurrentTransactions, new), ErrorCode::ConcurrentTransactions);
    }
}
