//! Identities as newtypes: an offset is never added to an epoch by accident.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl $name {
            /// The bare number, for arithmetic and for the digest.
            pub const fn get(self) -> $int { self.0 }
        }
        impl super::Feed for $name {
            #[inline]
            fn feed(&self, chain: &mut super::Chain) { chain.u64(self.0 as u64); }
        }
    };
}

id!(/// A simulated operating-system process; stable over kill and restart.
    ProcessId(u32));
id!(/// How many times a process has been started; raised by every restart.
    Incarnation(u32));
id!(/// A component inside a process that receives inputs and owns one deadline: a listener, a fetcher, a client.
    Port(u16));
id!(/// A thread of a process. Ports of one lane never overlap; lanes race.
    Lane(u16));
id!(/// A connection. Unique in a run; made by [`super::Cx::connection`](crate::base) on the opening side.
    ConnId(u64));
id!(/// A file on a process's disk, the unit of flushing.
    FileId(u32));
id!(/// Position of a record in a partition's log. -1 means unknown, as in Kafka.
    Offset(i64));
id!(/// Epoch of a partition leadership (`partitionLeaderEpoch`). -1 means unknown.
    LeaderEpoch(i32));
id!(/// Version of a partition's registration at the controller (`partitionEpoch`).
    PartitionEpoch(i32));
id!(/// `node.id` of a broker or controller. -1 means none.
    BrokerId(i32));
id!(/// Epoch of a broker registration: the metadata offset of its record. -1 means unknown.
    BrokerEpoch(i64));
id!(/// Id of an idempotent or transactional producer. -1 means none.
    ProducerId(i64));
id!(/// Epoch of a producer id. -1 means none.
    ProducerEpoch(i16));
id!(/// Sequence number of a record within (producer id, epoch, partition); wraps from `i32::MAX` to 0. -1 means none.
    Sequence(i32));
id!(/// A topic, numbered in the order of the scenario.
    TopicId(u16));

impl ConnId {
    const NUMBER_BITS: u32 = 40;
    /// Connection number `number` of those that `opener` opens.
    pub const fn new(opener: ProcessId, number: u64) -> Self {
        Self((opener.0 as u64) << Self::NUMBER_BITS | number)
    }
    /// Who opened it.
    pub const fn opener(self) -> ProcessId {
        ProcessId((self.0 >> Self::NUMBER_BITS) as u32)
    }
    /// Which of its opener's connections it is.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }
}
impl Offset {
    /// Unknown offset, -1 on the wire.
    pub const UNKNOWN: Self = Self(-1);
    /// The offset `n` records further.
    pub const fn plus(self, n: i64) -> Self {
        Self(self.0 + n)
    }
}
impl LeaderEpoch {
    /// Unknown epoch, -1 on the wire.
    pub const UNKNOWN: Self = Self(-1);
}
impl BrokerId {
    /// No broker, -1 on the wire.
    pub const NONE: Self = Self(-1);
}
impl BrokerEpoch {
    /// Unknown broker epoch, -1 on the wire; not compared by the leader (KIP-903).
    pub const UNKNOWN: Self = Self(-1);
}
impl ProducerId {
    /// No producer id: the batch is not idempotent.
    pub const NONE: Self = Self(-1);
}
impl ProducerEpoch {
    /// No producer epoch.
    pub const NONE: Self = Self(-1);
}
impl Sequence {
    /// No sequence number.
    pub const NONE: Self = Self(-1);
    /// The number `n` records further; wraps from `i32::MAX` to 0 (`DefaultRecordBatch.incrementSequence`).
    pub const fn plus(self, n: i32) -> Self {
        if self.0 > i32::MAX - n { Self(n - (i32::MAX - self.0) - 1) } else { Self(self.0 + n) }
    }
}

/// A partition of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition number in the topic, from 0.
    pub partition: u16,
}
impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub const fn new(topic: u16, partition: u16) -> Self {
        Self { topic: TopicId(topic), partition }
    }
}
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}
impl super::Feed for TopicPartition {
    #[inline]
    fn feed(&self, chain: &mut super::Chain) {
        chain.u32(u32::from(self.topic.0) << 16 | u32::from(self.partition));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_wraps_to_zero() {
        assert_eq!(Sequence(i32::MAX).plus(1), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).plus(3), Sequence(1));
        assert_eq!(Sequence(5).plus(3), Sequence(8));
    }
}
