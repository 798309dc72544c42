//! What a task hands in for a checkpoint.

use super::task::Split;
use crate::base::{Chain, Feed, Offset, TopicPartition};
use std::collections::BTreeSet;
use std::sync::Arc;

/// State of one operator of a chain, by its place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorState {
    /// It keeps nothing.
    None,
    /// A source's splits, each with the offset after the last record emitted (S4, S7).
    Splits(Vec<Split>),
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

impl Snapshot {
    /// Bytes on the wire and in the checkpoint, about.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Task(operators) => {
                operators.iter().map(|o| if let OperatorState::Splits(s) = o { 60 * s.len() as u32 } else { 0 }).sum()
            }
            Self::Enumerator(assigned) => 40 * assigned.len() as u32,
        }
    }
}
impl Feed for Snapshot {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Task(operators) => {
                for operator in operators {
                    match operator {
                        OperatorState::None => chain.u8(0),
                        OperatorState::Splits(splits) => {
                            chain.u8(1);
                            for split in splits {
                                split.tp.feed(chain);
                                split.next.unwrap_or(Offset::UNKNOWN).feed(chain);
                            }
                        }
                    }
                }
            }
            Self::Enumerator(assigned) => assigned.iter().for_each(|tp| tp.feed(chain)),
        }
    }
}
