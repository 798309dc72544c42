//! The producer as a whole, against the smallest possible network.

use super::*;
use crate::base::{
    Addr, BrokerId, Domain, Fix, Fixes, LeaderEpoch, Millis, Offset, Port, ProcessId, ProducerEpoch, ProducerId, Row,
    Streams, TopicId, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{
    BrokerInfo, InitProducerIdReply, MetadataReply, PartitionInfo, ProduceReply, ProducedPartition, Reply, Request,
};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, GroupId, TransactionalId};

const TOPIC: TopicId = TopicId(0);
const TP: TopicPartition = TopicPartition::new(0, 0);

/// One broker that answers at once; `seen` are the first sequence numbers of the batches it got.
struct Bench {
    producer: RdProducer,
    now: Millis,
    knows_topic: bool,
    /// It is in the lists that it gives.
    lists_itself: bool,
    /// How many look-ups of the group's coordinator it still refuses.
    refuses: u32,
    seen: Vec<i32>,
}
impl Bench {
    fn new(fixes: Fixes, seed: u64) -> Self {
        Self::of(RdConfig::idempotent(), fixes, seed)
    }
    fn of(config: RdConfig, fixes: Fixes, seed: u64) -> Self {
        let addr = Addr { process: ProcessId(1), port: Port(0) };
        let stream = Streams(seed).stream(Domain::Process, 1, "librdkafka");
        let producer = RdProducer::new(config, vec![addr], fixes, stream, Millis::ZERO);
        Self { producer, now: Millis::ZERO, knows_topic: true, lists_itself: true, refuses: 0, seen: Vec::new() }
    }
    fn run(&mut self, until: i64) {
        while self.now.0 < until {
            self.producer.poll(self.now);
            let actions = self.producer.take_actions();
            if actions.is_empty() {
                let next = self.producer.deadline(self.now).max(self.now + Millis(1));
                self.now = next.min(Millis(until));
            }
            for action in actions {
                let input = match action {
                    NetAction::Open { link, .. } => NetInput::Up(link),
                    NetAction::Send { link, correlation, body } => {
                        NetInput::Reply { link, correlation, body: self.answer(&body) }
                    }
                    NetAction::Close(_) => continue,
                };
                self.producer.input(input, self.now);
            }
        }
    }
    fn answer(&mut self, body: &Request) -> Reply {
        match body {
            Request::Metadata(_) => {
                let addr = Addr { process: ProcessId(1), port: Port(0) };
                let id = if self.lists_itself { BrokerId(1) } else { BrokerId::NONE };
                let leader = PartitionInfo { tp: TP, error: ErrorCode::None, leader: id, epoch: LeaderEpoch(0) };
                let listed = [BrokerInfo { id, addr }];
                Reply::Metadata(MetadataReply {
                    brokers: listed.into_iter().filter(|_| self.lists_itself).collect(),
                    partitions: if self.knows_topic { [leader].into() } else { [].into() },
                    unknown: if self.knows_topic { [].into() } else { [TOPIC].into() },
                })
            }
            Request::InitProducerId(_) => Reply::InitProducerId(InitProducerIdReply {
                error: ErrorCode::None,
                producer: ProducerId(7),
                epoch: ProducerEpoch(0),
            }),
            Request::Produce(p) => {
                self.seen.push(p.batches[0].1.producer.base_sequence.0);
                let produced = ProducedPartition {
                    tp: TP,
                    error: ErrorCode::None,
                    base: Offset(0),
                    log_start: Offset(0),
                    leader: None,
                };
                Reply::Produce(ProduceReply { partitions: vec![produced] })
            }
            Request::Coordinator(request) => Reply::Coordinator(match request {
                CoordinatorRequest::Find(CoordinatorKey::Group(_)) if self.refuses > 0 => {
                    self.refuses -= 1;
                    CoordinatorReply::Find {
                        error: ErrorCode::CoordinatorNotAvailable,
                        node: BrokerId::NONE,
                        addr: None,
                    }
                }
                CoordinatorRequest::Find(_) => CoordinatorReply::Find {
                    error: ErrorCode::None,
                    node: BrokerId(1),
                    addr: Some(Addr { process: ProcessId(1), port: Port(0) }),
                },
                CoordinatorRequest::InitProducerId { .. } => CoordinatorReply::InitProducerId {
                    error: ErrorCode::None,
                    producer: ProducerId(7),
                    epoch: ProducerEpoch(0),
                },
                CoordinatorRequest::AddOffsets { .. } => CoordinatorReply::AddOffsets(ErrorCode::None),
                CoordinatorRequest::TxnOffsetCommit { .. } => {
                    CoordinatorReply::TxnOffsetCommit(vec![(TP, ErrorCode::None)])
                }
                _ => CoordinatorReply::EndTxn {
                    error: ErrorCode::None,
                    producer: ProducerId(7),
                    epoch: ProducerEpoch(0),
                },
            }),
            _ => Reply::ApiVersions(None),
        }
    }
    /// A call, and what it came to until `until`; `None` while it has not returned.
    fn call(&mut self, call: Call, until: i64) -> Option<Result<(), CallError>> {
        let never = self.now + Millis(1_000_000);
        if call == Call::Offsets {
            self.producer.send_offsets(RdGroupMetadata::of_group(GroupId(0)), vec![(TP, Offset(1))], never);
        } else {
            self.producer.call(call, never);
        }
        self.run(until);
        let of_call = |event| if let ProducerEvent::Called(c, result) = event { Some((c, result)) } else { None };
        let ended = std::iter::from_fn(|| self.producer.poll_event()).filter_map(of_call).last();
        ended.filter(|(c, _)| *c == call).map(|(_, result)| result)
    }
    fn send(&mut self, records: u32) {
        for _ in 0..records {
            let row = Row { bytes: 10, ..Row::default() };
            self.producer.send(TP, row, self.now).expect("the queue has room");
        }
    }
}

/// A refresh in which the broker does not know the topic, in the middle of a producer's life.
fn sequences_around_a_lost_topic(fixes: Fixes) -> Vec<i32> {
    let mut b = Bench::new(fixes, 1);
    b.send(3);
    b.run(2_000);
    b.knows_topic = false;
    b.run(301_000);
    b.knows_topic = true;
    b.send(2);
    b.run(303_000);
    b.seen
}

#[test]
fn numbering_survives_a_topic_that_is_missing_for_a_moment() {
    assert_eq!(sequences_around_a_lost_topic(Fixes::ALL), [0, 3]);
    let old = Fixes::ALL.without(Fix::SequenceSurvivesTopicLoss);
    assert_eq!(sequences_around_a_lost_topic(old), [0, 0]);
}

#[test]
fn a_clone_goes_on_as_the_original_does() {
    let mut a = Bench::new(Fixes::ALL, 3);
    a.send(5);
    a.run(600);
    let copy = a.producer.clone();
    let mut b = Bench { producer: copy, now: a.now, seen: a.seen.clone(), ..Bench::new(Fixes::ALL, 3) };
    for bench in [&mut a, &mut b] {
        bench.send(4);
        bench.run(5_000);
    }
    assert_eq!(a.seen, b.seen);
    assert_eq!(a.producer.unreported(), 0);
    assert_eq!(a.producer.deadline(a.now), b.producer.deadline(b.now));
}

#[test]
fn a_full_queue_refuses() {
    let mut b = Bench::new(Fixes::ALL, 4);
    b.producer.config.queue_max_messages = 2;
    b.send(2);
    assert_eq!(b.producer.send(TP, Row::default(), b.now), Err(RdError::QueueFull));
}

/// A controller that thaws lists nobody for a moment: every session has expired by its clock.
#[test]
fn with_every_node_decommissioned_it_begins_with_the_bootstrap_list_again() {
    let mut b = Bench::new(Fixes::ALL, 5);
    b.send(3);
    b.run(2_000);
    b.lists_itself = false;
    b.run(301_000);
    b.lists_itself = true;
    b.send(2);
    b.run(310_000);
    assert_eq!(b.seen, [0, 3]);
    assert_eq!(b.producer.unreported(), 0);
}

/// All brokers were down for a moment: the instance has begun with the bootstrap list again, and the handle that stands for
/// the group's coordinator is of the time before (librdkafka 5511).
#[test]
fn a_handle_dropped_when_all_brokers_were_down_is_looked_up_again_once_5511_is_closed() {
    for (fixes, returns) in [(Fixes::ALL, true), (Fixes::ALL.without(Fix::GoneGroupCoordinatorForgotten), false)] {
        let mut b = Bench::of(RdConfig::transactional(TransactionalId(0)), fixes, 6);
        for (call, until) in [(Call::Init, 2_000), (Call::Begin, 2_100), (Call::Offsets, 3_000), (Call::Commit, 4_000)]
        {
            assert_eq!(b.call(call, until), Some(Ok(())), "{call:?}");
        }
        assert_eq!(b.call(Call::Begin, 4_100), Some(Ok(())));
        let config = b.producer.config.clone();
        b.producer.net.rebootstrap(&config);
        b.run(5_000);
        let returned = b.call(Call::Offsets, 60_000);
        assert_eq!(returned, if returns { Some(Ok(())) } else { None });
    }
}

/// The look-up is a request like another: it is repeated twice (`rd_kafka_buf_retry`), and then nothing asks again.
#[test]
fn a_group_look_up_that_is_refused_three_times_never_returns() {
    for (refuses, returns) in [(2, true), (3, false)] {
        let mut b = Bench::of(RdConfig::transactional(TransactionalId(0)), Fixes::ALL, 7);
        b.refuses = refuses;
        for (call, until) in [(Call::Init, 2_000), (Call::Begin, 2_100)] {
            assert_eq!(b.call(call, until), Some(Ok(())), "{call:?}");
        }
        assert_eq!(b.call(Call::Offsets, 60_000), returns.then_some(Ok(())));
    }
}
