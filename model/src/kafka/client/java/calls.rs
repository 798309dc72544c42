//! What the application's thread calls on the producer (`KafkaProducer`): records, and the calls that block for coordinators.

use super::accumulator::{Appended, Target};
use super::batch::{Failure, size_upper_bound};
use super::dice::Dice;
use super::events::ProducerEvent;
use super::sender::Sender;
use super::transaction::{Call, GroupMetadata, ProducerIdAndEpoch, Refusal, ResultId};
use crate::base::{Millis, Offset, Row, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::ClusterView;
use crate::kafka::txn_messages::TransactionalId;

/// How `send` goes wrong in the caller's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No buffer memory: the thread has to wait.
    Full,
    /// It throws. The record stays queued all the same, and goes out with the next transaction that writes to its partition.
    Thrown(Refusal),
    /// Its future has failed. Queued: the record lies in the accumulator all the same.
    Failed {
        /// Why.
        why: Failure,
        /// Whether it was queued before.
        queued: bool,
    },
}

/// A call that waits for its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    number: u64,
    call: Call,
    result: ResultId,
    /// When it gives up.
    until: Millis,
}

impl Sender {
    /// `send`, as far as it concerns neither metadata nor waiting. The topic must have `partitions` partitions.
    #[inline]
    pub fn send(
        &mut self,
        topic: TopicId,
        target: Target,
        row: &Row,
        partitions: u16,
        view: &ClusterView,
        dice: &mut Dice,
        now: Millis,
    ) -> Result<Appended, SendError> {
        let size = size_upper_bound(row.bytes);
        if size > self.config.max_request_size || u64::from(size) > self.config.accumulator.buffer_memory {
            return Err(self.send_failed(Failure::Code(ErrorCode::MessageTooLarge), false));
        }
        let appended = self.accumulator.append(topic, target, row, partitions, view, dice, now);
        let appended = appended.ok_or(SendError::Full)?;
        let tp = TopicPartition { topic, partition: appended.partition };
        match self.manager.as_mut().map_or(Ok(()), |manager| manager.add_partition(tp)) {
            Ok(()) => Ok(appended),
            Err(Refusal::InError(why)) if why.is_thrown_bare() => Err(self.send_failed(why, true)),
            Err(refusal) => Err(SendError::Thrown(refusal)),
        }
    }
    /// `send` failed with an `ApiException`: the transaction hears of it (`maybeTransitionToErrorState`).
    pub(super) fn send_failed(&mut self, why: Failure, queued: bool) -> SendError {
        match self.manager.as_mut().map_or(Ok(()), |manager| manager.on_send_failed(why)) {
            Ok(()) => SendError::Failed { why, queued },
            Err(refusal) => SendError::Thrown(refusal),
        }
    }

    // ---- transactions

    /// `initTransactions`. Its end comes as [`ProducerEvent::Called`] with the number given here; at `until` it gives up.
    pub fn init_transactions(&mut self, until: Millis) -> Result<u64, Refusal> {
        let result = self.manager.as_mut().ok_or(Refusal::IllegalState)?.init_transactions()?;
        Ok(self.wait_for(Call::Init, result, until))
    }
    /// `beginTransaction`.
    pub fn begin_transaction(&mut self) -> Result<(), Refusal> {
        self.manager.as_mut().ok_or(Refusal::IllegalState)?.begin_transaction()
    }
    /// `prepareTransaction`.
    pub fn prepare_transaction(&mut self) -> Result<(), Refusal> {
        self.manager.as_mut().ok_or(Refusal::IllegalState)?.prepare_transaction()
    }
    /// `commitTransaction`.
    pub fn commit_transaction(&mut self, until: Millis) -> Result<u64, Refusal> {
        let result = self.manager.as_mut().ok_or(Refusal::IllegalState)?.commit_transaction()?;
        Ok(self.wait_for(Call::Commit, result, until))
    }
    /// `abortTransaction`.
    pub fn abort_transaction(&mut self, until: Millis) -> Result<u64, Refusal> {
        let result = self.manager.as_mut().ok_or(Refusal::IllegalState)?.abort_transaction()?;
        Ok(self.wait_for(Call::Abort, result, until))
    }
    /// `sendOffsetsToTransaction`.
    pub fn send_offsets(
        &mut self,
        offsets: Vec<(TopicPartition, Offset)>,
        group: GroupMetadata,
        until: Millis,
    ) -> Result<u64, Refusal> {
        let result = self.manager.as_mut().ok_or(Refusal::IllegalState)?.send_offsets(offsets, group)?;
        Ok(self.wait_for(Call::Offsets, result, until))
    }
    /// Takes another `transactional.id` (`FlinkKafkaInternalProducer.setTransactionId`).
    pub fn rename(&mut self, id: TransactionalId) {
        self.manager.iter_mut().for_each(|manager| manager.rename(id));
    }
    /// Resumes a transaction (`FlinkKafkaInternalProducer.resumeTransaction`).
    pub fn resume(&mut self, producer: ProducerIdAndEpoch) {
        self.manager.iter_mut().for_each(|manager| manager.resume(producer));
    }
    fn wait_for(&mut self, call: Call, result: ResultId, until: Millis) -> u64 {
        self.calls += 1;
        let number = self.calls;
        self.waiting.push(Waiting { number, call, result, until });
        number
    }
    /// The call gives up (`max.block.ms`); what it began goes on.
    pub fn give_up(&mut self, number: u64) {
        if let Some(i) = self.waiting.iter().position(|w| w.number == number) {
            let Waiting { number, call, .. } = self.waiting.remove(i);
            self.events.push(ProducerEvent::Called { number, call, result: Err(Failure::Blocked) });
        }
    }
    /// Lets calls return whose results are there, and those give up whose time is over.
    pub fn settle_calls(&mut self, now: Millis) {
        let Some(manager) = self.manager.as_mut().filter(|_| !self.waiting.is_empty()) else { return };
        let mut seen = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { number, call, result, until } = waiting;
            match manager.results().outcome(result) {
                Some(outcome) => {
                    seen.push(result);
                    if call == Call::Init && outcome.is_ok() {
                        manager.initialized();
                    }
                    self.events.push(ProducerEvent::Called { number, call, result: outcome });
                }
                None if now >= until => {
                    self.events.push(ProducerEvent::Called { number, call, result: Err(Failure::Blocked) });
                }
                None => self.waiting.push(waiting),
            }
        }
        for result in seen {
            manager.results().acknowledge(result);
        }
    }
    /// When the first waiting call gives up.
    pub fn next_give_up(&self) -> Millis {
        self.waiting.iter().map(|w| w.until).min().unwrap_or(Millis::MAX)
    }
    /// Whether a transaction is open or being ended.
    pub fn has_ongoing_transaction(&self) -> bool {
        self.manager.as_ref().is_some_and(|m| m.is_open() || (m.state().is_completing()))
    }
    /// The producer closes: a transaction that nobody ends is aborted (K-8).
    pub fn abort_open_transaction(&mut self) {
        if let Some(manager) = self.manager.as_mut().filter(|m| m.is_open())
            && manager.abort_transaction().is_err()
        {
            self.force_close();
        }
    }
    /// `close(0)`: batches and calls that are not done fail.
    pub fn force_close(&mut self) {
        self.abort_all(Failure::Closed);
        for Waiting { number, call, .. } in std::mem::take(&mut self.waiting) {
            self.events.push(ProducerEvent::Called { number, call, result: Err(Failure::Closed) });
        }
        if let Some(manager) = self.manager.as_mut().filter(|m| m.transactional().is_some()) {
            manager.close();
        }
    }
    /// Finalized features came with a connection (`ApiVersions`).
    pub const fn set_transaction_version(&mut self, version: u8) {
        if let Some(manager) = &mut self.manager {
            manager.set_cluster_version(version);
        }
    }
}
