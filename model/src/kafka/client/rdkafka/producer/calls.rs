//! What an application asks of a producer.

use super::{ProducerEvent, RdProducer};
use crate::base::{Millis, Offset, TopicPartition};
use crate::kafka::client::rdkafka::errors::RdError;
use crate::kafka::client::rdkafka::txn::{Call, CallError, OffsetsCall, RdGroupMetadata, TxnState};

impl RdProducer {
    /// `init_transactions`, `begin_transaction`, `commit_transaction`, `abort_transaction` or `flush`, to end by `deadline`.
    /// The result comes as [`ProducerEvent::Called`].
    pub fn call(&mut self, call: Call, deadline: Millis) {
        self.settled = false;
        if call == Call::Flush {
            self.flush = Some(deadline);
            return;
        }
        let Some(txn) = &mut self.txn else {
            let error = CallError { error: RdError::State, fatal: false, retriable: false, abort: false };
            self.events.push_back(ProducerEvent::Called(call, Err(error)));
            return;
        };
        match txn.begin_call(call, deadline) {
            Ok(true) => {}
            Ok(false) => return self.events.push_back(ProducerEvent::Called(call, Ok(()))),
            Err(error) => return self.events.push_back(ProducerEvent::Called(call, Err(error))),
        }
        match call {
            Call::Init if txn.state == TxnState::Uninitialized => {
                txn.enter(TxnState::Initializing);
                self.coordinators.query(Millis::ZERO);
            }
            Call::Begin => {
                txn.reset();
                txn.enter(TxnState::InTransaction);
                self.end_call(Ok(()));
            }
            Call::Commit if txn.state == TxnState::InTransaction => txn.enter(TxnState::Flushing),
            Call::Abort => {
                if matches!(txn.state, TxnState::InTransaction | TxnState::Abortable) {
                    txn.enter(TxnState::Draining);
                    txn.pending.clear();
                    txn.offsets = None;
                }
                // Called again after a time-out it drops what has come back to the queue since (K-28).
                if txn.state == TxnState::Draining {
                    self.purge(true);
                }
            }
            _ => {}
        }
    }
    /// `send_offsets_to_transaction`.
    pub fn send_offsets(&mut self, group: RdGroupMetadata, offsets: Vec<(TopicPartition, Offset)>, deadline: Millis) {
        self.settled = false;
        let Some(txn) = &mut self.txn else { return };
        match txn.begin_call(Call::Offsets, deadline) {
            Ok(_) => txn.offsets = Some(OffsetsCall { group, offsets, added: false }),
            Err(error) => self.events.push_back(ProducerEvent::Called(Call::Offsets, Err(error))),
        }
    }
    /// `purge`: drops the records that were not sent yet.
    pub fn purge_queue(&mut self) {
        self.settled = false;
        self.purge(false);
    }
}
