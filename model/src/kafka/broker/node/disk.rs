//! What a node keeps on disk.

use crate::base::{BrokerEpoch, Chain, Disk, Feed, FileId, Foreign, Offset, Stream, TopicId, TopicPartition};
use crate::kafka::controller::Record;
use crate::kafka::log::{LogWrite, PartitionDisk};
use crate::kafka::quorum::{RaftDisk, RaftFile, RaftWrite};
use std::collections::BTreeMap;

/// A write of a node.
#[derive(Clone, Debug)]
pub enum NodeWrite {
    /// To the metadata log or the quorum state.
    Raft(RaftWrite<Record>),
    /// To a partition's log or checkpoints.
    Log(LogWrite),
    /// The files of a partition go: this broker holds no replica of it any more.
    Delete,
    /// The clean-shutdown marker: written with the broker epoch at an orderly stop, removed at the next start (L-22).
    CleanShutdown(Option<BrokerEpoch>),
    /// Of a process that is no node and keeps something outside itself: in the place of what the file held. No node writes it.
    Foreign(Foreign),
}
impl From<Foreign> for NodeWrite {
    fn from(content: Foreign) -> Self {
        Self::Foreign(content)
    }
}
impl Feed for NodeWrite {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::Raft(w) => {
                c.u8(1);
                w.feed(c);
            }
            Self::Log(w) => {
                c.u8(2);
                w.feed(c);
            }
            Self::CleanShutdown(epoch) => {
                c.u8(3);
                epoch.feed(c);
            }
            Self::Delete => c.u8(4),
            Self::Foreign(content) => {
                c.u8(5);
                content.feed(c);
            }
        }
    }
}

/// The `quorum-state` file.
pub const QUORUM_STATE: FileId = FileId(0);
/// The metadata log.
pub const METADATA_LOG: FileId = FileId(1);
/// The clean-shutdown marker.
pub const CLEAN_SHUTDOWN: FileId = FileId(2);
const PARTITIONS: u32 = 1 << 31;

/// The file of a partition. Topics are numbered below 32768.
pub fn partition_file(tp: TopicPartition) -> FileId {
    FileId(PARTITIONS | u32::from(tp.topic.0) << 16 | u32::from(tp.partition))
}
/// The partition of a file, if it is one's.
pub fn partition_of(file: FileId) -> Option<TopicPartition> {
    let topic = TopicId((file.0 >> 16 & 0x7fff) as u16);
    (file.0 & PARTITIONS != 0).then_some(TopicPartition { topic, partition: file.0 as u16 })
}
/// The file that a write of the quorum goes to.
pub fn raft_file(file: RaftFile) -> FileId {
    match file {
        RaftFile::QuorumState => QUORUM_STATE,
        RaftFile::Log => METADATA_LOG,
    }
}

/// A node's disk.
#[derive(Clone, Debug, Default)]
pub struct NodeDisk {
    /// Quorum state and metadata log.
    pub raft: RaftDisk<Record>,
    /// Partitions.
    pub partitions: BTreeMap<TopicPartition, PartitionDisk>,
    /// Broker epoch of an orderly stop.
    pub clean_shutdown: Option<BrokerEpoch>,
}
impl Disk for NodeDisk {
    type Write = NodeWrite;

    fn apply(&mut self, file: FileId, write: &NodeWrite) {
        match write {
            NodeWrite::Raft(w) => self.raft.apply(w),
            NodeWrite::Log(w) => {
                let tp = partition_of(file).expect("a log write goes to a partition's file");
                self.partitions.entry(tp).or_default().apply(w);
            }
            NodeWrite::CleanShutdown(epoch) => self.clean_shutdown = *epoch,
            NodeWrite::Foreign(_) => {}
            NodeWrite::Delete => {
                let tp = partition_of(file).expect("only a partition's files are deleted");
                self.partitions.remove(&tp);
            }
        }
    }
    fn mark(&self, file: FileId) -> u64 {
        match partition_of(file) {
            Some(tp) => self.partitions.get(&tp).map_or(0, |p| p.end().0 as u64),
            None => 0,
        }
    }
    fn flushed(&mut self, file: FileId, mark: u64) {
        match file {
            QUORUM_STATE => self.raft.flushed(RaftFile::QuorumState),
            METADATA_LOG => self.raft.flushed(RaftFile::Log),
            CLEAN_SHUTDOWN => {}
            _ => {
                let tp = partition_of(file).expect("every other file is a partition's");
                if let Some(partition) = self.partitions.get_mut(&tp) {
                    partition.flushed_up_to(Offset(mark as i64));
                }
            }
        }
    }
    /// Records count, what is beside them is small against the block that it costs anyway.
    fn bytes(write: &NodeWrite) -> u64 {
        match write {
            NodeWrite::Log(LogWrite::Append(entry)) => u64::from(entry.batch.bytes),
            NodeWrite::Raft(RaftWrite::Append(batch)) => u64::from(batch.bytes()),
            _ => 0,
        }
    }
    fn lose_power(&mut self, stream: &mut Stream) {
        self.raft.lose_power(stream);
        for disk in self.partitions.values_mut() {
            disk.lose_power(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_partitions_go_both_ways() {
        let tp = TopicPartition::new(300, 77);
        assert_eq!(partition_of(partition_file(tp)), Some(tp));
        assert_eq!(partition_of(METADATA_LOG), None);
    }
}
