//! The writer of a Kafka sink (`KafkaWriter`, connector 3.4): which transaction its records go to. Rules K1 to K7.

use super::committer::KafkaCommittable;
use super::naming::{AbortScan, TransactionalName};
use crate::base::{Fix, Fixes, ProducerEpoch, ProducerId};
use crate::flink::checkpoint::CheckpointId;
use std::sync::Arc;

/// `sink.delivery-guarantee`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryGuarantee {
    /// Nothing waits: the default of the DataStream API.
    #[default]
    None,
    /// Everything sent is acknowledged before the barrier: the default of SQL.
    AtLeastOnce,
    /// A transaction for every checkpoint.
    ExactlyOnce,
}
impl DeliveryGuarantee {
    /// Whether the writer flushes its producer now: before a barrier, or at the end of the input. NONE does not before a
    /// barrier, so what its producer still buffers is lost with a kill although a completed checkpoint is behind it.
    pub const fn flushes(self, end_of_input: bool) -> bool {
        !matches!(self, Self::None) || end_of_input
    }
}

/// What a snapshot keeps of a writer (`KafkaWriterState`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaWriterState {
    /// `sink.transactional-id-prefix` at that time.
    pub prefix: Arc<str>,
}

/// A transaction that records go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Its id.
    pub name: TransactionalName,
    /// Its producer id.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Whether anything was written to it. Otherwise no broker knows of more than the id.
    pub records: bool,
}

#[derive(Clone, Debug)]
enum Work {
    /// Aborting what predecessors left open.
    Scan(AbortScan),
    /// Opening the transactions up to that of this checkpoint.
    Open(CheckpointId),
    Ready,
}

/// The writer of one subtask under EXACTLY_ONCE. While [`Self::wants`] names an id, its task is blocked: opening the next
/// transaction is part of the synchronous snapshot.
#[derive(Clone, Debug)]
pub struct TransactionalWriter {
    prefix: Arc<str>,
    subtask: u32,
    /// The checkpoint of the newest transaction that has been opened, or the restored one (`lastCheckpointId`).
    last: CheckpointId,
    work: Work,
    /// What the producer of the scan carries: the transaction opened first needs no second initialisation if it is that.
    carried: Option<(TransactionalName, ProducerId, ProducerEpoch)>,
    current: Option<OpenTransaction>,
}

impl TransactionalWriter {
    /// A writer that starts fresh, or from a checkpoint with the state of its predecessor.
    pub fn new(
        prefix: Arc<str>,
        subtask: u32,
        parallelism: u32,
        restored: Option<(CheckpointId, Option<KafkaWriterState>)>,
    ) -> Self {
        let last = restored.as_ref().map_or(CheckpointId(0), |(id, _)| *id);
        let before = restored.and_then(|(_, state)| state).map(|state| state.prefix);
        let scan = AbortScan::new(subtask, parallelism, CheckpointId(last.0 + 1), prefix.clone(), before);
        Self { prefix, subtask, last, work: Work::Scan(scan), carried: None, current: None }
    }
    /// The id to initialise next, if the task waits for one.
    pub fn wants(&self) -> Option<TransactionalName> {
        match &self.work {
            Work::Scan(scan) => Some(scan.probe().clone()),
            Work::Open(_) => Some(self.name(CheckpointId(self.last.0 + 1))),
            Work::Ready => None,
        }
    }
    fn name(&self, checkpoint: CheckpointId) -> TransactionalName {
        TransactionalName { prefix: self.prefix.clone(), subtask: self.subtask, checkpoint }
    }
    /// The id that [`Self::wants`] named has been initialised.
    pub fn initialised(&mut self, producer: ProducerId, epoch: ProducerEpoch) {
        match &mut self.work {
            Work::Scan(scan) => {
                let probe = scan.probe().clone();
                if scan.initialised(epoch) {
                    self.carried = Some((probe, producer, epoch));
                    self.open_up_to(CheckpointId(self.last.0 + 1));
                }
            }
            Work::Open(_) => self.opened(producer, epoch),
            Work::Ready => {}
        }
    }
    fn open_up_to(&mut self, checkpoint: CheckpointId) {
        self.work = Work::Open(checkpoint);
        let next = self.name(CheckpointId(self.last.0 + 1));
        if let Some((_, producer, epoch)) = self.carried.take().filter(|(name, ..)| *name == next) {
            self.opened(producer, epoch);
        }
    }
    fn opened(&mut self, producer: ProducerId, epoch: ProducerEpoch) {
        self.last = CheckpointId(self.last.0 + 1);
        self.current = Some(OpenTransaction { name: self.name(self.last), producer, epoch, records: false });
        // Ids of checkpoints that were skipped are initialised all the same: none is missing at the broker (K4).
        if matches!(self.work, Work::Open(until) if until <= self.last) {
            self.work = Work::Ready;
        }
    }
    /// The transaction that records go to.
    pub const fn current(&self) -> Option<&OpenTransaction> {
        self.current.as_ref()
    }
    /// Records have been written to it.
    pub fn wrote(&mut self) {
        if let Some(current) = &mut self.current {
            current.records = true;
        }
    }
    /// Before the barrier, after the flush: what is to be committed. A transaction without records is none (FLINK-31363).
    pub fn prepare_commit(&mut self, fixes: Fixes) -> Option<KafkaCommittable> {
        let current = self.current.take()?;
        let committable = current.records || !fixes.has(Fix::EmptyTransactionNotCommitted);
        let OpenTransaction { name, producer, epoch, .. } = current;
        committable.then_some(KafkaCommittable { name, producer, epoch, live: true })
    }
    /// The snapshot of a checkpoint opens the transaction of the next (K4).
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> KafkaWriterState {
        self.open_up_to(CheckpointId(checkpoint.0 + 1));
        KafkaWriterState { prefix: self.prefix.clone() }
    }
    /// A graceful end: the transaction to abort. What has been prepared stays open (K7).
    pub fn close(&mut self) -> Option<OpenTransaction> {
        self.current.take().filter(|current| current.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(writer: &mut TransactionalWriter, epochs: &[i16]) -> Vec<String> {
        let mut names = Vec::new();
        for epoch in epochs {
            names.extend(writer.wants().map(|n| n.to_string()));
            writer.initialised(ProducerId(7), ProducerEpoch(*epoch));
        }
        assert_eq!(writer.wants(), None);
        names
    }

    #[test]
    fn on_a_virgin_prefix_the_probe_is_the_first_transaction() {
        let mut writer = TransactionalWriter::new("p".into(), 0, 1, None);
        assert_eq!(answer(&mut writer, &[0]), ["p-0-1"]);
        let mut again = TransactionalWriter::new("p".into(), 0, 1, None);
        assert_eq!(answer(&mut again, &[1, 0, 0, 2]), ["p-0-1", "p-0-2", "p-1-1", "p-0-1"]);
    }

    #[test]
    fn skipped_checkpoints_leave_no_gap() {
        let mut writer = TransactionalWriter::new("p".into(), 0, 1, None);
        answer(&mut writer, &[0]);
        assert_eq!(writer.prepare_commit(Fixes::ALL), None);
        writer.snapshot(CheckpointId(3));
        assert_eq!(answer(&mut writer, &[0, 0, 0]), ["p-0-2", "p-0-3", "p-0-4"]);
    }
}
