//! The one queue from which the application reads.

use crate::base::{Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Slice;
use std::collections::VecDeque;

/// What `consume` gives.
#[derive(Clone, Debug)]
pub enum Consumed {
    /// Records of one batch.
    Records(Slice),
    /// `_PARTITION_EOF`: everything up to the LSO (read_uncommitted: the high watermark) was fetched.
    Eof(TopicPartition, Offset),
    /// An error of a fetch; reading goes on after a back-off.
    Error(TopicPartition, ErrorCode),
    /// `_AUTO_OFFSET_RESET`: the offset is outside the log and the policy is `error`; the partition has stopped.
    AutoOffsetReset(TopicPartition),
    /// `_LOG_TRUNCATION`: the log was cut below the position and the policy is `error`; the partition has stopped.
    LogTruncation(TopicPartition),
}

#[derive(Clone, Debug)]
enum Op {
    Give(Consumed),
    /// A control batch: moves the application's position past it, gives nothing.
    Control(TopicPartition, Offset),
}
impl Op {
    fn tp(&self) -> TopicPartition {
        match self {
            Self::Give(Consumed::Records(s)) => s.tp,
            Self::Give(
                Consumed::Eof(tp, _)
                | Consumed::Error(tp, _)
                | Consumed::AutoOffsetReset(tp)
                | Consumed::LogTruncation(tp),
            )
            | Self::Control(tp, _) => *tp,
        }
    }
    fn messages(&self) -> u64 {
        if let Self::Give(Consumed::Records(s)) = self { u64::from(s.records()) } else { 1 }
    }
    fn bytes(&self) -> u64 {
        let Self::Give(Consumed::Records(s)) = self else { return 0 };
        let body = s.batch.bytes.saturating_sub(crate::base::Batch::HEADER_BYTES);
        u64::from(body) * u64::from(s.records()) / u64::from(s.batch.records)
    }
}

/// Every partition's fetch queue is forwarded to this one, and so are its length and size: the limits
/// `queued.min.messages` and `queued.max.messages.kbytes` are compared with what *all* partitions have in it.
#[derive(Clone, Debug, Default)]
pub struct ConsumerQueue {
    ops: VecDeque<Op>,
    messages: u64,
    bytes: u64,
}

impl ConsumerQueue {
    /// Messages in it: records, control batches, errors.
    pub fn messages(&self) -> u64 {
        self.messages
    }
    /// Bytes of the records in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    fn push(&mut self, op: Op) {
        self.messages += op.messages();
        self.bytes += op.bytes();
        self.ops.push_back(op);
    }
    /// Adds something for the application.
    pub fn give(&mut self, what: Consumed) {
        self.push(Op::Give(what));
    }
    /// Adds the end of a control batch.
    pub fn control(&mut self, tp: TopicPartition, next: Offset) {
        self.push(Op::Control(tp, next));
    }
    /// Drops what is queued of a partition (a seek or a new assignment outdates it).
    pub fn purge(&mut self, tp: TopicPartition) {
        self.ops.retain(|op| op.tp() != tp);
        self.messages = self.ops.iter().map(Op::messages).sum();
        self.bytes = self.ops.iter().map(Op::bytes).sum();
    }
    /// Takes up to `max` messages in order, whole chunks one after the other; `moved` hears of positions.
    pub fn take(&mut self, max: u32, out: &mut Vec<Consumed>, mut moved: impl FnMut(TopicPartition, Offset)) -> u32 {
        let mut taken = 0;
        while taken < max {
            let Some(mut op) = self.ops.pop_front() else { break };
            self.messages -= op.messages();
            self.bytes -= op.bytes();
            match &mut op {
                Op::Control(tp, next) => moved(*tp, *next),
                Op::Give(Consumed::Records(slice)) => {
                    let cut = slice.to.min(slice.from.saturating_add(max - taken));
                    let rest = Slice { from: cut, ..slice.clone() };
                    slice.to = cut;
                    taken += slice.records();
                    moved(slice.tp, slice.next());
                    out.push(Consumed::Records(slice.clone()));
                    if rest.records() > 0 {
                        let rest = Op::Give(Consumed::Records(rest));
                        self.messages += rest.messages();
                        self.bytes += rest.bytes();
                        self.ops.push_front(rest);
                    }
                }
                Op::Give(other) => {
                    taken += 1;
                    out.push(other.clone());
                }
            }
        }
        taken
    }
}
