//! Rules by which the real product itself loses or doubles a record, each for what it explains and nothing else.

use super::Cast;
use crate::world::Observer;
use model::base::{Event, Layer, Offset, ProcessId, Shown, SimTime, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that excuses a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excuse {
    /// L-20: page cache was lost with power; acknowledged records may be gone.
    PowerLoss,
    /// a leader was elected from outside ISR and ELR.
    UncleanElection,
    /// L-22, P-24, P-25: after an out-of-order answer an idempotent producer raises its epoch and sends again.
    EpochBump,
    /// P-25, P-32: a batch was refused while others were on their way behind it. They are out of order, librdkafka's producer
    /// raises its epoch and sends everything again, also what was appended and not acknowledged.
    SkippedBatch,
    /// P-32: librdkafka's producer is fatal after an out-of-order answer at the head.
    FatalProducer,
    /// The producer is not idempotent: retries double and reorder.
    NotIdempotent,
    /// The producer does not ask for acks=all: what is not replicated is truncated after a failover (2.3).
    AcksNotAll,
    /// a reader was reset and reads again.
    ReaderReset,
    /// L-26: a broker could not register in time and ended its process.
    RegistrationTimeout,
    /// 5.4: a member begins at the committed offset, and what it was given in vain before it lost its membership stays given.
    Redelivery,
    /// a reader of uncommitted data is given aborted and open transactions too.
    ReadUncommitted,
    /// T-32: the coordinator, or a partition, has lost what it knew of a transaction; its end cannot be written.
    CompletionStopped,
    /// KIP-890: before transaction.version 2 a request that was given up and comes late is taken for the next transaction's.
    LateRequest,
    /// F2, F3, F6: a block whose offsets were not committed is read again.
    StoreRedelivery,
    /// F7, F8, F11: a table's part is lost with power, or its settings let rows go by.
    StoreLoses,
    /// 7.3, I3: a committer has swallowed a refusal; the records of that transaction are lost.
    DroppedCommit,
    /// W2, W3, T4: the operator judges lateness by its own watermark, not by the order of sending.
    ByWatermark,
    /// W4, T4: a late event without a late output is dropped and counted.
    DroppedLate,
    /// W2, T4: of overlapping windows some are over.
    PartlyLate,
    /// I9: filter and window judge by watermarks of their own.
    TwoWatermarks,
    /// I9: after a restore CURRENT_WATERMARK is NULL, the window has its own back.
    WatermarkNull,
    /// I9: CURRENT_WATERMARK is behind the window's watermark.
    WatermarkBehind,
    /// I11: until the first watermark after a restore nothing is late.
    Reopened,
    /// W6, W8: a session that had fired fires again when an event within the lateness extends it.
    FiresAgain,
    /// I12: what was written since the restored checkpoint is written again.
    AtLeastOnce,
    /// I12: the job above wrote again what it had written, so the topic holds copies, each of which is taken.
    CopiesRead,
    /// A table keeps one row of each of its keys, and windows that the query tells apart share one.
    KeyShared,
    /// 7.1: a writer without guarantee does not flush before a barrier.
    NoGuarantee,
    /// 2.4: without alignment, or without checkpoints, state is not what the source's position says.
    InexactState,
    /// 2.7: a job that takes up the state of another writes what that one has written.
    StateTwice,
    /// A row that waits is dropped when event time has passed its time to live.
    JoinState,
    /// A user has ended the job; or it does not run at the end, which the law of liveness finds.
    JobOver,
    /// A source that cannot be read again begins with what comes after a restart.
    NoReplay,
    /// A3, A7: an aligned split waits for the others of its group, also for one that has nothing more to give.
    Aligned,
    /// Without high availability a JobManager that starts anew knows of no job.
    JobForgotten,
}
impl Excuse {
    /// All, for tables.
    pub const ALL: [Self; 35] = [
        Self::PowerLoss,
        Self::UncleanElection,
        Self::EpochBump,
        Self::SkippedBatch,
        Self::FatalProducer,
        Self::NotIdempotent,
        Self::AcksNotAll,
        Self::ReaderReset,
        Self::RegistrationTimeout,
        Self::Redelivery,
        Self::ReadUncommitted,
        Self::CompletionStopped,
        Self::LateRequest,
        Self::StoreRedelivery,
        Self::StoreLoses,
        Self::DroppedCommit,
        Self::ByWatermark,
        Self::DroppedLate,
        Self::PartlyLate,
        Self::TwoWatermarks,
        Self::WatermarkNull,
        Self::WatermarkBehind,
        Self::Reopened,
        Self::FiresAgain,
        Self::AtLeastOnce,
        Self::CopiesRead,
        Self::KeyShared,
        Self::NoGuarantee,
        Self::InexactState,
        Self::StateTwice,
        Self::JoinState,
        Self::JobOver,
        Self::NoReplay,
        Self::Aligned,
        Self::JobForgotten,
    ];
    /// The rules, for tables.
    pub const fn rules(self) -> &'static str {
        match self {
            Self::PowerLoss => "L-20",
            Self::UncleanElection => "R-24",
            Self::EpochBump => "L-22, P-24, P-25",
            Self::SkippedBatch => "P-25, P-32",
            Self::FatalProducer => "P-32",
            Self::NotIdempotent => "enable.idempotence=false",
            Self::AcksNotAll => "acks=0 or 1",
            Self::ReaderReset => "X-30, X-31",
            Self::RegistrationTimeout => "L-26",
            Self::Redelivery => "5.4",
            Self::ReadUncommitted => "read_uncommitted",
            Self::CompletionStopped => "T-32",
            Self::LateRequest => "KIP-890, 4.6",
            Self::StoreRedelivery => "F2, F3, F6",
            Self::StoreLoses => "F7, F8, F11",
            Self::DroppedCommit => "I3, 7.3",
            Self::ByWatermark => "W2, W3, T4",
            Self::DroppedLate => "W4, T4",
            Self::PartlyLate => "W2, T4 (some of its windows)",
            Self::TwoWatermarks => "I9 (two watermarks)",
            Self::WatermarkNull => "I9 (CURRENT_WATERMARK null)",
            Self::WatermarkBehind => "I9 (CURRENT_WATERMARK behind)",
            Self::Reopened => "I11",
            Self::FiresAgain => "W6, W8",
            Self::AtLeastOnce => "I12",
            Self::CopiesRead => "I12 (copies read)",
            Self::KeyShared => "key of the table",
            Self::NoGuarantee => "sink.delivery-guarantee=none",
            Self::InexactState => "2.4",
            Self::StateTwice => "2.7",
            Self::JoinState => "state TTL",
            Self::JobOver => "job ended or behind",
            Self::NoReplay => "source without replay",
            Self::Aligned => "A3, A7",
            Self::JobForgotten => "no high-availability",
        }
    }
    /// What the rule says, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PowerLoss => "the page cache is not flushed on append: a replica that loses power loses its tail",
            Self::UncleanElection => "a leader elected from outside ISR and ELR lacks committed records",
            Self::EpochBump => {
                "after an out-of-order answer or an expiry the producer raises its epoch and sends again"
            }
            Self::SkippedBatch => {
                "a batch was refused while others were on their way behind it; they were out of order, and the producer raised its epoch and sent everything again, also what had been appended"
            }
            Self::FatalProducer => "librdkafka gives up after an out-of-order answer to its oldest batch",
            Self::NotIdempotent => "without idempotence a retry may double and reorder",
            Self::AcksNotAll => "without acks=all an acknowledged record may not have been replicated",
            Self::ReaderReset => "a reader whose position was reset reads again",
            Self::RegistrationTimeout => {
                "a broker that cannot register for initial.broker.registration.timeout.ms ends its process"
            }
            Self::Redelivery => "the next owner of a partition begins at the committed offset",
            Self::ReadUncommitted => "a reader of uncommitted data is given aborted and open transactions too",
            Self::LateRequest => {
                "before transaction.version 2 an EndTxn that was given up and comes late ends the next transaction of its epoch"
            }
            Self::StoreRedelivery => "a block whose offsets were not committed is read and inserted again",
            Self::StoreLoses => {
                "parts that are not flushed go with power, and offsets may be committed before their rows are stored"
            }
            Self::DroppedCommit => {
                "a commit that was refused is given up, and the job goes on: the records of that transaction are lost"
            }
            Self::ByWatermark => "lateness is judged by the operator's watermark when the event comes",
            Self::DroppedLate => "what is late is dropped where no late output keeps it (numLateRecordsDropped)",
            Self::PartlyLate => {
                "an event that comes late for some of its windows is in the others only, and in no late output"
            }
            Self::TwoWatermarks => "a late filter and its window judge by watermarks of their own: in both",
            Self::WatermarkNull => {
                "after a restore the window has its watermark back, CURRENT_WATERMARK is NULL: in neither"
            }
            Self::WatermarkBehind => {
                "after a restore CURRENT_WATERMARK is behind the watermark that the window has back: in neither"
            }
            Self::Reopened => {
                "after a restore nothing is late until a watermark comes: windows that had fired open anew"
            }
            Self::FiresAgain => "a session that had fired fires again as another window",
            Self::AtLeastOnce => "at least once: what was written since the restored checkpoint is written again",
            Self::CopiesRead => "the topic that the job reads holds it more than once, and each copy is taken",
            Self::KeyShared => "the table keeps one row of each of its keys, and windows that differ share one",
            Self::NoGuarantee => "without a guarantee what a writer holds at a failure is gone",
            Self::InexactState => {
                "without alignment records behind a barrier are in the snapshot and come again; without checkpoints all begins anew"
            }
            Self::StateTwice => "a state that is taken up twice is written out twice",
            Self::JoinState => "the row that it should join had been dropped: event time was past its time to live",
            Self::NoReplay => {
                "a source that cannot be read again begins with what comes after a restart: what was in flight is gone"
            }
            Self::Aligned => {
                "an aligned split waits for the others of its group; without an idle timeout also for those that have nothing more"
            }
            Self::JobForgotten => "without high availability a JobManager that starts anew knows of no job",
            Self::JobOver => "the job was ended, or has not finished what there is to read",
            Self::CompletionStopped => {
                "after a loss a partition refuses the coordinator's marker: its id answers CONCURRENT_TRANSACTIONS for ever"
            }
        }
    }
}

/// Committed records that a later leader did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When it showed.
    pub at: SimTime,
    /// Where.
    pub tp: TopicPartition,
    /// First offset lost.
    pub from: Offset,
    /// One past the last that was committed then.
    pub to: Offset,
    /// The rule by which the product loses them; none: it never may.
    pub excuse: Option<Excuse>,
}
impl Loss {
    /// Enters a loss in a list; false if it only made a known one longer.
    pub(super) fn enter(losses: &mut Vec<Self>, loss: Self) -> bool {
        let same = |l: &&mut Self| (l.tp, l.from, l.excuse) == (loss.tp, loss.from, loss.excuse) && l.to <= loss.to;
        if let Some(known) = losses.iter_mut().find(same) {
            known.to = loss.to;
            return false;
        }
        losses.push(loss);
        true
    }
    fn holds(&self, tp: TopicPartition, offset: Option<Offset>) -> bool {
        self.tp == tp && offset.is_none_or(|o| self.from <= o && o < self.to)
    }
}

/// `OUT_OF_ORDER_SEQUENCE_NUMBER` on the wire.
const OUT_OF_ORDER: i16 = 45;

/// `NOT_LEADER_OR_FOLLOWER` and `NOT_ENOUGH_REPLICAS` on the wire: the batch was not appended.
const REFUSED: [i16; 2] = [6, 19];

/// `INVALID_TXN_STATE` on the wire.
const INVALID_TXN_STATE: i16 = 48;

/// What has happened in the run that can excuse a finding.
#[derive(Clone, Debug, Default)]
pub struct Excuses {
    losses: Vec<Loss>,
    power_cuts: BTreeSet<TopicPartition>,
    /// How often each broker started.
    starts: BTreeMap<ProcessId, u32>,
    /// Replicas that have been cut: their producer state comes from a snapshot, which has one batch a producer (L-12).
    cut: BTreeSet<(ProcessId, TopicPartition)>,
    /// A leader that may have forgotten sequence numbers by rule (L-22, a loss) has answered out of order.
    out_of_order: bool,
    /// Partitions of which a batch was refused without being appended.
    refused: BTreeSet<TopicPartition>,
    /// What came behind such a batch was answered out of order.
    skipped: bool,
    /// Processes whose sends have failed for good (P-23, P-32), whose producer raised its epoch, gave up, by a rule.
    failed: BTreeSet<ProcessId>,
    bumped: BTreeMap<ProcessId, Excuse>,
    fatal: BTreeSet<ProcessId>,
    /// Process of each producer, by number.
    producers: Vec<Option<ProcessId>>,
    rereads: BTreeSet<u16>,
    /// Brokers that ended their process because they could not register, and were not started again.
    unregistered: BTreeSet<ProcessId>,
    /// Processes whose producer was told that its transaction is in no state to be ended: somebody else has ended it.
    ended: BTreeSet<ProcessId>,
    /// Transactional ids, by number, whose coordinator has given a completion up last.
    stopped: BTreeSet<u32>,
}
impl Excuses {
    /// Enters a loss of committed records.
    pub fn lost(&mut self, loss: Loss) {
        Loss::enter(&mut self.losses, loss);
    }
    /// A replica of the partition has lost batches with power.
    pub fn power_cut(&mut self, tp: TopicPartition) {
        self.power_cuts.insert(tp);
    }
    /// A reader was reset and was given again what it had.
    pub fn reread(&mut self, reader: u16) {
        self.rereads.insert(reader);
    }
    /// Every loss of committed records in the run.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Excuse for an acknowledged record that is gone, by its place where that is known.
    pub fn loss(&self, tp: TopicPartition, offset: Option<Offset>) -> Option<Excuse> {
        self.losses.iter().filter(|l| l.holds(tp, offset)).find_map(|l| l.excuse)
    }
    /// Excuse for a partition that cannot go on, or whose readers missed records.
    pub fn changed(&self, tp: TopicPartition) -> Option<Excuse> {
        self.loss(tp, None).or_else(|| self.power_cuts.contains(&tp).then_some(Excuse::PowerLoss))
    }
    /// Excuse for a replica of which a tail was lost with power (L-20).
    pub fn power_lost(&self, tp: TopicPartition) -> Option<Excuse> {
        let mut of_log = self.losses.iter().filter(|l| l.holds(tp, None));
        let lost = self.power_cuts.contains(&tp) || of_log.any(|l| l.excuse == Some(Excuse::PowerLoss));
        lost.then_some(Excuse::PowerLoss)
    }
    /// Excuse for a record that is there twice or out of order, by its producer.
    pub fn double(&self, producer: u16, cast: &Cast) -> Option<Excuse> {
        if !cast.is_idempotent(producer) {
            return Some(Excuse::NotIdempotent);
        }
        if let Some(version) = cast.transaction_version(producer) {
            // Its epoch is raised at the end of a transaction, whose rows are aborted: nothing is doubled by that (I-33).
            let ended = self.process_of(producer).is_some_and(|p| self.ended.contains(&p));
            return (version < 2 && ended).then_some(Excuse::LateRequest);
        }
        self.bumped.get(&self.process_of(producer)?).copied()
    }
    /// Excuse for a producer that has given up.
    pub fn fatal(&self, producer: u16) -> Option<Excuse> {
        // One that never had an answer is known by no process.
        let gave_up = match self.process_of(producer) {
            Some(p) => self.fatal.contains(&p),
            None => !self.fatal.is_empty(),
        };
        gave_up.then_some(Excuse::FatalProducer)
    }
    /// Excuse for a broker that is not there at the end.
    pub fn gone(&self, broker: ProcessId) -> Option<Excuse> {
        self.unregistered.contains(&broker).then_some(Excuse::RegistrationTimeout)
    }
    /// Excuse for records that a reader was given twice.
    pub fn given_twice(&self, reader: u16, grouped: bool) -> Option<Excuse> {
        let excuse = if grouped { Excuse::Redelivery } else { Excuse::ReaderReset };
        self.rereads.contains(&reader).then_some(excuse)
    }
    /// Excuse for a transaction of an id that neither ends nor lets another begin: a loss by rule has put coordinator and
    /// partitions at odds (T-32).
    pub fn stopped(&self, id: u32) -> Option<Excuse> {
        let lost = self.losses.iter().any(|l| l.excuse.is_some());
        (lost && self.stopped.contains(&id)).then_some(Excuse::CompletionStopped)
    }
    fn process_of(&self, producer: u16) -> Option<ProcessId> {
        self.producers.get(usize::from(producer)).copied().flatten()
    }
    /// Why a producer may raise its epoch: sequence numbers were forgotten by a leader or skipped, or sends given up.
    fn raises(&self, process: ProcessId) -> Option<Excuse> {
        if self.out_of_order || self.failed.contains(&process) {
            return Some(Excuse::EpochBump);
        }
        self.bumped.get(&process).copied().or(self.skipped.then_some(Excuse::SkippedBatch))
    }
}
impl Observer for Excuses {
    fn event(&mut self, _: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::Recovered { .. } => {
                *self.starts.entry(process).or_default() += 1;
                self.unregistered.remove(&process);
            }
            Event::Truncated { tp, .. } => {
                self.cut.insert((process, tp));
            }
            // L-22: after a restart a leader knows each producer's last batch only; so it does after it was cut.
            Event::ProduceAnswered { tp, error: OUT_OF_ORDER, .. } => {
                let restarted = self.starts.get(&process).is_some_and(|n| *n > 1);
                let cut = self.cut.contains(&(process, tp));
                self.out_of_order |= restarted || cut || self.losses.iter().any(|l| l.tp == tp);
                self.skipped |= self.refused.contains(&tp);
            }
            Event::ProduceAnswered { tp, error, .. } if REFUSED.contains(&error) => {
                self.refused.insert(tp);
            }
            Event::CompletionStopped { id, .. } => {
                self.stopped.insert(id);
            }
            Event::TransactionState { id, stored: true, .. } => {
                self.stopped.remove(&id);
            }
            Event::SendFailed { .. } => {
                self.failed.insert(process);
            }
            Event::ProducerEpochBumped { .. } => {
                if let Some(excuse) = self.raises(process) {
                    self.bumped.insert(process, excuse);
                }
            }
            Event::ProducerFatal { error: INVALID_TXN_STATE } => {
                self.ended.insert(process);
            }
            // P-32: an epoch that was raised begins at 0 everywhere, so only a leader that forgot can refuse the head.
            Event::ProducerFatal { .. } if self.out_of_order => {
                self.fatal.insert(process);
            }
            Event::RegistrationTimedOut { .. } => {
                self.unregistered.insert(process);
            }
            _ => {}
        }
    }
    fn shown(&mut self, _: SimTime, process: ProcessId, shown: &Shown) {
        let (Layer::Acked(producer) | Layer::Failed(producer)) = shown.layer else { return };
        let producer = usize::from(producer);
        if self.producers.len() <= producer {
            self.producers.resize(producer + 1, None);
        }
        self.producers[producer] = Some(process);
    }
}
