//! The group coordinator: members, their partitions, and how far each group has read (kafka.md 5.4, 5.5).
//!
//! [`GroupCoordinatorShard`] is one partition of `__consumer_offsets` at its leader, a pure state machine: a request or a timer
//! gives answers and records, the records change the state when they are appended, and answers leave when they are
//! replicated. A failover replays the log.

mod assignor;
mod classic;
mod codec;
mod committed;
mod config;
mod consumer;
pub mod messages;
mod offsets;
mod records;
mod service;
mod shard;
mod timers;
mod wire;

pub use classic::{ClassicGroup, ClassicMember, ClassicState};
pub use codec::{from_entry, to_batch};
pub use config::GroupCoordinatorConfig;
pub use consumer::{ConsumerGroup, ConsumerGroupState, ConsumerMember};
pub use messages::Name;
pub use offsets::OffsetState;
pub use records::{
    AssignedPartitions, CommittedOffset, CurrentAssignment, GroupMemberRecord, GroupMetadata, GroupRecord, LogEntry,
    MemberState, MemberSubscription,
};
pub use service::{GroupCoordinator, ServiceStep};
pub use shard::{Answer, Cx, Group, GroupCoordinatorShard, Step, Write};

#[cfg(test)]
mod tests;
