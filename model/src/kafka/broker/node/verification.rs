//! Transactional produces: before a transaction's first batch in a partition its leader asks the coordinator (KIP-890; T-10 to
//! T-14; `ReplicaManager.handleProduceAppend`). The batch is appended when the answer is there, and only under the guard of the
//! question: a marker that came in between has made it worthless.

use super::broker_links::BrokerLinks;
use super::config::{ADD_PARTITIONS, BROKER};
use super::{Node, NodeCx};
use crate::base::{ConnId, Fix, Input, Millis, ProducerEpoch, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::broker::{
    AddPartitionsToTxnManager, Asked, Asking, SupportedOperation, VerifiedBatch, produce_error,
};
use crate::kafka::broker_messages::{BrokerReply, BrokerRequest};
use crate::kafka::messages::{Message, ProduceRequest, Reply};
use crate::kafka::partition::Produce;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A produce whose transaction is asked about.
#[derive(Clone, Debug)]
struct Verifying {
    id: TransactionalId,
    producer: ProducerId,
    epoch: ProducerEpoch,
    acks: i8,
    timeout: Millis,
    operation: SupportedOperation,
    since: Millis,
    batches: Vec<VerifiedBatch>,
}
impl Verifying {
    fn asking(&self, token: u64) -> Asking {
        let guarded = self.batches.iter().filter(|b| matches!(b.verified, Ok(Some(_))));
        Asking {
            token,
            id: self.id,
            producer: self.producer,
            epoch: self.epoch,
            partitions: guarded.map(|b| b.tp).collect(),
            operation: self.operation,
        }
    }
}

/// Produces that wait for coordinators.
#[derive(Clone, Debug)]
pub(super) struct Verification {
    manager: AddPartitionsToTxnManager,
    links: BrokerLinks,
    waiting: BTreeMap<u64, Verifying>,
    /// Answers that wait for the request handler's thread.
    decided: VecDeque<Asked>,
    /// Questions to be asked again, and when.
    retries: BTreeSet<(Millis, u64)>,
}
impl Default for Verification {
    fn default() -> Self {
        Self {
            manager: AddPartitionsToTxnManager::default(),
            links: BrokerLinks::new(ADD_PARTITIONS),
            waiting: BTreeMap::new(),
            decided: VecDeque::new(),
            retries: BTreeSet::new(),
        }
    }
}
impl Verification {
    pub(super) fn deadline(&self) -> Millis {
        if self.manager.is_due() {
            return Millis::ZERO;
        }
        let retry = self.retries.first().map_or(Millis::MAX, |(at, _)| *at);
        retry.min(self.links.deadline())
    }
    pub(super) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }
}

impl Node {
    pub(super) fn produce_transactional(
        &mut self,
        conn: ConnId,
        correlation: u32,
        r: ProduceRequest,
        cx: &mut NodeCx<'_>,
    ) {
        let now = cx.millis();
        let token = self.channels.token(conn, correlation);
        let operation = SupportedOperation::of_produce(r.version);
        let tv2 = operation.supports_epoch_bump();
        // A V2 client relies on its partitions being added here, whatever the setting.
        let asks = tv2 || self.config.broker.log.transaction_verification;
        let how = Produce::client(token, r.acks, r.timeout);
        let producer = r.batches.iter().find(|(_, b)| b.is_transactional()).map(|(_, b)| b.producer);
        let (Some(id), Some(producer), true) = (r.transactional_id, producer, asks) else {
            return self.replicas.append(now, &how, &r.batches, &mut self.outputs);
        };
        let batches: Vec<_> = r
            .batches
            .into_iter()
            .map(|(tp, batch)| {
                let verified = match batch.is_transactional() {
                    true => self.replicas.start_verification(cx.wall(), tp, batch.producer, tv2),
                    false => Ok(None),
                };
                VerifiedBatch { tp, batch, verified }
            })
            .collect();
        if batches.iter().all(|b| !matches!(b.verified, Ok(Some(_)))) {
            return self.replicas.append_verified(now, &how, &batches, &mut self.outputs);
        }
        let (producer, epoch) = (producer.id, producer.epoch);
        let (acks, timeout) = (r.acks, r.timeout);
        let verifying = Verifying { id, producer, epoch, acks, timeout, operation, since: now, batches };
        let asking = verifying.asking(token);
        self.verification.waiting.insert(token, verifying);
        self.ask_coordinator(asking);
    }
    pub(super) fn ask_coordinator(&mut self, asking: Asking) {
        let partition = self.transactions.coordinator.state().partition_for(asking.id);
        let node = self.transaction_log(partition).and_then(|tp| self.coordinator_node(tp));
        let decided = match node {
            Some(node) => self.verification.manager.add(node, asking),
            None => {
                let errors = asking.partitions.iter().map(|tp| (*tp, ErrorCode::CoordinatorNotAvailable)).collect();
                Some(Asked { token: asking.token, errors })
            }
        };
        self.verification.decided.extend(decided);
    }

    /// The thread that asks.
    pub(super) fn verification_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if !self.phase.serves_requests() {
            return;
        }
        let v = &mut self.verification;
        let mut lost = Vec::new();
        match input {
            Input::Wake => lost = v.links.expire(cx),
            Input::Connection(conn, event) => lost.extend(v.links.event(conn, event, cx)),
            Input::Message {
                conn,
                message: Message::Reply { correlation, body: Reply::Broker(BrokerReply::AddPartitionsToTxn(results)) },
                ..
            } => {
                if let Some(broker) = v.links.answered(conn, correlation) {
                    v.decided.extend(v.manager.answered(broker, &results));
                }
            }
            _ => {}
        }
        for broker in lost {
            v.decided.extend(v.manager.disconnected(broker));
        }
        while let Some((at, token)) = self.verification.retries.first().copied()
            && at <= cx.millis()
        {
            self.verification.retries.remove(&(at, token));
            if let Some(asking) = self.verification.waiting.get(&token).map(|w| w.asking(token)) {
                self.ask_coordinator(asking);
            }
        }
        for (to, entries) in self.verification.manager.poll() {
            let Some(addr) = self.config.addr(to, BROKER) else { continue };
            let timeout = self.config.broker.transactions.request_timeout;
            self.verification.links.send(to, addr, BrokerRequest::AddPartitionsToTxn(entries), timeout, cx);
        }
    }

    /// The request handler's thread goes on with what the coordinators have decided.
    pub(super) fn append_verified(&mut self, cx: &mut NodeCx<'_>) {
        while let Some(asked) = self.verification.decided.pop_front() {
            if !self.commit_asked(&asked, cx) {
                self.verified(&asked, cx);
            }
        }
    }
    fn verified(&mut self, asked: &Asked, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        let b = &self.config.broker;
        let Some(waiting) = self.verification.waiting.get(&asked.token) else { return };
        // The transaction before is not over yet: asked again for the client, which would wait longer.
        let busy = asked.errors.iter().any(|(_, e)| *e == ErrorCode::ConcurrentTransactions);
        let again = busy
            && waiting.operation.supports_epoch_bump()
            && now - waiting.since < b.add_partitions_retry_backoff_max
            && cx.fixes.has(Fix::AddRetriedByLeader);
        if again {
            self.verification.retries.insert((now + b.add_partitions_retry_backoff, asked.token));
            return;
        }
        let Some(mut waiting) = self.verification.waiting.remove(&asked.token) else { return };
        for batch in &mut waiting.batches {
            if let Some((_, error)) = asked.errors.iter().find(|(tp, _)| *tp == batch.tp) {
                batch.verified = Err(produce_error(*error, waiting.operation));
            }
        }
        // Appends are numbered in their order.
        let token = match self.channels.take(asked.token) {
            Some((conn, correlation)) => self.channels.token(conn, correlation),
            None => self.channels.own_token(),
        };
        let how = Produce::client(token, waiting.acks, waiting.timeout);
        self.replicas.append_verified(now, &how, &waiting.batches, &mut self.outputs);
    }
}
