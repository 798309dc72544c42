//! Group requests and answers on the wire: names, sizes, digests.

use super::messages::{
    ConsumerGroupHeartbeatReply, GroupReply, GroupRequest, JoinProtocol, MemberAssignment, Name, ProtocolMetadata,
};
use crate::base::{Chain, Feed, TopicPartition};

impl GroupRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OffsetCommit(_) => "OffsetCommit",
            Self::OffsetFetch(_) => "OffsetFetch",
            Self::Join(_) => "JoinGroup",
            Self::Heartbeat(_) => "Heartbeat",
            Self::Leave(_) => "LeaveGroup",
            Self::Sync(_) => "SyncGroup",
            Self::TxnOffsetCommit(_) => "TxnOffsetCommit",
            Self::Delete(_) => "DeleteGroups",
            Self::OffsetDelete(..) => "OffsetDelete",
            Self::ConsumerHeartbeat(_) => "ConsumerGroupHeartbeat",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::OffsetCommit(_) => 8,
            Self::OffsetFetch(_) => 9,
            Self::Join(_) => 11,
            Self::Heartbeat(_) => 12,
            Self::Leave(_) => 13,
            Self::Sync(_) => 14,
            Self::TxnOffsetCommit(_) => 28,
            Self::Delete(_) => 42,
            Self::OffsetDelete(..) => 47,
            Self::ConsumerHeartbeat(_) => 68,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        let partitions = |n: usize| 8 * n as u32;
        match self {
            Self::OffsetCommit(r) => 60 + 24 * r.offsets.len() as u32,
            Self::TxnOffsetCommit(r) => 90 + 24 * r.offsets.len() as u32,
            Self::OffsetFetch(r) => 30 + partitions(r.partitions.as_ref().map_or(0, Vec::len)),
            Self::Join(r) => 80 + r.protocols.iter().map(|p| 20 + metadata_bytes(&p.metadata)).sum::<u32>(),
            Self::Sync(r) => 80 + r.assignments.iter().map(|(_, a)| 40 + assignment_bytes(a)).sum::<u32>(),
            Self::Heartbeat(_) => 70,
            Self::Leave(r) => 20 + 50 * r.members.len() as u32,
            Self::Delete(_) => 20,
            Self::OffsetDelete(_, p) => 20 + partitions(p.len()),
            Self::ConsumerHeartbeat(r) => {
                80 + 20 * r.topics.as_ref().map_or(0, Vec::len) as u32
                    + partitions(r.owned.as_ref().map_or(0, Vec::len))
            }
        }
    }
}
impl GroupReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OffsetCommit(..) => "OffsetCommit reply",
            Self::OffsetFetch(..) => "OffsetFetch reply",
            Self::Join(_) => "JoinGroup reply",
            Self::Heartbeat(_) => "Heartbeat reply",
            Self::Leave(..) => "LeaveGroup reply",
            Self::Sync(_) => "SyncGroup reply",
            Self::TxnOffsetCommit(..) => "TxnOffsetCommit reply",
            Self::Delete(_) => "DeleteGroups reply",
            Self::OffsetDelete(..) => "OffsetDelete reply",
            Self::ConsumerHeartbeat(_) => "ConsumerGroupHeartbeat reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::OffsetCommit(..) => 8,
            Self::OffsetFetch(..) => 9,
            Self::Join(_) => 11,
            Self::Heartbeat(_) => 12,
            Self::Leave(..) => 13,
            Self::Sync(_) => 14,
            Self::TxnOffsetCommit(..) => 28,
            Self::Delete(_) => 42,
            Self::OffsetDelete(..) => 47,
            Self::ConsumerHeartbeat(_) => 68,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::OffsetCommit(_, p) | Self::TxnOffsetCommit(_, p) | Self::OffsetDelete(_, p) => {
                8 + 10 * p.len() as u32
            }
            Self::OffsetFetch(_, p) => 20 + 26 * p.len() as u32,
            Self::Join(r) => 100 + r.members.iter().map(|m| 50 + metadata_bytes(&m.metadata)).sum::<u32>(),
            Self::Sync(r) => 30 + assignment_bytes(&r.assignment),
            Self::Heartbeat(_) => 6,
            Self::Leave(_, m) => 10 + 50 * m.len() as u32,
            Self::Delete(_) => 26,
            Self::ConsumerHeartbeat(r) => 60 + 8 * r.assignment.as_ref().map_or(0, Vec::len) as u32,
        }
    }
}

fn metadata_bytes(metadata: &ProtocolMetadata) -> u32 {
    match metadata {
        ProtocolMetadata::Opaque(bytes) => bytes.len() as u32,
        ProtocolMetadata::Consumer(s) => {
            let remembered = s.user_data.as_ref().map_or(0, |(p, _)| p.len());
            20 + 20 * s.topics.len() as u32 + 8 * (s.owned.len() + remembered) as u32
        }
    }
}
fn assignment_bytes(assignment: &MemberAssignment) -> u32 {
    match assignment {
        MemberAssignment::Opaque(bytes) => bytes.len() as u32,
        MemberAssignment::Partitions(list) => 10 + 8 * list.len() as u32,
    }
}

fn text(c: &mut Chain, name: &Name) {
    c.u32(name.len() as u32);
    c.bytes(name.as_bytes());
}
fn optional(c: &mut Chain, name: Option<&Name>) {
    c.u8(u8::from(name.is_some()));
    if let Some(name) = name {
        text(c, name);
    }
}
fn partitions(c: &mut Chain, list: Option<&[TopicPartition]>) {
    c.u32(list.map_or(u32::MAX, |l| l.len() as u32));
    list.into_iter().flatten().for_each(|tp| tp.feed(c));
}
impl Feed for ProtocolMetadata {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::Opaque(bytes) => {
                c.u32(bytes.len() as u32);
                c.bytes(bytes);
            }
            Self::Consumer(s) => {
                c.u32(s.topics.len() as u32);
                s.topics.iter().for_each(|t| t.feed(c));
                partitions(c, Some(&s.owned));
                c.u32(s.generation as u32);
                partitions(c, s.user_data.as_ref().map(|(p, _)| &p[..]));
                c.u32(s.user_data.as_ref().map_or(0, |(_, generation)| *generation as u32));
            }
        }
    }
}
impl Feed for JoinProtocol {
    fn feed(&self, c: &mut Chain) {
        text(c, &self.name);
        self.metadata.feed(c);
    }
}
impl Feed for MemberAssignment {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::Opaque(bytes) => {
                c.u32(bytes.len() as u32);
                c.bytes(bytes);
            }
            Self::Partitions(list) => partitions(c, Some(list)),
        }
    }
}
impl Feed for GroupRequest {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        c.u32(self.group().0);
        let mut member = |id: &Name, instance: &Option<Name>, generation: i32| {
            text(c, id);
            optional(c, instance.as_ref());
            c.u32(generation as u32);
        };
        match self {
            Self::Join(r) => {
                member(&r.member, &r.instance, i32::from(r.version));
                text(c, &r.client);
                r.session_timeout.feed(c);
                r.rebalance_timeout.feed(c);
                text(c, &r.protocol_type);
                r.protocols.iter().for_each(|p| p.feed(c));
            }
            Self::Sync(r) => {
                member(&r.member, &r.instance, r.generation);
                optional(c, r.protocol_type.as_ref());
                optional(c, r.protocol.as_ref());
                for (id, assignment) in &r.assignments {
                    text(c, id);
                    assignment.feed(c);
                }
            }
            Self::Heartbeat(r) => member(&r.member, &r.instance, r.generation),
            Self::Leave(r) => r.members.iter().for_each(|(id, instance)| member(id, instance, 0)),
            Self::OffsetCommit(r) => {
                member(&r.member, &r.instance, r.generation);
                c.u8(r.version);
                c.u64(r.retention.map_or(-1, |m| m.0) as u64);
                r.offsets.feed(c);
            }
            Self::TxnOffsetCommit(r) => {
                member(&r.member, &r.instance, r.generation);
                r.producer.feed(c);
                r.epoch.feed(c);
                r.offsets.feed(c);
            }
            Self::OffsetFetch(r) => {
                optional(c, r.member.as_ref());
                c.u32(r.epoch as u32);
                r.require_stable.feed(c);
                partitions(c, r.partitions.as_deref());
            }
            Self::ConsumerHeartbeat(r) => {
                member(&r.member, &r.instance, r.epoch);
                c.u64(r.rebalance_timeout.map_or(-1, |m| m.0) as u64);
                c.u32(r.topics.as_ref().map_or(u32::MAX, |l| l.len() as u32));
                r.topics.iter().flatten().for_each(|t| t.feed(c));
                optional(c, r.assignor.as_ref());
                partitions(c, r.owned.as_deref());
            }
            Self::Delete(_) => {}
            Self::OffsetDelete(_, list) => partitions(c, Some(list)),
        }
    }
}
impl Feed for GroupReply {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::Join(r) => {
                r.error.feed(c);
                optional(c, r.member.as_ref());
                c.u32(r.generation as u32);
                optional(c, r.protocol.as_ref());
                optional(c, r.leader.as_ref());
                r.skip_assignment.feed(c);
                for m in &r.members {
                    text(c, &m.id);
                    optional(c, m.instance.as_ref());
                    m.metadata.feed(c);
                }
            }
            Self::Sync(r) => {
                r.error.feed(c);
                optional(c, r.protocol.as_ref());
                r.assignment.feed(c);
            }
            Self::Heartbeat(e) | Self::Delete(e) => e.feed(c),
            Self::Leave(e, members) => {
                e.feed(c);
                members.iter().for_each(|e| e.feed(c));
            }
            Self::OffsetCommit(e, list) | Self::TxnOffsetCommit(e, list) | Self::OffsetDelete(e, list) => {
                e.feed(c);
                list.feed(c);
            }
            Self::OffsetFetch(e, list) => {
                e.feed(c);
                for (tp, error, offset) in list {
                    tp.feed(c);
                    error.feed(c);
                    offset.feed(c);
                }
            }
            Self::ConsumerHeartbeat(ConsumerGroupHeartbeatReply { error, epoch, interval, assignment }) => {
                error.feed(c);
                c.u32(*epoch as u32);
                interval.feed(c);
                partitions(c, assignment.as_deref());
            }
        }
    }
}
