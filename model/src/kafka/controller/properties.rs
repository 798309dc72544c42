//! What holds whatever is asked of the controller, in whatever order, with controllers failing over in between.

use super::messages::{
    AlterPartitionData, AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRequest,
    CreatableTopic, ElectionType,
};
use super::{ActiveController, ControllerConfig, MetadataImage, Record, Step};
use crate::base::{
    Addr, BrokerEpoch, BrokerId, Fixes, Incarnation, Millis, Offset, Port, ProcessId, TopicId, TopicPartition,
};
use proptest::prelude::*;
use std::sync::Arc;

const BROKERS: i32 = 4;
const PARTITIONS: u16 = 4;

#[derive(Clone, Debug)]
enum Op {
    Register { broker: i32, restart: bool, clean: bool },
    Heartbeat { broker: i32, behind: i64, want_fence: bool, want_shutdown: bool },
    Alter { partition: u16, members: Vec<i32>, stale: bool },
    Elect { partition: u16, unclean: bool },
    Reassign { partition: u16, first: i32, cancel: bool },
    Advance { ms: i64 },
    Commit,
    Failover,
}

fn ops(reassign: bool) -> impl Strategy<Value = Vec<Op>> {
    let broker = 1..=BROKERS;
    let op = prop_oneof![
        3 => (broker.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(broker, restart, clean)| Op::Register { broker, restart, clean }),
        10 => (broker.clone(), 0i64..8, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
            |(broker, behind, want_fence, want_shutdown)| Op::Heartbeat {
                broker, behind: if behind < 6 { 0 } else { behind }, want_fence, want_shutdown
            }
        ),
        6 => (0..PARTITIONS, prop::sample::subsequence(vec![1, 2, 3, 4], 0..=4).prop_shuffle(), prop::bool::weighted(0.1))
            .prop_map(|(partition, members, stale)| Op::Alter { partition, members, stale }),
        1 => (0..PARTITIONS, any::<bool>()).prop_map(|(partition, unclean)| Op::Elect { partition, unclean }),
        1 => (0..PARTITIONS, broker, any::<bool>())
            .prop_map(|(partition, first, cancel)| Op::Reassign { partition, first, cancel }),
        5 => prop_oneof![1i64..3000, Just(9001i64), Just(300_000i64)].prop_map(|ms| Op::Advance { ms }),
        4 => Just(Op::Commit),
        1 => Just(Op::Failover),
    ];
    prop::collection::vec(
        op.prop_filter("reassignment", move |op| reassign || !matches!(op, Op::Reassign { .. })),
        1..80,
    )
}

/// A controller with the log that it writes.
struct Cluster {
    controller: ActiveController<u32>,
    config: Arc<ControllerConfig>,
    fixes: Fixes,
    log: Vec<Record>,
    committed: usize,
    incarnations: Vec<u32>,
    asked: u32,
    answered: Vec<u32>,
    now: Millis,
}

impl Cluster {
    fn new(config: ControllerConfig, fixes: Fixes) -> Self {
        let config = Arc::new(config);
        let image = MetadataImage::default();
        let controller = ActiveController::activate(config.clone(), fixes, image, Offset(0), Millis::ZERO);
        let mut cluster = Self {
            controller,
            config,
            fixes,
            log: Vec::new(),
            committed: 0,
            incarnations: vec![0; BROKERS as usize + 1],
            asked: 0,
            answered: Vec::new(),
            now: Millis::ZERO,
        };
        for broker in 1..=BROKERS {
            cluster.run(&Op::Register { broker, restart: false, clean: false });
            cluster.run(&Op::Heartbeat { broker, behind: 0, want_fence: false, want_shutdown: false });
        }
        let ring = |first: i32| (0..3).map(|i| BrokerId((first + i - 1) % BROKERS + 1)).collect();
        let assignments = (1..=i32::from(PARTITIONS)).map(ring).collect();
        let topic = CreatableTopic { topic: TopicId(0), assignments, configs: Vec::new() };
        cluster.ask(&ControllerRequest::CreateTopics { topics: vec![topic] });
        cluster
    }
    fn take(&mut self, step: Step<u32>) {
        self.log.extend(step.batches.into_iter().flatten());
        self.answered.extend(step.replies.iter().map(|(from, _)| *from));
    }
    fn ask(&mut self, request: &ControllerRequest) {
        self.asked += 1;
        let step = self.controller.request(self.asked, request, self.now);
        self.take(step);
    }
    fn epoch(&self, broker: BrokerId) -> BrokerEpoch {
        self.controller.image().broker(broker).map_or(BrokerEpoch::UNKNOWN, |b| b.epoch)
    }
    fn run(&mut self, op: &Op) {
        match op {
            Op::Register { broker, restart, clean } => {
                let id = BrokerId(*broker);
                self.incarnations[*broker as usize] += u32::from(*restart);
                let request = BrokerRegistrationRequest {
                    broker: id,
                    incarnation: Incarnation(self.incarnations[*broker as usize]),
                    previous_epoch: if *clean { self.epoch(id) } else { BrokerEpoch::UNKNOWN },
                    addr: Addr { process: ProcessId(0), port: Port(0) },
                };
                self.ask(&ControllerRequest::BrokerRegistration(request));
            }
            Op::Heartbeat { broker, behind, want_fence, want_shutdown } => {
                let broker = BrokerId(*broker);
                let request = BrokerHeartbeatRequest {
                    broker,
                    epoch: self.epoch(broker),
                    metadata_offset: Offset(self.log.len() as i64 - 1 - behind),
                    want_fence: *want_fence,
                    want_shutdown: *want_shutdown,
                };
                self.ask(&ControllerRequest::BrokerHeartbeat(request));
            }
            Op::Alter { partition, members, stale } => {
                let tp = TopicPartition::new(0, *partition);
                let Some(p) = self.controller.image().partition(tp).cloned() else { return };
                let isr = members.iter().map(|b| (BrokerId(*b), self.epoch(BrokerId(*b)))).collect();
                let mut partition_epoch = p.partition_epoch;
                partition_epoch.0 -= i32::from(*stale);
                let data = AlterPartitionData {
                    tp,
                    leader_epoch: p.leader_epoch,
                    partition_epoch,
                    isr,
                    recovering: p.recovering && members.len() == 1,
                };
                let request =
                    AlterPartitionRequest { broker: p.leader, epoch: self.epoch(p.leader), partitions: vec![data] };
                self.ask(&ControllerRequest::AlterPartition(request));
            }
            Op::Elect { partition, unclean } => {
                let election = if *unclean { ElectionType::Unclean } else { ElectionType::Preferred };
                let partitions = Some(vec![TopicPartition::new(0, *partition)]);
                self.ask(&ControllerRequest::ElectLeaders { election, partitions });
            }
            Op::Reassign { partition, first, cancel } => {
                let target = (0..3).map(|i| BrokerId((first + i - 1) % BROKERS + 1)).collect();
                let partitions = vec![(TopicPartition::new(0, *partition), (!cancel).then_some(target))];
                self.ask(&ControllerRequest::AlterPartitionReassignments { partitions });
            }
            Op::Advance { ms } => {
                let until = self.now + Millis(*ms);
                while self.controller.deadline() <= until {
                    self.now = self.controller.deadline();
                    let step = self.controller.tick(self.now);
                    self.take(step);
                }
                self.now = until;
            }
            Op::Commit => {
                self.committed = self.log.len();
                let replies = self.controller.committed(Offset(self.committed as i64));
                self.answered.extend(replies.iter().map(|(from, _)| *from));
            }
            Op::Failover => {
                self.log.truncate(self.committed);
                let image = replay(&self.log, |_| {});
                let end = Offset(self.committed as i64);
                let next = ActiveController::activate(self.config.clone(), self.fixes, image, end, self.now);
                let old = std::mem::replace(&mut self.controller, next);
                let refused = old.resign();
                assert!(refused.iter().all(|(_, reply)| {
                    reply.error() == crate::kafka::ErrorCode::NotController
                        || matches!(reply, super::messages::ControllerReply::CreateTopics { .. })
                }));
                self.answered.extend(refused.iter().map(|(from, _)| *from));
            }
        }
    }
}

fn replay(log: &[Record], mut see: impl FnMut(&MetadataImage)) -> MetadataImage {
    let mut image = MetadataImage::default();
    for (offset, record) in log.iter().enumerate() {
        image.apply(record, Offset(offset as i64));
        see(&image);
    }
    image
}

/// I-5 (ValidIsrElr) and who may lead. Checked between batches: inside one the fencing comes after the ISR changes.
fn check_isr_elr(image: &MetadataImage, min_isr: usize, elr: bool) {
    for (tp, p) in image.partitions() {
        let has = |list: &[BrokerId], b: &BrokerId| list.contains(b);
        assert!(p.isr.iter().chain(p.elr.iter()).all(|b| has(&p.replicas, b)), "{tp}: stranger in {p:?}");
        assert!(p.isr.iter().all(|b| !has(&p.elr, b)), "{tp}: both in ISR and ELR: {p:?}");
        assert!(p.isr.len() < min_isr || p.elr.is_empty(), "{tp}: ELR at min ISR: {p:?}");
        assert!(elr || (p.elr.is_empty() && !p.isr.is_empty()), "{tp}: ELR is off: {p:?}");
        let fenced = p.isr.iter().filter(|b| !image.is_alive(**b)).count();
        let last = !elr && p.isr.len() == 1 && !p.has_leader();
        assert!(fenced == 0 || last, "{tp}: fenced member: {p:?}");
        assert!(!p.has_leader() || has(&p.isr, &p.leader), "{tp}: leader outside the ISR: {p:?}");
        assert!(!p.recovering || p.isr.len() <= 1, "{tp}: recovering with followers: {p:?}");
    }
}

/// I-7: epochs only go up, the leader epoch with every change of the leader.
fn check_epochs(log: &[Record]) {
    let mut before = MetadataImage::default();
    replay(log, |image| {
        for (tp, p) in image.partitions() {
            let Some(old) = before.partition(tp) else { continue };
            assert!(p.partition_epoch >= old.partition_epoch && p.leader_epoch >= old.leader_epoch);
            assert!(p == old || p.partition_epoch.0 == old.partition_epoch.0 + 1, "{old:?} to {p:?}");
            assert!(p.leader == old.leader || p.leader_epoch.0 == old.leader_epoch.0 + 1, "{old:?} to {p:?}");
        }
        before = image.clone();
    });
}

fn run_all(ops: &[Op], config: ControllerConfig, fixes: Fixes, isr_elr: bool) -> Cluster {
    let elr = config.elr(fixes);
    let mut cluster = Cluster::new(config, fixes);
    for op in ops {
        cluster.run(op);
        if isr_elr {
            check_isr_elr(cluster.controller.image(), 2, elr);
        }
        assert_eq!(
            &replay(&cluster.log, |_| {}),
            cluster.controller.image(),
            "the log is not what the controller knows"
        );
    }
    check_epochs(&cluster.log);
    cluster.run(&Op::Commit);
    assert_eq!(cluster.controller.held(), 0);
    cluster.answered.sort_unstable();
    assert_eq!(cluster.answered, (1..=cluster.asked).collect::<Vec<_>>(), "each request is answered once");
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn isr_and_elr_stay_valid(ops in ops(false), elr: bool, unclean: bool) {
        let config = ControllerConfig {
            eligible_leader_replicas: elr,
            unclean_leader_election_enable: unclean,
            min_insync_replicas: 2,
            ..ControllerConfig::default()
        };
        run_all(&ops, config, Fixes::ALL, true);
    }

    #[test]
    fn epochs_go_up_and_replay_gives_the_state(ops in ops(true), elr: bool, unclean: bool, min_isr in 1u16..=3) {
        let config = ControllerConfig {
            eligible_leader_replicas: elr,
            unclean_leader_election_enable: unclean,
            min_insync_replicas: min_isr,
            ..ControllerConfig::default()
        };
        run_all(&ops, config, Fixes::ALL, false);
    }

    #[test]
    fn a_fork_goes_the_same_way(ops in ops(true), cut in 0usize..80) {
        let config = ControllerConfig { min_insync_replicas: 2, ..ControllerConfig::default() };
        let mut first = Cluster::new(config, Fixes::ALL);
        let cut = cut.min(ops.len());
        ops[..cut].iter().for_each(|op| first.run(op));
        let mut fork = Cluster {
            controller: first.controller.clone(),
            config: first.config.clone(),
            fixes: first.fixes,
            log: first.log.clone(),
            committed: first.committed,
            incarnations: first.incarnations.clone(),
            asked: first.asked,
            answered: first.answered.clone(),
            now: first.now,
        };
        ops[cut..].iter().for_each(|op| first.run(op));
        ops[cut..].iter().for_each(|op| fork.run(op));
        prop_assert_eq!(first.log, fork.log);
        prop_assert_eq!(first.answered, fork.answered);
    }
}
