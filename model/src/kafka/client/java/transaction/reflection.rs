//! What Flink's connector does to a producer's transaction manager by reflection (`FlinkKafkaInternalProducer`, 3.4).

use super::{ProducerIdAndEpoch, State, TransactionManager};
use crate::kafka::txn_messages::TransactionalId;

impl TransactionManager {
    /// `setTransactionId`: another `transactional.id`, uninitialized. What it knew of coordinators stays.
    pub fn rename(&mut self, id: TransactionalId) {
        if let Some(transactional) = self.transactional.as_mut().filter(|t| t.id != id) {
            transactional.id = id;
            self.state = State::Uninitialized;
        }
    }
    /// `resumeTransaction`: in the transaction that this producer id and epoch have begun elsewhere.
    pub fn resume(&mut self, producer: ProducerIdAndEpoch) {
        self.sequences.reset();
        self.producer = producer;
        self.state = State::InTransaction;
        self.started = true;
    }
}
