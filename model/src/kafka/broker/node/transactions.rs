//! The transaction coordinator at work in its broker: its outputs carried out, its partitions of `__transaction_state` read and
//! given up as leaders change (`BrokerMetadataPublisher.updateCoordinator`), its scans.
//!
//! Requests are in `coordinator.rs`, markers on their way in `markers.rs`, markers that arrive in `write_markers.rs`.

use super::broker_links::BrokerLinks;
use super::config::TXN_MARKERS;
use super::gather::Gather;
use super::producer_ids::ProducerIds;
use super::{Node, NodeCx};
use crate::base::{BrokerId, Event, Fixes, Input, Millis, Offset, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::BrokerRequest;
use crate::kafka::controller::MetadataImage;
use crate::kafka::coordinator::transaction::{
    AppendId, MarkerDestination, PartitionLeaders, ProducerIdManager, Step, Token, Told, TransactionCoordinator,
    TransactionLogRecord, TransactionOutput, TransactionVersion, from_batch, to_batch,
};
use crate::kafka::log::{AppendOrigin, Isolation, ReadLimit};
use crate::kafka::messages::{Message, ProduceReply};
use crate::kafka::partition::Produce;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Bytes read at once while a partition is loaded (`transaction.state.log.load.buffer.size`).
const LOAD_BUFFER: u32 = 5_242_880;

/// What an answer to a client needs beside the coordinator's.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    InitProducerId,
    /// EndTxn of that version.
    End(u8),
    /// AddPartitionsToTxn of that version.
    AddPartitions(Vec<TopicPartition>, u8),
    /// AddOffsetsToTxn of that version.
    AddOffsets(u8),
    /// A transaction of another broker's AddPartitionsToTxn: the request, its place there, how many partitions it has.
    Leader {
        request: u64,
        transaction: usize,
        partitions: usize,
    },
}

/// The coordinator and what is under way around it.
#[derive(Clone, Debug)]
pub(super) struct Transactions {
    pub(super) coordinator: TransactionCoordinator,
    pub(super) marker_links: BrokerLinks,
    /// WriteTxnMarkers requests of other brokers.
    pub(super) marker_requests: Gather,
    /// Markers being appended, by token: request, marker, partition.
    pub(super) marker_appends: BTreeMap<u64, (u64, usize, usize)>,
    /// AddPartitionsToTxn requests of other brokers.
    pub(super) leader_requests: Gather,
    /// Requests of clients without an answer.
    pub(super) asked: BTreeMap<Token, Asked>,
    /// Appends to the log of transactions, by the token of the append.
    appends: BTreeMap<u64, AppendId>,
    /// Appends that are decided and not told yet.
    stored: VecDeque<(AppendId, ErrorCode)>,
    /// Partitions of the log that changed with the metadata being applied.
    changed: BTreeSet<u16>,
    /// Partitions led here, under which leader epoch.
    elected: BTreeMap<u16, i32>,
    to_load: VecDeque<(u16, i32)>,
    out: Vec<TransactionOutput>,
}

impl Transactions {
    pub(super) fn new(config: &super::config::BrokerConfig, fixes: Fixes, now: Millis) -> Self {
        let ids = config.transactional_ids.clone();
        Self {
            coordinator: TransactionCoordinator::new(config.transactions, ids, fixes, now),
            marker_links: BrokerLinks::new(TXN_MARKERS),
            marker_requests: Gather::default(),
            marker_appends: BTreeMap::new(),
            leader_requests: Gather::default(),
            asked: BTreeMap::new(),
            appends: BTreeMap::new(),
            stored: VecDeque::new(),
            changed: BTreeSet::new(),
            elected: BTreeMap::new(),
            to_load: VecDeque::new(),
            out: Vec::new(),
        }
    }
    /// An append of this broker's own is answered; false if it was none.
    pub(super) fn produced(&mut self, token: u64, reply: &ProduceReply) -> bool {
        let error = reply.partitions.first().map_or(ErrorCode::UnknownServerError, |p| p.error);
        if let Some(append) = self.appends.remove(&token) {
            self.stored.push_back((append, error));
            return true;
        }
        let Some((request, marker, partition)) = self.marker_appends.remove(&token) else { return false };
        self.marker_requests.decided(request, marker, partition, error);
        true
    }
    /// When the scheduler has something to do.
    pub(super) fn deadline(&self) -> Millis {
        if self.to_load.is_empty() { self.coordinator.scan_deadline() } else { Millis::ZERO }
    }
    /// Metadata names another leader, epoch or ISR of a partition of the log.
    pub(super) fn partition_changed(&mut self, partition: u16) {
        self.changed.insert(partition);
    }
}

/// Producer ids of the broker's block; remembers that the next one is to be asked for.
struct Ids<'a> {
    ids: &'a mut ProducerIds,
    now: Millis,
    ask: bool,
}
impl ProducerIdManager for Ids<'_> {
    fn generate(&mut self) -> Result<ProducerId, ErrorCode> {
        let (id, ask) = self.ids.generate(self.now);
        self.ask |= ask;
        id.ok_or(ErrorCode::CoordinatorLoadInProgress)
    }
}
/// The metadata cache.
struct Leaders<'a>(&'a MetadataImage);
impl PartitionLeaders for Leaders<'_> {
    fn destination(&self, tp: TopicPartition) -> MarkerDestination {
        match self.0.partition(tp) {
            None => MarkerDestination::UnknownPartition,
            Some(p) if p.has_leader() && self.0.is_alive(p.leader) => MarkerDestination::Leader(p.leader),
            Some(_) => MarkerDestination::LeaderNotAvailable,
        }
    }
}

impl Node {
    /// The transaction coordinator.
    pub fn transaction_coordinator(&self) -> &TransactionCoordinator {
        &self.transactions.coordinator
    }
    /// A partition of `__transaction_state`.
    pub(super) fn transaction_log(&self, partition: u16) -> Option<TopicPartition> {
        self.config.broker.transaction_state_topic.map(|topic| TopicPartition { topic, partition })
    }

    /// Level of `transaction.version` in the metadata that this broker has applied.
    pub(super) fn transaction_version(&self) -> TransactionVersion {
        let changed = self.image.transaction_version();
        changed.map_or(self.config.broker.transaction_version, TransactionVersion::of)
    }
    /// One call of the coordinator and all that follows from it.
    pub(super) fn coordinate(
        &mut self,
        cx: &mut NodeCx<'_>,
        call: impl FnOnce(&mut TransactionCoordinator, &mut Step<'_>),
    ) {
        let (now, version) = (cx.millis(), self.transaction_version());
        let mut ids = Ids { ids: &mut self.producer_ids, now, ask: false };
        let mut out = std::mem::take(&mut self.transactions.out);
        let wall = cx.wall();
        let mut step = Step { now, wall, version, ids: &mut ids, leaders: &Leaders(&self.image), out: &mut out };
        call(&mut self.transactions.coordinator, &mut step);
        if ids.ask {
            self.ask_for_producer_ids(now);
        }
        for told in self.transactions.coordinator.take_told() {
            self.tell(told, cx);
        }
        for output in out.drain(..) {
            self.transaction_output(output, cx);
        }
        self.transactions.out = out;
        self.after_replicas(cx);
    }
    fn tell(&self, told: Told, cx: &mut NodeCx<'_>) {
        let log = |id| self.transaction_log(self.transactions.coordinator.state().partition_for(id));
        let event = match told {
            Told::State { id, producer, epoch, state, stored } => {
                log(id).map(|tp| Event::TransactionState { tp, id: id.0, producer, epoch, state: state as u8, stored })
            }
            Told::Aborts { id, by } => log(id).map(|tp| Event::AbortDecided { tp, id: id.0, by }),
            Told::Stopped { id, producer, epoch } => {
                log(id).map(|tp| Event::CompletionStopped { tp, id: id.0, producer, epoch })
            }
        };
        event.into_iter().for_each(|event| cx.emit(event));
    }
    fn transaction_output(&mut self, output: TransactionOutput, cx: &mut NodeCx<'_>) {
        match output {
            TransactionOutput::Append { append, partition, records, timeout } => {
                let Some(tp) = self.transaction_log(partition) else { return };
                let token = self.channels.own_token();
                self.transactions.appends.insert(token, append);
                let batch = Arc::new(to_batch(&records, cx.wall()));
                let how = Produce { origin: AppendOrigin::Coordinator, ..Produce::client(token, -1, timeout) };
                self.replicas.append(cx.millis(), &how, &[(tp, batch)], &mut self.outputs);
            }
            TransactionOutput::Reply { token, reply } => self.answer_transaction(token, reply),
            TransactionOutput::SendMarkers { to, markers } => {
                let Some(addr) = self.config.addr(to, super::config::BROKER) else { return };
                let timeout = self.config.broker.transactions.request_timeout;
                let request = BrokerRequest::WriteTxnMarkers(markers);
                self.transactions.marker_links.send(to, addr, request, timeout, cx);
            }
        }
    }

    /// Tells the coordinator of appends that are decided. Each may bring others about.
    pub(super) fn transactions_stored(&mut self, cx: &mut NodeCx<'_>) {
        while let Some((append, error)) = self.transactions.stored.pop_front() {
            self.coordinate(cx, |c, step| c.appended(append, error, step));
        }
    }

    /// All partitions have followed the metadata: coordination follows them.
    pub(super) fn update_coordinator(&mut self, cx: &mut NodeCx<'_>) {
        for partition in std::mem::take(&mut self.transactions.changed) {
            let Some(tp) = self.transaction_log(partition) else { continue };
            let Some(registration) = self.image.partition(tp) else { continue };
            let epoch = registration.leader_epoch.0;
            let known = self.transactions.elected.get(&partition).copied();
            if registration.leader == self.config.id {
                if known != Some(epoch) {
                    self.transactions.elected.insert(partition, epoch);
                    self.transactions.coordinator.elected(partition, epoch);
                    self.transactions.to_load.push_back((partition, epoch));
                }
            } else if known.is_some() {
                self.transactions.elected.remove(&partition);
                self.transactions.coordinator.resigned(partition, Some(epoch));
            }
        }
        self.transactions.coordinator.metadata_changed();
        self.transactions_stored(cx);
    }

    /// The coordinator's scheduler: one thread loads and scans.
    pub(super) fn transactions_input(&mut self, input: &Input<Message>, cx: &mut NodeCx<'_>) {
        if !matches!(input, Input::Wake) || !self.phase.serves_requests() {
            return;
        }
        if let Some((partition, epoch)) = self.transactions.to_load.pop_front() {
            self.work = self.work + self.config.times.load_coordinator;
            if let Some(records) = self.read_transactions(partition, epoch) {
                self.coordinate(cx, |c, step| c.loaded(partition, epoch, records, step));
            }
        } else if self.transactions.coordinator.scan_deadline() <= cx.millis() {
            self.coordinate(cx, TransactionCoordinator::scan);
        }
    }
    /// The log from its start to its end, replicated or not (4.12 step 2); nothing if another epoch has begun.
    fn read_transactions(&mut self, partition: u16, epoch: i32) -> Option<Vec<TransactionLogRecord>> {
        let tp = self.transaction_log(partition)?;
        let held = self.replicas.partitions_mut().get_mut(tp)?;
        if !held.is_leader() || held.leader_epoch().0 != epoch {
            return None;
        }
        let log = held.log_mut();
        let limit = ReadLimit { max_bytes: LOAD_BUFFER, min_one: true, high_watermark_seen: None };
        let (mut from, end): (Offset, Offset) = (log.start(), log.end());
        let mut records = Vec::new();
        while from < end {
            let read = log.read(from, Isolation::LogEnd, &limit).ok()?;
            let last = read.entries.last()?.last();
            records.extend(read.entries.iter().flat_map(|e| from_batch(&e.batch)));
            from = last.plus(1);
        }
        Some(records)
    }

    /// The broker that coordinates: leader of a partition of an internal topic, if it is alive here.
    pub(super) fn coordinator_node(&self, tp: TopicPartition) -> Option<BrokerId> {
        let known = self.image.partition(tp)?;
        (known.has_leader() && self.image.is_alive(known.leader)).then_some(known.leader)
    }
}
