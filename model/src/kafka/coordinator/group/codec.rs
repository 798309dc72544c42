//! Records as bytes of a batch (`GroupCoordinatorRecordSerde`). The layout is this model's own: nobody outside reads it.

use super::messages::{ConsumerSubscription, JoinProtocol, MemberAssignment, Name, ProtocolMetadata};
use super::records::{
    AssignedPartitions, CommittedOffset, CurrentAssignment, GroupMemberRecord, GroupMetadata, GroupRecord, LogEntry,
    MemberState, MemberSubscription,
};
use crate::base::{
    Batch, EventTime, Ghost, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag, Row, Sequence, Span, TopicId,
    TopicPartition,
};
use crate::kafka::log::Entry;
use crate::kafka::txn_messages::GroupId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of a record around key and value: length, attributes, deltas, sizes, headers.
const RECORD_OVERHEAD: u32 = 9;

/// The batch of these records, transactional if it has a producer.
pub fn to_batch(records: &[GroupRecord], producer: Option<(ProducerId, ProducerEpoch)>, now: Millis) -> Batch {
    let (mut raw, mut rows) = (Vec::new(), Vec::with_capacity(records.len()));
    for record in records {
        let start = raw.len() as u32;
        record.write(&mut raw);
        let len = raw.len() as u32 - start;
        rows.push(Row {
            ghost: Ghost::NONE,
            bytes: len + RECORD_OVERHEAD,
            time: EventTime(now.0),
            key: Row::NO_KEY,
            cols: [0; 4],
            raw: Span { start, len },
        });
    }
    let tag = |(id, epoch)| ProducerTag { id, epoch, base_sequence: Sequence::NONE };
    Batch::data(rows.into(), raw.into(), producer.map_or(ProducerTag::NONE, tag), producer.is_some())
}

/// What a batch of the log holds, each with its offset. Records that cannot be read are left out.
pub fn from_entry(entry: &Entry) -> Vec<(Offset, LogEntry)> {
    let batch = &entry.batch;
    if let Some(marker) = batch.marker_of() {
        return vec![(entry.base, LogEntry::Marker(batch.producer.id, marker.commit))];
    }
    let producer = batch.is_transactional().then_some(batch.producer.id);
    let bytes = |span: Span| batch.raw.get(span.start as usize..(span.start + span.len) as usize);
    let read = |(i, row): (usize, &Row)| {
        let record = GroupRecord::read(&mut Reader(bytes(row.raw)?))?;
        Some((entry.base.plus(i as i64), LogEntry::Record(producer, record)))
    };
    batch.rows.iter().enumerate().filter_map(read).collect()
}

/// Something with a place in a record.
trait Field: Sized {
    fn write(&self, to: &mut Vec<u8>);
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}
/// The rest of the bytes.
struct Reader<'a>(&'a [u8]);
impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }
}

macro_rules! numbers {
    ($($int:ty)*) => {$(
        impl Field for $int {
            fn write(&self, to: &mut Vec<u8>) { to.extend(self.to_le_bytes()); }
            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self::from_le_bytes(from.take(size_of::<Self>())?.try_into().ok()?))
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 i32 i64);

macro_rules! wrappers {
    ($($name:ident)*) => {$(
        impl Field for $name {
            fn write(&self, to: &mut Vec<u8>) { self.0.write(to); }
            fn read(from: &mut Reader<'_>) -> Option<Self> { Field::read(from).map($name) }
        }
    )*};
}
wrappers!(GroupId TopicId Offset Millis);

macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Field for $name {
            fn write(&self, to: &mut Vec<u8>) { $(self.$field.write(to);)* }
            fn read(from: &mut Reader<'_>) -> Option<Self> { Some(Self { $($field: Field::read(from)?),* }) }
        }
    )*};
}
structs! {
    TopicPartition { topic, partition }
    CommittedOffset { offset, at, expires }
    ConsumerSubscription { topics, owned, generation, user_data }
    JoinProtocol { name, metadata }
    GroupMemberRecord { id, instance, session_timeout, rebalance_timeout, protocol, assignment }
    GroupMetadata { protocol_type, generation, protocol, leader, state_since, members }
    MemberSubscription { instance, topics, assignor, rebalance_timeout }
    CurrentAssignment { epoch, previous_epoch, state, assigned, revoking }
}

fn write_all<'a, T: Field + 'a>(to: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'a T>) {
    (items.len() as u32).write(to);
    items.for_each(|item| item.write(to));
}
fn read_all<T: Field, C: FromIterator<T>>(from: &mut Reader<'_>) -> Option<C> {
    let n = u32::read(from)?;
    (0..n).map(|_| T::read(from)).collect()
}

impl<T: Field> Field for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        u8::from(self.is_some()).write(to);
        if let Some(value) = self {
            value.write(to);
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if u8::read(from)? == 0 { Some(None) } else { T::read(from).map(Some) }
    }
}
impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}
impl<T: Field> Field for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        write_all(to, self.iter());
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        read_all(from)
    }
}
impl<T: Field + Ord> Field for BTreeSet<T> {
    fn write(&self, to: &mut Vec<u8>) {
        write_all(to, self.iter());
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        read_all(from)
    }
}
impl Field for AssignedPartitions {
    fn write(&self, to: &mut Vec<u8>) {
        let list: Vec<(TopicPartition, i32)> = self.iter().map(|(tp, epoch)| (*tp, *epoch)).collect();
        list.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        read_all::<(TopicPartition, i32), _>(from)
    }
}
impl<T: Field> Field for Arc<T> {
    fn write(&self, to: &mut Vec<u8>) {
        (**self).write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        T::read(from).map(Self::new)
    }
}
impl Field for Name {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u16).write(to);
        to.extend(self.as_bytes());
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let n = u16::read(from)?;
        std::str::from_utf8(from.take(usize::from(n))?).ok().map(Self::from)
    }
}
fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    (bytes.len() as u32).write(to);
    to.extend(bytes);
}
fn read_bytes(from: &mut Reader<'_>) -> Option<Arc<[u8]>> {
    let n = u32::read(from)?;
    from.take(n as usize).map(Arc::from)
}
impl Field for ProtocolMetadata {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Opaque(bytes) => {
                0u8.write(to);
                write_bytes(to, bytes);
            }
            Self::Consumer(subscription) => {
                1u8.write(to);
                subscription.write(to);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if u8::read(from)? == 0 { read_bytes(from).map(Self::Opaque) } else { Field::read(from).map(Self::Consumer) }
    }
}
impl Field for MemberAssignment {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Opaque(bytes) => {
                0u8.write(to);
                write_bytes(to, bytes);
            }
            Self::Partitions(list) => {
                1u8.write(to);
                write_all(to, list.iter());
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if u8::read(from)? == 0 {
            read_bytes(from).map(Self::Opaque)
        } else {
            read_all::<TopicPartition, Vec<_>>(from).map(|list| Self::Partitions(list.into()))
        }
    }
}
impl Field for MemberState {
    fn write(&self, to: &mut Vec<u8>) {
        let code: u8 = match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
        };
        code.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match u8::read(from)? {
            0 => Some(Self::Stable),
            1 => Some(Self::UnrevokedPartitions),
            2 => Some(Self::UnreleasedPartitions),
            _ => None,
        }
    }
}

impl Field for GroupRecord {
    fn write(&self, to: &mut Vec<u8>) {
        // Kafka's own record types.
        let mut kind = |kind: u8| kind.write(to);
        match self {
            Self::OffsetCommit(group, tp, value) => {
                kind(1);
                (*group, (*tp, *value)).write(to);
            }
            Self::GroupMetadata(group, value) => {
                kind(2);
                (*group, value.clone()).write(to);
            }
            Self::ConsumerGroupMetadata(group, value) => {
                kind(3);
                (*group, *value).write(to);
            }
            Self::ConsumerGroupPartitionMetadata(group) => {
                kind(4);
                group.write(to);
            }
            Self::ConsumerGroupMemberMetadata(group, member, value) => {
                kind(5);
                (*group, (Arc::clone(member), value.clone())).write(to);
            }
            Self::ConsumerGroupTargetAssignmentMetadata(group, value) => {
                kind(6);
                (*group, *value).write(to);
            }
            Self::ConsumerGroupTargetAssignmentMember(group, member, value) => {
                kind(7);
                (*group, (Arc::clone(member), value.clone())).write(to);
            }
            Self::ConsumerGroupCurrentMemberAssignment(group, member, value) => {
                kind(8);
                (*group, (Arc::clone(member), value.clone())).write(to);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kind, group) = (u8::read(from)?, GroupId::read(from)?);
        Some(match kind {
            1 => Self::OffsetCommit(group, Field::read(from)?, Field::read(from)?),
            2 => Self::GroupMetadata(group, Field::read(from)?),
            3 => Self::ConsumerGroupMetadata(group, Field::read(from)?),
            4 => Self::ConsumerGroupPartitionMetadata(group),
            5 => Self::ConsumerGroupMemberMetadata(group, Field::read(from)?, Field::read(from)?),
            6 => Self::ConsumerGroupTargetAssignmentMetadata(group, Field::read(from)?),
            7 => Self::ConsumerGroupTargetAssignmentMember(group, Field::read(from)?, Field::read(from)?),
            8 => Self::ConsumerGroupCurrentMemberAssignment(group, Field::read(from)?, Field::read(from)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::LeaderEpoch;

    #[test]
    fn every_record_comes_back_from_its_bytes() {
        let (group, tp) = (GroupId(7), TopicPartition::new(3, 2));
        let name = |n: &str| -> Name { Arc::from(n) };
        let assigned = AssignedPartitions::from([(tp, 4)]);
        let subscription = ConsumerSubscription {
            topics: vec![TopicId(3)],
            owned: vec![tp],
            generation: 2,
            user_data: Some((vec![tp], 1)),
        };
        let member = GroupMemberRecord {
            id: name("m"),
            instance: Some(name("i")),
            session_timeout: Millis(1),
            rebalance_timeout: Millis(2),
            protocol: JoinProtocol {
                name: name("sticky"),
                metadata: ProtocolMetadata::Consumer(Arc::new(subscription)),
            },
            assignment: MemberAssignment::Partitions(Arc::from([tp])),
        };
        let metadata = GroupMetadata {
            protocol_type: Some(name("consumer")),
            generation: 3,
            protocol: Some(name("sticky")),
            leader: Some(name("m")),
            state_since: Some(Millis(5)),
            members: vec![member],
        };
        let said = MemberSubscription {
            instance: None,
            topics: [TopicId(3)].into(),
            assignor: Some(name("uniform")),
            rebalance_timeout: Millis(-1),
        };
        let current = CurrentAssignment {
            epoch: 5,
            previous_epoch: 4,
            state: MemberState::UnrevokedPartitions,
            assigned: assigned.clone(),
            revoking: assigned,
        };
        let offset = CommittedOffset { offset: Offset(9), at: Millis(1), expires: Some(Millis(2)) };
        let records = vec![
            GroupRecord::OffsetCommit(group, tp, Some(offset)),
            GroupRecord::OffsetCommit(group, tp, None),
            GroupRecord::GroupMetadata(group, Some(Arc::new(metadata))),
            GroupRecord::ConsumerGroupMetadata(group, Some((2, 99))),
            GroupRecord::ConsumerGroupPartitionMetadata(group),
            GroupRecord::ConsumerGroupMemberMetadata(group, name("a"), Some(Arc::new(said))),
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(group, Some((2, Millis(8)))),
            GroupRecord::ConsumerGroupTargetAssignmentMember(group, name("a"), Some(Arc::new([tp].into()))),
            GroupRecord::ConsumerGroupCurrentMemberAssignment(group, name("a"), Some(Arc::new(current))),
            GroupRecord::ConsumerGroupCurrentMemberAssignment(group, name("a"), None),
        ];
        let producer = Some((ProducerId(4), ProducerEpoch(0)));
        let batch = Arc::new(to_batch(&records, producer, Millis(77)));
        let entry = Entry { base: Offset(10), epoch: LeaderEpoch(0), batch };
        let read = from_entry(&entry);
        let want =
            |(i, r): (usize, &GroupRecord)| (Offset(10 + i as i64), LogEntry::Record(Some(ProducerId(4)), r.clone()));
        assert_eq!(read, records.iter().enumerate().map(want).collect::<Vec<_>>());
    }
}
