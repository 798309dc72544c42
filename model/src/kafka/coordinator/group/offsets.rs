//! Committed and pending offsets (`OffsetMetadataManager`): the state, and the requests about it.

use super::messages::{
    FetchedOffset, GroupReply, NO_GENERATION, OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest,
};
use super::records::{CommittedOffset, GroupRecord, LogEntry};
use super::shard::{Group, GroupCoordinatorShard, Step, Then, Write};
use super::timers::{Due, Key};
use crate::base::{Fix, Fixes, Millis, Offset, ProducerId, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// A group's offset of a partition, with the offset of its record in the log.
type Entry = (CommittedOffset, Offset);

/// Offsets by group and partition, and those of transactions that are not decided.
#[derive(Clone, Debug, Default)]
pub struct OffsetState {
    current: BTreeMap<(GroupId, TopicPartition), Entry>,
    pending: BTreeMap<ProducerId, BTreeMap<(GroupId, TopicPartition), Entry>>,
    /// Decided, but applied later; only with [`Fix::MarkerAppliedBeforeAnswer`] cleared.
    late: Vec<(ProducerId, bool)>,
}

impl OffsetState {
    /// The current offset of a group's partition.
    pub fn get(&self, group: GroupId, tp: TopicPartition) -> Option<CommittedOffset> {
        self.current.get(&(group, tp)).map(|(value, _)| *value)
    }
    /// All current offsets, in order.
    pub fn all(&self) -> impl Iterator<Item = (GroupId, TopicPartition, CommittedOffset)> {
        self.current.iter().map(|((group, tp), (value, _))| (*group, *tp, *value))
    }
    /// All pending offsets, by producer.
    pub fn pending(&self) -> impl Iterator<Item = (ProducerId, GroupId, TopicPartition, CommittedOffset)> {
        let of = |(producer, map): (&ProducerId, &BTreeMap<_, Entry>)| (*producer, map.clone());
        self.pending
            .iter()
            .map(of)
            .flat_map(|(producer, map)| map.into_iter().map(move |((g, tp), (value, _))| (producer, g, tp, value)))
    }
    /// Whether some undecided transaction has an offset there.
    pub fn is_unstable(&self, group: GroupId, tp: TopicPartition) -> bool {
        self.pending.values().any(|map| map.contains_key(&(group, tp)))
    }
    fn has_open_transaction(&self, group: GroupId) -> bool {
        self.pending.values().any(|map| map.keys().any(|(g, _)| *g == group))
    }
    fn of_group(&self, group: GroupId) -> impl Iterator<Item = (TopicPartition, CommittedOffset)> {
        let first = (group, TopicPartition::default());
        self.current
            .range(first..)
            .take_while(move |((g, _), _)| *g == group)
            .map(|((_, tp), (value, _))| (*tp, *value))
    }
    fn pending_of(&self, group: GroupId) -> BTreeSet<TopicPartition> {
        self.pending.values().flat_map(|map| map.keys().filter(|(g, _)| *g == group).map(|(_, tp)| *tp)).collect()
    }

    /// Applies a record; a tombstone takes pending offsets with it.
    pub(super) fn apply(
        &mut self,
        at: Offset,
        producer: Option<ProducerId>,
        group: GroupId,
        tp: TopicPartition,
        value: Option<CommittedOffset>,
    ) {
        match (value, producer) {
            (Some(value), None) => {
                self.current.insert((group, tp), (value, at));
            }
            (Some(value), Some(producer)) => {
                self.pending.entry(producer).or_default().insert((group, tp), (value, at));
            }
            (None, _) => {
                self.current.remove(&(group, tp));
                for map in self.pending.values_mut() {
                    map.remove(&(group, tp));
                }
            }
        }
    }
    /// Applies a marker: what was pending is dropped, or becomes current where its record is the newer one.
    pub(super) fn end_transaction(&mut self, producer: ProducerId, commit: bool, fixes: Fixes) {
        let Some(decided) = self.pending.remove(&producer) else { return };
        if !commit {
            return;
        }
        for (key, entry) in decided {
            let newer = self.current.get(&key).is_none_or(|(_, at)| entry.1 > *at);
            if newer || !fixes.has(Fix::NewerOffsetRecordWins) {
                self.current.insert(key, entry);
            }
        }
    }
}

impl GroupCoordinatorShard {
    /// OffsetCommit.
    pub(super) fn commit(
        &mut self,
        token: u64,
        request: &OffsetCommitRequest,
        now: Millis,
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        let (id, member) = (request.group, &request.member);
        let missing = if request.version >= 9 { ErrorCode::GroupIdNotFound } else { ErrorCode::IllegalGeneration };
        let created = self.group_of_commit(id, request.generation, missing)?;
        match &self.groups[&id] {
            Group::Classic(group) => {
                let (instance, fixes) = (request.instance.as_ref(), self.fixes);
                group.validate_offset_commit(member, instance, request.generation, false, fixes)?;
                self.commit_keeps_session(id, member, now);
            }
            Group::Consumer(group) => {
                let checked =
                    group.validate_offset_commit(member, request.generation, &request.offsets, None, self.fixes);
                if checked != Err(ErrorCode::UnknownMemberId) && !group.is_empty() && request.version < 9 {
                    return Err(ErrorCode::UnsupportedVersion);
                }
                checked?;
            }
        }
        let expires = request.retention.map(|retention| now + retention);
        let records = commit_records(id, &request.offsets, now, expires);
        let taken = request.offsets.iter().map(|(tp, _)| (*tp, ErrorCode::None)).collect();
        let then = Then::Reply(token, GroupReply::OffsetCommit(ErrorCode::None, taken));
        step.write = Some(Write { created: created.then_some(id), ..Write::replayed(records, then) });
        Ok(())
    }

    /// TxnOffsetCommit. Producer id and epoch are judged by the log, not here.
    pub(super) fn commit_transactional(
        &mut self,
        token: u64,
        request: &TxnOffsetCommitRequest,
        now: Millis,
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        let (id, member) = (request.group, &request.member);
        let fenced = self.fixes.has(Fix::TxnCommitFencedByGroup);
        let generation = if fenced { request.generation } else { NO_GENERATION };
        let created = self.group_of_commit(id, generation, ErrorCode::IllegalGeneration)?;
        let checked = match &self.groups[&id] {
            _ if !fenced => Ok(()),
            Group::Classic(group) => {
                group.validate_offset_commit(member, request.instance.as_ref(), generation, true, self.fixes)
            }
            Group::Consumer(group) => {
                let anonymous = member.is_empty() && request.instance.is_none();
                group.validate_offset_commit(member, generation, &request.offsets, Some(anonymous), self.fixes)
            }
        };
        checked.map_err(|e| if e == ErrorCode::StaleMemberEpoch { ErrorCode::IllegalGeneration } else { e })?;
        let records = commit_records(id, &request.offsets, now, None);
        let taken = request.offsets.iter().map(|(tp, _)| (*tp, ErrorCode::None)).collect();
        let then = Then::Reply(token, GroupReply::TxnOffsetCommit(ErrorCode::None, taken));
        let write = Write::replayed(records, then);
        let producer = Some((request.producer, request.epoch));
        step.write = Some(Write { created: created.then_some(id), producer, ..write });
        Ok(())
    }

    /// A commit without a generation makes a simple group where there is none; true if it did.
    fn group_of_commit(&mut self, id: GroupId, generation: i32, missing: ErrorCode) -> Result<bool, ErrorCode> {
        if self.groups.contains_key(&id) {
            return Ok(false);
        }
        if generation >= 0 {
            return Err(missing);
        }
        self.groups.insert(id, Group::Classic(Box::default()));
        Ok(true)
    }

    /// OffsetFetch. Who requires stable offsets reads the newest state and is refused what is undecided; who does not reads
    /// what is replicated.
    pub(super) fn fetch(&mut self, token: u64, request: &OffsetFetchRequest, step: &mut Step) -> Result<(), ErrorCode> {
        let id = request.group;
        let anonymous = request.member.is_none() && request.epoch < 0;
        let known = |member: &str| match self.groups.get(&id) {
            Some(Group::Consumer(g)) if request.require_stable => Some(g.epoch_of(member)),
            Some(Group::Consumer(_)) => self.committed.epochs.get(&id).map(|members| members.get(member).copied()),
            _ => None,
        };
        if let Some(epoch) = known(request.member.as_deref().unwrap_or_default())
            && !anonymous
        {
            match epoch {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(epoch) if epoch != request.epoch => return Err(ErrorCode::StaleMemberEpoch),
                Some(_) => {}
            }
        }
        let state = if request.require_stable { &self.offsets } else { &self.committed.offsets };
        let stable = request.require_stable && self.fixes.has(Fix::StableOffsets);
        let answer = |tp: TopicPartition, value: Option<CommittedOffset>| -> FetchedOffset {
            if stable && state.is_unstable(id, tp) {
                return (tp, ErrorCode::UnstableOffsetCommit, Offset::UNKNOWN);
            }
            (tp, ErrorCode::None, value.map_or(Offset::UNKNOWN, |v| v.offset))
        };
        let partitions = match &request.partitions {
            Some(list) => list.iter().map(|tp| answer(*tp, state.get(id, *tp))).collect(),
            None => state.of_group(id).map(|(tp, value)| answer(tp, Some(value))).collect(),
        };
        step.answer(token, GroupReply::OffsetFetch(ErrorCode::None, partitions));
        Ok(())
    }

    /// OffsetDelete.
    pub(super) fn delete_offsets(
        &mut self,
        token: u64,
        id: GroupId,
        partitions: &[TopicPartition],
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        let group = self.groups.get(&id).ok_or(ErrorCode::GroupIdNotFound)?;
        if let Group::Classic(classic) = group
            && !group.is_empty()
            && !classic.is_consumer_type()
        {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let (mut errors, mut records) = (Vec::new(), Vec::new());
        for tp in partitions {
            let subscribed = group.is_subscribed(tp.topic);
            errors.push((*tp, if subscribed { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None }));
            if !subscribed && (self.offsets.get(id, *tp).is_some() || self.offsets.is_unstable(id, *tp)) {
                records.push(GroupRecord::OffsetCommit(id, *tp, None));
            }
        }
        write_or_answer(step, records, token, GroupReply::OffsetDelete(ErrorCode::None, errors));
        Ok(())
    }

    /// DeleteGroups: offsets, pending ones too, and the group.
    pub(super) fn delete_group(&mut self, token: u64, id: GroupId, step: &mut Step) -> Result<(), ErrorCode> {
        let group = self.groups.get(&id).ok_or(ErrorCode::GroupIdNotFound)?;
        if !group.is_empty() {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let mut partitions: BTreeSet<_> = self.offsets.of_group(id).map(|(tp, _)| tp).collect();
        partitions.extend(self.offsets.pending_of(id));
        let mut records: Vec<_> = partitions.into_iter().map(|tp| GroupRecord::OffsetCommit(id, tp, None)).collect();
        records.extend(group_tombstones(id, group));
        write_or_answer(step, records, token, GroupReply::Delete(ErrorCode::None));
        Ok(())
    }

    /// Topics are gone, and with them every group's offsets there, pending ones too: one tombstone for what is committed
    /// and one for each producer that has something pending.
    pub(super) fn delete_offsets_of(&self, topics: &[TopicId], step: &mut Step) {
        let gone = |tp: &TopicPartition| topics.contains(&tp.topic);
        let current = self.offsets.current.keys();
        let pending = self.offsets.pending.values().flat_map(BTreeMap::keys);
        let tombstone = |(id, tp): &(GroupId, TopicPartition)| GroupRecord::OffsetCommit(*id, *tp, None);
        let records: Vec<_> = current.chain(pending).filter(|(_, tp)| gone(tp)).map(tombstone).collect();
        if !records.is_empty() {
            step.write = Some(Write::replayed(records, Then::Nothing));
        }
    }

    /// One run of the expiry of offsets (`offsets.retention.check.interval.ms`); a group without any goes too.
    pub fn expire_offsets(&mut self, now: Millis) -> Step {
        let mut records = Vec::new();
        for (id, group) in &self.groups {
            let mut rest = self.offsets.has_open_transaction(*id);
            for (tp, value) in self.offsets.of_group(*id) {
                let expired = !self.offsets.is_unstable(*id, tp) && self.is_expired(group, tp.topic, value, now);
                if expired {
                    records.push(GroupRecord::OffsetCommit(*id, tp, None));
                }
                rest |= !expired;
            }
            if group.is_empty() && !rest {
                records.extend(group_tombstones(*id, group));
            }
        }
        let mut step = Step::default();
        if !records.is_empty() {
            step.write = Some(Write::replayed(records, Then::Nothing));
        }
        step
    }

    fn is_expired(&self, group: &Group, topic: TopicId, value: CommittedOffset, now: Millis) -> bool {
        let by_group = self.fixes.has(Fix::ExpireFromEmpty);
        if group.is_subscribed(topic) && (by_group || matches!(group, Group::Consumer(_))) {
            return false;
        }
        let since = match group {
            Group::Classic(group) if by_group => group.offsets_age_from(value.at),
            // **R**: a KIP-848 group's age from their commit, also when it is empty.
            _ => Some(value.at),
        };
        let Some(since) = since else { return false };
        match value.expires {
            Some(at) => now >= at,
            None => now - since >= self.config.offsets_retention,
        }
    }

    /// A transaction's marker was appended at `offset` (T-36).
    pub fn marker_appended(&mut self, offset: Offset, producer: ProducerId, commit: bool, now: Millis) {
        self.committed.appended(offset, LogEntry::Marker(producer, commit));
        if self.fixes.has(Fix::MarkerAppliedBeforeAnswer) {
            self.offsets.end_transaction(producer, commit, self.fixes);
        } else {
            self.offsets.late.push((producer, commit));
            self.timers.schedule(Key::LateMarkers, now + Millis(1), Due::Plain);
        }
    }
    pub(super) fn apply_late_markers(&mut self) {
        for (producer, commit) in std::mem::take(&mut self.offsets.late) {
            self.offsets.end_transaction(producer, commit, self.fixes);
        }
    }
}

fn commit_records(
    id: GroupId,
    offsets: &[(TopicPartition, Offset)],
    at: Millis,
    expires: Option<Millis>,
) -> Vec<GroupRecord> {
    let value = |offset| CommittedOffset { offset, at, expires };
    offsets.iter().map(|(tp, offset)| GroupRecord::OffsetCommit(id, *tp, Some(value(*offset)))).collect()
}

fn group_tombstones(id: GroupId, group: &Group) -> Vec<GroupRecord> {
    match group {
        Group::Classic(_) => vec![GroupRecord::GroupMetadata(id, None)],
        Group::Consumer(group) => group.tombstones(id),
    }
}

/// The answer leaves when the records are replicated, or at once if there are none.
fn write_or_answer(step: &mut Step, records: Vec<GroupRecord>, token: u64, reply: GroupReply) {
    if records.is_empty() {
        step.answer(token, reply);
    } else {
        step.write = Some(Write::replayed(records, Then::Reply(token, reply)));
    }
}
