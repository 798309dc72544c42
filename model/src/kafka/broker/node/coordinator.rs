//! Requests of clients to the transaction coordinator (`KafkaApis`).

use super::transactions::Asked;
use super::{Node, NodeCx};
use crate::base::{ConnId, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::{AddPartitionsEntry, BrokerReply};
use crate::kafka::coordinator::transaction::{
    AddPartitions, EndRequest, InitProducerId, Token, TransactionReply, TransactionVersion,
};
use crate::kafka::messages::Reply;
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, fenced_at};

impl Node {
    pub(super) fn coordinator_request(
        &mut self,
        conn: ConnId,
        correlation: u32,
        body: CoordinatorRequest,
        cx: &mut NodeCx<'_>,
    ) {
        // A client that registers partitions itself (AddPartitionsToTxn up to v3) does not speak V2; nothing finer is told
        // apart (`TransactionVersion.transactionVersionForAddPartitionsToTxn`).
        let v0 = TransactionVersion::V0;
        match body {
            CoordinatorRequest::Find(key) => {
                let reply = self.find_coordinator(key);
                self.answer_client(conn, correlation, Reply::Coordinator(reply));
            }
            CoordinatorRequest::InitProducerId { id, timeout, producer, epoch } => {
                let expected = match (producer, epoch) {
                    (ProducerId::NONE, ProducerEpoch::NONE) => None,
                    (ProducerId::NONE, _) | (_, ProducerEpoch::NONE) => {
                        let error = ErrorCode::InvalidRequest;
                        let reply = CoordinatorReply::InitProducerId { error, producer, epoch };
                        return self.answer_client(conn, correlation, Reply::Coordinator(reply));
                    }
                    given => Some(given),
                };
                let request =
                    InitProducerId { id, timeout, expected, enable_two_phase_commit: false, keep_prepared: false };
                let token = self.transaction_token(conn, correlation, Asked::InitProducerId);
                self.coordinate(cx, |c, step| c.init_producer_id(token, &request, step));
            }
            CoordinatorRequest::AddPartitions { id, producer, epoch, partitions, version } => {
                if let Some(errors) = self.unknown_partitions(&partitions) {
                    let reply = CoordinatorReply::AddPartitions(errors);
                    return self.answer_client(conn, correlation, Reply::Coordinator(reply));
                }
                let token =
                    self.transaction_token(conn, correlation, Asked::AddPartitions(partitions.clone(), version));
                let request = AddPartitions { id, producer, epoch, partitions: &partitions, version: v0 };
                self.coordinate(cx, |c, step| c.add_partitions(token, &request, step));
            }
            CoordinatorRequest::AddOffsets { id, producer, epoch, group, version } => {
                let Some(tp) = self.offsets_partition(group.0) else {
                    let reply = CoordinatorReply::AddOffsets(ErrorCode::CoordinatorNotAvailable);
                    return self.answer_client(conn, correlation, Reply::Coordinator(reply));
                };
                let token = self.transaction_token(conn, correlation, Asked::AddOffsets(version));
                let request = AddPartitions { id, producer, epoch, partitions: &[tp], version: v0 };
                self.coordinate(cx, |c, step| c.add_partitions(token, &request, step));
            }
            CoordinatorRequest::EndTxn { id, producer, epoch, commit, version } => {
                let protocol = if version > 4 { TransactionVersion::V2 } else { v0 };
                let request = EndRequest { id, producer, epoch, commit, from_client: true, version: protocol };
                let token = self.transaction_token(conn, correlation, Asked::End(version));
                self.coordinate(cx, |c, step| c.end_txn(token, &request, step));
            }
            request @ CoordinatorRequest::TxnOffsetCommit { .. } => {
                self.transactional_commit(conn, correlation, request, cx);
            }
        }
    }
    fn transaction_token(&mut self, conn: ConnId, correlation: u32, asked: Asked) -> Token {
        let token = Token(self.channels.token(conn, correlation));
        self.transactions.asked.insert(token, asked);
        token
    }

    /// A partition leader asks about transactions, or adds to them (KIP-890).
    pub(super) fn leader_request(
        &mut self,
        conn: ConnId,
        correlation: u32,
        transactions: &[AddPartitionsEntry],
        cx: &mut NodeCx<'_>,
    ) {
        let request = self.channels.token(conn, correlation);
        self.transactions.leader_requests.begin(request, transactions.iter().map(|t| &t.partitions));
        for (n, t) in transactions.iter().enumerate() {
            let asked = AddPartitions {
                id: t.id,
                producer: t.producer,
                epoch: t.epoch,
                partitions: &t.partitions,
                version: TransactionVersion::V2,
            };
            let refused = if t.verify_only {
                Some(self.transactions.coordinator.verify_partitions(&asked))
            } else {
                self.unknown_partitions(&t.partitions)
            };
            if let Some(errors) = refused {
                let gather = &mut self.transactions.leader_requests;
                errors.iter().enumerate().for_each(|(p, (_, error))| gather.decided(request, n, p, *error));
            } else {
                let token = Token(self.channels.own_token());
                let place = Asked::Leader { request, transaction: n, partitions: t.partitions.len() };
                self.transactions.asked.insert(token, place);
                self.coordinate(cx, |c, step| c.add_partitions(token, &asked, step));
            }
        }
        self.answer_leaders();
    }
    fn answer_leaders(&mut self) {
        for (token, results) in self.transactions.leader_requests.take_done() {
            if let Some((conn, correlation)) = self.channels.take(token) {
                self.answer_client(conn, correlation, Reply::Broker(BrokerReply::AddPartitionsToTxn(results)));
            }
        }
    }
    /// One partition that this broker's metadata does not have refuses all.
    fn unknown_partitions(&self, partitions: &[TopicPartition]) -> Option<Vec<(TopicPartition, ErrorCode)>> {
        let unknown = |tp: &TopicPartition| self.image.partition(*tp).is_none();
        let error = |tp: &TopicPartition| match unknown(tp) {
            true => (*tp, ErrorCode::UnknownTopicOrPartition),
            false => (*tp, ErrorCode::OperationNotAttempted),
        };
        partitions.iter().any(unknown).then(|| partitions.iter().map(error).collect())
    }

    /// The partition of `__consumer_offsets` that holds a group.
    fn offsets_partition(&self, group: u32) -> Option<TopicPartition> {
        let topic = self.config.broker.offsets_topic?;
        let partitions = self.image.topic(topic)?.partitions.len() as u16;
        Some(TopicPartition { topic, partition: self.config.broker.group_ids.partition(group, partitions) })
    }
    /// Whom this broker's metadata names (C-9); nobody while the leader is not alive, or the topic not there.
    fn find_coordinator(&self, key: CoordinatorKey) -> CoordinatorReply {
        let tp = match key {
            CoordinatorKey::Transaction(id) => {
                self.transaction_log(self.transactions.coordinator.state().partition_for(id))
            }
            CoordinatorKey::Group(group) => self.offsets_partition(group.0),
        };
        match tp.and_then(|tp| self.coordinator_node(tp)) {
            Some(node) => {
                CoordinatorReply::Find { error: ErrorCode::None, node, addr: self.image.broker(node).map(|b| b.addr) }
            }
            None => CoordinatorReply::Find {
                error: ErrorCode::CoordinatorNotAvailable,
                node: crate::base::BrokerId::NONE,
                addr: None,
            },
        }
    }

    /// The coordinator has answered.
    pub(super) fn answer_transaction(&mut self, token: Token, reply: TransactionReply) {
        let Some(asked) = self.transactions.asked.remove(&token) else { return };
        if let (Asked::Leader { request, transaction, partitions }, TransactionReply::AddPartitions(error)) =
            (&asked, reply)
        {
            let gather = &mut self.transactions.leader_requests;
            (0..*partitions).for_each(|p| gather.decided(*request, *transaction, p, error));
            return self.answer_leaders();
        }
        let Some((conn, correlation)) = self.channels.take(token.0) else { return };
        let reply = match (reply, asked) {
            (TransactionReply::InitProducerId { error, producer, epoch }, _) => {
                CoordinatorReply::InitProducerId { error, producer, epoch }
            }
            (TransactionReply::AddPartitions(error), Asked::AddPartitions(partitions, version)) => {
                let error = fenced_at(version, error);
                CoordinatorReply::AddPartitions(partitions.into_iter().map(|tp| (tp, error)).collect())
            }
            (TransactionReply::AddPartitions(error), Asked::AddOffsets(version)) => {
                CoordinatorReply::AddOffsets(fenced_at(version, error))
            }
            (TransactionReply::EndTxn { error, producer, epoch }, Asked::End(version)) => {
                CoordinatorReply::EndTxn { error: fenced_at(version, error), producer, epoch }
            }
            // An answer to another kind of request: there is none.
            (TransactionReply::AddPartitions(_) | TransactionReply::EndTxn { .. }, _) => return,
        };
        self.answer_client(conn, correlation, Reply::Coordinator(reply));
    }
}
