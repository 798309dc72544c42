//! What a broker or controller knows after replaying the metadata log up to an offset (`MetadataImage`).

use super::records::{Record, TopicConfig};
use super::registration::{BrokerRegistration, PartitionRegistration};
use crate::base::{BrokerId, BrokerSet, Event, Offset, ProducerId, TopicId, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A topic with its partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicImage {
    /// Partitions, the index is the number.
    pub partitions: Vec<PartitionRegistration>,
    /// `min.insync.replicas`, where the topic sets it.
    pub min_insync_replicas: Option<u16>,
    /// `unclean.leader.election.enable`, where the topic sets it.
    pub unclean_leader_election_enable: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Contents {
    brokers: BTreeMap<BrokerId, BrokerRegistration>,
    topics: BTreeMap<TopicId, Arc<TopicImage>>,
    next_producer_id: ProducerId,
    transaction_version: Option<u8>,
}

/// The cluster's metadata at an offset: a broker's metadata cache and the controller's state. A clone copies one pointer,
/// what is shared is copied when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataImage {
    contents: Arc<Contents>,
    offset: Offset,
}

impl Default for MetadataImage {
    fn default() -> Self {
        let contents = Contents {
            brokers: BTreeMap::new(),
            topics: BTreeMap::new(),
            next_producer_id: ProducerId(0),
            transaction_version: None,
        };
        Self { contents: Arc::new(contents), offset: Offset::UNKNOWN }
    }
}

impl MetadataImage {
    /// Offset of the last record replayed, -1 for none. What a broker reports in its heartbeats.
    pub const fn offset(&self) -> Offset {
        self.offset
    }
    /// A broker's registration.
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerRegistration> {
        self.contents.brokers.get(&id)
    }
    /// All registered brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerId, &BrokerRegistration)> {
        self.contents.brokers.iter().map(|(id, b)| (*id, b))
    }
    /// Registered, unfenced and not shutting down (`ClusterControlManager.isActive`).
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(BrokerRegistration::is_active)
    }
    /// Registered and unfenced: what clients are told is alive (C-10).
    pub fn is_alive(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|b| !b.fenced)
    }
    /// A topic.
    pub fn topic(&self, id: TopicId) -> Option<&TopicImage> {
        self.contents.topics.get(&id).map(|t| &**t)
    }
    /// All topics, by id.
    pub fn topics(&self) -> impl Iterator<Item = (TopicId, &TopicImage)> {
        self.contents.topics.iter().map(|(id, t)| (*id, &**t))
    }
    /// A partition.
    pub fn partition(&self, tp: TopicPartition) -> Option<&PartitionRegistration> {
        self.topic(tp.topic)?.partitions.get(usize::from(tp.partition))
    }
    /// All partitions, by topic and number.
    pub fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &PartitionRegistration)> {
        self.topics().flat_map(|(topic, t)| {
            t.partitions.iter().enumerate().map(move |(i, p)| (TopicPartition { topic, partition: i as u16 }, p))
        })
    }
    /// First id of the next block of producer ids.
    pub fn next_producer_id(&self) -> ProducerId {
        self.contents.next_producer_id
    }
    /// Level of `transaction.version`, if it was changed since the cluster was formatted.
    pub fn transaction_version(&self) -> Option<u8> {
        self.contents.transaction_version
    }

    /// Replays one record; `offset` is its place in the log. A change of something unknown, or of another broker epoch
    /// than the registered one, is a broken log.
    pub fn apply(&mut self, record: &Record, offset: Offset) {
        debug_assert!(offset > self.offset, "record {offset} replayed after {}", self.offset);
        self.offset = offset;
        let contents = Arc::make_mut(&mut self.contents);
        match record {
            Record::RegisterBroker { broker, incarnation, epoch, addr, fenced, in_controlled_shutdown } => {
                let registration = BrokerRegistration {
                    incarnation: *incarnation,
                    epoch: *epoch,
                    registered_at: offset,
                    addr: *addr,
                    fenced: *fenced,
                    in_controlled_shutdown: *in_controlled_shutdown,
                };
                contents.brokers.insert(*broker, registration);
            }
            Record::BrokerRegistrationChange { broker, epoch, fenced, in_controlled_shutdown } => {
                let registered = contents.brokers.get_mut(broker).filter(|b| b.epoch == *epoch);
                debug_assert!(registered.is_some(), "no broker {broker} with epoch {epoch}");
                if let Some(b) = registered {
                    b.fenced = fenced.unwrap_or(b.fenced);
                    b.in_controlled_shutdown = in_controlled_shutdown.unwrap_or(b.in_controlled_shutdown);
                }
            }
            Record::UnregisterBroker { broker, epoch } => {
                debug_assert!(contents.brokers.get(broker).is_some_and(|b| b.epoch == *epoch));
                contents.brokers.remove(broker);
            }
            Record::Topic { topic } => {
                contents.topics.entry(*topic).or_default();
            }
            Record::Partition { tp, registration } => {
                let partitions = &mut Arc::make_mut(contents.topics.entry(tp.topic).or_default()).partitions;
                debug_assert_eq!(partitions.len(), usize::from(tp.partition), "partitions are created in order");
                partitions.push(registration.clone());
            }
            Record::PartitionChange(change) => {
                let topic = contents.topics.get_mut(&change.tp.topic).map(Arc::make_mut);
                let partition = topic.and_then(|t| t.partitions.get_mut(usize::from(change.tp.partition)));
                debug_assert!(partition.is_some(), "no partition {}", change.tp);
                if let Some(p) = partition {
                    p.merge(change);
                }
            }
            Record::ProducerIds { next, .. } => contents.next_producer_id = *next,
            Record::FeatureLevel { transaction_version } => contents.transaction_version = Some(*transaction_version),
            Record::Config { topic, config } => {
                if let Some(t) = contents.topics.get_mut(topic).map(Arc::make_mut) {
                    match *config {
                        TopicConfig::MinInsyncReplicas(n) => t.min_insync_replicas = Some(n),
                        TopicConfig::UncleanLeaderElectionEnable(on) => t.unclean_leader_election_enable = Some(on),
                    }
                }
            }
            Record::NoOp => {}
        }
    }

    /// What trace and laws are told of `record`, seen from the image before it is replayed.
    pub fn event(&self, record: &Record) -> Option<Event> {
        match record {
            Record::Partition { tp, registration } => Some(changed(*tp, registration, false)),
            Record::PartitionChange(change) => {
                let before = self.partition(change.tp)?;
                let mut after = before.clone();
                after.merge(change);
                let elected = change.leader.filter(|l| *l != BrokerId::NONE && *l != before.leader);
                let unclean = elected.is_some_and(|l| !before.isr.contains(&l) && !before.elr.contains(&l));
                Some(changed(change.tp, &after, unclean && after.isr.len() == 1))
            }
            Record::BrokerRegistrationChange { broker, fenced: Some(fenced), .. } => {
                Some(Event::Fencing { broker: *broker, fenced: *fenced })
            }
            Record::RegisterBroker { broker, epoch, .. } => {
                Some(Event::Registration { broker: *broker, epoch: *epoch, error: 0 })
            }
            _ => None,
        }
    }
}

fn changed(tp: TopicPartition, p: &PartitionRegistration, unclean: bool) -> Event {
    Event::PartitionChanged {
        tp,
        leader: p.leader,
        leader_epoch: p.leader_epoch,
        partition_epoch: p.partition_epoch,
        isr: BrokerSet::of(&p.isr),
        elr: BrokerSet::of(&p.elr),
        unclean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::controller::PartitionChange;

    #[test]
    fn a_clone_keeps_what_it_knew() {
        let tp = TopicPartition::new(0, 0);
        let list: super::super::Replicas = [1, 2].map(BrokerId).into();
        let mut image = MetadataImage::default();
        image.apply(&Record::Topic { topic: tp.topic }, Offset(0));
        let registration = PartitionRegistration::new(list.clone(), list);
        image.apply(&Record::Partition { tp, registration }, Offset(1));
        let old = image.clone();
        assert!(Arc::ptr_eq(&old.contents, &image.contents));
        let mut change = PartitionChange::none(tp);
        change.leader = Some(BrokerId(2));
        let record = Record::PartitionChange(change);
        let told = image.event(&record);
        image.apply(&record, Offset(2));
        assert_eq!(old.partition(tp).map(|p| (p.leader.0, p.leader_epoch.0)), Some((1, 0)));
        assert_eq!(image.partition(tp).map(|p| (p.leader.0, p.leader_epoch.0)), Some((2, 1)));
        assert!(matches!(told, Some(Event::PartitionChanged { leader: BrokerId(2), unclean: false, .. })));
        assert_eq!((old.offset(), image.offset()), (Offset(1), Offset(2)));
    }
}
