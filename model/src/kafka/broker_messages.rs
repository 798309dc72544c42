//! What brokers say to each other about transactions.

use super::ErrorCode;
use super::coordinator::transaction::TxnMarkerEntry;
use crate::base::{Chain, Feed, TopicPartition};

/// A request of one broker to another.
#[derive(Clone, Debug)]
pub enum BrokerRequest {
    /// From a transaction coordinator to the leaders of a transaction's partitions.
    WriteTxnMarkers(Vec<TxnMarkerEntry>),
}
/// The answer.
#[derive(Clone, Debug)]
pub enum BrokerReply {
    /// Per marker of the request, in its order: the error of each partition.
    WriteTxnMarkers(Vec<Vec<(TopicPartition, ErrorCode)>>),
}

impl BrokerRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WriteTxnMarkers(_) => "WriteTxnMarkers",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::WriteTxnMarkers(_) => 27,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::WriteTxnMarkers(markers) => markers.iter().map(|m| 20 + 16 * m.partitions.len() as u32).sum(),
        }
    }
}
impl BrokerReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WriteTxnMarkers(_) => "WriteTxnMarkers reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::WriteTxnMarkers(_) => 27,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::WriteTxnMarkers(markers) => markers.iter().map(|m| 12 + 18 * m.len() as u32).sum(),
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
        }
    }
}
impl Feed for BrokerReply {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::WriteTxnMarkers(markers) => markers.iter().for_each(|m| m.feed(c)),
        }
    }
}
