//! What brokers say to each other about transactions.

use super::ErrorCode;
use super::coordinator::transaction::TxnMarkerEntry;
use super::txn_messages::TransactionalId;
use crate::base::{Chain, Feed, ProducerEpoch, ProducerId, TopicPartition};

/// One transaction of an AddPartitionsToTxn request between brokers (v4 on; KIP-890).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitionsEntry {
    /// The transactional id.
    pub id: TransactionalId,
    /// Producer id.
    pub producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// Only asks whether they are in it.
    pub verify_only: bool,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// A request of one broker to another.
#[derive(Clone, Debug)]
pub enum BrokerRequest {
    /// From a transaction coordinator to the leaders of a transaction's partitions.
    WriteTxnMarkers(Vec<TxnMarkerEntry>),
    /// From a partition's leader to the coordinators of transactions that begin there.
    AddPartitionsToTxn(Vec<AddPartitionsEntry>),
}
/// The answer.
#[derive(Clone, Debug)]
pub enum BrokerReply {
    /// Per marker of the request, in its order: the error of each partition.
    WriteTxnMarkers(Vec<Vec<(TopicPartition, ErrorCode)>>),
    /// Per transaction of the request, likewise.
    AddPartitionsToTxn(Vec<Vec<(TopicPartition, ErrorCode)>>),
}

impl BrokerRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WriteTxnMarkers(_) => "WriteTxnMarkers",
            Self::AddPartitionsToTxn(_) => "AddPartitionsToTxn",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::WriteTxnMarkers(_) => 27,
            Self::AddPartitionsToTxn(_) => 24,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::WriteTxnMarkers(markers) => markers.iter().map(|m| 20 + 16 * m.partitions.len() as u32).sum(),
            Self::AddPartitionsToTxn(txns) => txns.iter().map(|t| 36 + 16 * t.partitions.len() as u32).sum(),
        }
    }
}
impl BrokerReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WriteTxnMarkers(_) => "WriteTxnMarkers reply",
            Self::AddPartitionsToTxn(_) => "AddPartitionsToTxn reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::WriteTxnMarkers(_) => 27,
            Self::AddPartitionsToTxn(_) => 24,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::WriteTxnMarkers(results) | Self::AddPartitionsToTxn(results) => {
                results.iter().map(|r| 12 + 18 * r.len() as u32).sum()
            }
        }
    }
}
impl Feed for BrokerRequest {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::WriteTxnMarkers(markers) => {
                for m in markers {
                    m.producer.feed(c);
                    m.epoch.feed(c);
                    c.u32(m.coordinator_epoch as u32);
                    m.commit.feed(c);
                    c.u8(m.version as u8);
                    m.partitions.feed(c);
                }
            }
            Self::AddPartitionsToTxn(txns) => {
                for t in txns {
                    c.u32(t.id.0);
                    t.producer.feed(c);
                    t.epoch.feed(c);
                    t.verify_only.feed(c);
                    t.partitions.feed(c);
                }
            }
        }
    }
}
impl Feed for BrokerReply {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::WriteTxnMarkers(results) | Self::AddPartitionsToTxn(results) => {
                results.iter().for_each(|r| r.feed(c));
            }
        }
    }
}
