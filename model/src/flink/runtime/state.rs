//! What a task hands in for a checkpoint.

use super::operator::KeyedState;
use super::task::{ChannelState, LakeState, SinkState, Split};
use crate::base::{Chain, Feed, Offset, TopicPartition};
use crate::flink::checkpoint::CheckpointId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// State of one operator of a chain, by its place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorState {
    /// It keeps nothing.
    None,
    /// A source's splits, each with the offset after the last record emitted (S4, S7).
    Splits(Vec<Split>),
    /// A transactional sink's writer and committer.
    Sink(Arc<SinkState>),
    /// The keys of a keyed operator.
    Keyed(Arc<KeyedState>),
    /// The committer of an Iceberg table.
    Lake(Arc<LakeState>),
    /// Of no operator, behind the last: what was on its way over the task's channels (2.5).
    Channels(Arc<ChannelState>),
}

/// What a subtask begins with, of each operator of its chain: the parts that were handed in by its predecessors and concern
/// it, in their order. At the same parallelism that is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Of this checkpoint.
    pub checkpoint: CheckpointId,
    /// By place in the chain.
    pub operators: Vec<Vec<OperatorState>>,
}
impl Restored {
    /// The parts of an operator.
    pub fn of(&self, operator: usize) -> &[OperatorState] {
        self.operators.get(operator).map_or(&[], Vec::as_slice)
    }
    /// The keyed state among them.
    pub fn keyed(&self, operator: usize) -> impl Iterator<Item = &KeyedState> {
        self.of(operator).iter().filter_map(|part| match part {
            OperatorState::Keyed(state) => Some(&**state),
            _ => None,
        })
    }
}

/// What a checkpoint keeps of a task, or of an operator's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// Of a task: of each operator of its chain.
    Task(Vec<OperatorState>),
    /// Of a source's enumerator: what it has assigned (S3).
    Enumerator(BTreeSet<TopicPartition>),
}
/// Shared, for it travels and stays.
pub type State = Arc<Snapshot>;

impl OperatorState {
    /// Bytes that its attempt has ever added to it, where state is only added to.
    pub fn written(&self) -> Option<u64> {
        if let Self::Keyed(state) = self { state.written() } else { None }
    }
    /// Bytes in the checkpoint, about.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Splits(splits) => 60 * splits.len() as u32,
            Self::Sink(state) => 60 + 80 * state.committer.entries().count() as u32,
            Self::Keyed(state) => state.bytes(),
            Self::Lake(state) => state.bytes(),
            Self::Channels(state) => state.bytes(),
        }
    }
}
impl Feed for Snapshot {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Task(operators) => operators.iter().for_each(|operator| operator.feed(chain)),
            Self::Enumerator(assigned) => assigned.iter().for_each(|tp| tp.feed(chain)),
        }
    }
}
impl Feed for OperatorState {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::None => chain.u8(0),
            Self::Splits(splits) => {
                chain.u8(1);
                for split in splits {
                    split.tp.feed(chain);
                    split.next.unwrap_or(Offset::UNKNOWN).feed(chain);
                }
            }
            Self::Sink(state) => {
                chain.u8(2);
                for (id, _, writers) in state.committer.entries() {
                    id.feed(chain);
                    for request in writers.flat_map(|(_, _, requests)| requests) {
                        request.committable.name.checkpoint.feed(chain);
                        request.committable.producer.feed(chain);
                        request.committable.epoch.feed(chain);
                    }
                }
            }
            Self::Keyed(state) => {
                chain.u8(3);
                state.feed(chain);
            }
            Self::Lake(state) => {
                chain.u8(5);
                state.feed(chain);
            }
            Self::Channels(state) => {
                chain.u8(4);
                state.feed(chain);
            }
        }
    }
}
