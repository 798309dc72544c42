//! The active controller (`QuorumController` while it leads the metadata quorum): requests and time go in, record batches
//! for the quorum's log and answers come out.

use super::config::ControllerConfig;
use super::image::MetadataImage;
use super::messages::{ControllerReply, ControllerRequest};
use super::records::Record;
use super::replication::{ControllerResult, ReplicationControlManager};
use super::topics::PRODUCER_ID_BLOCK;
use crate::base::{Fixes, Millis, Offset};
use crate::kafka::ErrorCode;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a call to the active controller gives out.
#[derive(Clone, Debug)]
pub struct Step<C> {
    /// Batches to append to the quorum's log now, in this order, each whole or not at all. Their offsets follow each other
    /// from [`ActiveController::next_offset`] before the call.
    pub batches: Vec<Vec<Record>>,
    /// Answers to send now.
    pub replies: Vec<(C, ControllerReply)>,
}
impl<C> Default for Step<C> {
    fn default() -> Self {
        Self { batches: Vec::new(), replies: Vec::new() }
    }
}

/// A task that runs every `period` from the activation on (`PeriodicTaskControlManager`).
#[derive(Clone, Copy, Debug)]
struct PeriodicTask {
    kind: TaskKind,
    period: Millis,
    due: Millis,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    FenceStaleBroker,
    ElectPreferred,
    ElectUnclean,
}

/// The active controller, from the moment at which it has replayed its log up to the beginning of its epoch until it
/// resigns. It sees its own appends at once and answers when they are committed. `C` names the caller of a request.
#[derive(Clone, Debug)]
pub struct ActiveController<C> {
    control: ReplicationControlManager,
    next_offset: Offset,
    committed: Offset,
    tasks: Vec<PeriodicTask>,
    held: VecDeque<(Offset, C, ControllerReply)>,
}

impl<C> ActiveController<C> {
    /// Becomes active at `now`. `image`: everything in the log; `next_offset`: the log's end.
    pub fn activate(
        config: Arc<ControllerConfig>,
        fixes: Fixes,
        image: MetadataImage,
        next_offset: Offset,
        now: Millis,
    ) -> Self {
        let mut tasks = Vec::with_capacity(3);
        let mut add = |kind, period: Millis| tasks.push(PeriodicTask { kind, period, due: now + period });
        add(TaskKind::FenceStaleBroker, config.fence_scan_period());
        if config.auto_leader_rebalance_enable {
            add(TaskKind::ElectPreferred, config.leader_imbalance_check_interval);
        }
        add(TaskKind::ElectUnclean, config.unclean_leader_election_interval);
        let control = ReplicationControlManager::activate(config, fixes, image, now);
        Self { control, next_offset, committed: next_offset, tasks, held: VecDeque::new() }
    }
    /// Offset that its next record will have.
    pub const fn next_offset(&self) -> Offset {
        self.next_offset
    }
    /// Its metadata, uncommitted records included.
    pub const fn image(&self) -> &MetadataImage {
        self.control.image()
    }
    /// Its rules and heartbeats, to look at.
    pub const fn control(&self) -> &ReplicationControlManager {
        &self.control
    }
    /// Answers that wait for the high watermark.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Handles one request. An error that concerns the whole request is answered at once; everything else when all records
    /// appended up to here are committed, also a mere read: it may have seen uncommitted state.
    pub fn request(&mut self, from: C, request: &ControllerRequest, now: Millis) -> Step<C> {
        let mut step = Step::default();
        if let ControllerRequest::BrokerHeartbeat(r) = request {
            self.control.track_heartbeat(r.broker, r.epoch, now);
        }
        match self.handle(request, now, &mut step.batches) {
            Err(error) => step.replies.push((from, request.refused(error))),
            Ok(reply) if self.next_offset <= self.committed => step.replies.push((from, reply)),
            Ok(reply) => self.held.push_back((self.next_offset, from, reply)),
        }
        step
    }

    fn handle(
        &mut self,
        request: &ControllerRequest,
        now: Millis,
        batches: &mut Vec<Vec<Record>>,
    ) -> Result<ControllerReply, ErrorCode> {
        const NONE: ErrorCode = ErrorCode::None;
        Ok(match request {
            ControllerRequest::BrokerRegistration(r) => {
                let result = self.control.register_broker(r, self.next_offset, now)?;
                ControllerReply::BrokerRegistration { error: NONE, epoch: self.append(result, batches) }
            }
            ControllerRequest::BrokerHeartbeat(r) => {
                let result = self.control.process_heartbeat(r)?;
                let reply = self.append(result, batches);
                self.control.heartbeat_appended(r.broker, reply, self.next_offset.plus(-1));
                ControllerReply::BrokerHeartbeat {
                    error: NONE,
                    caught_up: reply.caught_up,
                    fenced: reply.state.is_fenced(),
                    should_shutdown: reply.state == super::heartbeat::BrokerControlState::ShutdownNow,
                }
            }
            ControllerRequest::UnregisterBroker { broker } => {
                let result = self.control.unregister_broker(*broker)?;
                self.append(result, batches);
                ControllerReply::UnregisterBroker { error: NONE }
            }
            ControllerRequest::AlterPartition(r) => {
                let result = self.control.alter_partition(r)?;
                ControllerReply::AlterPartition { error: NONE, partitions: self.append(result, batches) }
            }
            ControllerRequest::AllocateProducerIds { broker, epoch } => {
                let result = self.control.allocate_producer_ids(*broker, *epoch)?;
                let first = self.append(result, batches);
                ControllerReply::AllocateProducerIds { error: NONE, first, len: PRODUCER_ID_BLOCK }
            }
            ControllerRequest::CreateTopics { topics } => {
                let result = self.control.create_topics(topics);
                ControllerReply::CreateTopics { topics: self.append(result, batches) }
            }
            ControllerRequest::ElectLeaders { election, partitions } => {
                let result = self.control.elect_leaders(*election, partitions.as_deref());
                ControllerReply::ElectLeaders { error: NONE, partitions: self.append(result, batches) }
            }
            ControllerRequest::AlterPartitionReassignments { partitions } => {
                let result = self.control.alter_partition_reassignments(partitions);
                ControllerReply::AlterPartitionReassignments { error: NONE, partitions: self.append(result, batches) }
            }
        })
    }

    /// Replays the records at once, as the real one does, and hands them on as one batch.
    fn append<T>(&mut self, result: ControllerResult<T>, batches: &mut Vec<Vec<Record>>) -> T {
        if !result.records.is_empty() {
            for record in &result.records {
                self.control.replay(record, self.next_offset);
                self.next_offset = self.next_offset.plus(1);
            }
            batches.push(result.records);
        }
        result.response
    }

    /// When [`Self::tick`] is due.
    pub fn deadline(&self) -> Millis {
        self.tasks.iter().map(|t| t.due).min().unwrap_or(Millis::MAX)
    }

    /// Runs the periodic tasks that are due. A task that says so runs again at once, as a batch of its own: brokers are
    /// fenced one by one (C-2). The next run is counted from the end of this one (C-4).
    pub fn tick(&mut self, now: Millis) -> Step<C> {
        let mut step = Step::default();
        loop {
            let due = self.tasks.iter().enumerate().filter(|(_, t)| t.due <= now).min_by_key(|(i, t)| (t.due, *i));
            let Some((at, task)) = due.map(|(i, t)| (i, *t)) else { break };
            loop {
                let result = match task.kind {
                    TaskKind::FenceStaleBroker => self.control.fence_one_stale_broker(now),
                    TaskKind::ElectPreferred => self.control.balance_partition_leaders(),
                    TaskKind::ElectUnclean => self.control.elect_unclean_leaders(),
                };
                if !self.append(result, &mut step.batches) {
                    break;
                }
            }
            self.tasks[at].due = now + self.control.config().periodic_task_cost + task.period;
        }
        step
    }

    /// The quorum's high watermark is `end` (all below is committed): answers that may leave now, in the order of the
    /// requests.
    pub fn committed(&mut self, end: Offset) -> Vec<(C, ControllerReply)> {
        self.committed = self.committed.max(end);
        let mut ready = Vec::new();
        while let Some((_, from, reply)) = self.held.pop_front_if(|(waits_for, _, _)| *waits_for <= self.committed) {
            ready.push((from, reply));
        }
        ready
    }

    /// No longer leads the quorum: what is held is answered NOT_CONTROLLER, though its records may yet be committed by the
    /// next leader. The state, uncommitted records and all, is gone.
    pub fn resign(self) -> Vec<(C, ControllerReply)> {
        self.held.into_iter().map(|(_, from, reply)| (from, reply.not_controller())).collect()
    }
}
