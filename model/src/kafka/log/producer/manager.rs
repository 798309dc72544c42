//! All producers of a log: their states, open transactions, snapshots (`ProducerStateManager`).

use super::super::{AppendOrigin, Entry, LogConfig, LogWrite};
use super::{CompletedTxn, ProducerAppend, ProducerState, VerificationEntry, VerificationGuard, Window};
use crate::base::{Batch, Chain, Feed, Fix, Fixes, Millis, Offset, ProducerEpoch, ProducerId, Sequence};
use crate::kafka::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Producers as they stood at some offset, one batch each, in order of their ids.
#[derive(Clone, Debug, Default)]
pub struct ProducerSnapshot {
    producers: Vec<(ProducerId, ProducerState)>,
}
impl Feed for ProducerSnapshot {
    fn feed(&self, chain: &mut Chain) {
        self.producers.feed(chain);
    }
}

/// A transaction with data in the log.
#[derive(Clone, Copy, Debug)]
struct Txn {
    producer: ProducerId,
    /// Offset of its marker, once that is written.
    last: Option<Offset>,
}

/// An open transaction counts as late this long after the longest timeout that the broker grants.
const LATE_TRANSACTION_BUFFER: Millis = Millis(5 * 60 * 1000);

/// The producers of one log.
#[derive(Clone, Debug)]
pub struct ProducerStateManager {
    producers: BTreeMap<ProducerId, ProducerState>,
    verifications: BTreeMap<ProducerId, VerificationEntry>,
    next_guard: u64,
    /// Open transactions by first offset.
    ongoing: BTreeMap<Offset, Txn>,
    /// Ended transactions whose marker is not yet below the high watermark, by first offset.
    unreplicated: BTreeMap<Offset, Txn>,
    snapshots: BTreeMap<Offset, Arc<ProducerSnapshot>>,
    /// Up to where the state follows the log (`lastMapOffset`).
    map_end: Offset,
    last_snapshot: Offset,
    expiration: Millis,
    max_transaction_timeout: Millis,
    verification: bool,
    window: usize,
}

impl ProducerStateManager {
    /// No producers yet; `snapshots` are those on disk.
    pub(in super::super) fn new(
        config: &LogConfig,
        fixes: Fixes,
        snapshots: BTreeMap<Offset, Arc<ProducerSnapshot>>,
    ) -> Self {
        Self {
            producers: BTreeMap::new(),
            verifications: BTreeMap::new(),
            next_guard: 1,
            ongoing: BTreeMap::new(),
            unreplicated: BTreeMap::new(),
            snapshots,
            map_end: Offset(0),
            last_snapshot: Offset(0),
            expiration: config.producer_expiration,
            max_transaction_timeout: config.max_transaction_timeout,
            verification: config.transaction_verification,
            window: if fixes.has(Fix::DuplicateWindowOfFive) { Window::MOST } else { 1 },
        }
    }

    /// Without producers, with the same snapshots: what loading starts from.
    pub(in super::super) fn with_snapshots_only(&self, config: &LogConfig, fixes: Fixes) -> Self {
        Self::new(config, fixes, self.snapshots.clone())
    }

    // ---- states

    /// What is known of a producer.
    pub fn producer(&self, id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&id)
    }
    /// All producers, by id.
    pub fn producers(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(id, state)| (*id, state))
    }
    /// Whether a transaction of exactly this epoch is open.
    pub fn ongoing(&self, id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producers.get(&id).is_some_and(|p| p.txn_start.is_some() && p.epoch == epoch)
    }
    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }
    /// Up to where the state follows the log.
    pub fn map_end(&self) -> Offset {
        self.map_end
    }
    /// The state now follows the log up to `end`.
    pub fn set_map_end(&mut self, end: Offset) {
        self.map_end = end;
    }
    /// Starts judging batches of a producer.
    pub fn prepare(&self, id: ProducerId, origin: AppendOrigin) -> ProducerAppend {
        let known = self.producers.get(&id).unwrap_or(&ProducerState::UNKNOWN);
        ProducerAppend::new(id, origin, known, self.verifications.get(&id).copied(), self.window)
    }
    /// Takes over what was judged.
    pub fn update(&mut self, append: &ProducerAppend) {
        match self.producers.get_mut(&append.producer()) {
            Some(state) => state.absorb(append.updated(), self.window),
            None => drop(self.producers.insert(append.producer(), append.updated().clone())),
        }
        for first in append.started() {
            self.ongoing.insert(*first, Txn { producer: append.producer(), last: None });
        }
    }
    /// Takes in a batch of the log itself (P-17). What a follower would refuse is taken all the same: it gets into a log only
    /// when records were deleted under an open transaction and the log was then cut to its start. Kafka refuses to load it.
    pub fn replay(&mut self, entry: &Entry) -> Option<CompletedTxn> {
        if entry.batch.producer.id == ProducerId::NONE {
            return None;
        }
        let mut append = self.prepare(entry.batch.producer.id, AppendOrigin::Replication);
        let completed = append.append(entry, 0).unwrap_or_default();
        self.use_up_verification(&entry.batch);
        self.update(&append);
        completed
    }

    // ---- transactions

    /// The last stable offset once `txn` has ended: the first offset of the oldest transaction of another producer, else the
    /// offset behind the marker.
    pub fn last_stable(&self, txn: &CompletedTxn) -> Offset {
        let other = self.ongoing.iter().find(|(_, t)| t.producer != txn.producer);
        other.map_or(txn.last.plus(1), |(first, _)| *first)
    }
    /// `txn` has ended; it stays unstable until its marker is below the high watermark.
    pub fn complete(&mut self, txn: &CompletedTxn) {
        let ended = self.ongoing.remove(&txn.first);
        debug_assert!(ended.is_some(), "a transaction that ends was open");
        if let Some(ended) = ended {
            self.unreplicated.insert(txn.first, Txn { last: Some(txn.last), ..ended });
        }
    }
    /// Markers below `offset` are replicated.
    pub fn replicated_to(&mut self, offset: Offset) {
        self.unreplicated.retain(|_, txn| txn.last.is_none_or(|last| last >= offset));
    }
    /// First offset of the oldest open transaction (`firstUndecidedOffset`).
    pub fn first_undecided(&self) -> Option<Offset> {
        self.ongoing.first_key_value().map(|(first, _)| *first)
    }
    /// First offset of the oldest transaction that is open or whose marker is not replicated (`firstUnstableOffset`).
    pub fn first_unstable(&self) -> Option<Offset> {
        let unreplicated = self.unreplicated.first_key_value().map(|(first, _)| *first);
        [self.first_undecided(), unreplicated].into_iter().flatten().min()
    }
    /// Whether the oldest open transaction has been silent for more than the longest timeout and five minutes.
    pub fn has_late_transaction(&self, now: Millis) -> bool {
        let oldest = self.ongoing.first_key_value().and_then(|(_, txn)| self.producers.get(&txn.producer));
        oldest.is_some_and(|p| now.0 - p.last_timestamp.0 > (self.max_transaction_timeout + LATE_TRANSACTION_BUFFER).0)
    }

    // ---- verification

    /// A guard for a transaction's first batch; the one that stands is used again. `None`: the transaction is open here. An
    /// epoch older than the producer's is refused before any guard.
    pub fn start_verification(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
        tv2: bool,
        now: Millis,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        if self.producers.get(&id).is_some_and(|p| epoch < p.epoch) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if self.ongoing(id, epoch) {
            return Ok(None);
        }
        let next_guard = &mut self.next_guard;
        let entry = self.verifications.entry(id).or_insert_with(|| {
            let guard = VerificationGuard(*next_guard);
            *next_guard += 1;
            VerificationEntry { guard, made: now, epoch, lowest: sequence, tv2 }
        });
        entry.asked_again(epoch, sequence);
        Ok(Some(entry.guard))
    }
    /// The guard that stands for a producer.
    pub fn verification_guard(&self, id: ProducerId) -> Option<VerificationGuard> {
        self.verifications.get(&id).map(|v| v.guard)
    }
    /// Whether transactional data must not be appended for want of the right guard (P-5).
    pub fn misses_verification(&self, batch: &Batch, guard: Option<VerificationGuard>) -> bool {
        self.verification
            && !batch.is_control()
            && (guard.is_none() || guard != self.verification_guard(batch.producer.id))
    }
    /// A transactional batch has passed: the entry has served, whether it was data or a marker.
    pub fn use_up_verification(&mut self, batch: &Batch) {
        if batch.is_transactional() && self.verifications.get(&batch.producer.id).is_some_and(|v| v.ends_with(batch)) {
            self.verifications.remove(&batch.producer.id);
        }
    }

    // ---- expiry

    /// Forgets producers and verification entries of `producer.id.expiration.ms` and older (P-16).
    pub fn expire(&mut self, now: Millis) {
        let expiration = self.expiration;
        self.producers.retain(|_, state| !expired(state, now, expiration));
        self.verifications.retain(|_, v| now.0 - v.made.0 < self.expiration.0);
    }

    // ---- snapshots

    /// Offsets of the snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = Offset> {
        self.snapshots.keys().copied()
    }
    /// Writes a snapshot at the present end, unless there is one (`takeSnapshot`).
    pub fn take_snapshot(&mut self, writes: &mut Vec<LogWrite>) {
        if self.map_end > self.last_snapshot {
            let producers = self.producers.iter().map(|(id, state)| (*id, state.snapshot())).collect();
            let snapshot = Arc::new(ProducerSnapshot { producers });
            writes.push(LogWrite::Snapshot(self.map_end, Arc::clone(&snapshot)));
            self.snapshots.insert(self.map_end, snapshot);
            self.last_snapshot = self.map_end;
        }
    }
    /// Deletes the snapshot at `offset`, if there is one.
    pub fn delete_snapshot(&mut self, offset: Offset, writes: &mut Vec<LogWrite>) {
        if self.snapshots.remove(&offset).is_some() {
            writes.push(LogWrite::DropSnapshot(offset));
        }
    }
    fn delete_snapshots(&mut self, which: impl Fn(Offset) -> bool, writes: &mut Vec<LogWrite>) {
        let gone: Vec<_> = self.snapshots().filter(|o| which(*o)).collect();
        gone.into_iter().for_each(|o| self.delete_snapshot(o, writes));
    }
    /// Keeps snapshots at segment bases, and the newest one if it lies above them all (`removeStraySnapshots`).
    pub fn delete_stray_snapshots(&mut self, bases: &[Offset], writes: &mut Vec<LogWrite>) {
        let newest = self.snapshots().filter(|o| !bases.contains(o)).max();
        let spared = newest.filter(|o| bases.iter().all(|base| o >= base));
        self.delete_snapshots(|o| !bases.contains(&o) && Some(o) != spared, writes);
    }
    /// Whether there is any snapshot.
    pub fn has_snapshot(&self) -> bool {
        !self.snapshots.is_empty()
    }
    /// Drops snapshots outside `start..=end`, then goes back to the newest one, or to nothing at `start`; the log behind it is
    /// to be replayed (`truncateAndReload`). State that already stands at `end` stays.
    pub fn truncate_and_reload(&mut self, start: Offset, end: Offset, now: Millis, writes: &mut Vec<LogWrite>) {
        self.delete_snapshots(|o| o > end || o <= start, writes);
        if end == self.map_end {
            self.log_start_moved(start);
            return;
        }
        self.producers.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        let (at, snapshot) = match self.snapshots.last_key_value() {
            Some((at, snapshot)) => (*at, Some(Arc::clone(snapshot))),
            None => (start, None),
        };
        let expiration = self.expiration;
        let loaded = snapshot.iter().flat_map(|s| &s.producers).filter(|(_, s)| !expired(s, now, expiration));
        for (id, state) in loaded {
            if let Some(first) = state.txn_start {
                self.ongoing.insert(first, Txn { producer: *id, last: None });
            }
            self.producers.insert(*id, state.clone());
        }
        self.map_end = at;
        self.last_snapshot = at;
    }
    /// The log now begins at `start`. Producers stay; what ended below it is no longer awaited.
    pub fn log_start_moved(&mut self, start: Offset) {
        self.replicated_to(start);
        self.map_end = self.map_end.max(start);
        self.last_snapshot = self.snapshots.last_key_value().map_or(start, |(at, _)| *at);
    }
    /// Forgets producers and snapshots; the log begins anew at `start` (`truncateFullyAndStartAt`).
    pub fn truncate_fully(&mut self, start: Offset, writes: &mut Vec<LogWrite>) {
        self.producers.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.delete_snapshots(|_| true, writes);
        self.last_snapshot = Offset(0);
        self.map_end = start;
    }
}

/// A producer without open transaction that has been silent for `expiration` (P-16).
fn expired(state: &ProducerState, now: Millis, expiration: Millis) -> bool {
    state.txn_start.is_none() && now.0 - state.last_timestamp.0 >= expiration.0
}
