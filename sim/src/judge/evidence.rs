//! What the judge is shown when a run is over.

use super::{Excuse, Excuses, Ledger, OperatorAt, Sent};
use model::base::{BrokerId, Ghost, Nanos, Offset, ProcessId, ProducerId, Row, SimTime, TopicPartition};
use model::kafka::log::Entry;
use model::store::clickhouse::Column;
use std::collections::BTreeMap;

/// A topic as the scenario declares it.
#[derive(Clone, Debug)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// Partitions.
    pub partitions: u16,
    /// Replicas of each.
    pub replication_factor: u16,
    /// `min.insync.replicas`.
    pub min_isr: u16,
    /// `unclean.leader.election.enable`.
    pub unclean: bool,
    /// Holds events of the workload; internal topics do not.
    pub events: bool,
    /// What a gatekeeper makes of another topic.
    pub derived: Option<Derived>,
    /// A job writes it: its rows are results, not events that were sent.
    pub results: bool,
}
/// Rows that a gatekeeper has sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The topic that it reads, by number.
    pub from: u16,
    /// Of its rows the poison, else the others.
    pub poison: bool,
}
impl TopicInfo {
    /// Whether what applications send stands here as they sent it.
    pub const fn is_sent(&self) -> bool {
        self.events && self.derived.is_none() && !self.results
    }
    /// Whether an event belongs here; `topic` is this topic's number.
    pub fn holds(&self, topic: u16, sent: &Sent) -> bool {
        match self.derived {
            Some(derived) => sent.topic == derived.from && (sent.flags & Sent::POISON != 0) == derived.poison,
            None => sent.topic == topic,
        }
    }
}

/// Who plays which part.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// Broker id of each process that is one.
    pub brokers: BTreeMap<ProcessId, BrokerId>,
    /// Producers: name, by number.
    pub producers: Vec<String>,
    /// `transaction.version` that each producer speaks, by number; `None` where it sends in no transactions or is not listed.
    pub transaction_versions: Vec<Option<u8>>,
    /// Number of the transactional id of each producer, by number.
    pub ids: Vec<u32>,
    /// Number of each process that is a producer.
    pub senders: BTreeMap<ProcessId, u16>,
    /// Gatekeepers: name, and how long a row may wait for the commit of its transaction, by number.
    pub gatekeepers: Vec<(String, Nanos)>,
    /// Number of the gatekeeper that each process is an instance of.
    pub keepers: BTreeMap<ProcessId, u16>,
    /// How long a row of each producer may wait for the commit of its transaction, by number; zero where not listed.
    pub commit_every: Vec<Nanos>,
    /// Whether each producer is idempotent, by number.
    pub idempotent: Vec<bool>,
    /// acks of each producer, by number: -1, 1 or 0; -1 where it is not listed.
    pub acks: Vec<i8>,
    /// Readers: name, isolation level and topics, by number.
    pub readers: Vec<ReaderInfo>,
    /// Eligible leader replicas are in use, as configured and whatever is fixed; without them the last ISR member
    /// stays in the ISR.
    pub elr: bool,
    /// Whether a sink of a job writes in transactions.
    pub sinks_in_transactions: bool,
}
impl Cast {
    /// Whether a producer was meant to be idempotent.
    pub fn is_idempotent(&self, producer: u16) -> bool {
        self.idempotent.get(usize::from(producer)).copied().unwrap_or(true)
    }
    /// The version of its transactions, if it sends in such.
    pub fn transaction_version(&self, producer: u16) -> Option<u8> {
        self.transaction_versions.get(usize::from(producer)).copied().flatten()
    }
    /// Whether a producer waits for all in-sync replicas.
    pub fn waits_for_all(&self, producer: u16) -> bool {
        self.acks.get(usize::from(producer)).is_none_or(|a| *a == -1)
    }
}
/// A reader as the scenario declares it.
#[derive(Clone, Debug)]
pub struct ReaderInfo {
    /// Its name.
    pub name: String,
    /// read_committed, else read_uncommitted.
    pub committed: bool,
    /// Topics it reads, by number.
    pub topics: Vec<u16>,
    /// Its group, by number: its instances share what it reads.
    pub group: Option<u32>,
}

/// A replica's log when the run is over.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Whose.
    pub broker: BrokerId,
    /// The process is up.
    pub alive: bool,
    /// It leads, as far as it knows.
    pub leads: bool,
    /// The controller has it in the ISR.
    pub in_sync: bool,
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Its log end.
    pub end: Offset,
    /// Its batches.
    pub entries: Vec<Entry>,
}

/// A table that reads topics, when the run is over.
#[derive(Clone, Debug)]
pub struct StoredTable {
    /// Its name.
    pub name: String,
    /// That of what FINAL shows.
    pub final_name: String,
    /// The server.
    pub process: ProcessId,
    /// The topics that it reads, by number.
    pub topics: Vec<u16>,
    /// Its rows as they stand there.
    pub rows: Vec<Row>,
    /// What FINAL shows of them.
    pub latest: Vec<Row>,
    /// Sums that views keep: name, the column summed (rows are counted if it is none), what the view comes to.
    pub views: Vec<(String, Option<Column>, i64)>,
    /// It replaces rows by key.
    pub replaces: bool,
    /// Its sorting key.
    pub key: Vec<Column>,
    /// As it is configured, rows may be missing: offsets are committed with each poll (F8), broken messages are passed over (F11).
    pub may_miss: bool,
}

/// What the judge is shown.
pub struct Evidence<'a> {
    /// The end.
    pub now: SimTime,
    /// What was sent.
    pub ledger: &'a Ledger,
    /// What excuses a loss or a duplicate in this run.
    pub excuses: &'a Excuses,
    /// Who is who.
    pub cast: &'a Cast,
    /// The topics.
    pub topics: &'a [TopicInfo],
    /// Replicas of every partition; the controller's leader first.
    pub replicas: BTreeMap<TopicPartition, Vec<Replica>>,
    /// Where each reader stands, by reader and partition.
    pub positions: Vec<BTreeMap<TopicPartition, Offset>>,
    /// When the last fault healed.
    pub healed_at: SimTime,
    /// Brokers that are up and unfenced in the active controller's eyes.
    pub unfenced: Vec<BrokerId>,
    /// Processes that the schedule leaves down or frozen.
    pub down: Vec<ProcessId>,
    /// Producers that gave up for good, by number.
    pub fatal: Vec<u16>,
    /// What keyed tables hold, by number.
    pub tables: Vec<Vec<Row>>,
    /// Tables of ClickHouse.
    pub stored: Vec<StoredTable>,
    /// What they have not finished with.
    pub stores_behind: Vec<String>,
    /// What the open windows of running operators hold.
    pub open: BTreeMap<OperatorAt, Vec<Ghost>>,
    /// What jobs have not finished with, each with the rule by which they never will.
    pub jobs: Vec<(String, Option<Excuse>)>,
    /// Partitions that a gatekeeper has not finished with.
    pub behind: Vec<(TopicPartition, String)>,
}

impl Evidence<'_> {
    /// What a `read_committed` reader finds of the log that readers see: data outside transactions and of committed ones, in
    /// the order of offsets; and how many batches of aborted or open transactions it does not find.
    pub fn readable(&self, tp: TopicPartition) -> (Vec<&Entry>, Vec<&Entry>) {
        let (found, hidden) = self.readable_by(tp);
        (found.into_iter().map(|(entry, _)| entry).collect(), hidden)
    }
    /// The same; each batch that it finds with the offset whose append lets it be read: its own, or that of the marker which
    /// commits its transaction.
    pub fn readable_by(&self, tp: TopicPartition) -> (Vec<(&Entry, Offset)>, Vec<&Entry>) {
        let mut found = Vec::new();
        let mut hidden = Vec::new();
        let mut open: BTreeMap<ProducerId, Vec<&Entry>> = BTreeMap::new();
        for entry in self.committed(tp) {
            match entry.batch.marker_of() {
                Some(marker) => {
                    let ended = open.remove(&entry.batch.producer.id).unwrap_or_default();
                    match marker.commit {
                        true => found.extend(ended.into_iter().map(|e| (e, entry.base))),
                        false => hidden.extend(ended),
                    }
                }
                None if entry.batch.is_transactional() => {
                    open.entry(entry.batch.producer.id).or_default().push(entry);
                }
                None => found.push((entry, entry.base)),
            }
        }
        hidden.extend(open.into_values().flatten());
        found.sort_by_key(|(e, _)| e.base);
        (found, hidden)
    }

    /// Partitions of a topic.
    pub fn partitions_of(&self, topic: u16) -> impl Iterator<Item = TopicPartition> + '_ {
        self.replicas.keys().copied().filter(move |tp| tp.topic.0 == topic)
    }
    /// Why a coordinator may not know what it had decided: its log lost committed records by rule.
    pub fn decisions_lost(&self) -> Option<Excuse> {
        let internal = |topic: u16| self.topics.get(usize::from(topic)).is_some_and(|t| !t.events);
        let mut of_log = self.excuses.losses().iter().filter(|l| internal(l.tp.topic.0));
        of_log.find_map(|l| l.excuse)
    }
    /// Why an event of a producer may be there twice or out of order. A coordinator that has forgotten a commit denies it, and
    /// its client sends the rows of that transaction again.
    pub fn double(&self, producer: u16) -> Option<Excuse> {
        let transactional = self.cast.transaction_version(producer).is_some();
        let excuse = self.excuses.double(producer, self.cast);
        excuse.or_else(|| if transactional { self.decisions_lost() } else { None })
    }
    /// Rows of a topic for readers of committed data, partition by partition in the order of offsets.
    pub fn rows_of(&self, topic: u16) -> impl Iterator<Item = &Row> {
        self.partitions_of(topic).flat_map(|tp| self.readable(tp).0).flat_map(|e| e.batch.rows.iter())
    }

    /// The log that readers see: of the leader, up to its high watermark.
    pub fn committed(&self, tp: TopicPartition) -> impl Iterator<Item = &Entry> {
        let leader = self.replicas.get(&tp).and_then(|r| r.iter().find(|r| r.leads && r.alive).or(r.first()));
        leader.into_iter().flat_map(|r| r.entries.iter().take_while(|e| e.next() <= r.high_watermark))
    }
}
