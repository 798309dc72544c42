//! Records on their way to an application.

use crate::base::{Batch, Offset, TopicPartition};
use std::sync::Arc;

/// Consecutive records of one batch.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The partition.
    pub tp: TopicPartition,
    /// Offset of the first record of the *batch*.
    pub base: Offset,
    /// First record delivered, counted in the batch.
    pub from: u32,
    /// One past the last record delivered.
    pub to: u32,
    /// The batch.
    pub batch: Arc<Batch>,
}
impl Slice {
    /// Number of records.
    pub fn records(&self) -> u32 {
        self.to - self.from
    }
    /// Offset of the first record delivered.
    pub fn first(&self) -> Offset {
        self.base.plus(i64::from(self.from))
    }
    /// The offset after the last record delivered.
    pub fn next(&self) -> Offset {
        self.base.plus(i64::from(self.to))
    }
}
