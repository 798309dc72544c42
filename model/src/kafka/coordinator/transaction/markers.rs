//! Markers on their way to the partitions of a decided transaction (`TransactionMarkerChannelManager`): queues by
//! destination, one request at a time to each (`marker_requests_per_broker`), sent again for ever (T-30 to T-33).

use super::effects::{MarkerDestination, Step, TransactionOutput, TxnMarkerEntry};
use super::metadata::TxnTransitMetadata;
use super::state::TransactionVersion;
use crate::base::{BrokerId, Fix, Fixes, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::txn_messages::TransactionalId;
use std::collections::{BTreeMap, VecDeque};

/// A transaction whose markers are out; then its end is to be stored.
#[derive(Clone, Debug)]
pub(super) struct PendingCompleteTxn {
    pub id: TransactionalId,
    pub coordinator_epoch: i32,
    /// Tells it from another completion of the same id.
    pub number: u64,
    pub to: TxnTransitMetadata,
}

/// Markers of one transaction for one destination.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    pub id: TransactionalId,
    pub number: u64,
    pub coordinator_epoch: i32,
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    pub commit: bool,
    pub version: TransactionVersion,
    pub partitions: Vec<TopicPartition>,
}
impl Marker {
    fn entry(&self) -> TxnMarkerEntry {
        TxnMarkerEntry {
            producer: self.producer,
            epoch: self.epoch,
            coordinator_epoch: self.coordinator_epoch,
            commit: self.commit,
            version: self.version,
            partitions: self.partitions.clone(),
        }
    }
}

/// Markers that wait, by partition of the transaction log, so that a partition can be given up.
type MarkerQueue = BTreeMap<u16, VecDeque<Marker>>;

#[derive(Clone, Debug, Default)]
struct Destination {
    queue: MarkerQueue,
    /// Requests that were made while no more could be out.
    unsent: VecDeque<Vec<Marker>>,
    in_flight: VecDeque<Vec<Marker>>,
}

impl Destination {
    /// Sends what was made, while no more than `most` requests are out.
    fn send(&mut self, to: BrokerId, most: usize, step: &mut Step<'_>) {
        while self.in_flight.len() < most
            && let Some(request) = self.unsent.pop_front()
        {
            let markers = request.iter().map(Marker::entry).collect();
            step.out.push(TransactionOutput::SendMarkers { to, markers });
            self.in_flight.push_back(request);
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct TransactionMarkerChannelManager {
    fixes: Fixes,
    requests_per_broker: usize,
    destinations: BTreeMap<BrokerId, Destination>,
    unknown_broker: MarkerQueue,
    pending: BTreeMap<TransactionalId, PendingCompleteTxn>,
    /// Ends that could not be stored for the time being.
    retry_appends: VecDeque<PendingCompleteTxn>,
    next_number: u64,
    /// Something was queued since the last pass: the thread is woken.
    awake: bool,
}

fn drain(queue: &mut MarkerQueue) -> Vec<Marker> {
    std::mem::take(queue).into_values().flatten().collect()
}

impl TransactionMarkerChannelManager {
    pub(super) fn new(requests_per_broker: usize, fixes: Fixes) -> Self {
        Self {
            fixes,
            requests_per_broker,
            destinations: BTreeMap::new(),
            unknown_broker: BTreeMap::new(),
            pending: BTreeMap::new(),
            retry_appends: VecDeque::new(),
            next_number: 0,
            awake: false,
        }
    }
    /// Whether a pass of the thread is due.
    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }
    /// Wakes the thread if markers wait for a leader to be alive.
    pub(super) fn wake_for_leaders(&mut self) {
        self.awake |= !self.unknown_broker.is_empty();
    }

    /// A transaction to be completed once its markers are written; takes the place of an older one of the id.
    pub(super) fn begin(&mut self, id: TransactionalId, coordinator_epoch: i32, to: TxnTransitMetadata) -> u64 {
        self.next_number += 1;
        let number = self.next_number;
        self.pending.insert(id, PendingCompleteTxn { id, coordinator_epoch, number, to });
        number
    }
    /// Takes a completion out: that one and no other (KAFKA-16352).
    pub(super) fn remove(&mut self, id: TransactionalId, number: u64) -> Option<PendingCompleteTxn> {
        let other = self.pending.get(&id).is_some_and(|p| p.number != number);
        if other && self.fixes.has(Fix::PendingMarkersByEpoch) {
            return None;
        }
        self.pending.remove(&id)
    }
    /// The completion of an id that is under way.
    pub(super) fn pending(&self, id: TransactionalId) -> Option<&PendingCompleteTxn> {
        self.pending.get(&id)
    }

    /// Queues a marker where its partitions are led. Gives the partitions that are no more.
    pub(super) fn enqueue(&mut self, log_partition: u16, marker: Marker, step: &Step<'_>) -> Vec<TopicPartition> {
        self.awake = true;
        let mut by_destination: BTreeMap<MarkerDestination, Vec<TopicPartition>> = BTreeMap::new();
        for tp in &marker.partitions {
            by_destination.entry(step.leaders.destination(*tp)).or_default().push(*tp);
        }
        let mut gone = Vec::new();
        for (destination, partitions) in by_destination {
            let queue = match destination {
                MarkerDestination::UnknownPartition => {
                    gone = partitions;
                    continue;
                }
                MarkerDestination::LeaderNotAvailable => &mut self.unknown_broker,
                MarkerDestination::Leader(broker) => &mut self.destinations.entry(broker).or_default().queue,
            };
            queue.entry(log_partition).or_default().push_back(Marker { partitions, ..marker.clone() });
        }
        gone
    }

    /// Ends to be stored again and markers to be routed again, in a pass of the thread.
    pub(super) fn begin_pass(&mut self) -> (VecDeque<PendingCompleteTxn>, Vec<Marker>) {
        self.awake = false;
        (std::mem::take(&mut self.retry_appends), drain(&mut self.unknown_broker))
    }
    /// Makes a request of what waits for each broker, and sends those whose broker is free.
    pub(super) fn send(&mut self, step: &mut Step<'_>) {
        // Routing markers again is part of the pass and wakes nobody.
        self.awake = false;
        for (to, destination) in &mut self.destinations {
            let markers = drain(&mut destination.queue);
            if !markers.is_empty() {
                destination.unsent.push_back(markers);
            }
            destination.send(*to, self.requests_per_broker, step);
        }
    }
    /// The answer of a broker is there: gives the request; the next one leaves.
    pub(super) fn answered(&mut self, from: BrokerId, step: &mut Step<'_>) -> Vec<Marker> {
        let Some(destination) = self.destinations.get_mut(&from) else { return Vec::new() };
        let request = destination.in_flight.pop_front().unwrap_or_default();
        destination.send(from, self.requests_per_broker, step);
        request
    }
    /// The connection to a broker is gone or cannot be made: gives all that was on its way.
    pub(super) fn disconnected(&mut self, from: BrokerId) -> Vec<Marker> {
        let Some(destination) = self.destinations.get_mut(&from) else { return Vec::new() };
        destination.in_flight.drain(..).chain(destination.unsent.drain(..)).flatten().collect()
    }
    /// An end that was not stored but may be later.
    pub(super) fn retry_append(&mut self, pending: PendingCompleteTxn) {
        self.retry_appends.push_back(pending);
    }

    /// The log partition is given up, or taken over anew: what waits is dropped with its completions. What is on its way
    /// finds out when it is answered.
    pub(super) fn remove_partition(&mut self, log_partition: u16) {
        let queues = self.destinations.values_mut().map(|d| &mut d.queue).chain([&mut self.unknown_broker]);
        let dropped: Vec<_> = queues.filter_map(|q| q.remove(&log_partition)).flatten().collect();
        for marker in dropped {
            self.remove(marker.id, marker.number);
        }
    }
}
