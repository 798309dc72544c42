//! What a producer tells its application.

use super::batch::Failure;
use super::transaction::{Call, ProducerIdAndEpoch};
use crate::base::{Batch, BrokerId, Offset, Sequence, TopicPartition};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// What the producer tells its application, and the trace.
#[derive(Clone, Debug)]
pub enum ProducerEvent {
    /// Records are acknowledged.
    Acked {
        /// The partition.
        tp: TopicPartition,
        /// Offset of the first record; -1 where unknown (acks=0, DUPLICATE_SEQUENCE_NUMBER).
        base: Offset,
        /// The records.
        batch: Arc<Batch>,
    },
    /// Records failed for good; the broker may have them all the same.
    Failed {
        /// The partition.
        tp: TopicPartition,
        /// The records.
        batch: Arc<Batch>,
        /// Why.
        why: Failure,
    },
    /// A batch was sent again.
    Retried {
        /// The partition.
        tp: TopicPartition,
        /// Its first sequence number.
        sequence: Sequence,
        /// 1 for the first retry.
        attempt: u32,
    },
    /// The producer has a new id or raised its epoch.
    Identity(ProducerIdAndEpoch),
    /// The producer can do no more.
    Fatal(Failure),
    /// A node answered with an error.
    ErrorAnswer {
        /// Api key of the request.
        api: u8,
        /// The error.
        error: ErrorCode,
        /// The node.
        node: BrokerId,
    },
    /// A flush is done.
    Flushed(u64),
    /// A call that waited for the coordinators has ended.
    Called {
        /// Its number.
        number: u64,
        /// Which call.
        call: Call,
        /// How it ended; [`Failure::Blocked`] where it gave up (`max.block.ms`) and can be resumed by the same call.
        result: Result<(), Failure>,
    },
    /// The I/O thread itself threw: an illegal move (KAFKA-14831).
    Threw,
}

/// Counters of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches put back for another try.
    pub retries: u64,
    /// Records that failed for good.
    pub failed_sends: u64,
    /// Records acknowledged.
    pub acked: u64,
}
