//! The transactional ids of this broker's partitions of `__transaction_state`, and the appends that change them
//! (`TransactionStateManager`).

use super::config::TransactionConfig;
use super::effects::{AppendId, Step, Token, TransactionOutput};
use super::end_txn::EndTxn;
use super::markers::PendingCompleteTxn;
use super::metadata::{TransactionMetadata, TxnTransitMetadata};
use super::record::{TransactionLogRecord, TransactionLogValue};
use super::state::TransactionState;
use crate::base::{Fix, Fixes, Millis, ProducerEpoch, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::placement::IdTable;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::{BTreeMap, BTreeSet};

/// One partition that this broker coordinates.
#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    /// Leader epoch of the log partition (T-6).
    pub coordinator_epoch: i32,
    pub by_id: BTreeMap<TransactionalId, TransactionMetadata>,
}

/// What follows an append.
#[derive(Clone, Debug)]
pub(super) enum AfterAppend {
    /// Answers InitProducerId.
    InitProducerId(Token),
    /// Answers AddPartitionsToTxn.
    AddPartitions(Token),
    /// The outcome is stored: answer, and markers.
    EndTxn(EndTxn),
    /// The transaction is over.
    Complete(PendingCompleteTxn),
}

#[derive(Clone, Debug)]
pub(super) struct PendingTransition {
    pub id: TransactionalId,
    pub coordinator_epoch: i32,
    pub to: TxnTransitMetadata,
    pub then: AfterAppend,
}

#[derive(Clone, Debug)]
pub(super) enum PendingAppend {
    Transition(PendingTransition),
    /// Tombstones, each with the epoch of its id when it expired.
    Tombstones {
        partition: u16,
        coordinator_epoch: i32,
        ids: Vec<(TransactionalId, ProducerEpoch)>,
    },
}

/// A transaction that has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut {
    pub id: TransactionalId,
    pub producer: ProducerId,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TransactionStateManager {
    config: TransactionConfig,
    ids: IdTable,
    fixes: Fixes,
    cache: BTreeMap<u16, CacheEntry>,
    /// Partitions being read, with the coordinator epoch under which they are.
    loading: BTreeSet<(u16, i32)>,
    appends: BTreeMap<AppendId, PendingAppend>,
    next_append: u64,
}

/// What there is of an id: its coordinator epoch and metadata.
pub(super) type Known<'a> = Option<(i32, &'a mut TransactionMetadata)>;

impl TransactionStateManager {
    pub(super) fn new(config: TransactionConfig, ids: IdTable, fixes: Fixes) -> Self {
        Self {
            config,
            ids,
            fixes,
            cache: BTreeMap::new(),
            loading: BTreeSet::new(),
            appends: BTreeMap::new(),
            next_append: 0,
        }
    }
    /// The partition that holds an id.
    pub fn partition_for(&self, id: TransactionalId) -> u16 {
        self.ids.partition(id.0, self.config.state_log_num_partitions)
    }
    pub(super) fn is_empty_id(&self, id: TransactionalId) -> bool {
        self.ids.is_empty(id.0)
    }
    /// The metadata of an id as it is now, the error of every request for it, or nothing.
    pub fn metadata(&self, id: TransactionalId) -> Result<Option<&TransactionMetadata>, ErrorCode> {
        let partition = self.partition_for(id);
        self.refuse_loading(partition)?;
        self.cache.get(&partition).map(|e| e.by_id.get(&id)).ok_or(ErrorCode::NotCoordinator)
    }
    fn refuse_loading(&self, partition: u16) -> Result<(), ErrorCode> {
        match self.loading.range((partition, i32::MIN)..=(partition, i32::MAX)).next() {
            Some(_) => Err(ErrorCode::CoordinatorLoadInProgress),
            None => Ok(()),
        }
    }
    fn entry(&mut self, id: TransactionalId) -> Result<&mut CacheEntry, ErrorCode> {
        let partition = self.partition_for(id);
        self.refuse_loading(partition)?;
        self.cache.get_mut(&partition).ok_or(ErrorCode::NotCoordinator)
    }
    /// The gate of every request (kafka.md 4.3).
    pub(super) fn get(&mut self, id: TransactionalId) -> Result<Known<'_>, ErrorCode> {
        let entry = self.entry(id)?;
        let epoch = entry.coordinator_epoch;
        Ok(entry.by_id.get_mut(&id).map(|m| (epoch, m)))
    }
    /// An id that is not known yet.
    pub(super) fn put(&mut self, metadata: TransactionMetadata) -> Result<(), ErrorCode> {
        let id = metadata.id;
        self.entry(id)?.by_id.entry(id).or_insert(metadata);
        Ok(())
    }

    // ---- appends

    /// Asks for the append of a transition, unless the partition has moved since it was prepared.
    pub(super) fn append(
        &mut self,
        pending: PendingTransition,
        step: &mut Step<'_>,
    ) -> Result<(), (ErrorCode, AfterAppend)> {
        let here = match self.get(pending.id) {
            Err(error) => Err(error),
            Ok(Some((epoch, _))) if epoch == pending.coordinator_epoch => Ok(()),
            Ok(_) => Err(ErrorCode::NotCoordinator),
        };
        if let Err(error) = here {
            return Err((error, pending.then));
        }
        let value = TransactionLogValue::of(&pending.to, step.version, self.fixes);
        let (partition, timeout) = (self.partition_for(pending.id), pending.to.timeout);
        let append = self.next_append_id();
        let records = vec![TransactionLogRecord { id: pending.id, value: Some(value) }];
        self.appends.insert(append, PendingAppend::Transition(pending));
        step.out.push(TransactionOutput::Append { append, partition, records, timeout });
        Ok(())
    }
    fn next_append_id(&mut self) -> AppendId {
        self.next_append += 1;
        AppendId(self.next_append)
    }
    pub(super) fn take_append(&mut self, append: AppendId) -> Option<PendingAppend> {
        self.appends.remove(&append)
    }

    /// The log has the transition, or refused it: brings the cache in line and gives what the caller is told. `Err` without
    /// an error code where the transition cannot be applied, which leaves it pending and its caller without an answer, as an
    /// exception in Kafka's callback does.
    pub(super) fn update_cache(
        &mut self,
        pending: &PendingTransition,
        log: ErrorCode,
    ) -> Result<(), Option<ErrorCode>> {
        let fixes = self.fixes;
        let known = self.get(pending.id);
        if log.is_ok() {
            return match known {
                Err(error) => Err(Some(error)),
                Ok(Some((epoch, metadata))) if epoch == pending.coordinator_epoch => {
                    metadata.complete_transition_to(pending.to.clone(), fixes).map_err(|_| None)
                }
                Ok(_) => Err(Some(ErrorCode::NotCoordinator)),
            };
        }
        let error = append_error(log);
        let retried = matches!(pending.then, AfterAppend::Complete(_)) && error == ErrorCode::CoordinatorNotAvailable;
        if let Ok(Some((epoch, metadata))) = known
            && epoch == pending.coordinator_epoch
            && !retried
        {
            metadata.pending = None;
        }
        Err(Some(error))
    }

    // ---- loading

    /// This broker leads the partition under the epoch from now on: its ids answer COORDINATOR_LOAD_IN_PROGRESS until
    /// [`add_loaded`](Self::add_loaded).
    pub(super) fn add_loading(&mut self, partition: u16, coordinator_epoch: i32) {
        self.loading.insert((partition, coordinator_epoch));
    }
    /// The partition has been read. False if it was given up meanwhile.
    pub(super) fn add_loaded(
        &mut self,
        partition: u16,
        coordinator_epoch: i32,
        records: impl IntoIterator<Item = TransactionLogRecord>,
    ) -> bool {
        if !self.loading.remove(&(partition, coordinator_epoch)) {
            return false;
        }
        let mut by_id = BTreeMap::new();
        for record in records {
            match record.value {
                Some(value) if self.fixes.has(Fix::NewestTransactionRecordWins) || !by_id.contains_key(&record.id) => {
                    by_id.insert(record.id, value.load(record.id));
                }
                Some(_) => {}
                None => drop(by_id.remove(&record.id)),
            }
        }
        self.cache.insert(partition, CacheEntry { coordinator_epoch, by_id });
        true
    }
    /// The partition is led by another broker under `epoch`, or is gone (no epoch).
    pub(super) fn remove(&mut self, partition: u16, epoch: Option<i32>) {
        let newest = match epoch {
            Some(epoch) if self.fixes.has(Fix::UnloadKeepsNewerLoading) => epoch,
            _ => i32::MAX,
        };
        self.loading.retain(|(p, e)| *p != partition || *e > newest);
        self.cache.remove(&partition);
    }
    /// Ids of a loaded partition whose outcome is decided: their markers are due again.
    pub(super) fn prepared(&self, partition: u16) -> Vec<TransactionalId> {
        let of = |e: &CacheEntry| e.by_id.values().filter(|m| m.state.is_prepared()).map(|m| m.id).collect();
        self.cache.get(&partition).map_or_else(Vec::new, of)
    }
    /// Whether the outcome of some transaction is decided and its end not in the log.
    pub fn any_prepared(&self) -> bool {
        self.cache.values().flat_map(|e| e.by_id.values()).any(|m| m.state.is_prepared())
    }
    /// Partitions coordinated here, with their coordinator epochs.
    pub fn partitions(&self) -> impl Iterator<Item = (u16, i32)> {
        self.cache.iter().map(|(p, e)| (*p, e.coordinator_epoch))
    }

    // ---- scans

    /// Transactions that are open for longer than their timeout (T-20).
    pub(super) fn timed_out(&self, wall: Millis) -> Vec<TimedOut> {
        let expired = |m: &&TransactionMetadata| {
            m.state == TransactionState::Ongoing
                && !m.pending_transition_in_progress()
                && !m.is_two_phase_commit()
                && m.start + m.timeout < wall
        };
        let ids = self.cache.values().flat_map(|e| e.by_id.values());
        ids.filter(expired).map(|m| TimedOut { id: m.id, producer: m.producer }).collect()
    }

    /// Writes tombstones for ids that were not used for `transactional.id.expiration.ms` (T-27).
    pub(super) fn remove_expired(&mut self, step: &mut Step<'_>) {
        let oldest = step.wall - self.config.transactional_id_expiration;
        let mut batches = Vec::new();
        for (partition, entry) in &mut self.cache {
            let mut ids = Vec::new();
            for metadata in entry.by_id.values_mut() {
                let expired = metadata.state.is_idle() && !metadata.pending_transition_in_progress();
                if expired && metadata.last_update <= oldest && metadata.prepare_dead().is_ok() {
                    ids.push((metadata.id, metadata.epoch));
                }
            }
            if !ids.is_empty() {
                batches.push((*partition, entry.coordinator_epoch, ids));
            }
        }
        for (partition, coordinator_epoch, ids) in batches {
            let append = self.next_append_id();
            let records = ids.iter().map(|(id, _)| TransactionLogRecord { id: *id, value: None }).collect();
            self.appends.insert(append, PendingAppend::Tombstones { partition, coordinator_epoch, ids });
            let timeout = self.config.request_timeout;
            step.out.push(TransactionOutput::Append { append, partition, records, timeout });
        }
    }
    /// Tombstones are in the log: their ids go. Or they are not: the ids stay, and are no longer on their way out.
    pub(super) fn tombstones_appended(
        &mut self,
        partition: u16,
        coordinator_epoch: i32,
        ids: &[(TransactionalId, ProducerEpoch)],
        log: ErrorCode,
    ) {
        let Some(entry) = self.cache.get_mut(&partition) else { return };
        let same_epoch = entry.coordinator_epoch == coordinator_epoch;
        for (id, epoch) in ids {
            let Some(metadata) = entry.by_id.get_mut(id) else { continue };
            let dead = metadata.pending == Some(TransactionState::Dead) && metadata.epoch == *epoch;
            if log.is_ok() && same_epoch && dead {
                entry.by_id.remove(id);
            } else if self.fixes.has(Fix::ExpiryFailureClearsPending) {
                metadata.pending = None;
            }
        }
    }
}

/// What a client is told of a failed append (T-4).
const fn append_error(log: ErrorCode) -> ErrorCode {
    match log {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        other => other,
    }
}
