//! Kafka's messages on the wire: how large they are, what they are called, and what of them goes into a digest.

use super::messages::{FetchPartition, Message, Reply, Request};
use crate::base::{Chain, Feed, Wire};

impl Wire for Message {
    fn bytes(&self) -> u32 {
        const HEADER: u32 = 40;
        HEADER
            + match self {
                Self::Request { body, .. } => match body {
                    Request::ApiVersions => 20,
                    Request::Metadata(r) => 8 + 20 * r.topics.as_ref().map_or(0, |t| t.len() as u32),
                    Request::Produce(r) => r.batches.iter().map(|(_, b)| 12 + b.bytes).sum::<u32>(),
                    Request::Fetch(r) => 40 + 32 * r.partitions.len() as u32 + 8 * r.forget.len() as u32,
                    Request::ListOffsets(r) => 24 * r.partitions.len() as u32,
                    Request::OffsetsForLeaderEpoch(r) => 16 * r.partitions.len() as u32,
                    Request::InitProducerId(_) => 16,
                    Request::Controller(r) => r.bytes(),
                    Request::Quorum(r) => r.bytes(),
                    Request::Coordinator(r) => r.bytes(),
                    Request::Group(r) => r.bytes(),
                    Request::Broker(r) => r.bytes(),
                    Request::Registry(r) => r.bytes(),
                },
                Self::Reply { body, .. } => match body {
                    Reply::ApiVersions(_) => 600,
                    Reply::RebootstrapRequired => 30,
                    Reply::Metadata(r) => 30 * r.brokers.len() as u32 + 40 * r.partitions.len() as u32,
                    Reply::Produce(r) => 40 * r.partitions.len() as u32,
                    Reply::Fetch(r) => 16 + r.partitions.iter().map(|p| 60 + p.bytes).sum::<u32>(),
                    Reply::ListOffsets(r) => 28 * r.partitions.len() as u32,
                    Reply::OffsetsForLeaderEpoch(r) => 20 * r.partitions.len() as u32,
                    Reply::InitProducerId(_) => 16,
                    Reply::Controller(r) => r.bytes(),
                    Reply::Quorum(r) => r.bytes(),
                    Reply::Coordinator(r) => r.bytes(),
                    Reply::Group(r) => r.bytes(),
                    Reply::Broker(r) => r.bytes(),
                    Reply::Registry(r) => r.bytes(),
                },
                Self::Foreign(m) => m.bytes(),
            }
    }
    #[inline]
    fn kind(&self) -> u8 {
        match self {
            Self::Request { body, .. } => body.key(),
            Self::Reply { body, .. } => 128 | body.key(),
            Self::Foreign(m) => m.kind(),
        }
    }
    fn name(&self) -> &'static str {
        match self {
            Self::Request { body, .. } => body.name(),
            Self::Reply { body, .. } => match body {
                Reply::ApiVersions(_) => "ApiVersions reply",
                Reply::Metadata(_) | Reply::RebootstrapRequired => "Metadata reply",
                Reply::Produce(_) => "Produce reply",
                Reply::Fetch(_) => "Fetch reply",
                Reply::ListOffsets(_) => "ListOffsets reply",
                Reply::OffsetsForLeaderEpoch(_) => "OffsetForLeaderEpoch reply",
                Reply::InitProducerId(_) => "InitProducerId reply",
                Reply::Controller(r) => r.name(),
                Reply::Quorum(r) => r.name(),
                Reply::Coordinator(r) => r.name(),
                Reply::Group(r) => r.name(),
                Reply::Broker(r) => r.name(),
                Reply::Registry(_) => "Schema",
            },
            Self::Foreign(m) => m.name(),
        }
    }
}

impl Feed for Message {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.kind());
        match self {
            Self::Request { correlation, body } => {
                c.u32(*correlation);
                body.feed(c);
            }
            Self::Reply { correlation, body } => {
                c.u32(*correlation);
                body.feed(c);
            }
            Self::Foreign(m) => m.feed(c),
        }
    }
}
impl Feed for Request {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::ApiVersions => {}
            Self::Metadata(r) => r.topics.feed(c),
            Self::Produce(r) => {
                c.u8(r.acks as u8);
                r.timeout.feed(c);
                c.u8(r.version);
                if let Some(id) = r.transactional_id {
                    c.u32(id.0);
                }
                r.batches.feed(c);
            }
            Self::Fetch(r) => {
                r.replica.feed(c);
                r.max_wait.feed(c);
                c.u32(r.min_bytes);
                c.u32(r.max_bytes);
                c.u8(r.isolation as u8);
                c.u32(r.session);
                c.u32(r.session_epoch as u32);
                r.partitions.feed(c);
                r.forget.feed(c);
            }
            Self::ListOffsets(r) => {
                c.u8(r.isolation as u8);
                for (tp, spec, epoch) in &r.partitions {
                    tp.feed(c);
                    c.u8(*spec as u8);
                    epoch.feed(c);
                }
            }
            Self::OffsetsForLeaderEpoch(r) => {
                for (tp, epoch, current) in &r.partitions {
                    tp.feed(c);
                    epoch.feed(c);
                    current.feed(c);
                }
            }
            Self::InitProducerId(r) => {
                r.producer.feed(c);
                r.epoch.feed(c);
            }
            Self::Controller(r) => r.feed(c),
            Self::Quorum(r) => r.feed(c),
            Self::Coordinator(r) => r.feed(c),
            Self::Group(r) => r.feed(c),
            Self::Broker(r) => r.feed(c),
            Self::Registry(r) => r.feed(c),
        }
    }
}
impl Feed for FetchPartition {
    fn feed(&self, c: &mut Chain) {
        self.tp.feed(c);
        self.offset.feed(c);
        self.leader_epoch.feed(c);
        self.last_fetched_epoch.feed(c);
        self.log_start.feed(c);
        c.u32(self.max_bytes);
    }
}
impl Feed for Reply {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::ApiVersions(features) => {
                if let Some(f) = features {
                    f.epoch.feed(c);
                    c.u8(f.transaction_version);
                }
            }
            Self::RebootstrapRequired => c.u8(129),
            Self::Metadata(r) => {
                for b in r.brokers.iter() {
                    b.id.feed(c);
                    b.addr.feed(c);
                }
                for p in r.partitions.iter() {
                    p.tp.feed(c);
                    p.error.feed(c);
                    p.leader.feed(c);
                    p.epoch.feed(c);
                }
                r.unknown.feed(c);
            }
            Self::Produce(r) => {
                for p in &r.partitions {
                    p.tp.feed(c);
                    p.error.feed(c);
                    p.base.feed(c);
                    p.log_start.feed(c);
                    p.leader.feed(c);
                }
            }
            Self::Fetch(r) => {
                r.error.feed(c);
                c.u32(r.session);
                for p in &r.partitions {
                    p.tp.feed(c);
                    p.error.feed(c);
                    p.high_watermark.feed(c);
                    p.last_stable.feed(c);
                    p.log_start.feed(c);
                    p.diverging.feed(c);
                    p.aborted.feed(c);
                    p.entries.feed(c);
                    c.u32(p.bytes);
                    p.leader.feed(c);
                }
            }
            Self::ListOffsets(r) => {
                for (tp, error, offset, epoch) in &r.partitions {
                    tp.feed(c);
                    error.feed(c);
                    offset.feed(c);
                    epoch.feed(c);
                }
            }
            Self::OffsetsForLeaderEpoch(r) => {
                for (tp, error, epoch, end) in &r.partitions {
                    tp.feed(c);
                    error.feed(c);
                    epoch.feed(c);
                    end.feed(c);
                }
            }
            Self::InitProducerId(r) => {
                r.error.feed(c);
                r.producer.feed(c);
                r.epoch.feed(c);
            }
            Self::Controller(r) => r.feed(c),
            Self::Quorum(r) => r.feed(c),
            Self::Coordinator(r) => r.feed(c),
            Self::Group(r) => r.feed(c),
            Self::Broker(r) => r.feed(c),
            Self::Registry(r) => r.feed(c),
        }
    }
}
