//! Topics, reassignments and producer ids: what operators and coordinators ask the controller for.

use super::messages::CreatableTopic;
use super::reassignment;
use super::records::{PartitionChange, Record};
use super::registration::{PartitionRegistration, Replicas};
use super::replication::{ControllerResult, ReplicationControlManager};
use crate::base::{BrokerEpoch, BrokerId, ProducerId, TopicId, TopicPartition};
use crate::kafka::ErrorCode;

/// `TransactionVersion.LATEST_PRODUCTION`.
const NEWEST_TRANSACTION_VERSION: u8 = 2;
/// Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
pub const PRODUCER_ID_BLOCK: u32 = 1000;

impl ReplicationControlManager {
    /// Creates topics with the assignments given; one answer a topic.
    pub fn create_topics(&self, topics: &[CreatableTopic]) -> ControllerResult<Vec<(TopicId, ErrorCode)>> {
        let mut records = Vec::new();
        let mut answers: Vec<(TopicId, ErrorCode)> = Vec::with_capacity(topics.len());
        for topic in topics {
            let twice = answers.iter().any(|(id, _)| *id == topic.topic);
            let created = if twice { Err(ErrorCode::InvalidRequest) } else { self.create_topic(topic) };
            answers.push(match created {
                Ok(mut made) => {
                    records.append(&mut made);
                    (topic.topic, ErrorCode::None)
                }
                Err(error) => (topic.topic, error),
            });
        }
        ControllerResult::of(records, answers)
    }

    fn create_topic(&self, wanted: &CreatableTopic) -> Result<Vec<Record>, ErrorCode> {
        if self.image.topic(wanted.topic).is_some() {
            return Err(ErrorCode::TopicAlreadyExists);
        }
        if wanted.assignments.is_empty() {
            return Err(ErrorCode::InvalidPartitions);
        }
        let mut records = vec![Record::Topic { topic: wanted.topic }];
        records.extend(wanted.configs.iter().map(|c| Record::Config { topic: wanted.topic, config: *c }));
        let factor = wanted.assignments[0].len();
        for (i, replicas) in wanted.assignments.iter().enumerate() {
            self.validate_assignment(replicas)?;
            let isr: Replicas = replicas.iter().copied().filter(|r| self.image.is_active(*r)).collect();
            // All replicas fenced or shutting down: nobody could lead it.
            if replicas.len() != factor || isr.is_empty() {
                return Err(ErrorCode::InvalidReplicaAssignment);
            }
            let tp = TopicPartition { topic: wanted.topic, partition: i as u16 };
            records.push(Record::Partition { tp, registration: PartitionRegistration::new(replicas.clone(), isr) });
        }
        Ok(records)
    }

    /// An assignment names registered brokers, each once (`validateManualPartitionAssignment`).
    fn validate_assignment(&self, replicas: &[BrokerId]) -> Result<(), ErrorCode> {
        let registered = replicas.iter().all(|r| self.image.broker(*r).is_some());
        let twice = replicas.iter().enumerate().any(|(i, r)| replicas[..i].contains(r));
        if replicas.is_empty() || !registered || twice {
            return Err(ErrorCode::InvalidReplicaAssignment);
        }
        Ok(())
    }

    /// Begins, changes or (`None`) cancels reassignments (KIP-455); one answer a partition.
    pub fn alter_partition_reassignments(
        &self,
        partitions: &[(TopicPartition, Option<Replicas>)],
    ) -> ControllerResult<Vec<(TopicPartition, ErrorCode)>> {
        let mut records = Vec::new();
        let mut answers = Vec::with_capacity(partitions.len());
        for (tp, target) in partitions {
            let change = match target {
                Some(target) => self.reassign(*tp, target),
                None => self.cancel_reassignment(*tp),
            };
            answers.push(match change {
                Ok(change) => {
                    records.extend(change.map(Record::PartitionChange));
                    (*tp, ErrorCode::None)
                }
                Err(error) => (*tp, error),
            });
        }
        ControllerResult::of(records, answers)
    }

    fn reassign(&self, tp: TopicPartition, target: &[BrokerId]) -> Result<Option<PartitionChange>, ErrorCode> {
        let partition = self.image.partition(tp).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        self.validate_assignment(target)?;
        let begun = reassignment::begin(&partition.replicas, target);
        let mut builder = self.builder(tp, partition, |r| self.image.is_active(r)).target_replicas(begun.replicas);
        // What a reassignment under way already takes out or brings in stays, unless this one says otherwise.
        if !begun.removing.is_empty() {
            builder = builder.target_removing(begun.removing);
        }
        if !begun.adding.is_empty() {
            builder = builder.target_adding(begun.adding);
        }
        Ok(builder.build())
    }

    fn cancel_reassignment(&self, tp: TopicPartition) -> Result<Option<PartitionChange>, ErrorCode> {
        let partition = self.image.partition(tp).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !partition.is_reassigning() {
            return Err(ErrorCode::NoReassignmentInProgress);
        }
        let back = reassignment::revert(partition).ok_or(ErrorCode::InvalidReplicaAssignment)?;
        if back.unclean && !self.unclean_election_enabled(tp.topic) {
            return Err(ErrorCode::InvalidReplicaAssignment);
        }
        let change = self
            .builder(tp, partition, |r| self.image.is_active(r))
            .election(self.automatic_election(tp.topic))
            .target_isr(back.isr)
            .target_replicas(back.replicas)
            .target_removing(Vec::new())
            .target_adding(Vec::new())
            .build();
        Ok(change)
    }

    /// Raises the level of `transaction.version` (`FeatureControlManager.updateFeature`).
    ///
    /// # Errors
    /// INVALID_UPDATE_VERSION: nobody supports the level, or it is below the present one, which only a downgrade may be.
    pub fn update_features(&self, transaction_version: u8) -> Result<ControllerResult<()>, ErrorCode> {
        let present = self.image.transaction_version().unwrap_or_default();
        if transaction_version > NEWEST_TRANSACTION_VERSION || transaction_version < present {
            return Err(ErrorCode::InvalidUpdateVersion);
        }
        let changes = self.image.transaction_version() != Some(transaction_version);
        let records = changes.then_some(Record::FeatureLevel { transaction_version });
        Ok(ControllerResult::of(records.into_iter().collect(), ()))
    }

    /// Hands out the next block of producer ids; the answer is its first id (C-11, `ProducerIdControlManager`).
    ///
    /// # Errors
    /// STALE_BROKER_EPOCH.
    pub fn allocate_producer_ids(
        &self,
        broker: BrokerId,
        epoch: BrokerEpoch,
    ) -> Result<ControllerResult<ProducerId>, ErrorCode> {
        self.check_broker_epoch(broker, epoch)?;
        let first = self.image.next_producer_id();
        let next = ProducerId(first.0 + i64::from(PRODUCER_ID_BLOCK));
        Ok(ControllerResult::of(vec![Record::ProducerIds { broker, epoch, next }], first))
    }
}
