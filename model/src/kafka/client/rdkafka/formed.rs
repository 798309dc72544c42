//! A batch of a partition, from when it is formed until its records are reported.

use crate::base::{Batch, Millis, ProducerTag, Row};
use crate::registry::payload;
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch that was sent at least once: its records and limits never change again, so that a broker can know it.
#[derive(Clone, Debug)]
pub(super) struct Formed {
    pub(super) first: u64,
    pub(super) rows: Arc<[Row]>,
    /// As it was last sent.
    pub(super) sealed: Option<Arc<Batch>>,
    /// Runs of records with the same time of enqueueing, oldest first.
    pub(super) ages: VecDeque<(u32, Millis)>,
    pub(super) retries: u32,
    pub(super) not_before: Millis,
}
impl Formed {
    pub(super) fn records(&self) -> u32 {
        self.rows.len() as u32
    }
    /// The batch under a producer tag; rows and digest are made once.
    pub(super) fn seal(&mut self, tag: ProducerTag, transactional: bool) -> Arc<Batch> {
        let batch = match self.sealed.take() {
            Some(b) if b.producer == tag => b,
            Some(b) => Arc::new(b.retagged(tag)),
            None => {
                let unsealed = || (Arc::clone(&self.rows), Arc::from([]));
                let (rows, raw) = payload::seal(&self.rows).unwrap_or_else(unsealed);
                Arc::new(Batch::data(rows, raw, tag, transactional))
            }
        };
        self.sealed = Some(Arc::clone(&batch));
        batch
    }
    pub(super) fn last_sent(mut self) -> Arc<Batch> {
        self.seal(self.sealed.as_ref().map_or(ProducerTag::NONE, |b| b.producer), false)
    }
}

/// Records that leave without having been sent, as a batch.
pub(super) fn unsent(rows: Vec<Row>) -> Arc<Batch> {
    Arc::new(Batch::data(rows.into(), Arc::new([]), ProducerTag::NONE, false))
}
