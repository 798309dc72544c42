//! What a poll gives to the application.

use crate::kafka::client::Slice;

/// What one poll took (`Fetch`, `ConsumerRecords`).
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// The records: partition after partition in the order in which `ConsumerRecords` is walked, rising within each.
    pub slices: Vec<Slice>,
    /// Their number.
    pub records: u32,
    /// Some position moved, perhaps over control batches or aborted data alone.
    pub advanced: bool,
}
impl Fetched {
    /// Neither records nor a position that moved: poll goes on waiting.
    pub fn is_empty(&self) -> bool {
        self.records == 0 && !self.advanced
    }
}
