//! A source's offset commits: what its group is told of completed checkpoints, and nothing is ever begun from (S8;
//! `KafkaSourceReader.notifyCheckpointComplete`, `KafkaSourceFetcherManager.commitOffsets`).

use super::super::ids::JobId;
use crate::base::{Cx, Event, Millis, Offset, TopicPartition};
use crate::flink::checkpoint::CheckpointId;
use crate::kafka::client::java::Dice;
use crate::kafka::client::java_consumer::group::{
    CommitId, GroupConfig, GroupError, GroupEvent, GroupMember, GroupNetwork, GroupOutcome, Timer,
};
use crate::kafka::client::{Completed, Outcome};
use crate::kafka::messages::{Message, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;

type Offsets = Vec<(TopicPartition, Offset)>;

/// The consumer's part that speaks to the group coordinator. Partitions are assigned by hand: the group has no member here,
/// and takes the commits of a client without a generation as long as nobody else is in it.
#[derive(Clone, Debug)]
pub struct Progress {
    config: Arc<GroupConfig>,
    member: Box<GroupMember>,
    on_checkpoint: bool,
    /// By checkpoint, until a commit of it or of a later one was acknowledged.
    remembered: BTreeMap<CheckpointId, Offsets>,
    /// Complete; to be committed between two polls.
    due: Vec<CheckpointId>,
    /// Commits that have ended.
    ended: Vec<(CheckpointId, bool)>,
    stored: Offsets,
}
impl Progress {
    /// Nothing to tell yet.
    pub fn new<W>(config: &Arc<GroupConfig>, on_checkpoint: bool, cx: &mut Cx<'_, Message, W>) -> Self {
        let dice = Dice::Stream(cx.stream("group"));
        Self {
            config: Arc::clone(config),
            member: Box::new(GroupMember::new(Arc::clone(config), cx.fixes, dice, cx.millis())),
            on_checkpoint,
            remembered: BTreeMap::new(),
            due: Vec::new(),
            ended: Vec::new(),
            stored: Vec::new(),
        }
    }
    /// What a checkpoint keeps.
    pub fn remember(&mut self, id: CheckpointId, offsets: Offsets) {
        if self.on_checkpoint {
            self.remembered.insert(id, offsets);
        }
    }
    /// The checkpoint is complete. False if it is unknown, or a later one has been committed.
    pub fn complete(&mut self, id: CheckpointId) -> bool {
        let known = self.remembered.get(&id).is_some_and(|offsets| !offsets.is_empty());
        if known {
            self.due.push(id);
        }
        known
    }
    /// `commitAsync` of what is due.
    ///
    /// # Errors
    /// What it throws in the fetcher, whose end it is; a refused commit is not among that.
    pub fn commit(&mut self, now: Millis, net: &mut impl GroupNetwork) -> Result<(), GroupError> {
        for id in std::mem::take(&mut self.due) {
            if let Some(offsets) = self.remembered.get(&id) {
                self.member.commit_async(CommitId(id.0 as u64), offsets.clone(), net, now)?;
            }
        }
        Ok(())
    }
    /// The coordinator's part of a poll: callbacks are run there, and with `enable.auto.commit` it commits what was polled,
    /// which is ahead of what was emitted.
    ///
    /// # Errors
    /// What the poll throws.
    pub fn poll(
        &mut self,
        consumed: impl Fn() -> Offsets,
        now: Millis,
        net: &mut impl GroupNetwork,
    ) -> Result<(), GroupError> {
        self.member.poll(Timer::zero(now), consumed, net)?;
        for event in self.member.take_events() {
            match event {
                GroupEvent::Committed(CommitId(id), result) => {
                    let id = CheckpointId(id as i64);
                    if result.is_ok() {
                        self.remembered = self.remembered.split_off(&CheckpointId(id.0 + 1));
                    }
                    self.ended.push((id, result.is_ok()));
                }
                GroupEvent::Stored(offsets) => self.stored.extend(offsets),
                _ => {}
            }
        }
        Ok(())
    }
    /// Takes the end of a request.
    pub fn on_completed(&mut self, done: &Completed, now: Millis, net: &mut impl GroupNetwork) {
        let outcome = match &done.outcome {
            Outcome::Reply(Reply::Coordinator(reply)) => GroupOutcome::Found(reply),
            Outcome::Reply(Reply::Group(reply)) => GroupOutcome::Reply(reply),
            Outcome::Lost(lost) => GroupOutcome::Lost(*lost),
            _ => return,
        };
        self.member.on_completed(done.node, done.correlation, &outcome, net, now);
    }
    /// When it looks again by itself.
    pub fn wake_at(&self, now: Millis, net: &impl GroupNetwork) -> Millis {
        self.member.wake_at(net, now)
    }
    /// Tells what became of commits.
    pub fn tell<W>(&mut self, job: JobId, cx: &mut Cx<'_, Message, W>) {
        for (tp, offset) in self.stored.drain(..) {
            cx.emit(Event::OffsetCommitted { group: self.config.group.0, tp, offset });
        }
        for (checkpoint, taken) in self.ended.drain(..) {
            cx.emit(Event::SourceCommitted { job: job.0, checkpoint: checkpoint.0, taken });
        }
    }
}
