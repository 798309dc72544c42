//! What the coordinator is told and what it asks for: its only ties to the broker around it.

use super::record::TransactionLogRecord;
use super::state::{TransactionState, TransactionVersion};
use crate::base::{AbortedBy, BrokerId, Millis, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::TransactionalId;

/// Names an append until its result is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendId(pub u64);
/// Names a request of a client until it is answered. Chosen by the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// One marker of a WriteTxnMarkers request (KIP-98).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnMarkerEntry {
    /// Producer id of the transaction.
    pub producer: ProducerId,
    /// Epoch of the marker.
    pub epoch: ProducerEpoch,
    /// Epoch of the coordinator.
    pub coordinator_epoch: i32,
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// Version the transaction follows; decides how strictly the partition judges the epoch (T-34).
    pub version: TransactionVersion,
    /// Where it is to be written, in order.
    pub partitions: Vec<TopicPartition>,
}

/// An answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionReply {
    /// To InitProducerId.
    InitProducerId {
        /// The error.
        error: ErrorCode,
        /// The producer id, -1 on error.
        producer: ProducerId,
        /// Its epoch, -1 on error.
        epoch: ProducerEpoch,
    },
    /// To AddPartitionsToTxn or AddOffsetsToTxn: the same for every partition.
    AddPartitions(ErrorCode),
    /// To EndTxn.
    EndTxn {
        /// The error.
        error: ErrorCode,
        /// The producer id to go on with under V2, else -1.
        producer: ProducerId,
        /// Its epoch, likewise.
        epoch: ProducerEpoch,
    },
}

/// What the broker is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutput {
    /// Append to a partition of `__transaction_state` with acks=all, under the leader epoch that is the coordinator epoch;
    /// tell the result with `appended`.
    Append {
        /// To be named in the result.
        append: AppendId,
        /// The partition.
        partition: u16,
        /// The records, one batch.
        records: Vec<TransactionLogRecord>,
        /// REQUEST_TIMED_OUT after this long: the transaction's own timeout (T-3).
        timeout: Millis,
    },
    /// Answer a request.
    Reply {
        /// The request.
        token: Token,
        /// The answer.
        reply: TransactionReply,
    },
    /// Send WriteTxnMarkers to a broker; tell its answer with `markers_answered`, or the loss of the connection with
    /// `markers_disconnected`. There is no second one to that broker before.
    SendMarkers {
        /// The broker.
        to: BrokerId,
        /// The markers.
        markers: Vec<TxnMarkerEntry>,
    },
}

/// What a coordinator tells of itself. Nothing follows from it: it is for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A state is on its way into the log, or is stored and in force.
    State {
        /// Whose.
        id: TransactionalId,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// The state.
        state: TransactionState,
        /// In force.
        stored: bool,
    },
    /// The abort of a transaction is stored.
    Aborts {
        /// Whose.
        id: TransactionalId,
        /// Who wanted it.
        by: AbortedBy,
    },
    /// A completion was given up: a partition refused its marker for good, or Kafka's thread died of the answer (T-32).
    Stopped {
        /// Whose.
        id: TransactionalId,
        /// Producer id of the markers.
        producer: ProducerId,
        /// Epoch of the markers.
        epoch: ProducerEpoch,
    },
}

/// Where a marker for a partition goes (`MetadataCache.getPartitionLeaderEndpoint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkerDestination {
    /// To its leader.
    Leader(BrokerId),
    /// The leader is not alive, or there is none: it waits.
    LeaderNotAvailable,
    /// There is no such partition: it has been deleted, no marker is needed (T-31).
    UnknownPartition,
}

/// Producer ids (`ProducerIdManager`).
pub trait ProducerIdManager {
    /// A producer id that was never given out, or COORDINATOR_LOAD_IN_PROGRESS when no block is at hand.
    fn generate(&mut self) -> Result<ProducerId, ErrorCode>;
}
/// Leaders as this broker knows them.
pub trait PartitionLeaders {
    /// Where a marker for `tp` goes.
    fn destination(&self, tp: TopicPartition) -> MarkerDestination;
}

/// What a step of the coordinator sees of its broker, and where its outputs go.
pub struct Step<'a> {
    /// Time for what is done at intervals: it only goes forward.
    pub now: Millis,
    /// The broker's clock: what stamps transactions and says which of them are too old (T-20). The next coordinator's may
    /// differ from it.
    pub wall: Millis,
    /// `transaction.version` of the cluster.
    pub version: TransactionVersion,
    /// Producer ids.
    pub ids: &'a mut dyn ProducerIdManager,
    /// Leaders.
    pub leaders: &'a dyn PartitionLeaders,
    /// Outputs, in order.
    pub out: &'a mut Vec<TransactionOutput>,
}
impl Step<'_> {
    pub(super) fn reply(&mut self, token: Token, reply: TransactionReply) {
        self.out.push(TransactionOutput::Reply { token, reply });
    }
}
