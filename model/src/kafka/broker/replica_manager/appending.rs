//! Appends as leader: of producers, and of the broker itself (`ReplicaManager.handleProduceAppend`, `appendRecords`).

use super::{ProduceInFlight, ReplicaManager, ReplicaOutput};
use crate::base::{Batch, Millis, Offset, ProducerTag, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::log::VerificationGuard;
use crate::kafka::messages::ProducedPartition;
use crate::kafka::partition::{PartitionOutput, Produce};
use std::sync::Arc;

/// A batch of a transactional produce, after the coordinator was asked about it.
#[derive(Clone, Debug)]
pub struct VerifiedBatch {
    /// The partition.
    pub tp: TopicPartition,
    /// The batch.
    pub batch: Arc<Batch>,
    /// Its guard, none where none was needed; or why it is refused.
    pub verified: Result<Option<VerificationGuard>, ErrorCode>,
}

impl ReplicaManager {
    /// Takes a produce request. Tokens ascend.
    pub fn produce(
        &mut self,
        now: Millis,
        token: u64,
        acks: i8,
        timeout: Millis,
        batches: &[(TopicPartition, Arc<Batch>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.append(now, &Produce::client(token, acks, timeout), batches, out);
    }

    /// Takes an append: of a producer, or of the broker itself (markers, records of its coordinators). Answered as
    /// [`ReplicaOutput::Produced`]. Tokens ascend.
    pub fn append(
        &mut self,
        now: Millis,
        how: &Produce,
        batches: &[(TopicPartition, Arc<Batch>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.begin_append(now, how, batches.iter().map(|(tp, _)| *tp));
        for (tp, batch) in batches {
            self.append_one(now, *tp, batch, how);
        }
        self.end_append(now, how, out);
    }
    /// Takes a producer's append whose transaction was verified: each batch with its guard, or with what it is refused for.
    pub fn append_verified(
        &mut self,
        now: Millis,
        how: &Produce,
        batches: &[VerifiedBatch],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.begin_append(now, how, batches.iter().map(|b| b.tp));
        for b in batches {
            match b.verified {
                Ok(guard) => self.append_one(now, b.tp, &b.batch, &Produce { guard, ..*how }),
                Err(error) => self.refuse(how.token, b.tp, error),
            }
        }
        self.end_append(now, how, out);
    }
    fn begin_append(&mut self, now: Millis, how: &Produce, partitions: impl Iterator<Item = TopicPartition>) {
        let answers: Vec<_> = partitions.map(|tp| (tp, None)).collect();
        let deadline = now + how.timeout;
        self.produces.insert(how.token, ProduceInFlight { acks: how.acks, deadline, missing: answers.len(), answers });
    }
    fn append_one(&mut self, now: Millis, tp: TopicPartition, batch: &Arc<Batch>, how: &Produce) {
        if self.on_partition(now, tp, |p, cx| p.produce(batch, how, cx).is_ok()).is_none() {
            let error = self.partitions.get_or_error(tp).err().unwrap_or(ErrorCode::NotLeaderOrFollower);
            self.refuse(how.token, tp, error);
        }
    }
    fn refuse(&mut self, token: u64, tp: TopicPartition, error: ErrorCode) {
        let (base, log_start) = (Offset::UNKNOWN, Offset::UNKNOWN);
        let answer = ProducedPartition { tp, error, base, log_start, leader: None };
        self.inner.push(PartitionOutput::Produced { token, answer });
    }
    fn end_append(&mut self, now: Millis, how: &Produce, out: &mut Vec<ReplicaOutput>) {
        let token = how.token;
        if self.produces.get(token).is_some_and(|p| p.answers.is_empty()) {
            self.produced(token, None, out);
        }
        self.settle(now, out);
        if self.produces.contains_key(token) {
            self.requests_due = self.requests_due.min(now + how.timeout);
        }
    }

    /// Appends a batch of a coordinator of this broker and gives its offset at once; that it is replicated shows by the high
    /// watermark alone. `how` carries a token that nobody waits for.
    pub fn append_now(
        &mut self,
        now: Millis,
        how: &Produce,
        tp: TopicPartition,
        batch: &Arc<Batch>,
        out: &mut Vec<ReplicaOutput>,
    ) -> Result<Offset, ErrorCode> {
        let appended = self.on_partition(now, tp, |p, cx| p.produce(batch, how, cx));
        self.settle(now, out);
        appended.unwrap_or(Err(ErrorCode::NotLeaderOrFollower)).map(|a| a.appended.first)
    }

    /// Before a transactional batch (T-10): the guard under which it may be appended when the coordinator knows of it; none
    /// where its transaction is open already.
    pub fn start_verification(
        &mut self,
        wall: Millis,
        tp: TopicPartition,
        producer: ProducerTag,
        tv2: bool,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        let partition = self.partitions.get_or_error(tp)?;
        if !partition.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let ProducerTag { id, epoch, base_sequence } = producer;
        partition.log_mut().start_verification(id, epoch, base_sequence, tv2, wall)
    }
}
