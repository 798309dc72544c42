//! A task's input side: channels, gates, and what barriers do to them (flink.md 2.3 to 2.5).

mod alignment;
mod channel;
mod gate;
mod input;
mod sender;
mod single;
mod tracker;

use crate::base::Millis;
use crate::flink::checkpoint::{CheckpointId, Reason};

pub use gate::Gates;
pub use input::{Polled, TaskInput};
pub use sender::Sender;

/// A channel of a task, numbered through over all its inputs.
pub type ChannelId = usize;

/// What a barrier demands (`CheckpointOptions.AlignmentType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// Exactly once, aligned for good: checkpoints without unaligned ones, and every savepoint.
    Aligned,
    /// Aligned as long as the alignment takes no longer than this since the checkpoint was triggered
    /// (`execution.checkpointing.aligned-checkpoint-timeout`).
    Timeoutable(Millis),
    /// Exactly once, overtaking what is queued.
    Unaligned,
    /// At least once: nothing waits for it.
    AtLeastOnce,
}

/// A checkpoint barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint.
    pub id: CheckpointId,
    /// When the coordinator triggered it.
    pub timestamp: Millis,
    /// How tasks take it.
    pub kind: BarrierKind,
}
impl Barrier {
    const fn unaligned(self) -> bool {
        matches!(self.kind, BarrierKind::Unaligned)
    }
    /// The same checkpoint, taken unaligned.
    const fn as_unaligned(self) -> Self {
        Self { kind: BarrierKind::Unaligned, ..self }
    }
    /// Whether the sender sends nothing behind it until the receiver goes on (`DataType.isBlockingUpstream`).
    const fn blocks_sender(self) -> bool {
        matches!(self.kind, BarrierKind::Aligned | BarrierKind::Timeoutable(_))
    }
}

/// What travels in a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer<T> {
    /// Data, in Flink's sense: records, watermarks and watermark status alike.
    Data(T),
    /// A barrier.
    Barrier(Barrier),
    /// The checkpoint was given up upstream.
    Cancel(CheckpointId),
    /// Nothing more comes.
    End,
}

/// How a task's barrier handler works (`InputProcessorUtil.createCheckpointBarrierHandler`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `EXACTLY_ONCE` without unaligned checkpoints.
    Aligned,
    /// `EXACTLY_ONCE` with `execution.checkpointing.unaligned.enabled`: the barrier's kind decides, whatever the timeout.
    Alternating,
    /// `AT_LEAST_ONCE`.
    AtLeastOnce,
}

/// What the input side tells the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice<T> {
    /// Take the snapshot now and pass the barrier on: what has been delivered is in it.
    Trigger(Barrier),
    /// Give the checkpoint up: decline it and pass the cancellation on.
    Abort(CheckpointId, Reason),
    /// This data of a channel belongs to the channel state of the checkpoint. It is delivered all the same.
    Capture(CheckpointId, ChannelId, Vec<T>),
    /// The channel state of the input is complete.
    InputDone(CheckpointId),
    /// What the alignment of a triggered checkpoint took.
    Metrics {
        /// The checkpoint.
        id: CheckpointId,
        /// From its creation to the first barrier here.
        start_delay: Millis,
        /// From the first barrier to the last.
        alignment: Millis,
        /// Buffers of data processed in between.
        processed: u64,
    },
    /// The channel's sender may go on.
    Resume(ChannelId),
}
