//! What of the coordinator's state is replicated: a second replay of the log that stays behind at the high watermark
//! (`TimelineHashMap` read at the last committed offset). OffsetFetch without `require_stable` answers from it.

use super::messages::Name;
use super::offsets::OffsetState;
use super::records::{GroupRecord, LogEntry};
use crate::base::{Fixes, Offset};
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, VecDeque};

/// The replicated state, as far as reads look at it.
#[derive(Clone, Debug, Default)]
pub(super) struct CommittedView {
    /// In the log, not yet replicated.
    ahead: VecDeque<(Offset, LogEntry)>,
    pub(super) offsets: OffsetState,
    /// Member epochs of KIP-848 groups.
    pub(super) epochs: BTreeMap<GroupId, BTreeMap<Name, i32>>,
}

impl CommittedView {
    pub(super) fn appended(&mut self, offset: Offset, entry: LogEntry) {
        self.ahead.push_back((offset, entry));
    }
    pub(super) fn advance(&mut self, high_watermark: Offset, fixes: Fixes) {
        while self.ahead.front().is_some_and(|(offset, _)| *offset < high_watermark) {
            let Some((offset, entry)) = self.ahead.pop_front() else { break };
            match entry {
                LogEntry::Marker(producer, commit) => self.offsets.end_transaction(producer, commit, fixes),
                LogEntry::Record(producer, GroupRecord::OffsetCommit(group, tp, value)) => {
                    self.offsets.apply(offset, producer, group, tp, value);
                }
                LogEntry::Record(_, GroupRecord::ConsumerGroupMetadata(group, Some(_))) => {
                    self.epochs.entry(group).or_default();
                }
                LogEntry::Record(_, GroupRecord::ConsumerGroupMetadata(group, None)) => {
                    self.epochs.remove(&group);
                }
                LogEntry::Record(_, GroupRecord::ConsumerGroupCurrentMemberAssignment(group, member, value)) => {
                    let members = self.epochs.entry(group).or_default();
                    match value {
                        Some(value) => members.insert(member, value.epoch),
                        None => members.remove(&member),
                    };
                }
                LogEntry::Record(..) => {}
            }
        }
    }
}
