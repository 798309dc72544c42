//! Writes histories by hand: what brokers, producers and readers tell the judge, and the logs they end with.

use model::base::{
    Batch, BrokerId, BrokerSet, Event, Ghost, Layer, LeaderEpoch, Nanos, Offset, PartitionEpoch, ProcessId,
    ProducerEpoch, ProducerId, ProducerTag, Row, Sequence, Shown, SimTime, TopicId, TopicPartition,
};
use model::kafka::log::Entry;
use sim::judge::{Cast, Evidence, Findings, Judge, Ledger, ReaderInfo, Replica, TopicInfo};
use sim::world::Observer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one partition of most histories.
pub const TP: TopicPartition = TopicPartition::new(0, 0);
/// The producer's process, the reader's process.
pub const PRODUCER: ProcessId = ProcessId(10);
pub const READER: ProcessId = ProcessId(20);

/// One thing that the judge is told.
#[derive(Clone, Debug)]
pub enum Item {
    Event(ProcessId, Event),
    Shown(ProcessId, Shown),
    Fault(&'static str),
    Died(ProcessId),
}

/// A replica: its log and its high watermark.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub entries: Vec<Entry>,
    pub high_watermark: Offset,
}
impl Log {
    pub fn end(&self) -> Offset {
        self.entries.last().map_or(Offset(0), Entry::next)
    }
}

/// A history of one partition with brokers 1, 2, 3 (of processes 1, 2, 3), one producer, one reader.
#[derive(Clone, Debug)]
pub struct History {
    pub cast: Cast,
    pub topics: Vec<TopicInfo>,
    pub ledger: Ledger,
    pub items: Vec<Item>,
    pub logs: BTreeMap<i32, Log>,
    pub leader: i32,
    pub epoch: i32,
    pub partition_epoch: i32,
    pub isr: Vec<i32>,
    pub elr: Vec<i32>,
    pub sequence: i32,
    pub producer_epoch: i16,
    pub acked: Offset,
    pub read: Offset,
    pub down: Vec<ProcessId>,
    pub fatal: Vec<u16>,
    pub unfenced: Vec<BrokerId>,
}

pub fn set(ids: &[i32]) -> BrokerSet {
    BrokerSet::of(&ids.iter().map(|i| BrokerId(*i)).collect::<Vec<_>>())
}

impl History {
    /// Broker 1 leads, all are in sync, nothing is sent yet.
    pub fn new() -> Self {
        let topic = TopicInfo {
            name: "events".into(),
            partitions: 1,
            replication_factor: 3,
            min_isr: 2,
            unclean: false,
            events: true,
            derived: None,
            results: false,
        };
        let cast = Cast {
            brokers: (1..=3).map(|b| (ProcessId(b), BrokerId(b as i32))).collect(),
            producers: vec!["shop".into()],
            transaction_versions: vec![],
            ids: vec![0],
            senders: [(PRODUCER, 0)].into(),
            gatekeepers: vec![],
            keepers: std::collections::BTreeMap::new(),
            commit_every: vec![],
            idempotent: vec![true],
            acks: vec![-1],
            readers: vec![ReaderInfo { name: "reader".into(), committed: false, topics: vec![0], group: None }],
            elr: true,
            sinks_in_transactions: false,
        };
        let mut h = Self {
            cast,
            topics: vec![topic],
            ledger: Ledger::default(),
            items: Vec::new(),
            logs: (1..=3).map(|b| (b, Log::default())).collect(),
            leader: 1,
            epoch: -1,
            partition_epoch: -1,
            isr: vec![1, 2, 3],
            elr: vec![],
            sequence: 0,
            producer_epoch: 0,
            acked: Offset(0),
            read: Offset(0),
            down: vec![],
            fatal: vec![],
            unfenced: (1..=3).map(BrokerId).collect(),
        };
        (1..=3).for_each(|b| h.event(b, Event::Recovered { clean: true }));
        h.elect(1, &[1, 2, 3], &[], false);
        h
    }

    pub fn tell(&mut self, process: ProcessId, event: Event) -> &mut Self {
        self.items.push(Item::Event(process, event));
        self
    }
    pub fn event(&mut self, broker: i32, event: Event) {
        self.tell(ProcessId(broker as u32), event);
    }
    pub fn fault(&mut self, what: &'static str) -> &mut Self {
        self.items.push(Item::Fault(what));
        self
    }

    /// The controller commits a registration.
    pub fn register(&mut self, leader: i32, isr: &[i32], elr: &[i32], unclean: bool) {
        self.partition_epoch += 1;
        if leader != self.leader || self.epoch < 0 || unclean {
            self.epoch += 1;
        }
        (self.leader, self.isr, self.elr) = (leader, isr.to_vec(), elr.to_vec());
        let event = Event::PartitionChanged {
            tp: TP,
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(self.epoch),
            partition_epoch: PartitionEpoch(self.partition_epoch),
            isr: set(isr),
            elr: set(elr),
            unclean,
        };
        self.tell(ProcessId(1), event);
    }
    /// A leader is elected and begins to lead.
    pub fn elect(&mut self, leader: i32, isr: &[i32], elr: &[i32], unclean: bool) -> &mut Self {
        self.register(leader, isr, elr, unclean);
        self.became_leader(leader);
        self
    }
    pub fn became_leader(&mut self, broker: i32) {
        let end = self.logs[&broker].end();
        self.event(broker, Event::BecameLeader { tp: TP, epoch: LeaderEpoch(self.epoch), end });
    }

    /// The producer sends `records` events in one batch.
    pub fn batch(&mut self, records: i32) -> Arc<Batch> {
        let rows: Vec<Row> = (0..records)
            .map(|_| {
                let g = self.ledger.enter(SimTime(0), TopicId(0), 0, 0);
                Row { ghost: Ghost::new(g), bytes: 20, cols: [i64::from(g), 0, 0, 0], ..Row::default() }
            })
            .collect();
        let base_sequence = Sequence(self.sequence);
        self.sequence = base_sequence.plus(records).0;
        let tag = ProducerTag { id: ProducerId(7), epoch: ProducerEpoch(self.producer_epoch), base_sequence };
        Arc::new(Batch::data(rows.into(), Arc::new([]), tag, false))
    }
    /// A replica appends a batch at its end.
    pub fn put(&mut self, broker: i32, batch: &Arc<Batch>, epoch: i32, leader: bool) {
        let log = self.logs.get_mut(&broker).expect("a broker");
        let entry = Entry { base: log.end(), epoch: LeaderEpoch(epoch), batch: Arc::clone(batch) };
        log.entries.push(entry.clone());
        let event = Event::Appended {
            tp: TP,
            base: entry.base,
            last: entry.last(),
            epoch: entry.epoch,
            producer: batch.producer.id,
            producer_epoch: batch.producer.epoch,
            sequence: batch.producer.base_sequence,
            content: batch.content,
            leader,
            control: false,
        };
        self.event(broker, event);
    }
    /// The leader appends events.
    pub fn append(&mut self, records: i32) -> &mut Self {
        let batch = self.batch(records);
        self.put(self.leader, &batch, self.epoch, true);
        self
    }
    /// A follower cuts what the leader has not, and copies what it lacks, at most `batches`.
    pub fn copy(&mut self, follower: i32, batches: usize) -> &mut Self {
        let leader = self.logs[&self.leader].entries.clone();
        let own = &self.logs[&follower].entries;
        let same = |(a, b): &(&Entry, &Entry)| (a.base, a.epoch, a.batch.content) == (b.base, b.epoch, b.batch.content);
        let agreed = own.iter().zip(&leader).take_while(same).count();
        if agreed < own.len() {
            let to = own.get(agreed).map_or(Offset(0), |e| e.base);
            self.cut(follower, to, true);
        }
        for entry in leader.iter().skip(agreed).take(batches) {
            self.put(follower, &entry.batch, entry.epoch.0, false);
        }
        let high_watermark = self.logs[&self.leader].high_watermark.min(self.logs[&follower].end());
        self.high_watermark(follower, high_watermark, false);
        self
    }
    /// A replica cuts its log.
    pub fn cut(&mut self, broker: i32, to: Offset, tell: bool) {
        let log = self.logs.get_mut(&broker).expect("a broker");
        let (from, high_watermark) = (log.end(), log.high_watermark);
        log.entries.retain(|e| e.next() <= to);
        log.high_watermark = high_watermark.min(log.end());
        if tell {
            self.event(broker, Event::Truncated { tp: TP, from, to, high_watermark, follower: true });
        }
    }
    /// A replica's high watermark moves.
    pub fn high_watermark(&mut self, broker: i32, offset: Offset, leader: bool) {
        let log = self.logs.get_mut(&broker).expect("a broker");
        if log.high_watermark == offset {
            return;
        }
        log.high_watermark = offset;
        let isr = if leader { set(&self.isr) } else { BrokerSet::default() };
        let event = Event::HighWatermark {
            tp: TP,
            offset,
            epoch: LeaderEpoch(self.epoch),
            leader,
            isr,
            maximal: isr,
            end: log.end(),
        };
        self.event(broker, event);
    }
    /// The leader's high watermark moves as far as the ISR allows, and produces are answered and acknowledged.
    pub fn commit(&mut self) -> &mut Self {
        let to = self.isr.iter().map(|b| self.logs[b].end()).min().expect("an ISR");
        if self.isr.len() >= 2 && to > self.logs[&self.leader].high_watermark {
            self.high_watermark(self.leader, to, true);
        }
        self.acknowledge(self.logs[&self.leader].high_watermark)
    }
    /// The leader answers the produces below `to`, and the producer tells the application.
    pub fn acknowledge(&mut self, to: Offset) -> &mut Self {
        let entries = self.logs[&self.leader].entries.clone();
        let acked = self.acked;
        for entry in entries.iter().filter(|e| e.base >= acked && e.next() <= to) {
            let (base, last) = (entry.base, entry.last());
            let answer = Event::ProduceAnswered { tp: TP, base, last, acks: -1, error: 0, duplicate: false };
            self.event(self.leader, answer);
            self.show(PRODUCER, Layer::Acked(0), entry);
        }
        self.acked = self.acked.max(to);
        self
    }
    pub fn show(&mut self, process: ProcessId, layer: Layer, entry: &Entry) {
        let batch = Arc::clone(&entry.batch);
        let shown = Shown { layer, tp: TP, base: entry.base, from: 0, to: batch.records, batch };
        self.items.push(Item::Shown(process, shown));
    }
    /// The reader is given what is committed at the leader.
    pub fn read(&mut self) -> &mut Self {
        let log = self.logs[&self.leader].clone();
        let read = self.read;
        for entry in log.entries.iter().filter(|e| e.base >= read && e.next() <= log.high_watermark) {
            self.show(READER, Layer::Read(0), entry);
        }
        self.read = self.read.max(log.high_watermark);
        self
    }
    /// A broker starts with its log at `end`.
    pub fn start(&mut self, broker: i32, end: Offset) -> &mut Self {
        self.cut(broker, end, false);
        let log = self.logs.get_mut(&broker).expect("a broker");
        log.high_watermark = Offset(0);
        self.event(broker, Event::LogOpened { tp: TP, end, high_watermark: Offset(0) });
        self.event(broker, Event::Recovered { clean: false });
        self
    }
    /// One round: events are sent, copied, committed, acknowledged and read.
    pub fn round(&mut self, records: i32) -> &mut Self {
        self.append(records);
        self.sync()
    }
    /// Every follower copies everything; all is committed, acknowledged and read; the followers learn it.
    pub fn sync(&mut self) -> &mut Self {
        let followers: Vec<i32> = self.logs.keys().copied().filter(|b| *b != self.leader).collect();
        for follower in &followers {
            self.copy(*follower, usize::MAX);
        }
        self.commit().read();
        for follower in &followers {
            self.copy(*follower, usize::MAX);
        }
        self
    }

    /// What the laws find.
    pub fn judge(&self) -> (Judge, Findings) {
        let mut judge = Judge::new(&self.cast, &self.topics);
        judge.ledger = self.ledger.clone();
        let mut at = SimTime(0);
        for (item, id) in self.items.iter().zip(1..) {
            at += Nanos::millis(1);
            match item {
                Item::Event(process, event) => judge.event(at, id, 0, *process, event),
                Item::Shown(process, shown) => judge.shown(at, *process, shown),
                Item::Fault(what) => judge.fault(at, None, what),
                Item::Died(process) => judge.died(at, *process),
            }
        }
        let (ledger, excuses) = (judge.ledger.clone(), judge.excuses.clone());
        let mut order: Vec<i32> = self.logs.keys().copied().collect();
        order.sort_by_key(|b| *b != self.leader);
        let replica = |b: &i32| {
            let log = &self.logs[b];
            Replica {
                broker: BrokerId(*b),
                alive: !self.down.contains(&ProcessId(*b as u32)),
                leads: *b == self.leader,
                in_sync: self.isr.contains(b),
                high_watermark: log.high_watermark,
                end: log.end(),
                entries: log.entries.clone(),
            }
        };
        let evidence = Evidence {
            now: at,
            ledger: &ledger,
            excuses: &excuses,
            cast: &self.cast,
            topics: &self.topics,
            replicas: [(TP, order.iter().map(replica).collect())].into(),
            positions: vec![[(TP, self.read)].into()],
            healed_at: SimTime(0),
            unfenced: self.unfenced.clone(),
            down: self.down.clone(),
            fatal: self.fatal.clone(),
            jobs: Vec::new(),
            stored: Vec::new(),
            stores_behind: Vec::new(),
            tables: Vec::new(),
            open: BTreeMap::new(),
            behind: Vec::new(),
        };
        let findings = judge.settle(&evidence);
        (judge, findings)
    }
    /// The kinds of findings: law/rule, with the excuse's rules behind it.
    pub fn found(&self) -> Vec<String> {
        let (_, findings) = self.judge();
        let mut kinds: Vec<String> = findings
            .kept
            .iter()
            .map(|v| match v.excuse {
                Some(e) => format!("{}/{} by {}", v.law, v.rule, e.rules()),
                None => format!("{}/{}", v.law, v.rule),
            })
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
    /// Nothing is found.
    #[track_caller]
    pub fn clean(&self) {
        assert_eq!(self.found(), Vec::<String>::new());
    }
    /// This is found, perhaps with what follows from it.
    #[track_caller]
    pub fn finds(&self, kind: &str) {
        let found = self.found();
        assert!(found.iter().any(|f| f == kind), "{kind} is not among {found:?}");
    }
    /// Exactly these kinds are found.
    #[track_caller]
    pub fn finds_only(&self, kinds: &[&str]) {
        assert_eq!(self.found(), kinds);
    }
}
