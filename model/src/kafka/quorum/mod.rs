//! The metadata quorum: KRaft's Raft (KIP-595, pre-vote of KIP-996), and the life cycle of the brokers that register
//! with its leader (kafka.md 2, C-1 to C-11).
//!
//! [`Raft`] is law and machine of a quorum member, voter or observer; what it keeps between starts is [`RaftDisk`].
//! [`BrokerLifecycle`] is a broker's side of registration, heartbeats and controlled shutdown.

mod disk;
mod leader;
mod lifecycle;
mod log;
pub mod messages;
mod raft;
mod requests;
mod state;
#[cfg(test)]
mod tests;

pub use disk::{Election, RaftDisk, RaftFile, RaftWrite};
pub use lifecycle::{
    BrokerLifecycle, BrokerState, Channel, ChannelAction, LifecycleConfig, LifecycleOutput, Surroundings,
};
pub use log::{Body, Position, RaftBatch, RaftLog};
pub use raft::{NotLeader, Output, Raft, RaftConfig, ReplyTo};
