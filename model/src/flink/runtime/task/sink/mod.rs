//! An end of a chain: a Kafka sink's writer, with its committer where it writes in transactions (7.1 to 7.3), or the writer
//! of a keyed table (7.6).

mod lake_committer;
mod lake_writer;
mod plain;
mod transactional;
mod upsert;

pub use lake_committer::LakeState;
pub use transactional::SinkState;

use super::super::graph::{LakeSinkConfig, SinkConfig, UpsertConfig};
use super::super::ids::JobId;
use super::super::rpc::Cause;
use super::super::state::OperatorState;
use crate::base::{Cx, Fix, Fixes, Input, Millis, Row, SimTime, TopicId};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::kafka::DeliveryGuarantee;
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::TransactionalId;
use lake_committer::LakeCommitter;
use lake_writer::LakeWriter;
use plain::Plain;
use std::sync::Arc;
use transactional::Transactional;
use upsert::Upsert;

/// Which subtask of a sink it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of which job.
    pub job: JobId,
    /// Its index.
    pub subtask: u16,
    /// How many there are.
    pub parallelism: u16,
}

/// A sink's subtask. Everything that it does beyond [`Sink::write`] blocks its task's thread until [`Sink::is_waiting`] is over.
#[derive(Clone, Debug)]
pub enum Sink {
    /// NONE and AT_LEAST_ONCE.
    Plain(Plain),
    /// EXACTLY_ONCE.
    Transactional(Box<Transactional>),
    /// Into a keyed table.
    Upsert(Box<Upsert>),
    /// Files of an Iceberg table.
    LakeWriter(Box<LakeWriter>),
    /// Snapshots of an Iceberg table.
    LakeCommitter(Box<LakeCommitter>),
}
impl Sink {
    /// Opens the writer of a keyed table, which keeps nothing over a restore.
    pub fn upsert<W>(config: &Arc<UpsertConfig>, cx: &Cx<'_, Message, W>) -> Self {
        Self::Upsert(Box::new(Upsert::new(config, cx)))
    }
    /// Opens a writer of an Iceberg table.
    pub fn lake_writer<W>(config: &Arc<LakeSinkConfig>, place: Place, cx: &Cx<'_, Message, W>) -> Self {
        Self::LakeWriter(Box::new(LakeWriter::new(config, place, cx)))
    }
    /// Opens the committer of an Iceberg table, fresh or from a checkpoint, whose files it commits first.
    pub fn lake_committer<W>(
        config: &Arc<LakeSinkConfig>,
        place: Place,
        restored: Option<(CheckpointId, &[OperatorState])>,
        cx: &Cx<'_, Message, W>,
    ) -> Self {
        Self::LakeCommitter(Box::new(LakeCommitter::new(config, place, restored, cx)))
    }
    /// What a writer hands on to its committer before a barrier.
    pub fn take_emitted(&mut self) -> Vec<Row> {
        match self {
            Self::LakeWriter(sink) => sink.take_emitted(),
            _ => Vec::new(),
        }
    }
    /// Opens the writer, fresh or from a checkpoint. A committer commits what that lists before its writer opens.
    pub fn new<W>(
        config: &Arc<SinkConfig>,
        place: Place,
        restored: Option<(CheckpointId, &[OperatorState])>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        match config.guarantee {
            DeliveryGuarantee::ExactlyOnce => {
                Self::Transactional(Box::new(Transactional::new(config, place, restored, cx)))
            }
            _ => Self::Plain(Plain::new(config, cx)),
        }
    }
    /// Whether what it has written may stand though the attempt comes to nothing.
    pub const fn may_write_again(&self) -> bool {
        matches!(self, Self::Plain(_) | Self::Upsert(_))
    }
    /// Writes rows; the sink's own port has to run afterwards.
    pub fn write(&mut self, rows: &[Row], now: Millis) {
        match self {
            Self::Plain(sink) => sink.write(rows, now),
            Self::Upsert(sink) => sink.write(rows),
            Self::LakeWriter(sink) => sink.write(rows),
            Self::LakeCommitter(sink) => sink.write(rows),
            Self::Transactional(sink) => sink.write(rows, now),
        }
    }
    /// Before the barrier of a checkpoint, or at the end of the input, behind the last.
    pub fn flush(&mut self, end: bool, id: CheckpointId, fixes: Fixes, now: Millis) {
        match self {
            Self::Plain(_) | Self::Upsert(_) if !end && !fixes.has(Fix::FlushBeforeBarrier) => {}
            Self::LakeWriter(sink) => sink.flush(id, now),
            Self::LakeCommitter(sink) => sink.flush(end, id, now),
            Self::Plain(sink) => sink.flush(end),
            Self::Upsert(sink) => sink.flush(),
            Self::Transactional(sink) => sink.flush(end),
        }
    }
    /// Behind the barrier: what the checkpoint keeps. What goes on behind it has to be waited for as well.
    pub fn snapshot(&mut self, id: CheckpointId, now: Millis) -> OperatorState {
        match self {
            Self::Plain(_) | Self::Upsert(_) | Self::LakeWriter(_) => OperatorState::None,
            Self::LakeCommitter(sink) => sink.snapshot(id, now),
            Self::Transactional(sink) => sink.snapshot(id, now),
        }
    }
    /// A checkpoint is complete.
    pub fn complete(&mut self, id: CheckpointId) {
        match self {
            Self::Transactional(sink) => sink.complete(id),
            Self::LakeCommitter(sink) => sink.complete(id),
            Self::Plain(_) | Self::Upsert(_) | Self::LakeWriter(_) => {}
        }
    }
    /// A checkpoint was given up.
    pub fn aborted(&mut self, id: CheckpointId) {
        if let Self::Transactional(sink) = self {
            sink.aborted(id);
        }
    }
    /// Whether the task's thread hangs in it.
    pub fn is_waiting(&self) -> bool {
        match self {
            Self::Plain(sink) => sink.is_waiting(),
            Self::Upsert(sink) => sink.is_waiting(),
            Self::LakeWriter(sink) => sink.is_waiting(),
            Self::LakeCommitter(sink) => sink.is_waiting(),
            Self::Transactional(sink) => sink.is_waiting(),
        }
    }
    /// What went wrong, if something did: the next call throws.
    pub fn failed(&self) -> Option<Cause> {
        match self {
            Self::Plain(sink) => sink.is_failed().then_some(Cause::Send),
            Self::Upsert(sink) => sink.failed(),
            Self::LakeWriter(sink) => sink.failed(),
            Self::LakeCommitter(sink) => sink.failed(),
            Self::Transactional(sink) => sink.failed(),
        }
    }
    /// The `transactional.id` under which rows for a topic are written now, if this is such a sink.
    pub fn transactional_id(&self, topic: TopicId) -> Option<TransactionalId> {
        match self {
            Self::Transactional(sink) if sink.writes(topic) => sink.transactional_id(),
            _ => None,
        }
    }
    /// The task ends otherwise than by the death of its process.
    pub fn close(&mut self, now: Millis) {
        match self {
            Self::Plain(sink) => sink.close(),
            Self::Upsert(sink) => sink.close(),
            Self::LakeWriter(sink) => sink.close(),
            Self::LakeCommitter(sink) => sink.close(),
            Self::Transactional(sink) => sink.close(now),
        }
    }
    /// Whether [`Sink::close`] is done.
    pub fn closed(&self) -> bool {
        match self {
            Self::Plain(sink) => sink.closed(),
            Self::Upsert(sink) => sink.closed(),
            Self::LakeWriter(sink) => sink.closed(),
            Self::LakeCommitter(sink) => sink.closed(),
            Self::Transactional(sink) => sink.closed(),
        }
    }

    // ---- the producers' threads

    /// Takes an input of the sink's port.
    pub fn input(&mut self, input: Input<Message>) {
        match self {
            Self::Plain(sink) => sink.input(input),
            Self::Upsert(sink) => sink.input(input),
            Self::LakeWriter(sink) => sink.input(input),
            Self::LakeCommitter(sink) => sink.input(input),
            Self::Transactional(sink) => sink.input(input),
        }
    }
    /// Lets the producers work; says when they want to again.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        match self {
            Self::Plain(sink) => sink.run(cx),
            Self::Upsert(sink) => sink.run(cx),
            Self::LakeWriter(sink) => sink.run(cx),
            Self::LakeCommitter(sink) => sink.run(cx),
            Self::Transactional(sink) => sink.run(cx),
        }
    }
}
