//! The controller's decisions about partitions (`ReplicationControlManager`): a request goes in, records and an answer come
//! out. Nothing changes until the records are replayed.

use super::config::ControllerConfig;
use super::heartbeat::BrokerHeartbeatManager;
use super::image::MetadataImage;
use super::messages::{AlterPartitionData, AlterPartitionRequest, AlteredPartition, ElectionType};
use super::partition_change::{Election, PartitionChangeBuilder};
use super::records::{PartitionChange, Record};
use super::registration::PartitionRegistration;
use crate::base::{BrokerEpoch, BrokerId, Fix, Fixes, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// Records to append as one batch, and what to answer once they are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerResult<T> {
    /// The records; none for a request that changes nothing.
    pub records: Vec<Record>,
    /// The answer.
    pub response: T,
}
impl<T> ControllerResult<T> {
    /// Records and answer.
    pub const fn of(records: Vec<Record>, response: T) -> Self {
        Self { records, response }
    }
}

/// Which broker an event is about, when the ISRs of partitions are gone through (`generateLeaderAndIsrUpdates`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It leaves the ISRs and leads no more.
    Remove(BrokerId),
    /// It may lead from now on.
    Add(BrokerId),
    /// It comes back after an unclean shutdown: it leaves ISRs and ELRs (L-23).
    UncleanShutdown(BrokerId),
}

/// State and rules of the active controller: the metadata, with all that it has appended already replayed, and the
/// brokers' heartbeats.
#[derive(Clone, Debug)]
pub struct ReplicationControlManager {
    pub(super) config: Arc<ControllerConfig>,
    pub(super) fixes: Fixes,
    pub(super) image: MetadataImage,
    pub(super) heartbeats: BrokerHeartbeatManager,
}

impl ReplicationControlManager {
    /// The settings.
    pub fn config(&self) -> &ControllerConfig {
        &self.config
    }
    /// The metadata, uncommitted changes included.
    pub const fn image(&self) -> &MetadataImage {
        &self.image
    }
    /// The brokers' heartbeats.
    pub const fn heartbeats(&self) -> &BrokerHeartbeatManager {
        &self.heartbeats
    }

    /// Min ISR in force for a topic: at most its replication factor (`getTopicEffectiveMinIsr`).
    pub fn effective_min_isr(&self, topic: TopicId) -> u16 {
        let Some(t) = self.image.topic(topic) else { return self.config.min_insync_replicas };
        let factor = t.partitions.first().map_or(0, |p| p.replicas.len() as u16);
        t.min_insync_replicas.unwrap_or(self.config.min_insync_replicas).min(factor)
    }
    /// `unclean.leader.election.enable` in force for a topic.
    pub fn unclean_election_enabled(&self, topic: TopicId) -> bool {
        let own = self.image.topic(topic).and_then(|t| t.unclean_leader_election_enable);
        own.unwrap_or(self.config.unclean_leader_election_enable)
    }
    /// STALE_BROKER_EPOCH unless the broker is registered under this epoch.
    pub(super) fn check_broker_epoch(&self, broker: BrokerId, epoch: BrokerEpoch) -> Result<(), ErrorCode> {
        let current = self.image.broker(broker).is_some_and(|b| b.epoch == epoch);
        if current { Ok(()) } else { Err(ErrorCode::StaleBrokerEpoch) }
    }

    /// A builder with the topic's settings and an online election.
    pub(super) fn builder<'a, F: Fn(BrokerId) -> bool>(
        &self,
        tp: TopicPartition,
        partition: &'a PartitionRegistration,
        acceptable: F,
    ) -> PartitionChangeBuilder<'a, F> {
        PartitionChangeBuilder::new(tp, partition, self.effective_min_isr(tp.topic), acceptable)
            .eligible_leader_replicas(self.config.eligible_leader_replicas, self.fixes)
    }
    /// The election that broker events and leaders' requests use.
    pub(super) fn automatic_election(&self, topic: TopicId) -> Election {
        if self.unclean_election_enabled(topic) { Election::Unclean } else { Election::Online }
    }

    /// Changes of all partitions that `concerned` names, in the order of topics and partitions.
    pub(super) fn leader_and_isr_updates(
        &self,
        cause: Cause,
        records: &mut Vec<Record>,
        concerned: impl Fn(&PartitionRegistration) -> bool,
    ) {
        let (gone, added, unclean) = match cause {
            Cause::Remove(b) => (Some(b), None, None),
            Cause::Add(b) => (None, Some(b), None),
            Cause::UncleanShutdown(b) => (Some(b), None, Some(b)),
        };
        let acceptable = |r: BrokerId| Some(r) != gone && (Some(r) == added || self.image.is_active(r));
        for (tp, partition) in self.image.partitions().filter(|(_, p)| concerned(p)) {
            let isr = partition.isr.iter().copied().filter(|r| Some(*r) != gone).collect();
            let change = self
                .builder(tp, partition, acceptable)
                .election(self.automatic_election(tp.topic))
                .unclean_shutdown(unclean.as_slice())
                .target_isr(isr)
                .build();
            records.extend(change.map(Record::PartitionChange));
        }
    }

    /// A leader's request for other ISRs.
    ///
    /// # Errors
    /// STALE_BROKER_EPOCH for the request as a whole.
    pub fn alter_partition(
        &self,
        request: &AlterPartitionRequest,
    ) -> Result<ControllerResult<Vec<AlteredPartition>>, ErrorCode> {
        self.check_broker_epoch(request.broker, request.epoch)?;
        let mut records = Vec::new();
        let mut answers = Vec::with_capacity(request.partitions.len());
        for data in &request.partitions {
            answers.push(match self.alter_one(request.broker, data, &mut records) {
                Ok(altered) => altered,
                Err(error) => AlteredPartition::failed(data.tp, error),
            });
        }
        Ok(ControllerResult::of(records, answers))
    }

    fn alter_one(
        &self,
        sender: BrokerId,
        data: &AlterPartitionData,
        records: &mut Vec<Record>,
    ) -> Result<AlteredPartition, ErrorCode> {
        if self.image.topic(data.tp.topic).is_none() {
            return Err(ErrorCode::UnknownTopicId);
        }
        let partition = self.image.partition(data.tp).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        self.validate_alter_partition(sender, partition, data)?;
        let change = self
            .builder(data.tp, partition, |r| self.image.is_active(r))
            .election(self.automatic_election(data.tp.topic))
            .target_isr(data.isr.iter().map(|(b, _)| *b).collect())
            .target_recovering(data.recovering)
            .build();
        let mut after = partition.clone();
        if let Some(change) = change {
            after.merge(&change);
            let moved = change.leader.is_some_and(|l| l != sender);
            records.push(Record::PartitionChange(change));
            if moved {
                // The ISR completed a reassignment that takes the leadership from the sender: an error and a record.
                return Err(ErrorCode::NewLeaderElected);
            }
        }
        Ok(AlteredPartition {
            tp: data.tp,
            error: ErrorCode::None,
            leader: after.leader,
            leader_epoch: after.leader_epoch,
            isr: after.isr,
            recovering: after.recovering,
            partition_epoch: after.partition_epoch,
        })
    }

    /// In this order (`validateAlterPartitionData`); an epoch from the future means that this controller is the old one.
    fn validate_alter_partition(
        &self,
        sender: BrokerId,
        partition: &PartitionRegistration,
        data: &AlterPartitionData,
    ) -> Result<(), ErrorCode> {
        let isr = || data.isr.iter().map(|(b, _)| *b);
        if data.leader_epoch > partition.leader_epoch || data.partition_epoch > partition.partition_epoch {
            return Err(ErrorCode::NotController);
        }
        if data.leader_epoch < partition.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if sender != partition.leader {
            return Err(ErrorCode::InvalidRequest);
        }
        if data.partition_epoch < partition.partition_epoch {
            return Err(ErrorCode::InvalidUpdateVersion);
        }
        let known = isr().all(|b| partition.replicas.contains(&b));
        let twice = data.isr.iter().enumerate().any(|(i, (b, _))| isr().take(i).any(|other| other == *b));
        let leads = isr().any(|b| b == partition.leader);
        if !known || twice || !leads {
            return Err(ErrorCode::InvalidRequest);
        }
        if data.recovering && (data.isr.len() > 1 || !partition.recovering) {
            return Err(ErrorCode::InvalidRequest);
        }
        let epochs = self.fixes.has(Fix::AlterPartitionBrokerEpoch);
        let eligible = data.isr.iter().all(|(id, epoch)| {
            self.image
                .broker(*id)
                .is_some_and(|b| b.is_active() && (!epochs || *epoch == BrokerEpoch::UNKNOWN || *epoch == b.epoch))
        });
        if eligible { Ok(()) } else { Err(ErrorCode::IneligibleReplica) }
    }

    /// An operator's election; `None` for all partitions, then without those where nothing was to do.
    pub fn elect_leaders(
        &self,
        election: ElectionType,
        partitions: Option<&[TopicPartition]>,
    ) -> ControllerResult<Vec<(TopicPartition, ErrorCode)>> {
        let mut records = Vec::new();
        let mut elect = |tp| match self.elect_leader(tp, election) {
            Ok(change) => {
                records.push(Record::PartitionChange(change));
                (tp, ErrorCode::None)
            }
            Err(error) => (tp, error),
        };
        let answers = match partitions {
            Some(named) => named.iter().map(|tp| elect(*tp)).collect(),
            None => {
                let all = self.image.partitions().map(|(tp, _)| elect(tp));
                all.filter(|(_, error)| *error != ErrorCode::ElectionNotNeeded).collect()
            }
        };
        ControllerResult::of(records, answers)
    }

    /// Elects a leader of one partition. An unclean election by command asks no setting.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    fn elect_leader(&self, tp: TopicPartition, election: ElectionType) -> Result<PartitionChange, ErrorCode> {
        let partition = self.image.partition(tp).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (needless, kind, unavailable) = match election {
            ElectionType::Preferred => {
                (partition.has_preferred_leader(), Election::Preferred, ErrorCode::PreferredLeaderNotAvailable)
            }
            ElectionType::Unclean => {
                (partition.has_leader(), Election::Unclean, ErrorCode::EligibleLeadersNotAvailable)
            }
        };
        if needless {
            return Err(ErrorCode::ElectionNotNeeded);
        }
        self.builder(tp, partition, |r| self.image.is_active(r)).election(kind).build().ok_or(unavailable)
    }

    /// Periodic: leaderships go back to the preferred leaders that are in the ISR (R-25, `electPreferred`). The answer is
    /// whether there may be more to do at once.
    pub fn balance_partition_leaders(&self) -> ControllerResult<bool> {
        let most = self.config.max_elections_per_imbalance;
        let records: Vec<Record> = self
            .image
            .partitions()
            .filter(|(_, p)| !p.has_preferred_leader())
            .filter_map(|(tp, p)| {
                self.builder(tp, p, |r| self.image.is_active(r)).election(Election::Preferred).build()
            })
            .map(Record::PartitionChange)
            .take(most)
            .collect();
        let more = records.len() >= most;
        ControllerResult::of(records, more)
    }

    /// Periodic: unclean elections of partitions without leader, where their topic allows it (R-24, `electUnclean`). The
    /// answer is whether there may be more to do at once.
    pub fn elect_unclean_leaders(&self) -> ControllerResult<bool> {
        let most = self.config.max_elections_per_imbalance;
        let records: Vec<Record> = self
            .image
            .partitions()
            .filter(|(tp, p)| !p.has_leader() && self.unclean_election_enabled(tp.topic))
            .filter_map(|(tp, _)| self.elect_leader(tp, ElectionType::Unclean).ok())
            .map(Record::PartitionChange)
            .take(most)
            .collect();
        let more = records.len() >= most;
        ControllerResult::of(records, more)
    }
}
