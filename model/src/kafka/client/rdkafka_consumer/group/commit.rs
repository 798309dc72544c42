//! Offsets: where partitions begin, and commits of what the application has taken (`rd_kafka_assignment_serve`,
//! `rd_kafka_cgrp_offsets_commit`).

use super::{JoinState, Offsets, Purpose, RdConsumer, RdMember};
use crate::base::{Fix, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::rdkafka::RdNetwork;
use crate::kafka::client::rdkafka_consumer::Start;
use crate::kafka::client::{Moved, Slice};
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{
    FetchedOffset, GroupRequest, OffsetCommitRequest, OffsetFetchRequest,
};
use crate::kafka::messages::{OffsetSpec, Request};
use std::sync::Arc;

/// Before a look-up or a commit that failed is made again.
const RETRY: Millis = Millis(500);
/// Before 1.6.1 a look-up of offsets that a transaction holds was made so often (issue 3265).
const TRIES_OF_OLD: u32 = 2;

/// A member's offsets.
#[derive(Clone, Debug)]
pub(super) struct Commits {
    /// After the last message of each partition that the application took (`enable.auto.offset.store`).
    stored: Offsets,
    committed: Offsets,
    interval: Option<Millis>,
    next_auto: Millis,
    /// Assigned, and where to begin is not known.
    without_start: Vec<TopicPartition>,
    look_up_at: Millis,
    tries: u32,
    /// A commit that the application waits for: `None` while it is unanswered.
    sync: Option<Option<bool>>,
    /// Offsets that the application wants committed, while there is no coordinator, and until when that is waited for.
    asked: Option<(Vec<(TopicPartition, Offset)>, Millis)>,
    pub(super) closing: bool,
}
impl Commits {
    pub(super) fn new(interval: Option<Millis>, now: Millis) -> Self {
        Self {
            stored: Offsets::new(),
            committed: Offsets::new(),
            next_auto: interval.map_or(Millis::MAX, |i| now + i),
            interval,
            without_start: Vec::new(),
            look_up_at: Millis::ZERO,
            tries: 0,
            sync: None,
            asked: None,
            closing: false,
        }
    }
    pub(super) fn deadline(&self) -> Millis {
        let asked = self.asked.as_ref().map_or(Millis::MAX, |(_, until)| until.saturating_add(Millis(1)));
        self.next_auto.min(asked)
    }
    /// When the next look-up of committed offsets is due.
    pub(super) fn look_up_at(&self) -> Millis {
        if self.without_start.is_empty() { Millis::MAX } else { self.look_up_at }
    }
    pub(super) fn look_up(&mut self, partitions: &[TopicPartition]) {
        self.without_start.extend_from_slice(partitions);
        self.look_up_at = Millis::ZERO;
        self.tries = 0;
    }
    pub(super) fn look_up_later(&mut self, partitions: &[TopicPartition], now: Millis) {
        self.without_start.extend_from_slice(partitions);
        self.look_up_at = now + RETRY;
    }
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        self.without_start.retain(|tp| !partitions.contains(tp));
        for tp in partitions {
            self.stored.remove(*tp);
            self.committed.remove(*tp);
        }
    }
    /// A commit has failed.
    pub(super) fn failed(&mut self) {
        self.ended(false);
    }
    fn ended(&mut self, ok: bool) {
        if let Some(result @ None) = &mut self.sync {
            *result = Some(ok);
        }
    }
}

impl RdMember {
    /// The application takes records: with `enable.auto.offset.store` they count as done from here on.
    pub fn store(&mut self, slice: &Slice) {
        if self.owned.contains(&slice.tp) {
            self.commits.stored.insert(slice.tp, slice.next());
        }
    }
    /// What the application has taken of the partitions that are owned.
    pub fn taken(&self) -> Vec<(TopicPartition, Offset)> {
        self.commits.stored.iter().map(|(tp, offset)| (tp, *offset)).collect()
    }

    // ---- where partitions begin

    pub(super) fn fetch_committed(&mut self, now: Millis, net: &mut RdNetwork) {
        let due = now >= self.commits.look_up_at() && !self.has(|p| matches!(p, Purpose::Committed(_)));
        if !due || !net.coordinator_up() {
            return;
        }
        let list = std::mem::take(&mut self.commits.without_start);
        let body = GroupRequest::OffsetFetch(OffsetFetchRequest {
            group: self.config.group,
            member: None,
            epoch: -1,
            require_stable: self.config.read_committed,
            partitions: Some(list.clone()),
        });
        let correlation = net.send_coordinator(Request::Group(Box::new(body)), Millis::ZERO, now);
        self.in_flight.push((correlation, Purpose::Committed(list)));
    }
    pub(super) fn on_committed(
        &mut self,
        asked: &[TopicPartition],
        whole: ErrorCode,
        offsets: &[FetchedOffset],
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        use ErrorCode as E;
        let asked: Vec<_> = asked.iter().copied().filter(|tp| self.owned.contains(tp)).collect();
        if matches!(whole, E::NotCoordinator | E::CoordinatorNotAvailable) {
            self.coordinator_dead(now, net);
        }
        let unstable = offsets.iter().any(|(_, error, _)| *error == E::UnstableOffsetCommit);
        if !whole.is_ok() || unstable {
            self.commits.tries += 1;
            let gives_up =
                unstable && self.commits.tries >= TRIES_OF_OLD && !self.fixes.has(Fix::UnstableOffsetsRetried);
            if !gives_up {
                self.commits.look_up_later(&asked, now);
            }
            return;
        }
        for tp in asked {
            let found = offsets.iter().find(|(of, error, o)| *of == tp && error.is_ok() && o.0 >= 0);
            match found {
                Some((_, _, offset)) => {
                    consumer.add(&[(tp, Start::At(*offset))]);
                    self.commits.committed.insert(tp, *offset);
                    self.moved.push(Moved::Starts(tp, *offset));
                }
                None => {
                    consumer.add(&[(tp, Start::End(consumer.reset_policy().unwrap_or(OffsetSpec::Earliest)))]);
                    self.moved.push(Moved::Reset(tp));
                }
            }
        }
    }

    // ---- commits

    pub(super) fn auto_commit(&mut self, now: Millis, net: &mut RdNetwork) {
        let Some(interval) = self.commits.interval else { return };
        if now >= self.commits.next_auto {
            self.commits.next_auto = now + interval;
            self.commit_stored(None, now, net);
        }
    }
    /// `rd_kafka_commit`, for the offsets stored; [`RdMember::commit_done`] says when it is over.
    pub fn commit(&mut self, now: Millis, net: &mut RdNetwork) {
        self.commits.sync = Some(Some(true));
        self.send_commit(None, now, net);
    }
    /// Whether a commit that the application waits for is over, well or not.
    pub const fn commit_done(&self) -> bool {
        !matches!(self.commits.sync, Some(None))
    }
    /// `rd_kafka_commit`, for these offsets; [`RdMember::commit_result`] says how it ended. Without a coordinator it waits for
    /// one, for `session.timeout.ms` at most (`rd_kafka_cgrp_defer_offset_commit`).
    pub fn commit_offsets(&mut self, offsets: Vec<(TopicPartition, Offset)>, now: Millis, net: &mut RdNetwork) {
        self.commits.sync = Some(None);
        self.commits.asked = Some((offsets, now + self.config.session_timeout));
        self.send_asked(now, net);
    }
    /// How the last such commit ended; `None` while it has not.
    pub const fn commit_result(&self) -> Option<bool> {
        match self.commits.sync {
            Some(result) => result,
            None => None,
        }
    }
    pub(super) fn send_asked(&mut self, now: Millis, net: &mut RdNetwork) {
        let Some((_, until)) = &self.commits.asked else { return };
        if self.generation < 0 || now > *until {
            self.commits.asked = None;
            self.commits.ended(false);
        } else if net.coordinator_up() {
            let (offsets, _) = self.commits.asked.take().unwrap_or_default();
            self.send_offsets(offsets, now, net);
        }
    }
    /// Commits by itself what is stored and not committed.
    pub(super) fn commit_stored(&mut self, only: Option<&[TopicPartition]>, now: Millis, net: &mut RdNetwork) {
        if self.commits.interval.is_some() {
            self.send_commit(only, now, net);
        }
    }
    fn send_commit(&mut self, only: Option<&[TopicPartition]>, now: Millis, net: &mut RdNetwork) {
        let wanted = |tp: TopicPartition| only.is_none_or(|list| list.contains(&tp));
        let news = |tp, offset| self.commits.committed.get(tp) != Some(offset);
        let offsets: Vec<(TopicPartition, Offset)> = self
            .commits
            .stored
            .iter()
            .filter(|(tp, offset)| wanted(*tp) && news(*tp, *offset))
            .map(|(tp, offset)| (tp, *offset))
            .collect();
        if offsets.is_empty() || !net.coordinator_up() || self.generation < 0 {
            return;
        }
        self.send_offsets(offsets, now, net);
        if self.commits.sync.is_some() {
            self.commits.sync = Some(None);
        }
    }
    fn send_offsets(&mut self, offsets: Vec<(TopicPartition, Offset)>, now: Millis, net: &mut RdNetwork) {
        let body = GroupRequest::OffsetCommit(OffsetCommitRequest {
            group: self.config.group,
            member: Arc::clone(&self.member),
            instance: self.config.instance.clone(),
            generation: self.generation,
            // What librdkafka speaks at most.
            version: 7,
            retention: None,
            offsets: offsets.clone(),
        });
        let correlation = net.send_coordinator(Request::Group(Box::new(body)), Millis::ZERO, now);
        self.in_flight.push((correlation, Purpose::Commit(offsets)));
    }
    pub(super) fn on_commit(
        &mut self,
        offsets: &[(TopicPartition, Offset)],
        whole: ErrorCode,
        errors: &[(TopicPartition, ErrorCode)],
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        use ErrorCode as E;
        let failed = std::iter::once(whole).chain(errors.iter().map(|(_, e)| *e)).find(|e| !e.is_ok());
        self.commits.ended(failed.is_none());
        match failed {
            None => {
                for (tp, offset) in offsets {
                    self.moved.push(Moved::Committed(*tp, *offset));
                    if self.owned.contains(tp) {
                        self.commits.committed.insert(*tp, *offset);
                    }
                }
            }
            Some(E::NotCoordinator | E::CoordinatorNotAvailable) => self.coordinator_dead(now, net),
            Some(error @ (E::UnknownMemberId | E::IllegalGeneration)) if self.join == JoinState::Steady => {
                if error == E::UnknownMemberId {
                    self.member = Name::from("");
                } else {
                    self.generation = -1;
                }
                self.lost(now, consumer, net);
            }
            Some(E::FencedInstanceId) => self.fenced(now, consumer, net),
            // Told to the application: the next commit goes further.
            Some(_) => {}
        }
    }
}
