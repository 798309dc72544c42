//! The whole producer, with connections and metadata, against three small brokers under faults.

mod brokers;
mod nodes;
mod properties;
mod transactions;

use super::{Call, Dice, JavaProducer, ProducerConfig, ProducerEvent, Target};
use crate::base::{
    Addr, Asides, Cx, Effect, EventTime, Fixes, Incarnation, Input, Millis, Port, ProcessId, Row, SimTime, Streams,
    TopicId,
};
use crate::kafka::messages::Message;
use brokers::{Brokers, Fault};

const TOPIC: TopicId = TopicId(0);

/// One producer and its brokers.
struct Bench {
    producer: JavaProducer,
    brokers: Brokers,
    now: SimTime,
    connections: u64,
    sent: i64,
    acked: Vec<i64>,
    failed: Vec<i64>,
    identities: u32,
    first_ack: Option<Millis>,
    called: Vec<(Call, bool)>,
}

impl Bench {
    fn new(seed: u64, partitions: u16, fixes: Fixes, set: impl FnOnce(&mut ProducerConfig)) -> Self {
        let brokers = Brokers::new(partitions);
        let mut config = ProducerConfig::new(super::Profile::Java, brokers.addresses());
        set(&mut config);
        assert_eq!(config.validate(), Ok(()));
        let stream = |purpose| Dice::Stream(Streams(seed).stream(crate::base::Domain::Process, 9, purpose));
        Self {
            producer: JavaProducer::new(&config, fixes, stream("network"), stream("records")),
            brokers,
            now: SimTime::ZERO,
            connections: 0,
            sent: 0,
            acked: Vec::new(),
            failed: Vec::new(),
            identities: 0,
            first_ack: None,
            called: Vec::new(),
        }
    }
    fn send(&mut self, partition: u16) {
        let row = Row { bytes: 100, cols: [self.sent, 0, 0, 0], time: EventTime(0), ..Row::default() };
        let sent = self.producer.send(TOPIC, Target::Partition(partition), row, self.now.millis());
        assert_eq!(sent, Ok(()));
        self.sent += 1;
    }
    fn step(&mut self) {
        let mut effects: Vec<Effect<Message, ()>> = Vec::new();
        let mut asides = Asides::default();
        let mut cx = Cx::new(
            self.now,
            ProcessId(9),
            Incarnation(0),
            Port(0),
            Fixes::ALL,
            0,
            Streams(0),
            &mut self.connections,
            &mut asides,
            &mut effects,
        );
        self.producer.run(&mut cx);
        for effect in effects {
            match effect {
                Effect::Open { conn, to, .. } => self.brokers.open(conn, to, self.now),
                Effect::Close(conn) => self.brokers.close(conn),
                Effect::Send { conn, message } => self.brokers.send(conn, message, self.now),
                _ => {}
            }
        }
        while let Some(event) = self.producer.poll() {
            match event {
                ProducerEvent::Acked { batch, .. } => {
                    self.first_ack.get_or_insert(self.now.millis());
                    self.acked.extend(batch.rows.iter().map(|r| r.cols[0]));
                }
                ProducerEvent::Failed { batch, .. } => self.failed.extend(batch.rows.iter().map(|r| r.cols[0])),
                ProducerEvent::Identity(_) => self.identities += 1,
                ProducerEvent::Called { call, result, .. } => self.called.push((call, result.is_ok())),
                _ => {}
            }
        }
    }
    /// Runs to `end`, with `load` records in turn over the partitions every 10 ms until `until`.
    fn run(&mut self, end: Millis, until: Millis, load: i64, faults: &[(Millis, Fault)]) {
        let mut faults = faults.iter();
        let mut next_fault = faults.next();
        let mut next_load = self.now.millis();
        loop {
            self.step();
            let mut next = SimTime::at(end);
            next = next.min(self.producer.deadline().unwrap_or(next)).min(self.brokers.next().unwrap_or(next));
            if next_load < until {
                next = next.min(SimTime::at(next_load));
            }
            if let Some((at, _)) = next_fault {
                next = next.min(SimTime::at(*at));
            }
            self.now = next.max(self.now);
            if self.now >= SimTime::at(end) {
                return;
            }
            if let Some((_, fault)) = next_fault.filter(|(at, _)| SimTime::at(*at) <= self.now) {
                self.brokers.strike(*fault, self.now);
                next_fault = faults.next();
            }
            for input in self.brokers.take(self.now) {
                let ours = self.producer.input(input);
                assert!(ours, "every input is for a connection the producer has not closed");
            }
            if next_load < until && SimTime::at(next_load) <= self.now {
                for _ in 0..load {
                    self.send((self.sent % i64::from(self.brokers.partitions())) as u16);
                }
                next_load = next_load + Millis(10);
            }
        }
    }
}

/// An address of a small broker.
fn addr(node: i32) -> Addr {
    Addr { process: ProcessId(node as u32), port: Port(0) }
}
type In = Input<Message>;

#[test]
fn a_first_record_is_acknowledged_after_a_handful_of_round_trips() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |_| {});
    bench.run(Millis(2_000), Millis(1_000), 3, &[]);
    assert_eq!(bench.acked.len() as i64, bench.sent);
    assert_eq!((bench.failed.len(), bench.identities), (0, 1));
    // Connect, ApiVersions, metadata, connect to the leader, ApiVersions, InitProducerId, Produce: 1 ms each way.
    assert!(bench.first_ack.is_some_and(|at| at <= Millis(40)), "{:?}", bench.first_ack);
}

#[test]
fn without_metadata_a_send_blocks_and_fails_after_max_block() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |c| c.max_block = Millis(5_000));
    let dead: Vec<(Millis, Fault)> = (0..3).map(|n| (Millis(0), Fault::Kill(n, brokers::New::Drop))).collect();
    bench.run(Millis(1), Millis(0), 0, &dead);
    bench.send(0);
    bench.send(0);
    bench.run(Millis(5_100), Millis(0), 0, &[]);
    // The thread hung in the first send; only then did the second one begin to wait.
    assert_eq!(bench.failed, [0]);
    bench.run(Millis(10_200), Millis(0), 0, &[]);
    assert_eq!(bench.failed, [0, 1]);
}

#[test]
fn a_full_buffer_blocks_and_nothing_is_lost() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |c| c.buffer_memory = 40_000);
    // Memory for two batches and records in turn for three partitions: every third one waits for an answer.
    bench.run(Millis(200), Millis(100), 300, &[]);
    assert!(bench.producer.is_blocked());
    bench.run(Millis(20_000), Millis(0), 0, &[]);
    assert_eq!(bench.acked.len() as i64, bench.sent);
    assert_eq!(bench.failed.len(), 0);
}

#[test]
fn a_closed_producer_sends_what_it_has_and_hangs_up() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |c| c.linger = Millis(10_000));
    bench.run(Millis(100), Millis(100), 1, &[]);
    assert_eq!(bench.acked.len(), 0);
    bench.producer.close();
    bench.run(Millis(300), Millis(0), 0, &[]);
    assert_eq!(bench.acked.len() as i64, bench.sent);
    assert!(bench.producer.closed() && bench.brokers.connections() == 0);
}

#[test]
fn a_flush_does_not_linger() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |c| c.linger = Millis(10_000));
    bench.run(Millis(100), Millis(100), 1, &[]);
    assert!(bench.producer.flush().is_some());
    bench.run(Millis(200), Millis(0), 0, &[]);
    assert_eq!(bench.acked.len() as i64, bench.sent);
    assert_eq!(bench.producer.flush(), None);
}
