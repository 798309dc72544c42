//! The consumer protocol of KIP-848: members heartbeat, the coordinator assigns (`ConsumerGroup`, and its half of
//! `GroupMetadataManager`).

mod fence;
mod group;
mod heartbeat;
mod member;
mod reconcile;
mod replay;
mod target;

pub use group::{ConsumerGroup, ConsumerGroupState};
pub use member::ConsumerMember;
