//! From the decided outcome to its end: markers, and the record after them. Also loading, giving up, and the timers
//! (kafka.md 4.10 to 4.12).

use super::coordinator::TransactionCoordinator;
use super::effects::{Step, Told};
use super::end_txn::{EndCallback, EndRequest};
use super::markers::{Marker, PendingCompleteTxn};
use super::metadata::TxnTransitMetadata;
use super::record::TransactionLogRecord;
use super::state::TransactionState as S;
use super::state_manager::{AfterAppend, PendingTransition};
use crate::base::{BrokerId, Fix, Millis, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::TransactionalId;

impl TransactionCoordinator {
    // ---- markers

    /// Queues the markers of a decided transaction; one without partitions is over at once.
    pub(super) fn add_markers_to_send(
        &mut self,
        id: TransactionalId,
        coordinator_epoch: i32,
        commit: bool,
        (producer, epoch): (ProducerId, ProducerEpoch),
        to: TxnTransitMetadata,
        step: &mut Step<'_>,
    ) {
        let every_partition = self.fixes.has(Fix::EveryPartitionMarked);
        let Ok(Some((_, metadata))) = self.state.get(id) else { return };
        if !every_partition && let Some(first) = metadata.partitions.first().copied() {
            metadata.partitions.retain(|tp| *tp == first);
        }
        let partitions = metadata.partitions.iter().copied().collect();
        let version = to.client_version;
        let number = self.markers.begin(id, coordinator_epoch, to);
        let marker = Marker { id, number, coordinator_epoch, producer, epoch, commit, version, partitions };
        self.enqueue(marker, step);
        self.maybe_write_completion(id, step);
    }

    fn enqueue(&mut self, marker: Marker, step: &mut Step<'_>) {
        if marker.partitions.is_empty() {
            return;
        }
        let (id, number, coordinator_epoch) = (marker.id, marker.number, marker.coordinator_epoch);
        let gone = self.markers.enqueue(self.state.partition_for(id), marker, step);
        if gone.is_empty() {
            return;
        }
        match self.state.get(id) {
            Ok(Some((epoch, metadata))) if epoch == coordinator_epoch => {
                metadata.partitions.retain(|tp| !gone.contains(tp));
                self.maybe_write_completion(id, step);
            }
            _ => drop(self.markers.remove(id, number)),
        }
    }

    /// Stores the end of a transaction whose partitions all have their marker.
    fn maybe_write_completion(&mut self, id: TransactionalId, step: &mut Step<'_>) {
        let Some((number, coordinator_epoch)) = self.markers.pending(id).map(|p| (p.number, p.coordinator_epoch))
        else {
            return;
        };
        let done = match self.state.get(id) {
            Ok(Some((epoch, metadata))) => epoch == coordinator_epoch && metadata.partitions.is_empty(),
            _ => false,
        };
        if done && let Some(pending) = self.markers.remove(id, number) {
            self.write_completion(pending, step);
        }
    }
    fn write_completion(&mut self, pending: PendingCompleteTxn, step: &mut Step<'_>) {
        let (id, coordinator_epoch, to) = (pending.id, pending.coordinator_epoch, pending.to.clone());
        self.append(PendingTransition { id, coordinator_epoch, to, then: AfterAppend::Complete(pending) }, step);
    }

    /// One pass of the marker thread: ends are stored again, markers without a living leader are routed again, requests
    /// leave.
    pub fn marker_pass(&mut self, step: &mut Step<'_>) {
        self.next_marker_pass = Millis::MAX;
        let (ends, markers) = self.markers.begin_pass();
        for pending in ends {
            self.write_completion(pending, step);
        }
        for marker in markers {
            self.enqueue(marker, step);
        }
        self.markers.send(step);
    }

    /// A broker's answer to WriteTxnMarkers: per marker of the request, in its order, the error of each partition.
    pub fn markers_answered(
        &mut self,
        from: BrokerId,
        results: &[Vec<(TopicPartition, ErrorCode)>],
        step: &mut Step<'_>,
    ) {
        let request = self.markers.answered(from, step);
        for (marker, results) in request.into_iter().zip(results) {
            self.marker_answered(marker, results, step);
        }
    }
    fn marker_answered(&mut self, marker: Marker, results: &[(TopicPartition, ErrorCode)], step: &mut Step<'_>) {
        let (id, number) = (marker.id, marker.number);
        let storage_error_retried = self.fixes.has(Fix::MarkerStorageErrorRetried);
        let Ok(Some((epoch, metadata))) = self.state.get(id) else {
            return drop(self.markers.remove(id, number));
        };
        if epoch != marker.coordinator_epoch {
            return drop(self.markers.remove(id, number));
        }
        let mut again = Vec::new();
        let mut stop = false;
        for (tp, error) in results {
            match error {
                ErrorCode::None | ErrorCode::UnsupportedForMessageFormat | ErrorCode::UnsupportedVersion => {
                    metadata.partitions.remove(tp);
                }
                ErrorCode::KafkaStorageError if !storage_error_retried => stop = true,
                ErrorCode::UnknownTopicOrPartition
                | ErrorCode::NotLeaderOrFollower
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::RequestTimedOut
                | ErrorCode::KafkaStorageError => again.push(*tp),
                // Somebody newer has this transaction, or Kafka's thread dies of what it does not expect here.
                _ => stop = true,
            }
        }
        if stop {
            if self.markers.remove(id, number).is_some() {
                self.told.push(Told::Stopped { id, producer: marker.producer, epoch: marker.epoch });
            }
        } else if again.is_empty() {
            self.maybe_write_completion(id, step);
        } else {
            self.enqueue(Marker { partitions: again, ..marker }, step);
        }
    }
    /// The connection to a broker is lost, cannot be made, or a request on it timed out: its markers are queued again.
    pub fn markers_disconnected(&mut self, from: BrokerId, step: &mut Step<'_>) {
        for marker in self.markers.disconnected(from) {
            match self.state.get(marker.id) {
                Ok(Some((epoch, _))) if epoch == marker.coordinator_epoch => self.enqueue(marker, step),
                _ => drop(self.markers.remove(marker.id, marker.number)),
            }
        }
    }
    /// Leaders have changed: markers that wait for one are due to be looked at. Kafka's thread looks all the time.
    pub fn metadata_changed(&mut self) {
        self.markers.wake_for_leaders();
    }

    // ---- which partitions are coordinated here

    /// This broker has become leader of a partition of `__transaction_state`: it is to be read from its start to its end, and
    /// [`loaded`](Self::loaded) called with what was read.
    pub fn elected(&mut self, partition: u16, coordinator_epoch: i32) {
        self.markers.remove_partition(partition);
        self.state.add_loading(partition, coordinator_epoch);
    }
    /// The partition has been read, committed or not (4.12 step 2): decided transactions get their markers again.
    pub fn loaded(
        &mut self,
        partition: u16,
        coordinator_epoch: i32,
        records: impl IntoIterator<Item = TransactionLogRecord>,
        step: &mut Step<'_>,
    ) {
        if !self.state.add_loaded(partition, coordinator_epoch, records) {
            return;
        }
        let mut completions = Vec::new();
        for id in self.state.prepared(partition) {
            let Ok(Some((_, metadata))) = self.state.get(id) else { continue };
            let producer = (metadata.producer, metadata.epoch);
            let commit = metadata.state == S::PrepareCommit && self.fixes.has(Fix::DecisionStands);
            if let Ok(to) = metadata.prepare_complete(step.wall) {
                completions.push((id, commit, producer, to));
            }
        }
        for (id, commit, producer, to) in completions {
            self.add_markers_to_send(id, coordinator_epoch, commit, producer, to, step);
        }
    }
    /// Another broker leads the partition, under `epoch`; without epoch the partition is gone from here.
    pub fn resigned(&mut self, partition: u16, epoch: Option<i32>) {
        self.state.remove(partition, epoch);
        self.markers.remove_partition(partition);
    }

    // ---- timers

    /// When [`scan`](Self::scan) is due.
    pub fn scan_deadline(&self) -> Millis {
        self.next_abort_scan.min(self.next_id_scan)
    }
    /// The scheduler: looks for timed-out transactions and expired ids, each in its interval.
    pub fn scan(&mut self, step: &mut Step<'_>) {
        if step.now >= self.next_abort_scan {
            self.next_abort_scan = step.now + self.config.abort_timed_out_interval;
            self.abort_timed_out(step);
        }
        if step.now >= self.next_id_scan {
            self.next_id_scan = step.now + self.config.remove_expired_interval;
            self.state.remove_expired(step);
        }
    }
    /// When the marker thread has a pass to make: at once if something was queued, else for ends that could not be stored,
    /// which wake nobody (`InterBrokerSendThread` polls for `request.timeout.ms` at most).
    pub fn marker_deadline(&self) -> Millis {
        if self.markers.is_awake() { Millis::ZERO } else { self.next_marker_pass }
    }

    /// Aborts every transaction that has timed out (T-20, T-21).
    pub fn abort_timed_out(&mut self, step: &mut Step<'_>) {
        let fixes = self.fixes;
        for expired in self.state.timed_out(step.wall) {
            let Ok(Some((_, metadata))) = self.state.get(expired.id) else { continue };
            if metadata.producer != expired.producer || metadata.pending_transition_in_progress() {
                continue;
            }
            let mut epoch = metadata.epoch;
            if fixes.has(Fix::ExpiryRaisesEpoch) {
                let Ok(fence) = metadata.prepare_fence_producer_epoch(fixes) else { continue };
                epoch = fence.epoch;
            }
            let request = EndRequest {
                id: expired.id,
                producer: expired.producer,
                epoch,
                commit: false,
                from_client: false,
                version: step.version,
            };
            self.end_transaction(&request, EndCallback::Nobody, step);
        }
    }
    /// Drops ids that were not used for long (T-27).
    pub fn remove_expired_ids(&mut self, step: &mut Step<'_>) {
        self.state.remove_expired(step);
    }
}
