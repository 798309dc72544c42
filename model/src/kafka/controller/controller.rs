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
            ControllerRequest::UpdateFeatures { transaction_version } => {
                let result = self.control.update_features(*transaction_version)?;
                self.append(result, batches);
                ControllerReply::UpdateFeatures { error: NONE }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Addr, BrokerEpoch, BrokerId, Incarnation, Port, ProcessId, TopicId, TopicPartition};
    use crate::kafka::controller::TopicConfig;
    use crate::kafka::controller::messages::{BrokerHeartbeatRequest, BrokerRegistrationRequest, CreatableTopic};

    type Controller = ActiveController<u32>;
    const TP: TopicPartition = TopicPartition::new(0, 0);

    fn register(broker: i32, incarnation: u32) -> ControllerRequest {
        ControllerRequest::BrokerRegistration(BrokerRegistrationRequest {
            broker: BrokerId(broker),
            incarnation: Incarnation(incarnation),
            previous_epoch: BrokerEpoch::UNKNOWN,
            addr: Addr { process: ProcessId(broker as u32), port: Port(0) },
        })
    }
    fn heartbeat(c: &Controller, broker: i32, want_shutdown: bool) -> ControllerRequest {
        let broker = BrokerId(broker);
        ControllerRequest::BrokerHeartbeat(BrokerHeartbeatRequest {
            broker,
            epoch: c.image().broker(broker).map_or(BrokerEpoch::UNKNOWN, |b| b.epoch),
            metadata_offset: c.next_offset().plus(-1),
            want_fence: false,
            want_shutdown,
        })
    }
    /// Three brokers, unfenced at time 0, and one partition on them; everything is committed.
    fn cluster(config: ControllerConfig) -> Controller {
        let mut c =
            Controller::activate(Arc::new(config), Fixes::ALL, MetadataImage::default(), Offset(0), Millis::ZERO);
        for broker in 1..=3 {
            c.request(0, &register(broker, 0), Millis::ZERO);
            let beat = heartbeat(&c, broker, false);
            c.request(0, &beat, Millis::ZERO);
        }
        let topic = CreatableTopic {
            topic: TopicId(0),
            assignments: vec![[1, 2, 3].map(BrokerId).into()],
            configs: vec![TopicConfig::MinInsyncReplicas(2)],
        };
        c.request(0, &ControllerRequest::CreateTopics { topics: vec![topic] }, Millis::ZERO);
        c.committed(c.next_offset());
        c
    }
    fn beat_all(c: &mut Controller, brokers: &[i32], now: Millis) {
        for broker in brokers {
            let beat = heartbeat(c, *broker, false);
            c.request(0, &beat, now);
        }
    }
    /// Lets time pass, with heartbeats of `alive` every 2 s, until something is appended by itself.
    fn next_append(c: &mut Controller, alive: &[i32], from: Millis) -> (Millis, Vec<Vec<Record>>) {
        let mut beat = from;
        loop {
            let now = c.deadline().min(beat);
            if now == beat {
                beat_all(c, alive, now);
                beat = beat + Millis(2000);
                continue;
            }
            let step = c.tick(now);
            if !step.batches.is_empty() {
                return (now, step.batches);
            }
        }
    }

    #[test]
    fn a_silent_broker_is_fenced_in_one_batch_at_the_scan_after_its_session() {
        let mut c = cluster(ControllerConfig::default());
        let (at, batches) = next_append(&mut c, &[2, 3], Millis(0));
        // C-4: the eighth scan after the activation, seven runs of 1 ms late, finds a contact of time 0 expired.
        assert_eq!(at, Millis(9007));
        let [batch] = &batches[..] else { panic!("{batches:?}") };
        assert!(matches!(batch[..], [Record::PartitionChange(_), Record::BrokerRegistrationChange { .. }]));
        let p = c.image().partition(TP).expect("created");
        assert_eq!((p.leader, p.leader_epoch.0, &p.isr[..]), (BrokerId(2), 1, &[BrokerId(2), BrokerId(3)][..]));
    }

    #[test]
    fn with_no_cost_a_scan_would_tie_with_the_session_and_miss() {
        let mut c = cluster(ControllerConfig { periodic_task_cost: Millis::ZERO, ..ControllerConfig::default() });
        assert_eq!(next_append(&mut c, &[2, 3], Millis(0)).0, Millis(10_125));
    }

    #[test]
    fn a_new_controller_starts_every_session_anew_and_fences_one_broker_a_batch() {
        let old = cluster(ControllerConfig::default());
        let (image, end) = (old.image().clone(), old.next_offset());
        let mut c = Controller::activate(Arc::default(), Fixes::ALL, image, end, Millis(8000));
        let (at, batches) = next_append(&mut c, &[3], Millis(8000));
        assert_eq!(at, Millis(17_007));
        assert_eq!(batches.len(), 2, "broker 2 (first in Kafka's hash order), then broker 1 below min ISR");
        let p = c.image().partition(TP).expect("created");
        assert_eq!((p.leader, &p.isr[..], &p.elr[..]), (BrokerId(3), &[BrokerId(3)][..], &[BrokerId(1)][..]));
    }

    #[test]
    fn the_preferred_leader_gets_its_leadership_back_at_the_imbalance_check() {
        let mut c = cluster(ControllerConfig::default());
        let (fenced, _) = next_append(&mut c, &[2, 3], Millis(0));
        beat_all(&mut c, &[1], fenced);
        let p = c.image().partition(TP).expect("created").clone();
        let data = crate::kafka::controller::messages::AlterPartitionData {
            tp: TP,
            leader_epoch: p.leader_epoch,
            partition_epoch: p.partition_epoch,
            isr: [2, 3, 1].map(|b| (BrokerId(b), BrokerEpoch::UNKNOWN)).into(),
            recovering: false,
        };
        let request = crate::kafka::controller::messages::AlterPartitionRequest {
            broker: BrokerId(2),
            epoch: c.image().broker(BrokerId(2)).expect("registered").epoch,
            partitions: vec![data],
        };
        c.request(0, &ControllerRequest::AlterPartition(request), fenced);
        let (at, _) = next_append(&mut c, &[1, 2, 3], fenced);
        assert_eq!(at, Millis(300_000));
        assert_eq!(c.image().partition(TP).expect("created").leader, BrokerId(1));
    }

    #[test]
    fn answers_wait_for_the_high_watermark_and_reads_wait_for_what_they_saw() {
        let mut c = cluster(ControllerConfig::default());
        let beat = heartbeat(&c, 2, false);
        assert_eq!(c.request(1, &beat, Millis(1)).replies.len(), 1, "nothing uncommitted was seen");
        let ids = ControllerRequest::AllocateProducerIds {
            broker: BrokerId(2),
            epoch: c.image().broker(BrokerId(2)).expect("registered").epoch,
        };
        let step = c.request(2, &ids, Millis(1));
        assert!(step.replies.is_empty() && step.batches.len() == 1);
        let beat = heartbeat(&c, 3, false);
        assert!(c.request(3, &beat, Millis(1)).replies.is_empty());
        let stale = ControllerRequest::AllocateProducerIds { broker: BrokerId(2), epoch: BrokerEpoch(99) };
        let replies = c.request(4, &stale, Millis(1)).replies;
        assert_eq!(replies[0].1.error(), ErrorCode::StaleBrokerEpoch, "errors do not wait");
        let mut deposed = c.clone();
        assert!(deposed.committed(c.next_offset().plus(-1)).is_empty());
        let refused = deposed.resign();
        assert_eq!(refused.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [2, 3]);
        assert!(refused.iter().all(|(_, r)| r.error() == ErrorCode::NotController));
        let done = c.committed(c.next_offset());
        assert!(matches!(
            done[..],
            [(2, ControllerReply::AllocateProducerIds { len: 1000, .. }), (3, ControllerReply::BrokerHeartbeat { .. })]
        ));
    }

    #[test]
    fn controlled_shutdown_is_granted_when_the_others_know_of_it() {
        let mut c = cluster(ControllerConfig::default());
        let granted = |c: &mut Controller, at| {
            let beat = heartbeat(c, 1, true);
            c.request(0, &beat, at);
            let end = c.next_offset();
            match c.committed(end).pop() {
                Some((_, ControllerReply::BrokerHeartbeat { should_shutdown, .. })) => should_shutdown,
                other => panic!("{other:?}"),
            }
        };
        assert!(!granted(&mut c, Millis(10)));
        assert_eq!(c.image().partition(TP).expect("created").leader, BrokerId(2), "moved at once");
        beat_all(&mut c, &[2, 3], Millis(20));
        let beat = heartbeat(&c, 1, true);
        let step = c.request(7, &beat, Millis(30));
        assert!(step.replies.is_empty() && step.batches.len() == 1, "it is fenced as it goes");
        assert!(c.image().broker(BrokerId(1)).expect("registered").fenced);
    }

    #[test]
    fn settings_of_a_topic_go_before_those_of_the_cluster() {
        let c = cluster(ControllerConfig { min_insync_replicas: 5, ..ControllerConfig::default() });
        assert_eq!(c.control().effective_min_isr(TopicId(0)), 2);
        assert!(!c.control().unclean_election_enabled(TopicId(0)));
    }
}
