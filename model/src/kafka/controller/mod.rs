//! The KRaft controller: registrations, heartbeats, fencing, partitions (kafka.md 1.5, 2).
//!
//! Rules first: [`PartitionChangeBuilder`] (one partition), [`BrokerHeartbeatManager`] (one broker's state),
//! [`ReplicationControlManager`] (a request gives records and an answer). [`ActiveController`] drives them: it appends,
//! holds answers until they are committed and runs the periodic tasks. What everybody else sees is the [`MetadataImage`],
//! made by replaying [`Record`]s.

mod cluster;
mod config;
mod controller;
mod heartbeat;
mod image;
pub mod messages;
mod partition_change;
#[cfg(test)]
mod properties;
mod reassignment;
mod records;
mod registration;
mod replication;
mod topics;

pub use cluster::BrokerHeartbeatReply;
pub use config::ControllerConfig;
pub use controller::{ActiveController, Step};
pub use heartbeat::{
    BrokerControlState, BrokerHeartbeatManager, BrokerHeartbeatState, BrokerHeartbeatTracker, Heartbeat, HeartbeatError,
};
pub use image::{MetadataImage, TopicImage};
pub use partition_change::{Election, PartitionChangeBuilder};
pub use records::{PartitionChange, Record, TopicConfig};
pub use registration::{BrokerRegistration, PartitionRegistration, Replicas};
pub use replication::{ControllerResult, ReplicationControlManager};
pub use topics::PRODUCER_ID_BLOCK;
